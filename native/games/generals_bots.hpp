// Generals: scripted players. They know what their seat remembers, and nothing else.
#pragma once

#include "generals.hpp"

namespace playmill {

// What a seat knows, as a board to plan on.
template <int kSide, int kPlayers>
struct GeneralsBoard<kSide, kPlayers>::Scout {
  static constexpr int kFar = 255;

  const GeneralsBoard& board;
  const Options& o;
  int seat;
  const Memory& mine;
  Plane own, enemy, free_city;  // free_city: nobody's
  Plane open;                   // not known to be a mountain, nor an obstacle
  int general = -1;             // an enemy's, where known

  PM_FN Scout(const GeneralsBoard& from, const Options& options)
      : board(from), o(options), seat(from.seat_), mine(from.memory_[from.seat_]), own(from.owner_[from.seat_]) {
    for (int k = 0; k + 1 < players(o); ++k) enemy = enemy | mine.others[k];
    free_city = mine.city - own - enemy;
    Plane closed = board.mountain_ & mine.explored;
    if (o.fog_obstacles == kYes) closed = closed | ((board.mountain_ | board.city_) - mine.explored);
    for (int w = 0; w < Plane::kWords; ++w) open.word[w] = o.edges.all[w] & ~closed.word[w];
    for (int s = 0; s < players(o); ++s)
      if (s != seat && board.knows_general(seat, s)) general = board.general_[s];
  }

  PM_FN int army(int square) const { return board.known_army(seat, square); }

  // Steps to the nearest of `targets` over open ground, kFar where there is no way; cities that are nobody's
  // are in the way unless they are targets.
  PM_APART PM_FN void distances(const Plane& targets, std::uint8_t* steps) const {
    for (int i = 0; i < squares(o); ++i) steps[i] = kFar;
    const Plane way = (open - free_city) | targets;
    Plane reached = targets, fresh = targets;
    for (int step = 0; step < kFar && !fresh.empty(); ++step) {
      each_square(fresh, [&](int square) { steps[square] = static_cast<std::uint8_t>(step); });
      const Plane next = stepped(reached, way, o.width, o.edges);
      fresh = next - reached;
      reached = reached | next;
    }
  }

  // The own square with the largest army that can walk to where `steps` leads, or -1; never `other`.
  PM_FN int strongest(const std::uint8_t* steps, int other = -1) const {
    int best = -1;
    each_square(own, [&](int square) {
      const bool can = square != other && army(square) > 1 && steps[square] != kFar && steps[square] > 0;
      if (can && (best < 0 || army(square) > army(best))) best = square;
    });
    return best;
  }

  // The move from `square` one step on; a pass where there is none.
  PM_FN int walk(int square, const std::uint8_t* steps, Random& random) const {
    int best = pass(o), found = 0;
    for (int d = 0; square >= 0 && d < 4; ++d) {
      const int to = neighbour(o, square, d);
      if (to < 0 || steps[to] >= steps[square] || board.mountain_.has(to)) continue;
      if (random.below(static_cast<std::uint32_t>(++found)) == 0) best = square * 8 + d;
    }
    return best;
  }

  // The largest own army walks a step nearer to the targets.
  PM_FN int advance(const Plane& targets, Random& random) const {
    std::uint8_t steps[kSquares];
    distances(targets, steps);
    return walk(strongest(steps), steps, random);
  }

  // The most worthwhile capture there is now: enemies before cities before empty land; or a pass.
  PM_APART PM_FN int capture(Random& random) const {
    int best = pass(o), most = 0, found = 0;
    each_square(own, [&](int square) {
      for (int d = 0; army(square) > 1 && d < 4; ++d) {
        const int to = neighbour(o, square, d);
        if (to < 0 || own.has(to) || board.mountain_.has(to) || army(square) - 1 <= army(to)) continue;
        const int worth = to == general ? 4 : enemy.has(to) ? 3 : mine.city.has(to) ? 2 : 1;
        if (worth < most) continue;
        if (worth > most) found = 0;
        most = worth;
        if (random.below(static_cast<std::uint32_t>(++found)) == 0) best = square * 8 + d;
      }
    });
    return best;
  }

  PM_APART PM_FN int expand(Random& random) const {
    const int taken = capture(random);
    return taken != pass(o) ? taken : advance(open - own - free_city, random);
  }

  // Grows like the expander. Where the general is known and the largest army is enough for it, that army goes;
  // before, every other tick a large one walks into the unknown, past the enemy's land where there is any.
  PM_FN int hunt(Random& random) const {
    constexpr int kOpening = 50, kLarge = 30;
    Plane targets;
    const int taken = capture(random);
    if (general >= 0) {
      if (taken != pass(o) && neighbour(o, taken / 8, taken % 4) == general) return taken;
      targets.add(general);
    } else {
      if (board.tick_ < kOpening || board.tick_ % 2 == 0) return expand(random);
      const Plane unknown = open - mine.explored;
      targets = unknown;
      for (int ring = 0; ring < 3 && !enemy.empty(); ++ring) {
        Plane near = enemy;
        for (int k = 0; k <= 2 * ring; ++k) near = widened(near, o.width, o.edges);
        targets = unknown & near;
        if (!targets.empty()) break;
        targets = unknown;
      }
    }
    std::uint8_t steps[kSquares];
    distances(targets, steps);
    const int leader = strongest(steps);
    const int enough = general >= 0 ? army(general) + steps[leader < 0 ? 0 : leader] : kLarge;
    const int move = leader >= 0 && army(leader) > enough ? walk(leader, steps, random) : pass(o);
    return move != pass(o) ? move : expand(random);
  }

  // Enemies near the own general are met with the largest army at hand; otherwise it grows.
  PM_FN int defend(Random& random) const {
    constexpr int kNear = 6;
    Plane home, threat;
    home.add(board.general_[seat]);
    std::uint8_t steps[kSquares];
    distances(home, steps);
    int worst = -1;
    each_square(enemy & mine.sight, [&](int square) {
      if (steps[square] <= kNear && army(square) > 1 && (worst < 0 || army(square) > army(worst))) worst = square;
    });
    if (worst < 0) return expand(random);
    threat.add(worst);
    const int move = advance(threat, random);
    return move != pass(o) ? move : expand(random);
  }
};

template <int kSide, int kPlayers>
PM_APART PM_FN int GeneralsBoard<kSide, kPlayers>::bot(const Options& o, int kind, Random& random) const {
  const Scout scout(*this, o);
  switch (kind) {
    case kHunter: return scout.hunt(random);
    case kDefender: return scout.defend(random);
    default: return scout.expand(random);
  }
}

}  // namespace playmill
