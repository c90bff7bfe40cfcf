// Planes over the squares of a board, numbered row by row without gaps: a bit a square in a BitSet, or a number
// a square. What touches every number is here; on the CPU it runs on whole vectors.
#pragma once

#include <cstdint>
#include <cstring>

#include "bits.hpp"
#include "crew.hpp"

namespace playmill {

inline constexpr int kMaxSide = 32;

// Bits of a plane with room for so many squares: whole vectors of eight words.
constexpr int plane_bits(int squares) { return (squares + 511) / 512 * 512; }

PM_FN bool bit_of(const std::uint64_t* plane, int i) { return plane[i >> 6] >> (i & 63) & 1; }

// What is in sight is taken over and has age 0; everything else is a tick older.
PM_FN void remember_plain(const std::uint16_t* plane, const std::uint64_t* sight, int squares, std::uint16_t* last,
                          std::uint8_t* age) {
  for (int i = 0; i < squares; ++i) {
    const bool seen = bit_of(sight, i);
    last[i] = seen ? plane[i] : last[i];
    age[i] = static_cast<std::uint8_t>(seen ? 0 : age[i] + (age[i] < 255));
  }
}

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
  for (int w = 0; w < words; ++w) {
    const std::uint64_t blocked[] = {
        up_word(closed, w, width) | edges.top[w], down_word(closed, w, words, width) | edges.bottom[w],
        up_word(closed, w, 1) | edges.first[w], down_word(closed, w, words, 1) | edges.last[w]};
    for (int k = 0; k < 64 && 64 * w + k < squares; ++k) {
      unsigned byte = 0;
      if ((own[w] >> k & 1) && army[64 * w + k] > 1)
        for (int d = 0; d < 4; ++d) byte |= static_cast<unsigned>(~blocked[d] >> k & 1) << d;
      out[64 * w + k] = static_cast<std::uint8_t>(byte * 17);
    }
  }
}

#if defined(__CUDA_ARCH__)
// Shared out among a crew: what they read and write lies where all hands see it, in whole words. A hand has 32 squares
// of a plane, or of numbers four.

__device__ inline std::uint32_t word_of(const std::uint64_t* plane, int w, int words) {
  return w >= 0 && w < words ? reinterpret_cast<const std::uint32_t*>(plane)[w] : 0;
}
// Bit k of the lower four as the lowest bit of byte k.
__device__ inline std::uint32_t as_bytes(std::uint32_t bits) { return (bits & 15u) * 0x00204081u & 0x01010101u; }

__device__ inline void remember_squares(const std::uint16_t* plane, const std::uint64_t* sight, int squares,
                                        std::uint16_t* last, std::uint8_t* age) {
  Crew::share((squares + 3) / 4, [=](int q) {
    const std::uint32_t seen = as_bytes(reinterpret_cast<const std::uint32_t*>(sight)[q >> 3] >> 4 * (q & 7)) * 255u;
    const std::uint32_t there = as_bytes(4 * q + 4 <= squares ? 15u : (1u << (squares - 4 * q)) - 1);
    auto& old = reinterpret_cast<std::uint32_t*>(age)[q];
    std::uint32_t oldest = old & old >> 1;  // its lowest bit of a byte: all eight are set
    oldest &= oldest >> 2;
    oldest &= oldest >> 4;
    old = (old + (there & ~oldest)) & ~seen;
    const uint2 now = reinterpret_cast<const uint2*>(plane)[q];
    auto& before = reinterpret_cast<uint2*>(last)[q];
    const std::uint32_t low = __byte_perm(seen, 0, 0x1100), high = __byte_perm(seen, 0, 0x3322);
    before = make_uint2((before.x & ~low) | (now.x & low), (before.y & ~high) | (now.y & high));
  });
}

__device__ inline void widen_squares(const std::uint64_t* in, int width, const Edges& edges, int words,
                                     std::uint64_t* out) {
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
  if (w < n) reinterpret_cast<std::uint32_t*>(out)[w] = wide & word_of(edges.all, w, n);
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
void remember_squares(const std::uint16_t* plane, const std::uint64_t* sight, int squares, std::uint16_t* last,
                      std::uint8_t* age);
void widen_squares(const std::uint64_t* in, int width, const Edges& edges, int words, std::uint64_t* out);
void move_bytes(const std::uint16_t* army, const std::uint64_t* own, const std::uint64_t* closed, int width,
                const Edges& edges, int squares, int words, std::uint8_t* out);
#endif

template <int N>
PM_FN BitSet<N> widened(const BitSet<N>& in, int width, const Edges& edges) {
  BitSet<N> out;
#if defined(__CUDA_ARCH__)  // by one hand, for itself
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

// The same, shared out among a crew.
template <int N, class Work>
PM_FN void share_squares(const BitSet<N>& plane, Work&& work) {
#if defined(__CUDA_ARCH__)
  constexpr int kWords = BitSet<N>::kWords;
  PM_UNROLL_WORDS
  for (int w = 0; w < kWords; ++w) {
    if (plane.word[w] == 0) continue;
    PM_UNROLL
    for (int i = 0; i < 64; i += Crew::kHands)
      if (plane.word[w] >> (i + Crew::hand()) & 1) work(64 * w + i + Crew::hand());
  }
#else
  each_square(plane, work);
#endif
}

// Writes planes and numbers of a board into a row, one behind the other.
class PlaneWriter {
 public:
  PM_FN PlaneWriter(std::uint8_t* out, int squares) : out_(out), squares_(squares), bytes_((squares + 7) / 8) {}

  template <int N>
  PM_FN void put(const BitSet<N>& plane) {
#if defined(__CUDA_ARCH__)
    put<BitSet<N>>([&](int w) { return plane.word[w]; });
#else
    // Whole planes where there is room: what follows overwrites what lies beyond the last square.
    if (squares_ >= 64) {
      memcpy(out_, plane.word, sizeof plane.word);
    } else {
      memcpy(out_, plane.word, static_cast<std::size_t>(bytes_));
    }
    out_ += bytes_;
#endif
  }

  // A plane by its words.
  template <class Plane, class Word>
  PM_FN void put(Word&& word) {
#if defined(__CUDA_ARCH__)
    share_bytes(bytes_, [&](int i) { return static_cast<std::uint16_t>(word(i >> 3) >> 8 * (i & 7)); });
    out_ += bytes_;
#else
    Plane plane;
    for (int w = 0; w < Plane::kWords; ++w) plane.word[w] = word(w);
    put(plane);
#endif
  }

  template <class Number>
  PM_FN void put_numbers(const Number* numbers, int count) {
#if defined(__CUDA_ARCH__)
    const auto* from = reinterpret_cast<const std::uint16_t*>(numbers);
    share_bytes(count * static_cast<int>(sizeof(Number)), [&](int i) { return from[i >> 1]; });
#else
    memcpy(out_, numbers, static_cast<std::size_t>(count) * sizeof(Number));
#endif
    out_ += count * static_cast<int>(sizeof(Number));
  }

  PM_FN std::uint8_t* end() const { return out_; }

 private:
#if defined(__CUDA_ARCH__)
  // Writes `count` bytes, two(i) being bytes i and i + 1 for even i: in pairs where the row allows it.
  template <class Two>
  __device__ void share_bytes(int count, Two&& two) const {
    if (reinterpret_cast<std::uintptr_t>(out_) % 2 == 0) {
      Crew::share(count / 2, [&](int k) { reinterpret_cast<std::uint16_t*>(out_)[k] = two(2 * k); });
    } else {
      Crew::share(count / 2, [&](int k) {
        const std::uint16_t both = two(2 * k);
        out_[2 * k] = static_cast<std::uint8_t>(both);
        out_[2 * k + 1] = static_cast<std::uint8_t>(both >> 8);
      });
    }
    if (count % 2 != 0 && Crew::hand() == 0) out_[count - 1] = static_cast<std::uint8_t>(two(count - 1));
  }
#endif

  std::uint8_t* out_;
  int squares_, bytes_;
};

}  // namespace playmill
