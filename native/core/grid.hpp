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
  int mark[kMostPlanes];   // squares that count as built too
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
    const int w = Crew::hand(), n = (squares + 31) / 32;
    std::uint32_t able = 0;
    PM_ROLLED
    for (int g = 0; g < n; ++g) {
      const int i = 32 * g + w;
      const std::uint32_t some = __ballot_sync(~0u, i < squares && army[i] > 1);
      if (g == w) able = some;
    }
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

  // The n-th of them: eight for each square, ways with all first.
  __device__ int nth(int n) const {
    std::uint32_t left[4] = {to[0], to[1], to[2], to[3]};
    int square = 32 * Crew::hand();
    PM_ROLLED
    for (int half = 16; half > 0; half /= 2) {
      const std::uint32_t low = (1u << half) - 1;
      int here = 0;
      PM_UNROLL
      for (int d = 0; d < 4; ++d) here += 2 * __popc(left[d] & low);
      if (n < here) continue;
      n -= here;
      square += half;
      PM_UNROLL
      for (int d = 0; d < 4; ++d) left[d] >>= half;
    }
    const std::uint32_t ways = (left[0] & 1) | (left[1] & 1) << 1 | (left[2] & 1) << 2 | (left[3] & 1) << 3;
    return 8 * square + nth_bit(ways * 17 | 256, n);
  }
};

__device__ inline void move_bytes(const std::uint16_t* army, const std::uint64_t* own, const std::uint64_t* closed,
                                  int width, const Edges& edges, int squares, int, std::uint8_t* out) {
  const Ways ways(army, own, closed, width, edges, squares);
  const int quads = (squares + 3) / 4;
  PM_ROLLED
  for (int first = 0; first < quads; first += Crew::kHands) {
    const int q = first + Crew::hand();
    std::uint32_t bytes = 0;
    PM_UNROLL
    for (int d = 0; d < 4; ++d) bytes |= as_bytes(__shfl_sync(~0u, ways.to[d], q >> 3) >> 4 * (q & 7)) << d;
    if (q < quads) reinterpret_cast<std::uint32_t*>(out)[q] = bytes * 17u;
  }
  Crew::join();
}
#else
void grow_squares(std::uint16_t* army, int squares, int words, Recruits& recruits);
void widen_squares(const std::uint64_t* in, int width, const Edges& edges, int words, std::uint64_t* out);
void move_bytes(const std::uint16_t* army, const std::uint64_t* own, const std::uint64_t* closed, int width,
                const Edges& edges, int squares, int words, std::uint8_t* out);
#endif

template <int N>
PM_FN BitSet<N> widened(const BitSet<N>& in, int width, const Edges& edges) {
  BitSet<N> out;
#ifdef PM_WARP  // by one hand, for itself
  widen_plain(in.word, width, edges, BitSet<N>::kWords, out.word);
#else
  widen_squares(in.word, width, edges, BitSet<N>::kWords, out.word);
#endif
  return out;
}

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
