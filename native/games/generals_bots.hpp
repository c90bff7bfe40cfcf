// Generals: scripted players. They know what their seat remembers, and nothing else.
#pragma once

#include "generals.hpp"

namespace playmill {

// What a seat knows, as a board to plan on. Own squares and those around them are in sight: what stands there is read
// from the board itself.
template <int kSide, int kPlayers>
struct GeneralsBoard<kSide, kPlayers>::Scout {
  using Squares = CrewPlane<Plane::kSize>;

  const GeneralsBoard& board;
  const Options& o;
  int seat;
  CrewGround<Plane::kSize> ground;
  Squares own, enemy, explored, city;
  Squares open;       // not known to be a mountain, nor an obstacle
  Squares free_city;  // nobody's
  int general = -1;   // an enemy's, where known

  PM_FN Scout(const GeneralsBoard& from, const Options& options)
      : board(from),
        o(options),
        seat(from.seat_),
        ground(options.edges, options.width),
        own(from.owner_[seat].word),
        explored(from.memory_[seat].explored.word),
        city(from.memory_[seat].city.word) {
    const Squares mountain(board.mountain_.word);
    for (int k = 0; k + 1 < players(o); ++k) enemy = enemy | Squares(board.memory_[seat].others[k].word);
    free_city = city - own - enemy;
    open = ground.all - (mountain & explored);
    if (o.fog_obstacles == kYes) open = open - ((mountain | Squares(board.city_.word)) - explored);
    for (int s = 0; s < players(o); ++s)
      if (s != seat && board.knows_general(seat, s)) general = board.general_[s];
  }

  // One of these directions, a bit each; each as likely as any other.
  PM_FN static int any_of(unsigned directions, Random& random) {
    return nth_bit(directions, static_cast<int>(random.below(static_cast<std::uint32_t>(popcount64(directions)))));
  }

  // Cities that are nobody's are in the way unless they are targets.
  PM_FN Squares way_to(const Squares& targets) const { return (open - free_city) | targets; }

  // The largest own army that can walk to one of some targets.
  struct March {
    int leader = -1;  // its square
    int steps = 0;    // to the nearest
    Squares nearer;   // squares with fewer steps
  };

  PM_FN March march(const Squares& targets) const {
    const Squares way = way_to(targets);
    Squares able = own;
    for (;;) {
      March found;
      found.leader = able.most(board.army_);
      if (found.leader < 0 || board.army_[found.leader] < 2) return March{};
      found.nearer = targets;
      for (;;) {
        const Squares next = ground.stepped(found.nearer, way);
        ++found.steps;
        if (next.has(found.leader)) return found;
        if ((next - found.nearer).empty()) break;
        found.nearer = next;
      }
      able = able & found.nearer;  // no way to it: once more, among those that have one
    }
  }

  // Its move one step on; a pass where nobody goes.
  PM_FN int walk(const March& found, Random& random) const {
    if (found.leader < 0) return pass(o);
    unsigned directions = 0;
    PM_UNROLL
    for (int d = 0; d < 4; ++d) {
      const int to = neighbour(o, found.leader, d);
      if (to >= 0 && found.nearer.has(to)) directions |= 1u << d;
    }
    return found.leader * 8 + any_of(directions, random);
  }

  // Moves into any of `goals`, squares by direction: one of them, each as likely as any other, or a pass.
  PM_FN int enter(const Squares (&squares)[4], const Squares& goals, Random& random) const {
    int count[4], all = 0;
    PM_UNROLL
    for (int d = 0; d < 4; ++d) all += count[d] = (squares[d] & goals).count();
    if (all == 0) return pass(o);
    int left = static_cast<int>(random.below(static_cast<std::uint32_t>(all))), direction = -1, n = 0;
    Squares chosen;
    PM_UNROLL
    for (int d = 0; d < 4; ++d) {
      if (direction < 0 && left < count[d]) {
        direction = d;
        chosen = squares[d];
        n = left;
      }
      left -= count[d];
    }
    return beyond(o, (chosen & goals).nth(n), direction ^ 1) * 8 + direction;
  }

  // The most worthwhile capture there is now: a general before enemies before cities before empty land; or a pass.
  PM_FN int capture(Random& random) const {
    const Squares foreign = ground.all - own - Squares(board.mountain_.word);
    const Squares ready = ground.stepped(foreign, own).where([&](int square) { return board.army_[square] > 1; });
    Squares taken[4], any;
    ground.beside(ready, taken);
    PM_UNROLL
    for (int d = 0; d < 4; ++d) {
      taken[d] = (taken[d] & foreign).where([&](int square) {
        return board.army_[beyond(o, square, d ^ 1)] - 1 > board.army_[square];
      });
      any = any | taken[d];
    }
    if (general >= 0 && any.has(general)) return enter(taken, Squares::only(general), random);
    const Squares best = !(any & enemy).empty() ? enemy : !(any & city).empty() ? city : any;
    return enter(taken, best, random);
  }

  // Grows like the expander. Where the general is known and the largest army is enough for it, that army goes;
  // before, every other tick a large one walks into the unknown, past the enemy's land where there is any.
  PM_FN int hunt(Random& random) const {
    constexpr int kOpening = 50, kLarge = 30;
    if (general < 0 && (board.tick_ < kOpening || board.tick_ % 2 == 0)) return pass(o);
    const March found = march(general >= 0 ? Squares::only(general) : unknown_land());
    const int needed = general >= 0 ? board.known_army(seat, general) + found.steps : kLarge;
    return found.leader >= 0 && board.army_[found.leader] > needed ? walk(found, random) : pass(o);
  }

  // What was never seen, first what is nearest to the enemy's land.
  PM_FN Squares unknown_land() const {
    const Squares unknown = open - explored;
    if (enemy.empty()) return unknown;
    Squares near = ground.widened(enemy);
    for (int ring = 0; ring < 3; ++ring) {
      if (!(unknown & near).empty()) return unknown & near;
      near = ground.widened(ground.widened(near));
    }
    return unknown;
  }

  // Enemies near the own general are met with the largest army at hand.
  PM_FN int defend(Random& random) const {
    constexpr int kNear = 6;
    const Squares seen = enemy & Squares(board.memory_[seat].sight.word);
    if (seen.empty()) return pass(o);
    Squares near = Squares::only(board.general_[seat]);
    const Squares way = way_to(near);
    for (int k = 0; k < kNear; ++k) near = ground.stepped(near, way);
    const int worst = (seen & near).most(board.army_);
    return worst >= 0 && board.army_[worst] > 1 ? walk(march(Squares::only(worst)), random) : pass(o);
  }

  // What all do when there is nothing else: take something, or walk to where something is to take.
  PM_FN int expand(int taken, Random& random) const {
    return taken != pass(o) ? taken : walk(march(open - own - free_city), random);
  }

  PM_FN int move(int kind, Random& random) const {
    const int taken = capture(random);
    const bool wins = kind == kHunter && taken != pass(o) && beyond(o, taken / 8, taken % 4) == general;
    int found = pass(o);
    if (kind == kHunter && !wins) found = hunt(random);
    if (kind == kDefender) found = defend(random);
    return found != pass(o) ? found : expand(taken, random);
  }
};

template <int kSide, int kPlayers>
PM_APART PM_FN int GeneralsBoard<kSide, kPlayers>::bot(const Options& o, int kind, Random& random) const {
  return Scout(*this, o).move(kind, random);
}

}  // namespace playmill
