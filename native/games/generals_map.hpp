// Generals: how a map is made. All ground hangs together, generals are far apart by the way armies walk, and
// no one starts with much less room, or much further from a city, than another.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "generals_facts.hpp"

namespace playmill {

template <int kSide, int kPlayers>
struct GeneralsMap {
  using Options = GeneralsOptions;
  static constexpr int kSquares = kSide * kSide;
  using Plane = BitSet<plane_bits(kSquares)>;

  Plane mountain, city;
  std::uint16_t general[kPlayers] = {};
  std::uint16_t city_army[kSquares / 5 + 1] = {};  // in the order of their squares

  // The map of the game of that seed: one of its own, or of options.maps the one with its number.
  PM_FN void draw_game(const Options& o, std::uint64_t seed) {
    draw(o, o.maps == 0 ? seed : numbered_seed(number(o, seed)));
  }
  PM_FN static std::uint32_t number(const Options& o, std::uint64_t seed) {
    return Random(seed, 0).below(static_cast<std::uint32_t>(o.maps));
  }

  // Makes the maps of options.maps, and has the options point at them; whoever plays keeps what is returned.
  static Prepared prepare(Options& o);

 private:
  PM_FN static std::uint64_t numbered_seed(std::uint64_t number) { return mix64(0x6d617073, number); }
  PM_FN void draw(const Options& o, std::uint64_t seed);
  PM_FN Plane ground(const Options& o) const;
  PM_FN static int any_of(const Plane& plane, Random& random);
  // How far apart generals are asked to be at most.
  PM_FN static int room_of(const Options& o, int width, int height) {
    return (width + height) / (o.players == 2 ? 2 : 3);
  }
  PM_FN int draw_terrain(const Options& o, Random& random);
  PM_FN bool place_generals(const Options& o, Random& random, int distance, bool fair);
  PM_FN void place_cities(const Options& o, Random& random);
};

template <int kSide, int kPlayers>
PM_APART PM_FN void GeneralsMap<kSide, kPlayers>::draw(const Options& o, std::uint64_t seed) {
  // Fair and far apart first; what cannot be had is asked for less. An open board has room for everybody.
  constexpr int kFairMaps = 12, kMaps = 24, kPicks = 8;
  *this = GeneralsMap();
  Random random(seed, 0);
  int room = room_of(o, o.width, o.height);
  int distance = o.distance < room ? o.distance : room;
  bool placed = false;
  for (int map = 0; !placed; ++map) {
    if (map < kMaps) {
      room = draw_terrain(o, random);
    } else {
      mountain.clear();
    }
    const int apart = distance < room ? distance : room;
    for (int pick = 0; !placed && pick < kPicks; ++pick) placed = place_generals(o, random, apart, map < kFairMaps);
    if (map >= kFairMaps && distance > 1) --distance;
  }
  place_cities(o, random);
}

template <int kSide, int kPlayers>
PM_FN auto GeneralsMap<kSide, kPlayers>::ground(const Options& o) const -> Plane {
  Plane out;
  for (int w = 0; w < Plane::kWords; ++w) out.word[w] = o.edges.all[w] & ~mountain.word[w];
  return out;
}

template <int kSide, int kPlayers>
PM_FN int GeneralsMap<kSide, kPlayers>::any_of(const Plane& plane, Random& random) {
  return plane.nth(static_cast<int>(random.below(static_cast<std::uint32_t>(plane.count()))));
}

// Returns the room for generals. On a square board maps are square.
template <int kSide, int kPlayers>
PM_FN int GeneralsMap<kSide, kPlayers>::draw_terrain(const Options& o, Random& random) {
  const auto side = [&](int most) {
    if (o.smallest == 0) return most;
    if (o.largest > 0 && o.largest < most) most = o.largest;
    const int sizes = (most - o.smallest) / o.size_step + 1;
    return o.smallest + o.size_step * static_cast<int>(random.below(static_cast<std::uint32_t>(sizes)));
  };
  const int w = side(o.width), h = o.smallest > 0 && o.width == o.height ? w : side(o.height);
  mountain.clear();
  const auto share = static_cast<std::uint32_t>(o.mountains * 256 / 100);
  std::uint32_t bits = 0;
  for (int y = 0, square = 0; y < o.height; ++y)
    for (int x = 0; x < o.width; ++x, ++square, bits >>= 8) {
      if (square % 4 == 0) bits = random.next();
      if (x >= w || y >= h || (bits & 255) < share) mountain.add(square);
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
  for (int i = 0; i < Plane::kWords; ++i) mountain.word[i] = o.edges.all[i] & ~best.word[i];
  return room_of(o, w, h);
}

template <int kSide, int kPlayers>
PM_APART PM_FN bool GeneralsMap<kSide, kPlayers>::place_generals(const Options& o, Random& random, int distance,
                                                                 bool fair) {
  const Plane open = ground(o);
  // Where much more is closed off than was asked for it is no map.
  if (o.smallest == 0 && 100 * open.count() < o.width * o.height * (100 - o.mountains) * 6 / 10) return false;
  Plane left = open;
  int least = 0, most = 0;  // ground near a general
  for (int s = 0; s < o.players; ++s) {
    if (left.empty()) return false;
    general[s] = static_cast<std::uint16_t>(any_of(left, random));
    Plane reached;
    reached.add(general[s]);
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
  return true;
}

template <int kSide, int kPlayers>
PM_FN void GeneralsMap<kSide, kPlayers>::place_cities(const Options& o, Random& random) {
  constexpr int kTries = 16, kSlack = 3;
  const Plane open = ground(o);
  Plane free = open;
  for (int s = 0; s < o.players; ++s) free.remove(general[s]);
  // Of the part of the board that is used.
  const int area = o.smallest == 0 ? o.width * o.height : open.count() * 100 / (100 - o.mountains);
  int wanted = (area * o.cities + 500) / 1000;
  if (const int room = free.count() / 2; wanted > room) wanted = room;
  if (wanted == 0) return;
  for (int tries = 0; tries < kTries; ++tries) {
    city.clear();
    for (int i = 0; i < wanted; ++i) city.add(any_of(free - city, random));
    int least = 0, most = 0;  // steps from a general to its nearest city
    for (int s = 0; s < o.players; ++s) {
      Plane reached;
      reached.add(general[s]);
      int steps = 0;
      for (; (reached & city).empty(); ++steps) reached = stepped(reached, open, o.width, o.edges);
      least = s == 0 || steps < least ? steps : least;
      most = steps > most ? steps : most;
    }
    if (most - least <= kSlack) break;
  }
  for (int i = 0; i < wanted; ++i) {
    const auto more = random.below(static_cast<std::uint32_t>(o.city_army_spread + 1));
    city_army[i] = static_cast<std::uint16_t>(o.city_army + static_cast<int>(more));
  }
}

template <int kSide, int kPlayers>
Prepared GeneralsMap<kSide, kPlayers>::prepare(Options& o) {
  if (o.maps == 0) return {};
  static std::mutex mutex;
  static std::map<std::vector<int>, std::weak_ptr<std::vector<GeneralsMap>>> known;
  std::vector<int> key;
  for (const auto& option : GeneralsFacts::kOptions) key.push_back(o.*(option.member));
  const std::lock_guard lock(mutex);
  std::shared_ptr<std::vector<GeneralsMap>> maps = known[key].lock();
  if (maps == nullptr) {
    maps = std::make_shared<std::vector<GeneralsMap>>(static_cast<std::size_t>(o.maps));
    for (std::size_t i = 0; i < maps->size(); ++i) (*maps)[i].draw(o, numbered_seed(i));
    known[key] = maps;
  }
  o.prepared = maps->data();
  return {maps, maps->size() * sizeof(GeneralsMap)};
}

}  // namespace playmill
