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

// Whether bit 7 of the bytes of x (numbers 0 to 3) and y (4 to 7) that `which` names is set: as whole bytes.
__device__ inline std::uint32_t top_bits(std::uint32_t x, std::uint32_t y, std::uint32_t which) {
#ifdef __CUDA_ARCH__
  std::uint32_t out;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(out) : "r"(x), "r"(y), "r"(which | 0x8888u));
  return out;
#else
  std::uint32_t out = 0;
  for (int k = 0; k < 4; ++k) {
    const unsigned byte = which >> 4 * k & 7;
    if ((byte < 4 ? x : y) >> (8 * (byte & 3) + 7) & 1) out |= 0xffu << 8 * k;
  }
  return out;
#endif
}

struct alignas(16) Sixteen {
  std::uint32_t word[4];
};

// Numbers 16 i to 16 i + 15 of those `from` has, where `which` has their bits, over what `to` holds.
__device__ inline void merge_numbers(const std::uint16_t* from, int i, std::uint32_t which, Sixteen (&to)[2]) {
  const Sixteen numbers[2] = {reinterpret_cast<const Sixteen*>(from)[2 * i],
                              reinterpret_cast<const Sixteen*>(from)[2 * i + 1]};
  // Bits of the lower eight in byte 0, of the upper eight in byte 1.
  PM_UNROLL
  for (int k = 0; k < 8; ++k)
    to[k / 4].word[k % 4] |= numbers[k / 4].word[k % 4] &
                             top_bits(which << (7 - 2 * (k % 4)), which << (6 - 2 * (k % 4)), k < 4 ? 0x4400 : 0x5511);
}

// Squares 16 i to 16 i + 15, where sixteen numbers and sixteen ages lie on whole lines of 16 bytes.
__device__ inline void write_sixteen(const View& view, int i, std::uint32_t seen, std::uint32_t dim,
                                     std::uint8_t* numbers, std::uint8_t* ages) {
  Sixteen found[2] = {}, old;
  PM_UNROLL
  for (int k = 0; k < 4; ++k) old.word[k] = as_bytes(~(seen | dim) >> 4 * k) * 255u;
  merge_numbers(view.now, i, seen, found);
  if (dim != 0) {
    merge_numbers(view.last, i, dim, found);
    const Sixteen age = reinterpret_cast<const Sixteen*>(view.age)[i];
    PM_UNROLL
    for (int k = 0; k < 4; ++k) old.word[k] |= age.word[k] & as_bytes(dim >> 4 * k) * 255u;
  }
  reinterpret_cast<Sixteen*>(numbers)[2 * i] = found[0];
  reinterpret_cast<Sixteen*>(numbers)[2 * i + 1] = found[1];
  reinterpret_cast<Sixteen*>(ages)[i] = old;
}

// Two squares, or the last: numbers and ages at any byte.
__device__ inline void write_two(const View& view, int i, int squares, std::uint8_t* numbers, std::uint8_t* ages) {
  PM_UNROLL
  for (int k = 2 * i; k < 2 * i + 2; ++k) {
    if (k >= squares) return;
    const bool seen = bit_of(view.sight, k), dim = !seen && bit_of(view.explored, k);
    const unsigned number = seen ? view.now[k] : dim ? view.last[k] : 0;
    numbers[2 * k] = static_cast<std::uint8_t>(number);
    numbers[2 * k + 1] = static_cast<std::uint8_t>(number >> 8);
    ages[k] = static_cast<std::uint8_t>(seen ? 0 : dim ? view.age[k] : 255);
  }
}

// A hand has sixteen squares of every plane. Where the row has them on whole lines, their numbers and ages too.
__device__ inline std::uint8_t* write_view(const View& view, int squares, int, std::uint8_t* out) {
  const int bytes = (squares + 7) / 8, planes = (6 + view.planes) * bytes;
  std::uint8_t *numbers = out + planes, *ages = numbers + 2 * squares;
  const auto at_even = [](const void* p, unsigned by) { return reinterpret_cast<std::uintptr_t>(p) % by == 0; };
  const bool paired = at_even(out, 2) && bytes % 2 == 0, lined = at_even(numbers, 16) && squares % 16 == 0;
  const auto write_planes = [&](int i, auto put) {
    const auto at = [i](const std::uint64_t* plane) -> std::uint32_t {
      return reinterpret_cast<const std::uint16_t*>(plane)[i];
    };
    std::uint8_t* to = out + 2 * i;
    const auto next = [&](std::uint32_t sixteen) {
      put(to, sixteen);
      to += bytes;
    };
    const std::uint32_t sight = at(view.sight), explored = at(view.explored), closed = at(view.closed);
    next(sight);
    next(explored);
    next(at(view.own));
    PM_UNROLL
    for (int k = 0; k < view.planes; ++k) next(at(view.last_planes[k]));
    std::uint32_t marks = 0;
    PM_UNROLL
    for (int k = 0; k < view.marks; ++k)
      if (view.mark[k] >> 4 == i) marks |= 1u << (view.mark[k] & 15);
    next(marks);
    next(closed & explored);
    next(view.built != nullptr ? (closed | at(view.built)) & ~explored : 0);
    if (lined) write_sixteen(view, i, sight, explored & ~sight, numbers, ages);
  };
  if (paired) {
    Crew::share((bytes + 1) / 2, [&](int i) {
      write_planes(i, [](std::uint8_t* to, std::uint32_t sixteen) {
        *reinterpret_cast<std::uint16_t*>(to) = static_cast<std::uint16_t>(sixteen);
      });
    });
  } else {
    Crew::share((bytes + 1) / 2, [&](int i) {
      write_planes(i, [&](std::uint8_t* to, std::uint32_t sixteen) {
        to[0] = static_cast<std::uint8_t>(sixteen);
        if (bytes - 2 * i > 1) to[1] = static_cast<std::uint8_t>(sixteen >> 8);
      });
    });
  }
  if (!lined) Crew::share((squares + 1) / 2, [&](int i) { write_two(view, i, squares, numbers, ages); });
  return ages + squares;
}
#else
void look_from(const std::uint64_t* own, int width, const Edges& edges, int squares, int words, const Look& to);
void keep_numbers(const std::uint16_t* now, const std::uint64_t* sight, int squares, std::uint16_t* last);
std::uint8_t* write_view(const View& view, int squares, int words, std::uint8_t* out);
#endif

}  // namespace playmill
