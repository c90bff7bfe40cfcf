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

#if defined(__CUDA_ARCH__)
#define look_from look_plain
#define keep_numbers keep_numbers_plain
#define write_view write_view_plain
#else
void look_from(const std::uint64_t* own, int width, const Edges& edges, int squares, int words, const Look& to);
void keep_numbers(const std::uint16_t* now, const std::uint64_t* sight, int squares, std::uint16_t* last);
std::uint8_t* write_view(const View& view, int squares, int words, std::uint8_t* out);
#endif

}  // namespace playmill
