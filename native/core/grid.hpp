// Planes over the squares of a board, numbered row by row without gaps: a bit a square in a BitSet, or a number
// a square. What touches every number is here; on the CPU it runs on whole vectors.
#pragma once

#include <cstdint>
#include <cstring>

#include "bits.hpp"

namespace playmill {

inline constexpr int kMaxSide = 32;
inline constexpr int kMostPlanes = 8;  // of one kind on a board

// Bits of a plane with room for so many squares: whole vectors of eight words.
constexpr int plane_bits(int squares) { return (squares + 511) / 512 * 512; }

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

#if defined(__CUDA_ARCH__)
#define grow_squares grow_squares_plain
#define widen_squares widen_plain
#define move_bytes move_bytes_plain
#else
void grow_squares(std::uint16_t* army, int squares, int words, Recruits& recruits);
void widen_squares(const std::uint64_t* in, int width, const Edges& edges, int words, std::uint64_t* out);
void move_bytes(const std::uint16_t* army, const std::uint64_t* own, const std::uint64_t* closed, int width,
                const Edges& edges, int squares, int words, std::uint8_t* out);
#endif

template <int N>
PM_FN BitSet<N> widened(const BitSet<N>& in, int width, const Edges& edges) {
  BitSet<N> out;
  widen_squares(in.word, width, edges, BitSet<N>::kWords, out.word);
  return out;
}

// The squares of `in` and the four next to each, where `open`.
template <int N>
PM_FN BitSet<N> stepped(const BitSet<N>& in, const BitSet<N>& open, int width, const Edges& edges) {
  BitSet<N> right = in, left = in;
  for (int w = 0; w < BitSet<N>::kWords; ++w) {
    right.word[w] &= ~edges.last[w];
    left.word[w] &= ~edges.first[w];
  }
  return (in | right.shifted_up(1) | left.shifted_down(1) | in.shifted_up(width) | in.shifted_down(width)) & open;
}

// Calls work(square) for each square of a plane, in their order.
template <int N, class Work>
PM_FN void each_square(const BitSet<N>& plane, Work&& work) {
  for (int w = 0; w < BitSet<N>::kWords; ++w)
    for (std::uint64_t word = plane.word[w]; word != 0; word &= word - 1) work(64 * w + lowest_bit(word));
}

}  // namespace playmill
