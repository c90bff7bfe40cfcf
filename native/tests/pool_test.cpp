// The pool of games: turns and answers, bots inside, restarts, snapshots, tallies, threads.
#include "../core/pool.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "../games/kuhn.hpp"
#include "../games/leduc.hpp"
#include "../games/liars_dice.hpp"
#include "../games/skull_king.hpp"
#include "check.hpp"

using namespace playmill;

namespace {

template <class Error>
std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Three seats in turn, four to six turns a game by its seed. Turn t pays (seat + 1) * 2^t to
// every seat and the action to the actor, so a sum of rewards says which turns are in it.
class Relay {
 public:
  struct Options {
    int extra = 0;
  };
  static constexpr const char* kName = "relay";
  static constexpr const char* kTitle = "Relay";
  static constexpr int kActions = 3;
  static constexpr const char* kRoles[] = {"step"};
  static constexpr const char* kBots[] = {"random", "two"};
  static constexpr const char* kStats[] = {"moves", "length"};
  static constexpr Option<Options> kOptions[] = {{"extra", &Options::extra, 0, 9, "", "more turns"}};
  static std::string check(const Options&) { return {}; }
  static int seats(const Options&) { return 3; }
  static Schema schema(const Options&) { return Schema().u8("turn", 1, 1, 1.0f).u8("length", 1, 1, 1.0f); }

  static int length(const Options& options, std::uint64_t seed) {
    return 4 + static_cast<int>(seed % 3) + options.extra;
  }
  void reset(const Options& options, std::uint64_t seed) {
    turn_ = 0;
    length_ = static_cast<std::uint8_t>(length(options, seed));
  }
  bool over() const { return turn_ == length_; }
  int seat() const { return turn_ % 3; }
  int role() const { return 0; }
  void legal(const Options&, BitSet<kActions>& out) const { out.add_range(turn_ % 2, 2); }
  void observe(const Options&, int, std::uint8_t* out) const {
    out[0] = turn_;
    out[1] = length_;
  }
  void apply(const Options&, int action, Report& report) {
    report.reward[seat()] += static_cast<float>(action) / 4;
    for (int s = 0; s < 3; ++s) report.reward[s] += static_cast<float>((s + 1) << turn_);
    report.count(0, seat(), 1);
    ++turn_;
    if (over())
      for (int s = 0; s < 3; ++s) report.count(1, s, length_);
  }
  int bot(const Options&, int, Random&) const { return 1; }  // legal in every turn
  std::string action_text(const Options&, int action) const { return "step " + std::to_string(action); }
  std::string table_text(const Options&, int) const { return {}; }

 private:
  std::uint8_t turn_ = 0, length_ = 4;
};
static_assert(Game<Relay>);

constexpr std::uint8_t kBot = kFirstBot;

// A pool with the arrays a caller brings.
template <Game G>
struct Table {
  Table(std::size_t n, int threads = 1, std::uint64_t seed = 1, const typename G::Options& options = {})
      : pool(options, n, seed, threads),
        row(static_cast<std::size_t>(G::schema(options).bytes())),
        seats(static_cast<std::size_t>(G::seats(options))),
        observation(n * row),
        legal(n * sizeof(BitSet<G::kActions>)),
        seat(n),
        role(n),
        driver(n),
        over(n),
        actions(n),
        rewards(n * seats) {}

  void turns() { pool.turns(observation.data(), legal.data(), seat.data(), role.data(), driver.data()); }
  void act() { pool.act(actions.data(), rewards.data(), over.data()); }
  void play(std::uint8_t bot = 0) {
    turns();
    const std::vector<std::uint8_t> kinds(actions.size(), bot);
    pool.bot_actions(kinds.data(), actions.data());
    act();
  }
  // The same drivers at every table.
  void drive(const std::vector<std::uint8_t>& drivers) {
    std::vector<std::uint8_t> all;
    for (std::size_t i = 0; i < actions.size(); ++i) all.insert(all.end(), drivers.begin(), drivers.end());
    pool.set_drivers(all.data());
  }
  // Everything the caller can see of one step, as bytes.
  std::vector<std::uint8_t> seen() const {
    std::vector<std::uint8_t> out;
    const auto add = [&out](const auto& from) {
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(from.data());
      out.insert(out.end(), bytes, bytes + from.size() * sizeof(from[0]));
    };
    add(observation), add(legal), add(seat), add(role), add(driver), add(over), add(actions), add(rewards);
    return out;
  }

  Pool<G> pool;
  std::size_t row, seats;
  std::vector<std::uint8_t> observation, legal, seat, role, driver, over;
  std::vector<std::int32_t> actions;
  std::vector<float> rewards;
};

// Bots of all kinds in every other game, so that much happens inside.
template <Game G>
void seat_bots(Table<G>& table) {
  std::vector<std::uint8_t> drivers(table.actions.size() * table.seats, 0);
  for (std::size_t i = 0; i < drivers.size(); ++i)
    if (i / table.seats % 2 == 1 && i % table.seats != 0)
      drivers[i] = static_cast<std::uint8_t>(kBot + i % std::size(G::kBots));
  table.pool.set_drivers(drivers.data());
}

template <Game G>
void the_number_of_threads_changes_no_bit(int steps) {
  std::vector<Table<G>*> tables;
  for (const int threads : {1, 2, 3}) {
    tables.push_back(new Table<G>(37, threads, 9));
    tables.back()->pool.reset(nullptr, true);
    seat_bots(*tables.back());
  }
  int ended = 0;
  for (int step = 0; step < steps; ++step) {
    for (auto* table : tables) table->play(static_cast<std::uint8_t>(step % static_cast<int>(std::size(G::kBots))));
    CHECK(tables[0]->seen() == tables[1]->seen());
    CHECK(tables[0]->seen() == tables[2]->seen());
    for (const auto over : tables[0]->over) ended += over;
  }
  CHECK(ended > 37);
  const auto one = tables[0]->pool.tallies();
  for (const int other : {1, 2}) {
    const auto more = tables[static_cast<std::size_t>(other)]->pool.tallies();
    for (std::size_t i = 0; i < one.size(); ++i) {
      CHECK(one[i].n == more[i].n);
      CHECK(std::abs(one[i].sum - more[i].sum) < 1e-6 * (1 + std::abs(one[i].sum)));
    }
  }
  for (auto* table : tables) delete table;
}

template <Game G>
void a_restored_pool_goes_on_identically(int threads) {
  Table<G> straight(19, threads), other(19, threads);
  straight.pool.reset(nullptr, true);
  seat_bots(straight);
  for (int step = 0; step < 50; ++step) straight.play();
  const auto saved = straight.pool.snapshot();
  straight.turns();
  CHECK(straight.pool.snapshot() == saved);  // looking changes nothing
  other.pool.reset(nullptr, false);
  for (int step = 0; step < 7; ++step) other.play();
  other.pool.restore(saved.data(), saved.size());
  CHECK(other.pool.snapshot() == saved);
  for (int step = 0; step < 150; ++step) {
    straight.play();
    other.play();
    CHECK(straight.seen() == other.seen());
  }
  CHECK(straight.pool.snapshot() == other.pool.snapshot());
}

// Equal games have equal snapshots byte for byte, padding included, whatever the memory held before.
template <Game G>
void snapshots_of_equal_pools_are_equal() {
  std::vector<std::vector<std::uint8_t>> snapshots;
  for (const int dirt : {0x55, 0xAA}) {
    std::vector<std::vector<std::uint8_t>> litter;
    for (std::size_t size = 64; size < 20000; size += 64) litter.emplace_back(size, static_cast<std::uint8_t>(dirt));
    litter.clear();
    Table<G> table(16);
    table.pool.reset(nullptr, true);
    for (int step = 0; step < 60; ++step) table.play();
    snapshots.push_back(table.pool.snapshot());
  }
  CHECK(snapshots[0] == snapshots[1]);
}

void a_snapshot_of_another_pool_is_refused() {
  Table<Relay> mine(8, 2, 1);
  mine.pool.reset(nullptr, true);
  const auto before = mine.pool.snapshot();
  const auto refused = [&](const std::vector<std::uint8_t>& snapshot) {
    const auto text = message_of<std::invalid_argument>([&] { mine.pool.restore(snapshot.data(), snapshot.size()); });
    return holds(text, "another pool") && mine.pool.snapshot() == before;
  };
  CHECK(refused(Table<Relay>(8, 2, 2).pool.snapshot()));       // seed
  CHECK(refused(Table<Relay>(9, 2, 1).pool.snapshot()));       // games
  CHECK(refused(Table<Relay>(8, 1, 1).pool.snapshot()));       // threads
  CHECK(refused(Table<Relay>(8, 2, 1, {3}).pool.snapshot()));  // options
  CHECK(refused(Table<Kuhn>(8, 2, 1).pool.snapshot()));        // game
  CHECK(refused({before.begin(), before.end() - 1}));
  CHECK(refused({}));
  auto damaged = before;
  damaged[0] = 'x';
  CHECK(refused(damaged));
  mine.play();
  mine.pool.restore(before.data(), before.size());
  CHECK(mine.pool.snapshot() == before);
}

template <Game G>
void an_illegal_action_changes_nothing() {
  Table<G> table(5);
  table.pool.reset(nullptr, true);
  table.turns();
  const std::vector<std::uint8_t> kinds(5, 0);
  table.pool.bot_actions(kinds.data(), table.actions.data());
  const auto good = table.actions;
  const auto before = table.pool.snapshot();
  for (const std::int32_t bad : {-1, G::kActions, G::kActions + 1000, -2147483647}) {
    table.actions = good;
    table.actions[3] = bad;
    const auto text = message_of<IllegalAction>([&] { table.act(); });
    CHECK(holds(text, "row 3") && holds(text, G::kName) && holds(text, "action " + std::to_string(bad)));
    CHECK(table.pool.snapshot() == before);
  }
  for (int a = 0; a < G::kActions; ++a) {
    if (table.legal[4 * sizeof(BitSet<G::kActions>) + static_cast<std::size_t>(a / 8)] >> (a % 8) & 1) continue;
    table.actions = good;
    table.actions[4] = a;
    CHECK(holds(message_of<IllegalAction>([&] { table.act(); }), "row 4"));
    CHECK(table.pool.snapshot() == before);
  }
  table.actions = good;
  table.act();  // the turns still wait for their answer
  CHECK(table.pool.snapshot() != before);
}

void answers_come_after_turns() {
  Table<Leduc> table(3);
  table.pool.reset(nullptr, false);
  const std::vector<std::uint8_t> kinds(3, 0);
  const auto before = table.pool.snapshot();
  const auto out_of_turn = [&] {
    table.actions.assign(3, Leduc::kCall);
    const bool act = holds(message_of<OutOfTurn>([&] { table.act(); }), "act() before turns()");
    const auto bots = [&] { table.pool.bot_actions(kinds.data(), table.actions.data()); };
    return act && holds(message_of<OutOfTurn>(bots), "bot_actions() before turns()");
  };
  CHECK(out_of_turn());
  CHECK(table.pool.snapshot() == before);
  table.turns();
  table.act();
  CHECK(out_of_turn());  // every answer needs its own question
  table.turns();
  table.pool.reset(nullptr, false);
  CHECK(out_of_turn());
  table.turns();
  table.drive({0, kBot});
  CHECK(out_of_turn());
  table.turns();
  table.pool.restore(before.data(), before.size());
  CHECK(out_of_turn());
}

void a_wrong_bot_or_driver_is_refused_by_row() {
  Table<Leduc> table(3);
  table.pool.reset(nullptr, true);
  const auto before = table.pool.snapshot();
  const auto refused = [&](std::vector<std::uint8_t> drivers) {
    const auto text = message_of<std::invalid_argument>([&] { table.pool.set_drivers(drivers.data()); });
    return holds(text, "row 2") && table.pool.snapshot() == before;
  };
  CHECK(refused({0, 0, 0, 0, 0, kBot + 2}));  // leduc has two bots
  CHECK(refused({0, 0, 0, 0, 255, 0}));
  CHECK(refused({0, 0, 0, 0, kBot, kBot + 1}));  // nobody would be asked
  table.turns();
  const std::vector<std::uint8_t> kinds = {0, 1, 2};
  const auto wrong = [&] { table.pool.bot_actions(kinds.data(), table.actions.data()); };
  CHECK(holds(message_of<std::invalid_argument>(wrong), "row 2"));
}

template <Game G>
void bots_inside_never_surface() {
  Table<G> table(64, 2);
  std::vector<std::uint8_t> drivers(64 * table.seats, kBot + std::size(G::kBots) - 1);
  for (std::size_t i = 0; i < 64; ++i) drivers[i * table.seats + i % table.seats] = static_cast<std::uint8_t>(i % 3);
  table.pool.set_drivers(drivers.data());
  table.pool.reset(nullptr, true);
  for (int step = 0; step < 200; ++step) {
    table.turns();
    for (std::size_t i = 0; i < 64; ++i) {
      CHECK(table.seat[i] == i % table.seats);
      CHECK(table.driver[i] == i % 3);
    }
    table.play();
  }
}

void rewards_between_two_turns_are_added_up() {
  const std::uint64_t seeds[] = {2, 0};  // six turns and four
  Table<Relay> table(2);
  const auto step = [&] {
    table.turns();
    table.actions.assign(2, 1);
    table.act();
  };
  const auto rewarded = [&](std::size_t row, int turns, int own, bool over) {
    for (std::size_t s = 0; s < 3; ++s)
      if (table.rewards[row * 3 + s] != static_cast<float>((static_cast<int>(s) + 1) * turns) + (own >> s & 1) * 0.25f)
        return false;
    return table.over[row] == over;
  };
  table.drive({0, kBot + 1, kBot + 1});
  table.pool.reset(seeds, false);
  step();  // turns 0, 1, 2
  CHECK(rewarded(0, 1 + 2 + 4, 0b111, false) && rewarded(1, 1 + 2 + 4, 0b111, false));
  step();  // turns 3, 4, 5; and 3, the last of a short game
  CHECK(rewarded(0, 8 + 16 + 32, 0b111, true) && rewarded(1, 8, 0b001, true));

  table.drive({kBot + 1, kBot + 1, 0});
  table.pool.reset(seeds, false);
  step();  // turns 2, 3, 4; and 2, 3: the next game's bots are not paid to this one
  CHECK(rewarded(0, 4 + 8 + 16, 0b111, false) && rewarded(1, 4 + 8, 0b101, true));
}

void an_ended_game_restarts_in_place() {
  const std::uint64_t seeds[] = {0, 1, 2};  // four, five, six turns
  Table<Relay> table(3);
  table.pool.reset(seeds, false);
  for (int step = 0; step < 6; ++step) {
    table.turns();
    for (std::size_t i = 0; i < 3; ++i) {
      const int length = 4 + static_cast<int>(i);
      if (step <= length) CHECK(table.observation[2 * i] == step % length);
    }
    table.actions.assign(3, 1);
    table.act();
    for (std::size_t i = 0; i < 3; ++i)
      if (step < 4 + static_cast<int>(i)) CHECK(table.over[i] == (step == 3 + static_cast<int>(i)));
  }
}

void a_restarted_game_is_a_new_deal() {
  Table<SkullKing> table(1, 1, 3, {.players = 2, .schedule = SkullKing::kBedtime});
  table.pool.reset(nullptr, false);
  std::set<std::vector<std::uint8_t>> hands;
  for (int ended = 0; ended < 40;) {
    table.turns();
    hands.insert({table.observation.begin(), table.observation.begin() + 10});
    table.play();
    ended += table.over[0];
  }
  CHECK(hands.size() > 20);
}

int round_of(const Table<SkullKing>& table, std::size_t row) {
  const auto at = static_cast<std::size_t>(SkullKing::schema({}).find("round")->offset);
  return table.observation[row * table.row + at];
}

std::vector<int> rounds_now(Table<SkullKing>& table) {
  std::vector<int> often(10);
  table.turns();
  for (std::size_t i = 0; i < table.actions.size(); ++i) ++often[static_cast<std::size_t>(round_of(table, i))];
  return often;
}

void staggered_starts_mix_the_phases() {
  constexpr int kGames = 1000;
  Table<SkullKing> table(kGames);
  table.pool.reset(nullptr, false);
  CHECK(rounds_now(table)[0] == kGames);
  table.pool.reset(nullptr, true);
  // A round of c cards has 4 bids and 4 c plays: its share of the game, give or take the powers.
  const auto mixed = [&] {
    const auto often = rounds_now(table);
    for (int r = 0; r < 10; ++r) {
      const double share = (4.0 + 4.0 * (r + 1)) / 260.0;
      const double spread = std::sqrt(share * kGames);
      if (std::abs(often[static_cast<std::size_t>(r)] - share * kGames) > 5 * spread + 10) return false;
    }
    return true;
  };
  CHECK(mixed());
  for (int step = 0; step < 400; ++step) table.play();
  CHECK(mixed());  // and they stay so
}

void tallies_count_by_driver() {
  const std::uint64_t seeds[] = {0, 0};
  Table<Relay> table(2);
  table.pool.reset(seeds, false);
  table.drive({0, 5, kBot});
  for (int step = 0; step < 3; ++step) table.play(1);  // turns 0, 1 with the bot's 2, and 3
  const auto cell = [&](int driver, int stat) {
    return table.pool.tallies()[static_cast<std::size_t>(driver * 2 + stat)];
  };
  CHECK(cell(0, 0).n == 4 && cell(5, 0).n == 2 && cell(kBot, 0).n == 2);  // turns 0 and 3, 1, 2
  CHECK(cell(0, 1).n == 2 && cell(0, 1).sum == 8.0 && cell(kBot, 1).n == 2 && cell(1, 1).n == 0);
  table.pool.clear_tallies();
  CHECK(cell(0, 0).n == 0 && cell(0, 0).sum == 0.0);
}

void of_named_seeds_only_the_first_games_count() {
  const std::vector<std::uint64_t> seeds = {0, 1, 2, 3};
  for (const bool named : {true, false}) {
    Table<Relay> table(4, 2);
    table.pool.reset(named ? seeds.data() : nullptr, false);
    table.pool.clear_tallies();
    for (int step = 0; step < 30; ++step) table.play();
    const Tally lengths = table.pool.tallies()[1];
    if (named)
      CHECK(lengths.n == 3 * 4 && lengths.sum == 3 * (4 + 5 + 6 + 4));
    else
      CHECK(lengths.n >= 3 * 4 * 5);
    // The rule survives a snapshot.
    const auto saved = table.pool.snapshot();
    Table<Relay> other(4, 2);
    other.pool.reset(nullptr, false);
    other.pool.restore(saved.data(), saved.size());
    for (int step = 0; step < 30; ++step) other.play();
    CHECK((other.pool.tallies()[1].n == lengths.n) == named);
  }
}

// A pool's game is the game its seed names, whichever pool and row it is in.
template <Game G>
void seeds_name_games() {
  std::vector<std::uint64_t> seeds(12);
  std::iota(seeds.begin(), seeds.end(), 77);
  Table<G> table(12, 3, 1), turned(12, 1, 2);
  table.pool.reset(seeds.data(), false);
  std::vector<std::uint64_t> back(seeds.rbegin(), seeds.rend());
  turned.pool.reset(back.data(), false);
  std::vector<std::uint8_t> done(12);
  while (std::count(done.begin(), done.end(), 0) > 0) {
    table.play(1 % std::size(G::kBots));
    turned.play(1 % std::size(G::kBots));
    for (std::size_t i = 0; i < 12; ++i) {
      if (done[i]) continue;
      const std::size_t k = 11 - i;
      CHECK(std::equal(&table.observation[i * table.row], &table.observation[i * table.row] + table.row,
                       &turned.observation[k * table.row]));
      CHECK(table.actions[i] == turned.actions[k] && table.over[i] == turned.over[k]);
      for (std::size_t s = 0; s < table.seats; ++s)
        CHECK(table.rewards[i * table.seats + s] == turned.rewards[k * table.seats + s]);
      done[i] = table.over[i];
    }
  }
}

// In a relay turns 0 and 2 leave the same choice; random play is not bound to repeat itself.
void every_turn_has_draws_of_its_own() {
  constexpr std::size_t kGames = 400;
  std::vector<std::uint64_t> seeds(kGames);
  std::iota(seeds.begin(), seeds.end(), 1);
  Table<Relay> table(kGames);
  table.pool.reset(seeds.data(), false);
  std::vector<std::int32_t> first;
  for (int turn = 0; turn < 3; ++turn) {
    table.play();
    if (turn == 0) first = table.actions;
  }
  int same = 0;
  for (std::size_t i = 0; i < kGames; ++i) same += first[i] == table.actions[i];
  CHECK(same > 140 && same < 260);
}

template <Game G>
void every_pool(int steps) {
  the_number_of_threads_changes_no_bit<G>(steps);
  a_restored_pool_goes_on_identically<G>(1);
  a_restored_pool_goes_on_identically<G>(3);
  snapshots_of_equal_pools_are_equal<G>();
  an_illegal_action_changes_nothing<G>();
  bots_inside_never_surface<G>();
  seeds_name_games<G>();
}

}  // namespace

int main() {
  every_pool<Relay>(200);
  every_pool<Kuhn>(300);
  every_pool<Leduc>(300);
  every_pool<LiarsDice>(300);
  every_pool<SkullKing>(600);
  a_snapshot_of_another_pool_is_refused();
  answers_come_after_turns();
  a_wrong_bot_or_driver_is_refused_by_row();
  rewards_between_two_turns_are_added_up();
  an_ended_game_restarts_in_place();
  a_restarted_game_is_a_new_deal();
  staggered_starts_mix_the_phases();
  tallies_count_by_driver();
  of_named_seeds_only_the_first_games_count();
  every_turn_has_draws_of_its_own();
  return 0;
}
