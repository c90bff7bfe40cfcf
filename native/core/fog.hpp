// What a player in fog knows of a board: planes and numbers as they were when last seen. Of numbers and ages only those
// of faded squares are kept, seen before and not now: in sight the board has them, and of the rest nothing is known.
#pragma once

#include "grid.hpp"

namespace playmill {

// Where a player's memory lies, and what the board shows now.
struct Look {
  std::uint64_t *sight, *explored;
  std::uint8_t* age;
  int planes = 0;
  std::uint64_t* last[kMostPlanes];
  const std::uint64_t* now[kMostPlanes];
};

// What a player knows, to be written into a row: sight, explored, own, the planes remembered, marks, what is closed and
// explored, what is closed or built and not explored (nothing where `built` is not given), numbers, ages.
struct View {
  const std::uint64_t *sight, *explored, *own, *closed, *built = nullptr;
  int planes = 0, marks = 0;
  const std::uint64_t* last_planes[kMostPlanes];
  int mark[kMostPlanes];  // squares, or -1
  const std::uint16_t *now, *last;
  const std::uint8_t* age;
};

// Takes over what is in sight of `own` squares. What was in sight and is not any more has age 1, what faded before is a
// tick older.
PM_FN void look_plain(const std::uint64_t* own, int width, const Edges& edges, int, int words, const Look& to) {
  std::uint64_t sight[Edges::kWords];
  widen_plain(own, width, edges, words, sight);
  for (int w = 0; w < words; ++w) {
    to.explored[w] |= sight[w];
    for (std::uint64_t faded = to.explored[w] & ~sight[w]; faded != 0; faded &= faded - 1) {
      const int bit = lowest_bit(faded);
      std::uint8_t& age = to.age[64 * w + bit];
      age = static_cast<std::uint8_t>(to.sight[w] >> bit & 1 ? 1 : age + (age < 255));
    }
    to.sight[w] = sight[w];
    for (int k = 0; k < to.planes; ++k) to.last[k][w] = (to.last[k][w] & ~sight[w]) | (to.now[k][w] & sight[w]);
  }
}

// Keeps the numbers in sight: before squares may fade.
PM_FN void keep_numbers_plain(const std::uint16_t* now, const std::uint64_t* sight, int squares, std::uint16_t* last) {
  for (int i = 0; i < squares; ++i)
    if (sight[i >> 6] >> (i & 63) & 1) last[i] = now[i];
}

// Returns where the row goes on. Whole planes are written where there is room: what follows overwrites what lies beyond
// the last square.
PM_FN std::uint8_t* write_view_plain(const View& view, int squares, int words, std::uint8_t* out) {
  const int bytes = (squares + 7) / 8;
  const auto put = [&](const std::uint64_t* plane) {
    memcpy(out, plane, static_cast<std::size_t>(squares < 64 ? bytes : 8 * words));
    out += bytes;
  };
  put(view.sight);
  put(view.explored);
  put(view.own);
  for (int k = 0; k < view.planes; ++k) put(view.last_planes[k]);
  std::uint64_t marks[Edges::kWords] = {}, known[Edges::kWords], hidden[Edges::kWords];
  for (int k = 0; k < view.marks; ++k)
    if (view.mark[k] >= 0) marks[view.mark[k] >> 6] |= 1ull << (view.mark[k] & 63);
  for (int w = 0; w < words; ++w) {
    known[w] = view.closed[w] & view.explored[w];
    hidden[w] = view.built != nullptr ? (view.closed[w] | view.built[w]) & ~view.explored[w] : 0;
  }
  put(marks);
  put(known);
  put(hidden);
  std::uint8_t* ages = out + 2 * squares;
  memset(out, 0, static_cast<std::size_t>(2 * squares));
  memset(ages, 255, static_cast<std::size_t>(squares));
  for (int w = 0; w < words; ++w)
    for (std::uint64_t left = view.explored[w]; left != 0; left &= left - 1) {
      const int i = 64 * w + lowest_bit(left);
      const bool seen = view.sight[w] >> (i & 63) & 1;
      const std::uint16_t number = seen ? view.now[i] : view.last[i];
      memcpy(out + 2 * i, &number, sizeof number);
      ages[i] = seen ? 0 : view.age[i];
    }
  return ages + squares;
}

#ifdef PM_WARP
// By a crew, as in grid.hpp.
__device__ inline void look_from(const std::uint64_t* own, int width, const Edges& edges, int, int words,
                                 const Look& to) {
  const int w = Crew::hand();
  const std::uint32_t sight = widened_word(own, width, edges, words);
  std::uint32_t faded = 0, fresh = 0;
  if (w < 2 * words) {
    const auto at = [w](std::uint64_t* plane) -> std::uint32_t& { return reinterpret_cast<std::uint32_t*>(plane)[w]; };
    at(to.explored) |= sight;
    faded = at(to.explored) & ~sight;
    fresh = faded & at(to.sight);
    at(to.sight) = sight;
    for (int k = 0; k < to.planes; ++k)
      at(to.last[k]) = (at(to.last[k]) & ~sight) | (word_of(to.now[k], w, 2 * words) & sight);
  }
  for (unsigned left = __ballot_sync(~0u, faded != 0); left != 0; left &= left - 1) {
    const int g = __ffs(static_cast<int>(left)) - 1;
    const std::uint32_t all = __shfl_sync(~0u, faded, g), first = __shfl_sync(~0u, fresh, g);
    std::uint8_t& age = to.age[32 * g + w];
    if (all >> w & 1) age = static_cast<std::uint8_t>(first >> w & 1 ? 1 : age + (age < 255));
  }
  Crew::join();
}

__device__ inline void keep_numbers(const std::uint16_t* now, const std::uint64_t* sight, int squares,
                                    std::uint16_t* last) {
  Crew::share(squares, [=](int i) {
    if (bit_of(sight, i)) last[i] = now[i];
  });
  Crew::join();
}

// Rows begin at any byte: squares are written in pairs of bytes where that is allowed.
__device__ inline std::uint8_t* write_view(const View& view, int squares, int words, std::uint8_t* out) {
  const int bytes = (squares + 7) / 8;
  const bool paired = (reinterpret_cast<std::uintptr_t>(out) | static_cast<unsigned>(bytes)) % 2 == 0;
  const auto put = [paired](std::uint8_t* to, int left, std::uint32_t two) {
    if (paired) {
      *reinterpret_cast<std::uint16_t*>(to) = static_cast<std::uint16_t>(two);
    } else {
      to[0] = static_cast<std::uint8_t>(two);
      if (left > 1) to[1] = static_cast<std::uint8_t>(two >> 8);
    }
  };
  // A hand has sixteen squares of every plane.
  Crew::share((bytes + 1) / 2, [&](int i) {
    const auto at = [i](const std::uint64_t* plane) -> std::uint32_t {
      return reinterpret_cast<const std::uint16_t*>(plane)[i];
    };
    std::uint8_t* to = out + 2 * i;
    const auto next = [&](std::uint32_t sixteen) {
      put(to, bytes - 2 * i, sixteen);
      to += bytes;
    };
    const std::uint32_t explored = at(view.explored), closed = at(view.closed);
    next(at(view.sight));
    next(explored);
    next(at(view.own));
    for (int k = 0; k < view.planes; ++k) next(at(view.last_planes[k]));
    std::uint32_t marks = 0;
    for (int k = 0; k < view.marks; ++k)
      if (view.mark[k] >> 4 == i) marks |= 1u << (view.mark[k] & 15);
    next(marks);
    next(closed & explored);
    next(view.built != nullptr ? (closed | at(view.built)) & ~explored : 0);
  });
  out += (6 + view.planes) * bytes;
  std::uint8_t* ages = out + 2 * squares;
  const int w = Crew::hand();
  const bool faded = __any_sync(~0u, (word_of(view.explored, w, 2 * words) & ~word_of(view.sight, w, 2 * words)) != 0);
  // Two squares at a time.
  Crew::share((squares + 1) / 2, [&](int i) {
    const auto bits = [i](const std::uint64_t* plane) -> std::uint32_t {
      return reinterpret_cast<const std::uint32_t*>(plane)[i >> 4] >> 2 * (i & 15) & 3u;
    };
    const auto wide = [](std::uint32_t two) { return (two & 1) * 0xffffu | (two >> 1) * 0xffff0000u; };
    const auto bytes_of = [](std::uint32_t two) { return (two & 1) * 0xffu | (two >> 1) * 0xff00u; };
    const std::uint32_t seen = bits(view.sight), dim = faded ? bits(view.explored) & ~seen : 0;
    std::uint32_t numbers = reinterpret_cast<const std::uint32_t*>(view.now)[i] & wide(seen);
    std::uint32_t old = bytes_of(~(seen | dim) & 3u);
    if (dim != 0) {
      numbers |= reinterpret_cast<const std::uint32_t*>(view.last)[i] & wide(dim);
      old |= reinterpret_cast<const std::uint16_t*>(view.age)[i] & bytes_of(dim);
    }
    const int left = squares - 2 * i;
    put(out + 4 * i, 2, numbers);
    if (left > 1) put(out + 4 * i + 2, 2, numbers >> 16);
    if (paired && left > 1) {
      put(ages + 2 * i, left, old);
    } else {
      ages[2 * i] = static_cast<std::uint8_t>(old);
      if (left > 1) ages[2 * i + 1] = static_cast<std::uint8_t>(old >> 8);
    }
  });
  return ages + squares;
}
#else
void look_from(const std::uint64_t* own, int width, const Edges& edges, int squares, int words, const Look& to);
void keep_numbers(const std::uint16_t* now, const std::uint64_t* sight, int squares, std::uint16_t* last);
std::uint8_t* write_view(const View& view, int squares, int words, std::uint8_t* out);
#endif

}  // namespace playmill
