// Leduc and liar's dice by their rules. The comparison with OpenSpiel, history by
// history, is in tests/unit/test_tiny_games.py.
#include <array>
#include <cstring>
#include <initializer_list>
#include <map>
#include <vector>

#include "../games/leduc.hpp"
#include "../games/liars_dice.hpp"
#include "check.hpp"

using namespace playmill;

namespace {

template <class G>
std::vector<int> legal(const G& game) {
  BitSet<G::kActions> set;
  game.legal({}, set);
  std::vector<int> out;
  for (int i = 0; i < set.count(); ++i) out.push_back(set.nth(i));
  return out;
}

template <class G>
std::vector<std::uint8_t> observe(const G& game, int seat) {
  std::vector<std::uint8_t> out(static_cast<std::size_t>(G::schema({}).bytes()) + 1, 0xAB);
  game.observe({}, seat, out.data());
  CHECK(out.back() == 0xAB);  // exactly as many bytes as the schema says
  out.pop_back();
  return out;
}

// Plays the actions and returns what seat 0 won; the other seat lost as much.
template <class G>
float play(G game, std::initializer_list<int> actions) {
  Report report;
  for (int action : actions) {
    CHECK(!game.over());
    BitSet<G::kActions> set;
    game.legal({}, set);
    CHECK(set.has(action));
    game.apply({}, action, report);
  }
  CHECK(game.over());
  CHECK(report.reward[0] == -report.reward[1]);
  return report.reward[0];
}

struct Tree {
  int turns = 0;
  int ends = 0;
};

// Every way to play on from here. A game that ended must have paid zero in sum.
template <class G>
void walk(const G& game, Tree& tree) {
  ++tree.turns;
  const auto choices = legal(game);
  CHECK(!choices.empty());
  Random random(1, kBotStream);
  for (int kind = 1; kind < static_cast<int>(std::size(G::kBots)); ++kind) {
    const int action = game.bot({}, kind, random);
    bool allowed = false;
    for (int choice : choices) allowed |= choice == action;
    CHECK(allowed);
  }
  for (int action : choices) {
    G next = game;
    Report report;
    next.apply({}, action, report);
    CHECK(report.reward[0] + report.reward[1] == 0.0f);
    if (!next.over()) {
      CHECK(report.reward[0] == 0.0f);
      walk(next, tree);
    } else {
      ++tree.ends;
    }
  }
}

using Deal = std::array<int, 3>;

// Leduc: the two own cards and the public one. Liar's dice: the two dice.
Deal deal_of(Leduc game) {
  Deal deal{};
  for (int s = 0; s < 2; ++s) {
    const auto seen = observe(game, s);
    CHECK(seen[2] == 255 && seen[4] == 255);  // no public card yet
    deal[static_cast<std::size_t>(s)] = 2 * seen[1] + seen[3];
  }
  Report report;
  game.apply({}, Leduc::kCall, report);
  game.apply({}, Leduc::kCall, report);
  const auto seen = observe(game, 0);
  deal[2] = 2 * seen[2] + seen[4];
  return deal;
}

Deal deal_of(const LiarsDice& game) { return {observe(game, 0)[1], observe(game, 1)[1], 0}; }

// A game of every deal; the seeds must deal them all about equally often.
template <class G>
std::map<Deal, G> every_deal(std::size_t deals) {
  constexpr int kEach = 200;
  std::map<Deal, G> games;
  std::map<Deal, int> often;
  G game;
  for (std::uint64_t seed = 0; seed < deals * kEach; ++seed) {
    game.reset({}, seed);
    const Deal deal = deal_of(game);
    games[deal] = game;
    ++often[deal];
  }
  CHECK(games.size() == deals);
  for (const auto& [deal, n] : often) CHECK(n > kEach / 2 && n < kEach * 2);
  return games;
}

void leduc() {
  constexpr int fold = Leduc::kFold, call = Leduc::kCall, raise = Leduc::kRaise;
  const auto games = every_deal<Leduc>(120);
  for (const auto& [deal, game] : games) {
    CHECK(deal[0] != deal[1] && deal[0] != deal[2] && deal[1] != deal[2]);
    Tree tree;
    walk(game, tree);
    CHECK(tree.turns == 36 && tree.ends == 49);
  }

  const Leduc& king_jack = games.at({4, 0, 2});  // king, jack, public queen
  CHECK(play(king_jack, {call, call, call, call}) == 1.0f);
  CHECK(play(king_jack, {raise, call, call, call}) == 3.0f);
  CHECK(play(king_jack, {call, raise, raise, call, call, raise, raise, call}) == 13.0f);
  CHECK(play(king_jack, {raise, fold}) == 1.0f);
  CHECK(play(king_jack, {raise, raise, fold}) == -3.0f);
  CHECK(play(king_jack, {raise, call, raise, raise, fold}) == -7.0f);
  CHECK(play(games.at({4, 0, 1}), {call, call, call, call}) == -1.0f);   // a pair of jacks beats a king
  CHECK(play(games.at({0, 1, 5}), {raise, call, raise, call}) == 0.0f);  // equal ranks split

  Leduc game = king_jack;
  Report report;
  CHECK((legal(game) == std::vector<int>{call, raise}));  // nothing to fold to
  game.apply({}, raise, report);
  CHECK((legal(game) == std::vector<int>{fold, call, raise}));
  game.apply({}, raise, report);
  CHECK((legal(game) == std::vector<int>{fold, call}));  // two raises a round
  game.apply({}, call, report);
  CHECK(game.seat() == 0);
  CHECK((legal(game) == std::vector<int>{call, raise}));
  CHECK((observe(game, 1) == std::vector<std::uint8_t>{1, 0, 1, 0, 0, 1, 2, 2, 1, 255, 255, 255, 255, 255, 5, 5}));
}

void liars_dice() {
  constexpr int liar = LiarsDice::kLiar;
  constexpr auto bid = [](int dice, int face) { return (dice - 1) * 6 + face - 1; };
  const auto games = every_deal<LiarsDice>(36);
  for (const auto& [deal, game] : games) {
    Tree tree;
    walk(game, tree);
    CHECK(tree.turns == 4096 && tree.ends == 4095);
  }

  const LiarsDice& two_and_six = games.at({1, 5, 0});
  CHECK(play(two_and_six, {bid(1, 2), liar}) == 1.0f);
  CHECK(play(two_and_six, {bid(2, 2), liar}) == 1.0f);  // the six is wild
  CHECK(play(two_and_six, {bid(1, 3), liar}) == 1.0f);  // and is a three too
  CHECK(play(two_and_six, {bid(2, 3), liar}) == -1.0f);
  CHECK(play(two_and_six, {bid(2, 6), liar}) == -1.0f);  // but the two is no six
  CHECK(play(two_and_six, {bid(1, 1), bid(2, 2), liar}) == -1.0f);

  LiarsDice game = two_and_six;
  Report report;
  CHECK(legal(game).size() == 12 && legal(game).back() == bid(2, 6));  // no bid to call yet
  game.apply({}, bid(2, 4), report);
  CHECK((legal(game) == std::vector<int>{bid(2, 5), bid(2, 6), liar}));
  CHECK((observe(game, 1) == std::vector<std::uint8_t>{1, 5, 9, 0, 0, 0, 2}));
  game.apply({}, bid(2, 6), report);
  CHECK((legal(game) == std::vector<int>{liar}));
}

}  // namespace

int main() {
  leduc();
  liars_dice();
  return 0;
}
