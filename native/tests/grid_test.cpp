// Whole boards at a time are what one square at a time would be, and a board's own word on what is legal holds.
#include <random>

#include "check.hpp"
#include "core/crew_plane.hpp"
#include "games/all_games.hpp"

using namespace playmill;

namespace {

std::mt19937_64 source(7);

struct Ground {
  int width, height, squares, words;
  Edges edges;
  std::uint64_t own[Edges::kWords] = {}, closed[Edges::kWords] = {};
  std::vector<std::uint16_t> army;

  Ground(int w, int h) : width(w), height(h), squares(w * h), words(plane_bits(w * h) / 64), edges(w, h) {
    army.resize(static_cast<std::size_t>(squares));
    for (int i = 0; i < words; ++i) {
      own[i] = source() & source() & edges.all[i];
      closed[i] = source() & source() & ~own[i] & edges.all[i];
    }
    for (auto& a : army) a = static_cast<std::uint16_t>(source() % 3 == 0 ? source() : source() % 3);
  }
  bool has(const std::uint64_t* plane, int x, int y) const {
    if (x < 0 || y < 0 || x >= width || y >= height) return false;
    const int i = y * width + x;
    return plane[i >> 6] >> (i & 63) & 1;
  }
};

void widening(const Ground& b) {
  std::uint64_t out[Edges::kWords] = {};
  widen_plain(b.own, b.width, b.edges, b.words, out);
  for (int y = 0; y < b.height; ++y)
    for (int x = 0; x < b.width; ++x) {
      bool near = false;
      for (int k = 0; k < 9; ++k) near |= b.has(b.own, x + k % 3 - 1, y + k / 3 - 1);
      CHECK(b.has(out, x, y) == near);
    }
  for (int i = 0; i < b.words; ++i) CHECK((out[i] & ~b.edges.all[i]) == 0);
}

void moving(const Ground& b) {
  constexpr int kAway[4][2] = {{0, -1}, {0, 1}, {-1, 0}, {1, 0}};
  const auto n = static_cast<std::size_t>(b.squares);
  std::vector<std::uint8_t> out(n + 8, 0xAB), plain(n + 8, 0xAB);
  move_bytes(b.army.data(), b.own, b.closed, b.width, b.edges, b.squares, b.words, out.data());
  move_bytes_plain(b.army.data(), b.own, b.closed, b.width, b.edges, b.squares, b.words, plain.data());
  for (int y = 0; y < b.height; ++y)
    for (int x = 0; x < b.width; ++x) {
      const auto i = static_cast<std::size_t>(y * b.width + x);
      unsigned byte = 0;
      for (int d = 0; d < 4; ++d) {
        const int tx = x + kAway[d][0], ty = y + kAway[d][1];
        const bool on = tx >= 0 && ty >= 0 && tx < b.width && ty < b.height;
        if (b.has(b.own, x, y) && b.army[i] > 1 && on && !b.has(b.closed, tx, ty)) byte |= 17u << d;
      }
      CHECK(out[i] == byte);
      CHECK(plain[i] == byte);
    }
  for (std::size_t i = n; i < out.size(); ++i) CHECK(out[i] == 0xAB);  // nothing beyond the board is touched
}

// Planes as bots use them; crew_test holds a warp's to these.
void thinking(const Ground& b) {
  using Squares = CrewPlane<plane_bits(kMaxSide * kMaxSide)>;
  const CrewGround<plane_bits(kMaxSide * kMaxSide)> ground(b.edges, b.width);
  const Squares own(b.own), closed(b.closed), way = ground.all - closed;
  Squares side[4];
  ground.beside(own, side);
  const Squares stepped = ground.stepped(own, way), wide = ground.widened(own);
  const Squares strong = own.where([&](int i) { return b.army[static_cast<std::size_t>(i)] > 1; });
  int members = 0, most = -1;
  for (int i = 0; i < b.squares; ++i) {
    const int x = i % b.width, y = i / b.width;
    const auto mine = [&](int dx, int dy) { return b.has(b.own, x + dx, y + dy); };
    const auto army = [&](int square) { return b.army[static_cast<std::size_t>(square)]; };
    CHECK(side[0].has(i) == mine(0, 1) && side[1].has(i) == mine(0, -1));
    CHECK(side[2].has(i) == mine(1, 0) && side[3].has(i) == mine(-1, 0));
    const bool next = mine(0, 0) || mine(0, 1) || mine(0, -1) || mine(1, 0) || mine(-1, 0);
    CHECK(stepped.has(i) == (next && !b.has(b.closed, x, y)));
    CHECK(wide.has(i) == (next || mine(1, 1) || mine(1, -1) || mine(-1, 1) || mine(-1, -1)));
    CHECK(strong.has(i) == (mine(0, 0) && army(i) > 1));
    CHECK(Squares::only(i).nth(0) == i);
    if (!mine(0, 0)) continue;
    CHECK(own.nth(members++) == i);
    if (most < 0 || army(i) > army(most)) most = i;
  }
  CHECK(own.count() == members && own.most(b.army.data()) == most);
  CHECK((wide - ground.all).empty() && (side[0] | side[1] | side[2] | side[3]).count() <= b.squares);
}

// Cities of owners and of nobody, generals among the ground, and armies that have no room left.
void growing(const Ground& b) {
  std::uint64_t built[Edges::kWords] = {}, others[Edges::kWords] = {};
  for (int i = 0; i < b.words; ++i) {
    built[i] = source() & source() & b.edges.all[i];
    others[i] = source() & ~b.own[i] & b.edges.all[i];
  }
  for (const auto which : {Recruits::kBuilt, Recruits::kNotBuilt, Recruits::kAll})
    for (const int most_free : {0, 40}) {
      Recruits recruits;
      recruits.which = which;
      recruits.own[recruits.owners++] = b.own;
      recruits.own[recruits.owners++] = others;
      recruits.built = built;
      recruits.mark[recruits.marks++] = b.squares / 2;
      recruits.most_free = most_free;
      auto army = b.army;
      for (auto& a : army) a = static_cast<std::uint16_t>(source() % 4 == 0 ? 65535 - source() % 2 : source() % 80);
      const auto before = army;
      auto plain = army;
      auto same = recruits;
      grow_squares(army.data(), b.squares, b.words, recruits);
      grow_squares_plain(plain.data(), b.squares, b.words, same);
      CHECK(army == plain);
      int grown[2] = {};
      for (int i = 0; i < b.squares; ++i) {
        const bool city = built[i >> 6] >> (i & 63) & 1, ours = b.own[i >> 6] >> (i & 63) & 1;
        const bool theirs = others[i >> 6] >> (i & 63) & 1, counts = city || i == b.squares / 2;
        const int here = before[static_cast<std::size_t>(i)];
        bool more = city && here < most_free;
        if (ours || theirs) more = here < 65535 && (which == Recruits::kAll || (which == Recruits::kBuilt) == counts);
        CHECK(army[static_cast<std::size_t>(i)] == here + more);
        if (ours || theirs) grown[theirs] += more;
      }
      for (int k = 0; k < 2; ++k) CHECK(recruits.grown[k] == grown[k] && same.grown[k] == grown[k]);
    }
}

// Every action is allowed exactly when it is among the legal ones, in every size a board comes in.
void telling() {
  for (const auto& [side, players, preset] : {std::tuple{5, 2, 2}, {12, 2, 1}, {17, 3, 0}, {20, 2, 2}, {25, 8, 2}}) {
    const OptionValues values = {
        {"width", side}, {"height", side - 1}, {"players", players}, {"preset", preset}, {"start_army", 60}};
    const auto options = read_options<Generals>(values);
    with_type<Generals>(options, [&](auto type) {
      using G = typename decltype(type)::type;
      G game;
      game.reset(options, 3);
      Random random(1, 2);
      for (int turn = 0; turn < 400 && !game.over(); ++turn) {
        BitSet<G::kActions> legal;
        game.legal(options, legal);
        int wrong = 0;
        for (int a = -3; a < G::actions(options) + 3; ++a)
          wrong += game.allows(options, a) != (a >= 0 && a < G::actions(options) && legal.has(a));
        CHECK(wrong == 0);
        for (int a = G::actions(options); a < G::kActions; ++a) wrong += legal.has(a);
        CHECK(wrong == 0);
        const int kind = turn % 4;
        const int action = kind == 0 ? random_action(legal, random) : game.bot(options, kind, random);
        CHECK(legal.has(action));
        Report report;
        game.apply(options, action, report);
      }
      return 0;
    });
  }
}

}  // namespace

int main() {
  for (int width = 4; width <= kMaxSide; ++width)
    for (const int height : {4, 7, 16, 19, 32}) {
      const Ground board(width, height);
      widening(board);
      moving(board);
      thinking(board);
      growing(board);
    }
  telling();
  return 0;
}
