// The hall: games behind keys, answers that count once, resets, closings, snapshots.
#include "../core/hall.hpp"

#include <numeric>
#include <thread>

#include "../games/kuhn.hpp"
#include "../games/leduc.hpp"
#include "../games/liars_dice.hpp"
#include "../games/skull_king.hpp"
#include "check.hpp"

using namespace playmill;

namespace {

std::uint8_t number(Standing standing) { return static_cast<std::uint8_t>(standing); }

std::vector<std::uint8_t> snapshot_of(const AnyHall& hall) {
  std::vector<std::uint8_t> out(hall.snapshot_bytes());
  hall.snapshot(out.data(), out.size());
  return out;
}

// A hall with the arrays a caller brings, and clients who play at random.
template <Game G>
struct Guests {
  explicit Guests(std::size_t n, int threads = 1)
      : hall({}, threads),
        rows(n),
        seats(static_cast<std::size_t>(G::seats({}))),
        row(static_cast<std::size_t>(G::schema({}).bytes())),
        ids(n),
        keys(n * (seats + 1) * kKeyBytes),
        seat(n),
        key(n * kKeyBytes),
        standing(n),
        to_act(n),
        role(n),
        over(n),
        legal(n * sizeof(BitSet<G::kActions>)),
        observation(n * row),
        turn(n),
        turn_now(n),
        rewards(n * seats),
        actions(n) {}

  void open(std::uint64_t first_seed = 1, std::vector<std::uint8_t> drivers = {}) {
    drivers.resize(seats, 0);
    std::vector<std::uint64_t> nonce(rows), seeds(rows);
    for (std::size_t i = 0; i < rows; ++i) nonce[i] = mix64(7, i);
    std::iota(seeds.begin(), seeds.end(), first_seed);
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<std::uint8_t>(mix64(9, i));
    hall.open(rows, nonce.data(), seeds.data(), keys.data(), drivers.data(), 5, ids.data());
  }

  // Sits down at seat s of every table; s == seats is the host's place.
  Places sit(std::size_t s) {
    for (std::size_t i = 0; i < rows; ++i) {
      seat[i] = static_cast<std::uint8_t>(s);
      std::memcpy(&key[i * kKeyBytes], &keys[(i * (seats + 1) + s) * kKeyBytes], kKeyBytes);
    }
    return {rows, ids.data(), seat.data(), key.data()};
  }
  Places places() const { return {rows, ids.data(), seat.data(), key.data()}; }

  void states() {
    hall.states(places(), {standing.data(), turn.data(), to_act.data(), role.data(), over.data(), rewards.data(),
                           legal.data(), observation.data()});
  }

  std::size_t submit(const std::vector<std::uint32_t>& when) {
    return hall.submit(places(), when.data(), actions.data(), 6, {standing.data(), turn_now.data(), over.data()});
  }

  void choose(std::uint64_t draw) {
    for (std::size_t i = 0; i < rows; ++i) {
      BitSet<G::kActions> bits;
      std::memcpy(&bits, &legal[i * sizeof bits], sizeof bits);
      Random random(mix64(draw, i), 0);
      actions[i] = bits.empty() ? 0 : random_action(bits, random);
    }
  }

  // Every seat in turn answers where it is asked; whether anybody was.
  bool round(std::uint64_t draw) {
    std::size_t applied = 0;
    for (std::size_t s = 0; s < seats; ++s) {
      sit(s);
      states();
      choose(draw);
      applied += submit(std::vector<std::uint32_t>(turn));
    }
    return applied > 0;
  }

  bool all(Standing wanted) const {
    for (const auto found : standing)
      if (found != number(wanted)) return false;
    return true;
  }

  Hall<G> hall;
  std::size_t rows, seats, row;
  std::vector<std::uint64_t> ids;
  std::vector<std::uint8_t> keys, seat, key, standing, to_act, role, over, legal, observation;
  std::vector<std::uint32_t> turn, turn_now;
  std::vector<float> rewards;
  std::vector<std::int32_t> actions;
};

template <Game G>
void a_game_is_the_one_its_seed_names() {
  Guests<G> guests(9);
  guests.open(100);
  std::vector<G> twins(9);
  for (std::size_t i = 0; i < 9; ++i) twins[i].reset({}, 100 + i);
  std::vector<float> total(9 * guests.seats);
  for (bool going = true; going;) {
    going = false;
    for (std::size_t s = 0; s < guests.seats; ++s) {
      guests.sit(s);
      guests.states();
      CHECK(guests.all(Standing::kOk));
      guests.choose(3);
      for (std::size_t i = 0; i < 9; ++i) {
        std::vector<std::uint8_t> seen(guests.row);
        twins[i].observe({}, static_cast<int>(s), seen.data());
        CHECK(std::equal(seen.begin(), seen.end(), &guests.observation[i * guests.row]));
        CHECK(guests.over[i] == twins[i].over());
        CHECK(guests.to_act[i] == (twins[i].over() ? kNobody : twins[i].seat()));
        for (std::size_t k = 0; k < guests.seats; ++k)
          CHECK(guests.rewards[i * guests.seats + k] == total[i * guests.seats + k]);
      }
      const std::vector<std::uint8_t> asked = guests.to_act;
      guests.submit(std::vector<std::uint32_t>(guests.turn));
      for (std::size_t i = 0; i < 9; ++i) {
        if (asked[i] == kNobody) {
          CHECK(guests.standing[i] == number(Standing::kOver));
        } else if (asked[i] != s) {
          CHECK(guests.standing[i] == number(Standing::kNotYourTurn));
        } else {
          CHECK(guests.standing[i] == number(Standing::kOk));
          Report report;
          twins[i].apply({}, guests.actions[i], report);
          for (std::size_t k = 0; k < guests.seats; ++k) total[i * guests.seats + k] += report.reward[k];
          going = true;
        }
      }
    }
  }
  for (const G& twin : twins) CHECK(twin.over());
}

template <Game G>
void an_answer_counts_once() {
  Guests<G> guests(6);
  guests.open();
  for (std::uint64_t draw = 0; draw < 50; ++draw) {
    guests.sit(draw % guests.seats);
    guests.states();
    guests.choose(draw);
    const std::vector<std::uint32_t> when = guests.turn;
    const std::vector<std::uint8_t> asked = guests.to_act;
    guests.submit(when);
    const auto after = snapshot_of(guests.hall);
    CHECK(guests.submit(when) == 0);  // sent again
    CHECK(snapshot_of(guests.hall) == after);
    for (std::size_t i = 0; i < 6; ++i)
      if (asked[i] == guests.seat[i]) CHECK(guests.standing[i] == number(Standing::kRepeated));
    for (auto& action : guests.actions) action = action == 0 ? 1 : 0;
    CHECK(guests.submit(when) == 0);  // another answer to the same turn
    CHECK(snapshot_of(guests.hall) == after);
    for (std::size_t i = 0; i < 6; ++i)
      if (asked[i] == guests.seat[i]) CHECK(guests.standing[i] == number(Standing::kStale));
  }
}

template <Game G>
void wrong_rows_change_nothing() {
  Guests<G> guests(4);
  guests.open();
  guests.sit(0);
  guests.states();
  const auto before = snapshot_of(guests.hall);
  const std::vector<std::uint32_t> now = guests.turn;
  std::vector<std::uint32_t> later = now;
  for (auto& turn : later) ++turn;
  CHECK(guests.submit(later) == 0 && guests.all(Standing::kAhead));
  for (const std::int32_t action : {-1, G::kActions, 1 << 30}) {
    std::fill(guests.actions.begin(), guests.actions.end(), action);
    CHECK(guests.submit(now) == 0);
    for (std::size_t i = 0; i < 4; ++i)
      CHECK(guests.standing[i] == number(guests.to_act[i] == 0 ? Standing::kIllegal : Standing::kNotYourTurn));
  }
  guests.key[3] ^= 1;
  guests.key[kKeyBytes + 15] ^= 128;
  guests.seat[2] = 255;
  guests.ids[3] ^= 1ull << 50;
  guests.states();
  CHECK(guests.standing[0] == number(Standing::kWrongKey) && guests.standing[1] == number(Standing::kWrongKey));
  CHECK(guests.standing[2] == number(Standing::kWrongKey) && guests.standing[3] == number(Standing::kNoGame));
  for (const auto byte : guests.observation) CHECK(byte == 0);
  for (const auto byte : guests.legal) CHECK(byte == 0);
  CHECK(snapshot_of(guests.hall) == before);
}

// The key of one seat opens that seat and neither another's nor the host's place.
void keys_open_one_place() {
  Guests<SkullKing> guests(3);
  guests.open();
  for (std::size_t mine = 0; mine <= guests.seats; ++mine)
    for (std::size_t s = 0; s <= guests.seats; ++s) {
      guests.sit(mine);
      std::fill(guests.seat.begin(), guests.seat.end(), static_cast<std::uint8_t>(s));
      guests.states();
      CHECK(guests.all(mine == s && s < guests.seats ? Standing::kOk : Standing::kWrongKey));
    }
  guests.sit(1);
  CHECK(guests.hall.close(guests.places(), guests.standing.data()) == 0 && guests.all(Standing::kWrongKey));
}

template <Game G>
void a_restored_hall_goes_on_identically() {
  Guests<G> guests(20, 2), other(20);
  guests.open(1, {0, kFirstBot});
  for (std::uint64_t draw = 0; draw < 5; ++draw) guests.round(draw);
  const auto saved = snapshot_of(guests.hall);
  other.ids = guests.ids, other.keys = guests.keys;
  other.hall.restore(saved.data(), saved.size());
  CHECK(snapshot_of(other.hall) == saved && other.hall.games() == 20);
  for (std::uint64_t draw = 5; draw < 60; ++draw) {
    CHECK(guests.round(draw) == other.round(draw));
    CHECK(guests.observation == other.observation && guests.standing == other.standing);
  }
  CHECK(snapshot_of(guests.hall) == snapshot_of(other.hall));
}

void a_snapshot_of_another_hall_is_refused() {
  Guests<Leduc> leduc(3);
  leduc.open();
  auto saved = snapshot_of(leduc.hall);
  const auto refused = [](auto& hall, const std::vector<std::uint8_t>& data) {
    try {
      hall.restore(data.data(), data.size());
    } catch (const std::invalid_argument&) {
      return true;
    }
    return false;
  };
  Guests<Kuhn> kuhn(3);
  CHECK(refused(kuhn.hall, saved));
  saved.pop_back();
  CHECK(refused(leduc.hall, saved) && refused(leduc.hall, {}));
  CHECK(leduc.hall.games() == 3);
}

void a_reset_happens_once() {
  Guests<Leduc> guests(5);
  guests.open(1);
  guests.round(1);
  guests.sit(0);
  guests.states();
  const std::vector<std::uint32_t> at = guests.turn;
  const std::vector<std::uint64_t> seeds(5, 77);
  const AnswerColumns out{guests.standing.data(), guests.turn_now.data(), guests.over.data()};
  const auto reset = [&](const std::vector<std::uint32_t>& when) {
    return guests.hall.reset(guests.sit(guests.seats), when.data(), seeds.data(), 9, out);
  };
  CHECK(reset(at) == 5 && guests.all(Standing::kOk));
  const auto after = snapshot_of(guests.hall);
  CHECK(reset(at) == 0 && guests.all(Standing::kRepeated));
  CHECK(snapshot_of(guests.hall) == after);
  guests.sit(0);
  guests.submit(at);
  CHECK(guests.all(Standing::kStale));  // an answer meant for the old game
  guests.states();
  for (std::size_t i = 0; i < 5; ++i) CHECK(guests.turn[i] == at[i] + 1);
}

void closed_games_are_gone_and_leave_room() {
  Guests<Kuhn> guests(10);
  guests.open();
  const auto ids = guests.ids;
  CHECK(guests.hall.close(guests.sit(guests.seats), guests.standing.data()) == 10 && guests.hall.games() == 0);
  const std::size_t memory = guests.hall.bytes();
  CHECK(guests.hall.close(guests.places(), guests.standing.data()) == 0 && guests.all(Standing::kNoGame));
  guests.open(50);
  CHECK(guests.hall.games() == 10 && guests.hall.bytes() == memory);
  for (std::size_t i = 0; i < 10; ++i) CHECK(guests.ids[i] != 0);
  CHECK(guests.hall.sweep(5) == 0 && guests.hall.sweep(6) == 10 && guests.hall.games() == 0);
}

void bots_play_inside() {
  Guests<SkullKing> guests(6);
  guests.open(1, {0, kFirstBot, kFirstBot + 1, kFirstBot + 1});
  guests.sit(0);
  for (int turn = 0; turn < 500; ++turn) {
    guests.states();
    for (std::size_t i = 0; i < 6; ++i) CHECK(guests.over[i] || guests.to_act[i] == 0);
    guests.choose(static_cast<std::uint64_t>(turn));
    if (guests.submit(std::vector<std::uint32_t>(guests.turn)) == 0) break;
  }
  guests.states();
  for (const auto over : guests.over) CHECK(over == 1);
  bool refused = false;
  try {
    guests.open(1, std::vector<std::uint8_t>(guests.seats, kFirstBot));
  } catch (const std::invalid_argument&) {
    refused = true;
  }
  CHECK(refused);
}

// Readers on several threads while somebody plays: every row is of one moment.
void readers_and_writers_do_not_mix() {
  Guests<Leduc> guests(64);
  guests.open();
  std::atomic<bool> done{false};
  std::vector<std::thread> readers;
  for (int r = 0; r < 2; ++r)
    readers.emplace_back([&guests, &done] {
      Guests<Leduc> mine(64);
      mine.ids = guests.ids, mine.keys = guests.keys;
      mine.sit(1);
      while (!done.load()) {
        guests.hall.states(mine.places(),
                           {mine.standing.data(), mine.turn.data(), mine.to_act.data(), mine.role.data(),
                            mine.over.data(), mine.rewards.data(), mine.legal.data(), mine.observation.data()});
        for (std::size_t i = 0; i < 64; ++i) CHECK((mine.to_act[i] == kNobody) == (mine.over[i] == 1));
      }
    });
  for (std::uint64_t draw = 0; guests.round(draw); ++draw) {
  }
  done.store(true);
  for (auto& reader : readers) reader.join();
}

// A snapshot is taken a few games at a time while somebody plays: every game in it is whole.
void a_snapshot_while_somebody_plays_has_every_game_whole() {
  constexpr std::size_t kMany = 3000;
  Guests<Leduc> guests(kMany);
  guests.open();
  std::atomic<bool> done{false};
  std::thread player([&] {
    for (std::uint64_t draw = 0; guests.round(draw); ++draw) {
    }
    done.store(true);
  });
  std::vector<std::uint32_t> before(kMany, 0);
  for (bool last = false; !last;) {
    last = done.load();
    const auto saved = snapshot_of(guests.hall);
    Guests<Leduc> copy(kMany);
    copy.ids = guests.ids, copy.keys = guests.keys;
    copy.hall.restore(saved.data(), saved.size());
    copy.sit(0);
    copy.states();
    for (std::size_t i = 0; i < kMany; ++i) {
      CHECK(copy.standing[i] == number(Standing::kOk) && copy.turn[i] >= before[i]);
      CHECK((copy.to_act[i] == kNobody) == (copy.over[i] == 1));
      before[i] = copy.turn[i];
    }
  }
  player.join();
}

template <Game G>
void every_hall() {
  a_game_is_the_one_its_seed_names<G>();
  an_answer_counts_once<G>();
  wrong_rows_change_nothing<G>();
  a_restored_hall_goes_on_identically<G>();
}

}  // namespace

int main() {
  every_hall<Kuhn>();
  every_hall<Leduc>();
  every_hall<LiarsDice>();
  every_hall<SkullKing>();
  keys_open_one_place();
  a_snapshot_of_another_hall_is_refused();
  a_reset_happens_once();
  closed_games_are_gone_and_leave_room();
  bots_play_inside();
  readers_and_writers_do_not_mix();
  a_snapshot_while_somebody_plays_has_every_game_whole();
  return 0;
}
