// Generals: how a map is made. All ground hangs together, generals are far apart by the way armies walk, and
// no one starts with much less room, or much further from a city, than another.
#pragma once

#include "generals.hpp"

namespace playmill {

template <int kSide, int kPlayers>
PM_FN void GeneralsBoard<kSide, kPlayers>::make_map(const Options& o, std::uint64_t seed) {
  // Fair and far apart first; what cannot be had is asked for less. An open board has room for everybody.
  constexpr int kFairMaps = 12, kMaps = 24, kPicks = 8;
  Random random(seed, 0);
  const int room = (o.width + o.height) / (o.players == 2 ? 2 : 3);
  int distance = o.distance < room ? o.distance : room;
  bool placed = false;
  for (int map = 0; !placed; ++map) {
    if (map < kMaps) {
      draw_terrain(o, random);
    } else {
      mountain_.clear();
    }
    for (int pick = 0; !placed && pick < kPicks; ++pick) placed = place_generals(o, random, distance, map < kFairMaps);
    if (map >= kFairMaps && distance > 1) --distance;
  }
  place_cities(o, random);
}

template <int kSide, int kPlayers>
PM_FN auto GeneralsBoard<kSide, kPlayers>::ground(const Options& o) const -> Plane {
  Plane out;
  for (int w = 0; w < Plane::kWords; ++w) out.word[w] = o.edges.all[w] & ~mountain_.word[w];
  return out;
}

template <int kSide, int kPlayers>
PM_FN int GeneralsBoard<kSide, kPlayers>::any_of(const Plane& plane, Random& random) {
  return plane.nth(static_cast<int>(random.below(static_cast<std::uint32_t>(plane.count()))));
}

template <int kSide, int kPlayers>
PM_FN void GeneralsBoard<kSide, kPlayers>::draw_terrain(const Options& o, Random& random) {
  const auto side = [&](int most) {
    if (o.smallest == 0) return most;
    return o.smallest + static_cast<int>(random.below(static_cast<std::uint32_t>(most - o.smallest + 1)));
  };
  const int w = side(o.width), h = side(o.height);
  mountain_.clear();
  const auto share = static_cast<std::uint32_t>(o.mountains * 256 / 100);
  std::uint32_t bits = 0;
  for (int y = 0, square = 0; y < o.height; ++y)
    for (int x = 0; x < o.width; ++x, ++square, bits >>= 8) {
      if (square % 4 == 0) bits = random.next();
      if (x >= w || y >= h || (bits & 255) < share) mountain_.add(square);
    }
  // The largest piece of ground stays; pockets that cannot be reached are filled up.
  Plane left = ground(o), best;
  const int all = left.count();
  for (int most = 0; !left.empty() && 2 * most < all;) {
    Plane piece;
    piece.add(left.nth(0));
    for (Plane before; !(before == piece);) {
      before = piece;
      piece = stepped(piece, left, o.width, o.edges);
    }
    if (const int size = piece.count(); size > most) {
      most = size;
      best = piece;
    }
    left = left - piece;
  }
  for (int i = 0; i < Plane::kWords; ++i) mountain_.word[i] = o.edges.all[i] & ~best.word[i];
}

template <int kSide, int kPlayers>
PM_FN bool GeneralsBoard<kSide, kPlayers>::place_generals(const Options& o, Random& random, int distance, bool fair) {
  const Plane open = ground(o);
  // Where much more is closed off than was asked for it is no map.
  if (o.smallest == 0 && 100 * open.count() < squares(o) * (100 - o.mountains) * 6 / 10) return false;
  Plane left = open;
  int least = 0, most = 0;  // ground near a general
  for (int s = 0; s < o.players; ++s) {
    if (left.empty()) return false;
    general_[s] = static_cast<std::uint16_t>(any_of(left, random));
    Plane reached;
    reached.add(general_[s]);
    int near = 0;
    for (int step = 1; step < distance; ++step) {
      reached = stepped(reached, open, o.width, o.edges);
      if (step == (distance + 1) / 2) near = reached.count();
    }
    left = left - reached;
    least = s == 0 || near < least ? near : least;
    most = near > most ? near : most;
  }
  if (fair && 4 * most > 5 * least) return false;
  for (int s = 0; s < o.players; ++s) {
    owner_[s].add(general_[s]);
    army_[general_[s]] = static_cast<std::uint16_t>(o.start_army);
  }
  return true;
}

template <int kSide, int kPlayers>
PM_FN void GeneralsBoard<kSide, kPlayers>::place_cities(const Options& o, Random& random) {
  constexpr int kTries = 16, kSlack = 3;
  const Plane open = ground(o);
  Plane free = open;
  for (int s = 0; s < o.players; ++s) free.remove(general_[s]);
  // Of the part of the board that is used.
  const int area = o.smallest == 0 ? squares(o) : open.count() * 100 / (100 - o.mountains);
  int wanted = (area * o.cities + 500) / 1000;
  if (const int room = free.count() / 2; wanted > room) wanted = room;
  if (wanted == 0) return;
  for (int tries = 0; tries < kTries; ++tries) {
    city_.clear();
    for (int i = 0; i < wanted; ++i) city_.add(any_of(free - city_, random));
    int least = 0, most = 0;  // steps from a general to its nearest city
    for (int s = 0; s < o.players; ++s) {
      Plane reached;
      reached.add(general_[s]);
      int steps = 0;
      for (; (reached & city_).empty(); ++steps) reached = stepped(reached, open, o.width, o.edges);
      least = s == 0 || steps < least ? steps : least;
      most = steps > most ? steps : most;
    }
    if (most - least <= kSlack) break;
  }
  each_square(city_, [&](int square) {
    const auto more = random.below(static_cast<std::uint32_t>(o.city_army_spread + 1));
    army_[square] = static_cast<std::uint16_t>(o.city_army + static_cast<int>(more));
  });
}

}  // namespace playmill
