// Skull King by its rules, one check for each tricky one, then many random games over all
// player counts and options. The comparison with an independent referee is in Python.
#include "../games/skull_king.hpp"

#include <cmath>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "check.hpp"

namespace playmill {

// Arranges positions and reads what no seat may see.
struct SkullKingPeek {
  using Cards = SkullKing::Cards;

  // A round with these hands where everybody has bid and seat 0 leads. What is not named is
  // undealt.
  static SkullKing arranged(const SkullKing::Options& options, std::vector<std::vector<int>> hands,
                            std::vector<int> bids) {
    SkullKing game;
    game.reset(options, 7);
    game.cards_ = game.tricks_left_ = static_cast<std::uint8_t>(hands[0].size());
    for (std::size_t p = 0; p < hands.size(); ++p) {
      Cards cards;
      for (int c : hands[p]) cards.add(c);
      game.set_hand(static_cast<int>(p), cards);
    }
    for (std::size_t s = 0; s < bids.size(); ++s) game.bid_[s] = static_cast<std::uint8_t>(bids[s]);
    game.lead_with(options, 0);
    Report report;
    game.proceed(options, report);
    return game;
  }

  static Cards hand(const SkullKing& game, int place) { return game.hand(place); }
  static void set_hand(SkullKing& game, int place, Cards cards) { game.set_hand(place, cards); }
  static int won(const SkullKing& game, int place) { return game.won_[place]; }
  static int bid(const SkullKing& game, int seat) { return game.bid_[seat]; }
  static int bonus(const SkullKing& game, int seat) { return game.bonus_[seat]; }
  static int score(const SkullKing& game, int seat) { return game.score_[seat]; }
  static int leader(const SkullKing& game) { return game.leader_; }
  static int dealer(const SkullKing& game) { return game.dealer_; }
  static int voids(const SkullKing& game, int place) { return game.void_[place]; }
  static int lead(const SkullKing& game) { return game.lead_; }
  static int tricks_left(const SkullKing& game) { return game.tricks_left_; }
  static int cards(const SkullKing& game) { return game.cards_; }
  static int round(const SkullKing& game) { return game.round_; }
  static int laid(const SkullKing& game, int place) { return game.trick_[place]; }
  static Cards undealt(const SkullKing& game, const SkullKing::Options& options) { return game.undealt(options); }

  // Every card of the deck is in one place and the hands are as long as the tricks to come.
  static void check_cards(const SkullKing& game, const SkullKing::Options& options) {
    Cards seen = game.undealt(options);
    int total = seen.count();
    int extra = 0;
    for (int p = 0; p < SkullKing::places(options); ++p) {
      const Cards held = game.hand(p), played = game.played(p);
      total += held.count() + played.count();
      seen = seen | held | played;
      const bool laid = game.position_ > 0 && game.trick_[p] != SkullKing::kNoCard;
      const int over = held.count() - (game.tricks_left_ - laid);
      CHECK(over == 0 || (game.role_ == SkullKing::kDiscard && p == game.turn_ && over > 0 && over <= 2));
      extra += over;
    }
    for (int c : game.discarded_)
      if (c != SkullKing::kNoCard) {
        CHECK(!seen.has(c));
        seen.add(c);
        ++total;
      }
    CHECK(total == SkullKing::deck_size(options) && seen.count() == total);
    CHECK((game.role_ == SkullKing::kDiscard) == (extra > 0));
  }
};

}  // namespace playmill

using namespace playmill;
using S = SkullKing;
using Peek = SkullKingPeek;

namespace {

constexpr int black(int n) { return 9 + n; }
constexpr int parrot(int n) { return 23 + n; }
constexpr int map(int n) { return 37 + n; }
constexpr int chest(int n) { return 51 + n; }

S::Options with(int players = 4) {
  S::Options options;
  options.players = players;
  return options;
}

S::Trick resolve(std::vector<int> cards, const S::Options& options = {}) {
  std::vector<std::uint8_t> laid(cards.begin(), cards.end());
  return S::resolve(options, laid.data(), static_cast<int>(laid.size()));
}

std::vector<int> legal(const S& game, const S::Options& options) {
  BitSet<S::kActions> set;
  game.legal(options, set);
  std::vector<int> out;
  for (int i = 0; i < set.count(); ++i) out.push_back(set.nth(i));
  return out;
}

bool allows(const S& game, const S::Options& options, int action) {
  BitSet<S::kActions> set;
  game.legal(options, set);
  return set.has(action);
}

// Plays the actions, each of them legal, and returns what they earned in points.
std::vector<int> play(S& game, const S::Options& options, std::initializer_list<int> actions) {
  Report report;
  for (int action : actions) {
    CHECK(!game.over());
    CHECK(allows(game, options, action));
    game.apply(options, action, report);
  }
  std::vector<int> points;
  for (int s = 0; s < options.players; ++s) points.push_back(static_cast<int>(std::lround(100 * report.reward[s])));
  return points;
}

std::vector<std::uint8_t> observe(const S& game, const S::Options& options, int seat) {
  const auto bytes = static_cast<std::size_t>(S::schema(options).bytes());
  std::vector<std::uint8_t> out(bytes + 1, 0xAB);
  game.observe(options, seat, out.data());
  CHECK(out.back() == 0xAB);
  out.pop_back();
  return out;
}

int byte(const S& game, const S::Options& options, int seat, const char* field, int row = 0) {
  const Schema schema = S::schema(options);
  const Field* f = schema.find(field);
  CHECK(f != nullptr);
  return observe(game, options, seat)[static_cast<std::size_t>(f->offset + row * f->row_bytes())];
}

using Points = std::vector<int>;

// ---- Resolution ----

void test_the_later_of_two_beasts_acts() {
  auto t = resolve({S::kKraken, parrot(3), S::kWhale, black(2)});
  CHECK(t.winner == 1 && t.whale);
  t = resolve({S::kWhale, parrot(3), S::kKraken, black(2)});
  CHECK(t.winner == -1 && t.leader == 3);
}

void test_kraken_voids_the_trick() {
  auto t = resolve({chest(14), S::kKraken, chest(3), S::kRosie});
  CHECK(t.winner == -1 && t.leader == 3 && t.bonus == 0);
  t = resolve({S::kKraken, map(5), chest(9), map(7)});  // the suit is map once the kraken is gone
  CHECK(t.leader == 3);
  CHECK(resolve({S::kKraken}).leader == 0);
  S::Options left;
  left.kraken_lead = 1;
  CHECK(resolve({chest(14), S::kKraken, chest(3), S::kRosie}, left).leader == 2);
  CHECK(resolve({chest(14), chest(3), S::kRosie, S::kKraken}, left).leader == 0);
}

void test_whale_leaves_only_numbers() {
  auto t = resolve({black(9), S::kSkullKing, S::kWhale, chest(12)});
  CHECK(t.winner == 3 && t.bonus == 0 && t.whale);
  t = resolve({map(14), S::kMermaid, S::kWhale, black(14)});  // of equals the first
  CHECK(t.winner == 0 && t.bonus == 3);
  t = resolve({S::kEscape, S::kRosie, S::kWhale, S::kSkullKing});
  CHECK(t.winner == -1 && t.leader == 2 && t.bonus == 0);
}

void test_mermaid_captures_skull_king() {
  auto t = resolve({S::kRosie, S::kSkullKing, S::kMermaid + 1, S::kMermaid});
  CHECK(t.winner == 2 && t.bonus == 4);
  S::Options older;
  older.skull_king_capture = 1;
  CHECK(resolve({S::kMermaid, S::kRosie, S::kSkullKing}, older).bonus == 5);
}

void test_skull_king_captures_pirates() {
  auto t = resolve({S::kRosie, S::kTigressPirate, S::kSkullKing, black(14)});
  CHECK(t.winner == 2 && t.bonus == 8);
  S::Options once;
  once.capture_bonus = 1;
  CHECK(resolve({S::kRosie, S::kTigressPirate, S::kSkullKing, black(14)}, once).bonus == 5);
}

void test_first_pirate_captures_mermaids() {
  auto t = resolve({S::kMermaid, S::kTigressPirate, S::kJade, S::kMermaid + 1});
  CHECK(t.winner == 1 && t.bonus == 4);
  S::Options once;
  once.capture_bonus = 1;
  CHECK(resolve({S::kMermaid, S::kTigressPirate, S::kJade, S::kMermaid + 1}, once).bonus == 2);
  CHECK(resolve({S::kTigress, black(1), map(2)}).winner == 1);  // as an escape she takes nothing
}

void test_mermaids_trump_and_suit() {
  CHECK(resolve({black(14), S::kMermaid + 1, S::kMermaid, S::kEscape}).winner == 1);
  CHECK(resolve({black(14), S::kMermaid}).bonus == 2);
  auto t = resolve({chest(14), black(1), chest(13), parrot(14)});
  CHECK(t.winner == 1 && t.bonus == 2);
  t = resolve({S::kEscape, S::kLoot, map(2), chest(14)});
  CHECK(t.winner == 2 && t.bonus == 1);
  CHECK(resolve({map(9), map(11), map(10)}).winner == 1);
  CHECK(resolve({S::kLoot, S::kEscape, S::kTigress, S::kLoot + 1}).winner == 0);
}

// ---- Following ----

void test_following() {
  const auto options = with(3);
  S game = Peek::arranged(options, {{chest(3), map(3)}, {chest(5), black(14)}, {S::kRosie, chest(6)}}, {1, 1, 1});
  play(game, options, {chest(3)});
  CHECK(!allows(game, options, black(14)) && allows(game, options, chest(5)));
  play(game, options, {chest(5)});
  CHECK(allows(game, options, S::kRosie) && allows(game, options, chest(6)));

  // An escape leaves the suit open; a character, a beast or a pirate tigress means none.
  for (int first : {static_cast<int>(S::kEscape), static_cast<int>(S::kLoot), static_cast<int>(S::kTigress)}) {
    game = Peek::arranged(options, {{first, map(3)}, {chest(5), black(14)}, {chest(1), black(2)}}, {1, 1, 1});
    play(game, options, {first, chest(5)});
    CHECK(!allows(game, options, black(2)));
  }
  for (int first : {static_cast<int>(S::kMermaid), static_cast<int>(S::kWhale), static_cast<int>(S::kKraken),
                    static_cast<int>(S::kTigressPirate)}) {
    const int card = first == S::kTigressPirate ? static_cast<int>(S::kTigress) : first;
    game = Peek::arranged(options, {{card, map(3)}, {chest(5), black(14)}, {chest(1), black(2)}}, {1, 1, 1});
    play(game, options, {first, chest(5)});
    CHECK(allows(game, options, black(2)) && Peek::lead(game) == 5 && Peek::voids(game, 1) == 0);
  }

  // A later whale does not lift the suit.
  game = Peek::arranged(options, {{chest(2), map(3)}, {S::kWhale, black(14)}, {chest(1), black(2)}}, {1, 1, 1});
  play(game, options, {chest(2), S::kWhale});
  CHECK(!allows(game, options, black(2)));

  // The tigress is one card and two actions; numbers off the suit tell of a void, specials do not.
  game = Peek::arranged(options, {{chest(2), map(3)}, {S::kTigress, black(14)}, {map(1), black(2)}}, {1, 1, 1});
  play(game, options, {chest(2)});
  CHECK((legal(game, options) == Points{black(14), S::kTigress, S::kTigressPirate}));
  play(game, options, {S::kTigressPirate});
  CHECK(Peek::voids(game, 1) == 0 && !Peek::hand(game, 1).has(S::kTigress));
  play(game, options, {map(1)});
  CHECK(Peek::voids(game, 2) == 8 && Peek::leader(game) == 1);
}

// ---- Scores ----

void test_bid_points() {
  S::Options classic;
  CHECK(S::bid_points(classic, 3, 3, 5, 4, false) == 100);
  CHECK(S::bid_points(classic, 3, 1, 5, 4, false) == -20);
  CHECK(S::bid_points(classic, 0, 0, 7, 0, false) == 70);
  CHECK(S::bid_points(classic, 0, 3, 7, 4, false) == -70);
  S::Options rascal;
  rascal.scoring = S::kRascal;
  CHECK(S::bid_points(rascal, 0, 0, 7, 0, false) == 70);
  CHECK(S::bid_points(rascal, 2, 3, 7, 3, false) == 50);
  CHECK(S::bid_points(rascal, 2, 4, 7, 3, false) == 0);
  rascal.scoring = S::kCannonball;
  CHECK(S::bid_points(rascal, 2, 2, 7, 3, true) == 135);
  CHECK(S::bid_points(rascal, 2, 3, 7, 3, true) == 0);
  CHECK(S::bid_points(rascal, 2, 2, 7, 3, false) == 100);
}

void test_cannonball_bids() {
  auto options = with(3);
  options.first_round = 2;
  S game;
  game.reset(options, 1);
  CHECK((legal(game, options) == Points{75, 76, 77}));
  options.scoring = S::kCannonball;
  game.reset(options, 1);
  CHECK((legal(game, options) == Points{75, 76, 77, 100, 101, 102}));
  const int seat = game.seat();
  play(game, options, {S::kCannonballBid + 1});
  CHECK(byte(game, options, seat, "cannonball") == 1 && byte(game, options, seat, "bid") == 1);
  CHECK(byte(game, options, game.seat(), "cannonball") == 0);
  CHECK(byte(game, options, game.seat(), "bid", 2) == 255 && byte(game, options, game.seat(), "called") == 4);
  play(game, options, {S::kBid, S::kBid});
  CHECK(byte(game, options, (seat + 1) % 3, "cannonball") == 4 && byte(game, options, (seat + 1) % 3, "bid", 2) == 1);
  CHECK(byte(game, options, (seat + 1) % 3, "need", 2) == 1 && byte(game, options, seat, "called") == 0);
}

// Three players, one trick, past_your_bedtime: what the trick earned ends the game.
Points one_trick(S::Options options, std::vector<int> cards, std::vector<int> bids,
                 std::initializer_list<int> actions) {
  options.schedule = S::kBedtime;
  std::vector<std::vector<int>> hands;
  for (int c : cards) hands.push_back({c});
  S game = Peek::arranged(options, hands, bids);
  const auto points = play(game, options, actions);
  CHECK(game.over());
  return points;
}

void test_loot_alliance() {
  const auto options = with(3);
  const int loot = S::kLoot;
  CHECK((one_trick(options, {loot, chest(2), chest(5)}, {0, 0, 1}, {loot, chest(2), chest(5)}) == Points{30, 10, 40}));
  CHECK((one_trick(options, {loot, chest(2), chest(5)}, {1, 0, 1}, {loot, chest(2), chest(5)}) == Points{-10, 10, 20}));
  // The loot that wins its own trick allies with nobody, the other loot with it.
  CHECK((one_trick(options, {loot, loot + 1, S::kEscape}, {1, 0, 0}, {loot, loot + 1, S::kEscape}) ==
         Points{40, 30, 10}));
  // The whale makes loot void.
  CHECK(
      (one_trick(options, {loot, S::kWhale, chest(5)}, {0, 0, 1}, {loot, S::kWhale, chest(5)}) == Points{10, 10, 20}));
  // Nobody wins a kraken's trick.
  CHECK((one_trick(options, {loot, S::kKraken, chest(5)}, {0, 0, 1}, {loot, S::kKraken, chest(5)}) ==
         Points{10, 10, -10}));
}

void test_bonus_needs_the_bid() {
  const auto options = with(3);
  const int king = S::kSkullKing, rosie = S::kRosie;
  CHECK((one_trick(options, {rosie, king, chest(14)}, {0, 1, 0}, {rosie, king, chest(14)}) == Points{10, 60, 10}));
  CHECK((one_trick(options, {rosie, king, chest(14)}, {0, 0, 0}, {rosie, king, chest(14)}) == Points{10, -10, 10}));
}

void test_win_bonus_sums_to_zero() {
  auto options = with(3);
  options.win_bonus = 90;
  CHECK((one_trick(options, {map(3), map(4), map(5)}, {0, 0, 1}, {map(3), map(4), map(5)}) == Points{-20, -20, 80}));
  CHECK((one_trick(options, {map(3), map(4), map(5)}, {0, 0, 0}, {map(3), map(4), map(5)}) == Points{25, 25, -40}));
}

// ---- Powers ----

void test_rosie_chooses_the_leader() {
  const auto options = with(3);
  S game = Peek::arranged(options, {{S::kRosie, map(2)}, {map(3), chest(2)}, {map(4), chest(3)}}, {1, 1, 1});
  play(game, options, {S::kRosie, map(3), map(4)});
  CHECK(game.role() == S::kChooseLeader && game.seat() == 0);
  CHECK((legal(game, options) == Points{86, 87, 88}));
  play(game, options, {S::kLeads + 2});
  CHECK(game.role() == S::kPlay && game.seat() == 2);
  // Not on the last trick.
  CHECK(
      (one_trick(options, {S::kRosie, map(4), map(5)}, {1, 0, 0}, {S::kRosie, map(4), map(5)}) == Points{20, 10, 10}));
  // Nor without powers.
  auto off = options;
  off.powers = 0;
  game = Peek::arranged(off, {{S::kRosie, map(2)}, {map(3), chest(2)}, {map(4), chest(3)}}, {1, 1, 1});
  play(game, off, {S::kRosie, map(3), map(4)});
  CHECK(game.role() == S::kPlay && game.seat() == 0);
}

void test_bendt_draws_and_discards() {
  const auto options = with(3);
  S game = Peek::arranged(options, {{chest(9), map(2)}, {S::kBendt, black(2)}, {map(4), chest(3)}}, {1, 1, 1});
  play(game, options, {chest(9), S::kBendt, chest(3)});
  CHECK(game.role() == S::kDiscard && game.seat() == 1);
  CHECK(Peek::hand(game, 1).count() == 3 && Peek::hand(game, 1).has(black(2)));
  play(game, options, {black(2)});
  CHECK(game.role() == S::kDiscard && !allows(game, options, black(2)));
  const int second = legal(game, options)[0];
  play(game, options, {second});
  CHECK(game.role() == S::kPlay && game.seat() == 1 && Peek::hand(game, 1).count() == 1);
  // He alone knows what went.
  const Schema schema = S::schema(options);
  const auto at = static_cast<std::size_t>(schema.find("discarded")->offset);
  const auto mine = observe(game, options, 1), other = observe(game, options, 2);
  CHECK((mine[at + black(2) / 8] >> (black(2) % 8) & 1) == 1);
  for (std::size_t i = 0; i < 10; ++i) CHECK(other[at + i] == 0);
}

void test_bendt_clears_his_voids() {
  const auto options = with(3);
  S game = Peek::arranged(
      options, {{chest(9), map(2), map(3)}, {map(7), S::kBendt, black(2)}, {chest(4), chest(3), map(5)}}, {1, 1, 1});
  play(game, options, {chest(9), map(7), chest(4)});
  CHECK(Peek::voids(game, 1) == 8);
  play(game, options, {map(2), S::kBendt, map(5)});
  CHECK(Peek::voids(game, 1) == 0);
}

void test_roatan_wagers() {
  const auto options = with(3);
  const int pirate = S::kRoatan;
  CHECK((one_trick(options, {pirate, map(4), map(5)}, {1, 0, 0}, {pirate, map(4), map(5), S::kWager + 2}) ==
         Points{40, 10, 10}));
  CHECK((one_trick(options, {pirate, map(4), map(5)}, {0, 0, 0}, {pirate, map(4), map(5), S::kWager + 1}) ==
         Points{-20, 10, 10}));
  auto rascal = options;
  rascal.scoring = S::kRascal;
  CHECK((one_trick(rascal, {pirate, map(4), map(5)}, {0, 0, 0}, {pirate, map(4), map(5), S::kWager + 1}) ==
         Points{-5, 10, 10}));
}

void test_jade_sees_the_undealt() {
  const auto options = with(3);
  S game = Peek::arranged(options, {{S::kJade, map(2)}, {map(3), chest(2)}, {map(4), chest(3)}}, {1, 1, 1});
  play(game, options, {S::kJade, map(3), map(4)});
  CHECK(game.role() == S::kPlay && game.seat() == 0);
  const auto at = static_cast<std::size_t>(S::schema(options).find("undealt")->offset);
  const auto mine = observe(game, options, 0), other = observe(game, options, 1);
  for (int c = 0; c < S::kCards; ++c) {
    const auto i = at + static_cast<std::size_t>(c / 8);
    CHECK((mine[i] >> (c % 8) & 1) == Peek::undealt(game, options).has(c));
    CHECK(other[i] == 0);
  }
}

void test_harry_adjusts_the_bid() {
  auto options = with(3);
  const int harry = S::kHarry;
  CHECK((one_trick(options, {harry, map(4), map(5)}, {0, 0, 0}, {harry, map(4), map(5), S::kAdjust + 2}) ==
         Points{20, 10, 10}));
  options.schedule = S::kBedtime;
  S game = Peek::arranged(options, {{harry, map(6)}, {map(4), map(7)}, {map(5), map(8)}}, {2, 0, 1});
  play(game, options, {harry, map(4), map(5)});
  CHECK(game.role() == S::kPlay && byte(game, options, 2, "harry") == 2);
  play(game, options, {map(6), map(7), map(8)});
  CHECK(game.role() == S::kAdjusting && game.seat() == 0);
  CHECK((legal(game, options) == Points{97, 98}));
  CHECK((play(game, options, {S::kAdjust}) == Points{20, 20, 20}));
  options.harry = 1;
  game = Peek::arranged(options, {{harry, map(6)}, {map(4), map(7)}, {map(5), map(8)}}, {0, 0, 1});
  play(game, options, {harry, map(4), map(5)});
  CHECK(game.role() == S::kAdjusting && (legal(game, options) == Points{98, 99}));
  play(game, options, {S::kAdjust + 2});
  CHECK(game.role() == S::kPlay && Peek::bid(game, 0) == 1);
  CHECK((play(game, options, {map(6), map(7), map(8)}) == Points{20, 20, 20}));
}

void test_tigress_as_pirate_has_no_power() {
  const auto options = with(3);
  S game = Peek::arranged(options, {{S::kTigress, map(2)}, {map(3), chest(2)}, {map(4), chest(3)}}, {1, 1, 1});
  play(game, options, {S::kTigressPirate, map(3), map(4)});
  CHECK(game.role() == S::kPlay && game.seat() == 0 && Peek::won(game, 0) == 1);
}

// ---- The table ----

void test_graybeard_plays_second_unless_it_won() {
  const auto options = with(2);
  S game = Peek::arranged(options, {{map(2), map(3)}, {map(4), map(5)}, {black(9), black(10)}}, {1, 1});
  CHECK(game.seat() == 0);
  play(game, options, {map(2)});
  CHECK(game.seat() == 1 && Peek::laid(game, 2) != S::kNoCard && Peek::voids(game, 2) == 0);
  play(game, options, {map(4)});
  // It won, leads by itself, and who led before plays next.
  CHECK(Peek::won(game, 2) == 1 && Peek::leader(game) == 2 && game.seat() == 0);
  CHECK(Peek::hand(game, 2).empty() && byte(game, options, 1, "leader") == 2);
  CHECK(byte(game, options, 1, "trick", 2) >= black(9) && byte(game, options, 1, "position") == 1);
}

void test_graybeard_brings_no_alliance_and_no_power() {
  auto options = with(2);
  CHECK((one_trick(options, {S::kLoot, map(5), S::kRosie}, {0, 0}, {S::kLoot, map(5)}) == Points{10, 10}));
  CHECK((one_trick(options, {chest(1), map(5), S::kLoot}, {1, 0}, {chest(1), map(5)}) == Points{20, 10}));
  CHECK((one_trick(options, {chest(1), S::kRoatan, S::kMermaid}, {0, 1}, {chest(1), S::kRoatan, S::kWager}) ==
         Points{10, 40}));
  CHECK((one_trick(options, {chest(1), map(5), S::kKraken}, {0, 0}, {chest(1), map(5)}) == Points{10, 10}));
  CHECK((one_trick(options, {chest(1), map(5), S::kTigress}, {1, 0}, {chest(1), map(5)}) == Points{20, 10}));
}

void test_kraken_lead_in_play() {
  auto options = with(3);
  S game = Peek::arranged(options, {{map(9), map(2)}, {S::kKraken, chest(2)}, {map(4), chest(3)}}, {1, 1, 1});
  play(game, options, {map(9), S::kKraken, map(4)});
  CHECK(game.seat() == 0 && Peek::won(game, 0) == 0 && Peek::tricks_left(game) == 1);
  options.kraken_lead = 1;
  game = Peek::arranged(options, {{map(9), map(2)}, {S::kKraken, chest(2)}, {map(4), chest(3)}}, {1, 1, 1});
  play(game, options, {map(9), S::kKraken, map(4)});
  CHECK(game.seat() == 2);
}

void test_schedules() {
  auto options = with(8);
  CHECK(S::rounds(options) == 10 && S::cards_in(options, 9) == 9);
  options.deck = 0;
  CHECK(S::cards_in(options, 9) == 8 && S::cards_in(options, 7) == 8 && S::cards_in(options, 6) == 7);
  options = with(2);
  CHECK(S::cards_in(options, 9) == 10);
  const int rounds[] = {10, 5, 5, 5, 10, 10, 1};
  const int first[] = {1, 2, 6, 5, 10, 9, 1};
  const int last[] = {10, 10, 10, 5, 10, 1, 1};
  for (int s = 0; s < 7; ++s) {
    options.schedule = s;
    CHECK(S::rounds(options) == rounds[s]);
    CHECK(S::cards_in(options, 0) == first[s] && S::cards_in(options, rounds[s] - 1) == last[s]);
  }
  options.first_round = 2;
  CHECK(!S::check(options).empty());
  options.schedule = 0;
  CHECK(S::check(options).empty());
}

void test_deals_do_not_depend_on_play() {
  const auto options = with(4);
  Random random(3, kBotStream);
  for (int trial = 0; trial < 20; ++trial) {
    S a, b;
    a.reset(options, 11);
    b.reset(options, 11);
    const int first = (Peek::dealer(a) + 1) % 4;
    CHECK(a.seat() == first);
    for (int round = 0; round < 10; ++round) {
      for (S* game : {&a, &b})
        while (!game->over() && Peek::round(*game) < round) {
          Report report;
          game->apply(options, game->bot(options, game == &a ? 0 : 3, random), report);
        }
      CHECK(a.seat() == b.seat() && a.seat() == (first + round) % 4);
      for (int p = 0; p < 4; ++p)
        CHECK(Peek::hand(a, p).lo == Peek::hand(b, p).lo && Peek::hand(a, p).hi == Peek::hand(b, p).hi);
    }
  }
}

// ---- Observation ----

// Dealing what a seat cannot see among the other hands changes nothing in what it observes.
void check_no_leak(const S& game, const S::Options& options, Random& random) {
  const int seat = static_cast<int>(random.below(static_cast<std::uint32_t>(options.players)));
  const auto before = observe(game, options, seat);
  S other = game;
  std::vector<int> pool;
  const int places = S::places(options);
  for (int p = 0; p < places; ++p)
    if (p != seat)
      for (auto cards = Peek::hand(game, p); !cards.empty();) pool.push_back(cards.pop());
  for (auto cards = Peek::undealt(game, options); !cards.empty();) pool.push_back(cards.pop());
  for (std::size_t i = pool.size(); i > 1; --i)
    std::swap(pool[i - 1], pool[random.below(static_cast<std::uint32_t>(i))]);
  std::size_t at = 0;
  for (int p = 0; p < places; ++p) {
    if (p == seat) continue;
    S::Cards cards;
    for (int k = Peek::hand(game, p).count(); k > 0; --k) cards.add(pool[at++]);
    Peek::set_hand(other, p, cards);
  }
  CHECK(observe(other, options, seat) == before);
}

void check_observation(const S& game, const S::Options& options) {
  const int seat = game.seat(), n = options.players;
  CHECK(byte(game, options, seat, "role") == game.role());
  CHECK(byte(game, options, (seat + 1) % n, "role") == 255);
  const bool bidding = game.role() == S::kBidding;
  for (int k = 0; k < n; ++k) {
    const int s = (seat + k) % n;
    const int bid = Peek::bid(game, s), won = Peek::won(game, s);
    CHECK(byte(game, options, seat, "bid", k) == (bidding ? 255 : bid));
    CHECK(byte(game, options, seat, "won", k) == won);
    CHECK(byte(game, options, seat, "need", k) == (bidding || bid < won ? 0 : bid - won));
    CHECK(byte(game, options, seat, "over", k) == (bidding || won < bid ? 0 : won - bid));
    CHECK(byte(game, options, seat, "bonus", k) == Peek::bonus(game, s));
    const int position = byte(game, options, seat, "position");
    CHECK(byte(game, options, seat, "trick", k) == (position == 0 ? 255 : Peek::laid(game, s)));
    CHECK(byte(game, options, seat, "void", k) == Peek::voids(game, s));
    CHECK(static_cast<std::uint8_t>(Peek::score(game, s)) == byte(game, options, seat, "score", 0 + k));
  }
}

bool balanced(const std::string& text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '[') continue;
    depth += text.compare(i, 3, "[/]") == 0 ? -1 : 1;
    if (depth < 0) return false;
  }
  return depth == 0;
}

// ---- Random games over everything ----

void test_random_games() {
  Random random(5, kBotStream);
  long turns = 0;
  for (int game_index = 0; game_index < 4000; ++game_index) {
    S::Options options;
    for (const auto& option : S::kOptions)
      options.*option.member =
          option.low + static_cast<int>(random.below(static_cast<std::uint32_t>(option.high - option.low + 1)));
    options.players = 2 + game_index % 7;
    if (!S::check(options).empty()) options.first_round = 1;
    if (game_index % 2 == 0) options.powers = 1;
    S game;
    const auto seed = static_cast<std::uint64_t>(random.next());
    game.reset(options, seed);
    double sum[kMaxSeats] = {};
    std::uint8_t driver[kMaxSeats] = {};
    Tally tally[std::size(S::kStats)] = {};
    int kinds[kMaxSeats];
    for (int& kind : kinds) kind = static_cast<int>(random.below(5));
    while (!game.over()) {
      Peek::check_cards(game, options);
      const auto actions = legal(game, options);
      CHECK(!actions.empty() && game.seat() < options.players);
      const int action = game.bot(options, kinds[game.seat()], random);
      CHECK(allows(game, options, action));
      if (turns % 11 == 0) check_no_leak(game, options, random);
      if (turns % 97 == 0) check_observation(game, options);
      if (turns % 29 == 0) {
        CHECK(balanced(game.table_text(options, game.seat())));
        for (int a : actions) CHECK(balanced(game.action_text(options, a)) && !game.action_text(options, a).empty());
      }
      Report report;
      report.tally = tally;
      report.driver = driver;
      report.stats = static_cast<int>(std::size(S::kStats));
      game.apply(options, action, report);
      for (int s = 0; s < options.players; ++s) sum[s] += static_cast<double>(report.reward[s]);
      ++turns;
    }
    CHECK(byte(game, options, 0, "role") == 255);
    double total = 0, scores = 0;
    for (int s = 0; s < options.players; ++s) {
      total += sum[s];
      scores += Peek::score(game, s);
      if (options.win_bonus == 0) CHECK(std::abs(100 * sum[s] - Peek::score(game, s)) < 0.1);
    }
    CHECK(std::abs(100 * total - scores) < 0.1);  // the win bonus sums to zero
    CHECK(std::abs(tally[S::kWin].sum - 1) < 1e-5);
    CHECK(tally[S::kScore].n == static_cast<std::uint64_t>(options.players));
    CHECK(tally[S::kBidMade].n ==
          static_cast<std::uint64_t>(options.players * (S::rounds(options) - options.first_round + 1)));
  }
  std::printf("skull_king: %ld random turns\n", turns);
}

}  // namespace

int main() {
  test_the_later_of_two_beasts_acts();
  test_kraken_voids_the_trick();
  test_whale_leaves_only_numbers();
  test_mermaid_captures_skull_king();
  test_skull_king_captures_pirates();
  test_first_pirate_captures_mermaids();
  test_mermaids_trump_and_suit();
  test_following();
  test_bid_points();
  test_cannonball_bids();
  test_loot_alliance();
  test_bonus_needs_the_bid();
  test_win_bonus_sums_to_zero();
  test_rosie_chooses_the_leader();
  test_bendt_draws_and_discards();
  test_bendt_clears_his_voids();
  test_roatan_wagers();
  test_jade_sees_the_undealt();
  test_harry_adjusts_the_bid();
  test_tigress_as_pirate_has_no_power();
  test_graybeard_plays_second_unless_it_won();
  test_graybeard_brings_no_alliance_and_no_power();
  test_kraken_lead_in_play();
  test_schedules();
  test_deals_do_not_depend_on_play();
  test_random_games();
}
