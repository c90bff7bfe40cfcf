// Planes over the squares of a board, numbered row by row without gaps: a bit a square in a BitSet, or a number
// a square. What touches every number is here; on the CPU it runs on whole vectors.
#pragma once

#include <cstdint>
#include <cstring>

#include "bits.hpp"
#include "crew.hpp"

namespace playmill {

inline constexpr int kMaxSide = 32;
inline constexpr int kMostPlanes = 8;  // of one kind on a board

// Bits of a plane with room for so many squares: whole vectors of eight words.
constexpr int plane_bits(int squares) { return (squares + 511) / 512 * 512; }

PM_FN bool bit_of(const std::uint64_t* plane, int i) { return plane[i >> 6] >> (i & 63) & 1; }

// The edges of a board and all its squares: what keeps steps on it.
struct Edges {
  static constexpr int kWords = kMaxSide * kMaxSide / 64;
  std::uint64_t top[kWords] = {}, bottom[kWords] = {}, first[kWords] = {}, last[kWords] = {}, all[kWords] = {};

  Edges() = default;
  Edges(int width, int height) {
    const auto add = [](std::uint64_t* words, int i) { words[i >> 6] |= 1ull << (i & 63); };
    for (int i = 0; i < width * height; ++i) {
      add(all, i);
      if (i < width) add(top, i);
      if (i >= width * (height - 1)) add(bottom, i);
      if (i % width == 0) add(first, i);
      if (i % width == width - 1) add(last, i);
    }
  }

  // Squares with no other beyond them: up, down, left, right.
  PM_FN const std::uint64_t* towards(int direction) const {
    switch (direction) {
      case 0: return top;
      case 1: return bottom;
      case 2: return first;
      default: return last;
    }
  }
};

// Moves over `words` words: every square `n` higher or lower, n below 64.
PM_FN std::uint64_t up_word(const std::uint64_t* plane, int w, int n) {
  return plane[w] << n | (w > 0 ? plane[w - 1] >> 1 >> (63 - n) : 0);
}
PM_FN std::uint64_t down_word(const std::uint64_t* plane, int w, int words, int n) {
  return plane[w] >> n | (w + 1 < words ? plane[w + 1] << 1 << (63 - n) : 0);
}

// The squares of `in` and the eight around each.
PM_FN void widen_plain(const std::uint64_t* in, int width, const Edges& edges, int words, std::uint64_t* out) {
  std::uint64_t right[Edges::kWords], left[Edges::kWords], row[Edges::kWords];
  for (int w = 0; w < words; ++w) {
    right[w] = in[w] & ~edges.last[w];
    left[w] = in[w] & ~edges.first[w];
  }
  for (int w = 0; w < words; ++w) row[w] = in[w] | up_word(right, w, 1) | down_word(left, w, words, 1);
  for (int w = 0; w < words; ++w)
    out[w] = (row[w] | up_word(row, w, width) | down_word(row, w, words, width)) & edges.all[w];
}

// A byte a square: bit d and bit 4 + d where an army above 1 on a square of `own` can go in direction d (up,
// down, left, right): not off the board, nor onto one of `closed`.
PM_FN void move_bytes_plain(const std::uint16_t* army, const std::uint64_t* own, const std::uint64_t* closed, int width,
                            const Edges& edges, int squares, int words, std::uint8_t* out) {
  memset(out, 0, static_cast<std::size_t>(squares));
  for (int w = 0; w < words; ++w) {
    const std::uint64_t blocked[] = {
        up_word(closed, w, width) | edges.top[w], down_word(closed, w, words, width) | edges.bottom[w],
        up_word(closed, w, 1) | edges.first[w], down_word(closed, w, words, 1) | edges.last[w]};
    for (std::uint64_t left = own[w]; left != 0; left &= left - 1) {
      const int k = lowest_bit(left);
      if (army[64 * w + k] < 2) continue;
      unsigned byte = 0;
      for (int d = 0; d < 4; ++d) byte |= static_cast<unsigned>(~blocked[d] >> k & 1) << d;
      out[64 * w + k] = static_cast<std::uint8_t>(byte * 17);
    }
  }
}

// Which of the squares that somebody owns have one army more, as far as there is room for it.
struct Recruits {
  enum Which { kBuilt, kNotBuilt, kAll };
  Which which;
  int owners = 0, marks = 0;
  const std::uint64_t* own[kMostPlanes];
  const std::uint64_t* built;
  int mark[kMostPlanes];   // squares that count as built too, or -1
  int most_free = 0;       // nobody's grow to that number, of those built
  int grown[kMostPlanes];  // how many, by owner: the answer
};

PM_FN void grow_squares_plain(std::uint16_t* army, int, int words, Recruits& g) {
  for (int k = 0; k < g.owners; ++k) g.grown[k] = 0;
  for (int w = 0; w < words; ++w) {
    std::uint64_t built = g.built[w], free = built;
    for (int k = 0; k < g.marks; ++k)
      if (g.mark[k] >> 6 == w) built |= 1ull << (g.mark[k] & 63);
    const auto grow = [&](std::uint64_t plane, int most) {
      int grown = 0;
      for (; plane != 0; plane &= plane - 1) {
        std::uint16_t& here = army[64 * w + lowest_bit(plane)];
        const bool grows = here < most;
        here = static_cast<std::uint16_t>(here + grows);
        grown += grows;
      }
      return grown;
    };
    for (int k = 0; k < g.owners; ++k) {
      const std::uint64_t own = g.own[k][w];
      g.grown[k] += grow(g.which == Recruits::kAll     ? own
                         : g.which == Recruits::kBuilt ? own & built
                                                       : own & ~built,
                         65535);
      free &= ~own;
    }
    grow(free, g.most_free);
  }
}

#ifdef PM_WARP
// Shared out among a crew: what they read and write lies where all hands see it, in whole words. A hand has 32 squares
// of a plane, or of numbers four.

__device__ inline std::uint32_t word_of(const std::uint64_t* plane, int w, int words) {
  return w >= 0 && w < words ? reinterpret_cast<const std::uint32_t*>(plane)[w] : 0;
}
// Bit k of the lower four as the lowest bit of byte k.
__device__ inline std::uint32_t as_bytes(std::uint32_t bits) { return (bits & 15u) * 0x00204081u & 0x01010101u; }

// A word of `in` widened.
__device__ inline std::uint32_t widened_word(const std::uint64_t* in, int width, const Edges& edges, int words) {
  const int w = Crew::hand(), n = 2 * words;
  const std::uint32_t here = word_of(in, w, n);
  const std::uint32_t right = here & ~word_of(edges.last, w, n), left = here & ~word_of(edges.first, w, n);
  const auto below = [w](std::uint32_t x) {
    const std::uint32_t other = __shfl_up_sync(~0u, x, 1);
    return w > 0 ? other : 0;
  };
  const auto above = [w](std::uint32_t x) {
    const std::uint32_t other = __shfl_down_sync(~0u, x, 1);
    return w + 1 < Crew::kHands ? other : 0;
  };
  const std::uint32_t row = here | __funnelshift_l(below(right), right, 1) | __funnelshift_r(left, above(left), 1);
  const auto by = static_cast<unsigned>(width);
  const std::uint32_t wide = row | __funnelshift_lc(below(row), row, by) | __funnelshift_rc(row, above(row), by);
  return wide & word_of(edges.all, w, n);
}

__device__ inline void grow_squares(std::uint16_t* army, int, int words, Recruits& g) {
  const int w = Crew::hand(), n = 2 * words;
  std::uint32_t built = word_of(g.built, w, n), free = built;
  PM_UNROLL
  for (int k = 0; k < g.marks; ++k)
    if (g.mark[k] >> 5 == w) built |= 1u << (g.mark[k] & 31);
  const auto grow = [&](std::uint32_t plane, int most) {
    int grown = 0;
    for (; plane != 0; plane &= plane - 1) {
      std::uint16_t& here = army[32 * w + __ffs(static_cast<int>(plane)) - 1];
      const bool grows = here < most;
      here = static_cast<std::uint16_t>(here + grows);
      grown += grows;
    }
    return grown;
  };
  PM_UNROLL
  for (int k = 0; k < g.owners; ++k) {
    const std::uint32_t own = word_of(g.own[k], w, n);
    const std::uint32_t which = g.which == Recruits::kAll ? ~0u : g.which == Recruits::kBuilt ? built : ~built;
    g.grown[k] = Crew::sum(grow(own & which, 65535));
    free &= ~own;
  }
  grow(free, g.most_free);
  Crew::join();
}

// Of this hand's 32 squares those from which an army can go up, down, left, right.
struct Ways {
  std::uint32_t to[4] = {};

  __device__ Ways(const std::uint16_t* army, const std::uint64_t* own, const std::uint64_t* closed, int width,
                  const Edges& edges, int squares) {
    const int w = Crew::hand(), n = (squares + 31) / 32, whole = squares / 32;
    std::uint32_t able = 0;
    const std::uint16_t* mine = army + w;
    const auto look = [&](int g, bool some) {
      const std::uint32_t all = __ballot_sync(~0u, some);
      if (g == w) able = all;
    };
    PM_BY_FOUR
    for (int g = 0; g < whole; ++g) look(g, mine[32 * g] > 1);
    if (whole < n) look(whole, 32 * whole + w < squares && mine[32 * whole] > 1);
    able &= word_of(own, w, n);
    const std::uint32_t here = word_of(closed, w, n), below = word_of(closed, w - 1, n),
                        above = word_of(closed, w + 1, n);
    const auto by = static_cast<unsigned>(width);
    to[0] = able & ~(__funnelshift_lc(below, here, by) | word_of(edges.top, w, n));
    to[1] = able & ~(__funnelshift_rc(here, above, by) | word_of(edges.bottom, w, n));
    to[2] = able & ~(__funnelshift_l(below, here, 1) | word_of(edges.first, w, n));
    to[3] = able & ~(__funnelshift_r(here, above, 1) | word_of(edges.last, w, n));
  }

  // Moves from these squares: each way with all of the army, and with half of it.
  __device__ int count() const { return 2 * (__popc(to[0]) + __popc(to[1]) + __popc(to[2]) + __popc(to[3])); }

  // The n-th move of hand `who`: eight for each square, ways with all first. Each hand looks at one of its squares.
  __device__ int nth(int who, int n) const {
    const int square = Crew::hand();
    int before = 0, here = 0;
    std::uint32_t ways = 0;
    PM_UNROLL
    for (int d = 0; d < 4; ++d) {
      const std::uint32_t all = __shfl_sync(~0u, to[d], who), mine = all >> square & 1;
      before += 2 * __popc(all & ((1u << square) - 1));
      here += static_cast<int>(mine);
      ways |= mine << d;
    }
    const int left = n - before;
    const bool found = left >= 0 && left < 2 * here;
    int move = 8 * (32 * who + square);
    if (found) {
      const bool half = left >= here;
      for (int k = half ? left - here : left; k > 0; --k) ways &= ways - 1;
      move += __ffs(static_cast<int>(ways)) - 1 + 4 * half;
    }
    return __shfl_sync(~0u, move, __ffs(static_cast<int>(__ballot_sync(~0u, found))) - 1);
  }
};

// A hand writes sixteen squares; `out` begins with a word of eight bytes.
__device__ inline void move_bytes(const std::uint16_t* army, const std::uint64_t* own, const std::uint64_t* closed,
                                  int width, const Edges& edges, int squares, int, std::uint8_t* out) {
  const Ways ways(army, own, closed, width, edges, squares);
  PM_ROLLED
  for (int first = 0; first < squares; first += 16 * Crew::kHands) {
    const int i = first / 16 + Crew::hand();
    std::uint32_t bytes[4] = {};
    PM_UNROLL
    for (int d = 0; d < 4; ++d) {
      const std::uint32_t mine = __shfl_sync(~0u, ways.to[d], i >> 1) >> 16 * (i & 1);
      PM_UNROLL
      for (int k = 0; k < 4; ++k) bytes[k] |= as_bytes(mine >> 4 * k) << d;
    }
    PM_UNROLL
    for (int k = 0; k < 4; k += 2)
      if (16 * i + 4 * k < squares)
        reinterpret_cast<std::uint64_t*>(out)[2 * i + k / 2] =
            static_cast<std::uint64_t>(bytes[k + 1] * 17u) << 32 | bytes[k] * 17u;
  }
  Crew::join();
}
#else
void grow_squares(std::uint16_t* army, int squares, int words, Recruits& recruits);
void move_bytes(const std::uint16_t* army, const std::uint64_t* own, const std::uint64_t* closed, int width,
                const Edges& edges, int squares, int words, std::uint8_t* out);
#endif

// The squares of `in` and the four next to each, where `open`.
template <int N>
PM_FN BitSet<N> stepped(const BitSet<N>& in, const BitSet<N>& open, int width, const Edges& edges) {
  BitSet<N> right = in, left = in;
  constexpr int kWords = BitSet<N>::kWords;
  PM_UNROLL_WORDS
  for (int w = 0; w < kWords; ++w) {
    right.word[w] &= ~edges.last[w];
    left.word[w] &= ~edges.first[w];
  }
  return (in | right.shifted_up(1) | left.shifted_down(1) | in.shifted_up(width) | in.shifted_down(width)) & open;
}

// Calls work(square) for each square of a plane, in their order.
template <int N, class Work>
PM_FN void each_square(const BitSet<N>& plane, Work&& work) {
  PM_ROLLED
  for (int w = 0; w < BitSet<N>::kWords; ++w)
    for (std::uint64_t word = plane.word[w]; word != 0; word &= word - 1) work(64 * w + lowest_bit(word));
}

}  // namespace playmill
