// A fixed set of small integers in 64-bit words: legal actions, hands of cards.
#pragma once

#include <cstdint>
#if !defined(__CUDA_ARCH__)
#include <bit>
#endif

#include "platform.hpp"

namespace playmill {

PM_FN int popcount64(std::uint64_t x) {
#if defined(__CUDA_ARCH__)
  return __popcll(x);
#elif defined(__POPCNT__)
  return std::popcount(x);
#else  // for any x86-64: a call of the library's would cost more
  x -= x >> 1 & 0x5555555555555555ull;
  x = (x & 0x3333333333333333ull) + (x >> 2 & 0x3333333333333333ull);
  x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0Full;
  return static_cast<int>(x * 0x0101010101010101ull >> 56);
#endif
}

// Index of the lowest set bit; x must not be zero.
PM_FN int lowest_bit(std::uint64_t x) {
#if defined(__CUDA_ARCH__)
  return __ffsll(static_cast<long long>(x)) - 1;
#else
  return std::countr_zero(x);
#endif
}

// Index of the n-th set bit (from 0); x must have more than n bits.
PM_FN int nth_bit(std::uint64_t x, int n) {
  for (; n > 0; --n) x &= x - 1;
  return lowest_bit(x);
}

template <int N>
struct BitSet {
  static constexpr int kSize = N;
  static constexpr int kWords = (N + 63) / 64;

  std::uint64_t word[kWords] = {};

  PM_FN void add(int i) { word[i >> 6] |= 1ull << (i & 63); }
  PM_FN void remove(int i) { word[i >> 6] &= ~(1ull << (i & 63)); }
  PM_FN bool has(int i) const { return (word[i >> 6] >> (i & 63)) & 1u; }
  PM_FN void clear() {
    PM_UNROLL_WORDS
    for (int w = 0; w < kWords; ++w) word[w] = 0;
  }

  // Adds `count` consecutive numbers from `first`.
  PM_FN void add_range(int first, int count) {
    for (int i = first; i < first + count; ++i) add(i);
  }

  PM_FN int count() const {
    int total = 0;
    PM_UNROLL_WORDS
    for (int w = 0; w < kWords; ++w) total += popcount64(word[w]);
    return total;
  }

  PM_FN bool empty() const {
    std::uint64_t any = 0;
    PM_UNROLL_WORDS
    for (int w = 0; w < kWords; ++w) any |= word[w];
    return any == 0;
  }

  // The n-th member in ascending order; there must be more than n.
  PM_FN int nth(int n) const {
    PM_UNROLL_WORDS
    for (int w = 0; w < kWords; ++w) {
      const int here = popcount64(word[w]);
      if (n < here) return w * 64 + nth_bit(word[w], n);
      n -= here;
    }
    return -1;
  }

  // Every member n higher, or n lower, and none beyond the words; n below 64.
  PM_FN BitSet shifted_up(int n) const {
    BitSet out;
    PM_UNROLL_WORDS
    for (int w = 0; w < kWords; ++w) {
      out.word[w] = word[w] << n;
      if (w > 0) out.word[w] |= word[w - 1] >> 1 >> (63 - n);
    }
    return out;
  }
  PM_FN BitSet shifted_down(int n) const {
    BitSet out;
    PM_UNROLL_WORDS
    for (int w = 0; w < kWords; ++w) {
      out.word[w] = word[w] >> n;
      if (w + 1 < kWords) out.word[w] |= word[w + 1] << 1 << (63 - n);
    }
    return out;
  }

  PM_FN friend BitSet operator&(BitSet a, const BitSet& b) {
    PM_UNROLL_WORDS
    for (int w = 0; w < kWords; ++w) a.word[w] &= b.word[w];
    return a;
  }
  PM_FN friend BitSet operator|(BitSet a, const BitSet& b) {
    PM_UNROLL_WORDS
    for (int w = 0; w < kWords; ++w) a.word[w] |= b.word[w];
    return a;
  }
  PM_FN friend BitSet operator-(BitSet a, const BitSet& b) {
    PM_UNROLL_WORDS
    for (int w = 0; w < kWords; ++w) a.word[w] &= ~b.word[w];
    return a;
  }
  PM_FN friend bool operator==(const BitSet& a, const BitSet& b) {
    std::uint64_t differ = 0;
    PM_UNROLL_WORDS
    for (int w = 0; w < kWords; ++w) differ |= a.word[w] ^ b.word[w];
    return differ == 0;
  }
};

}  // namespace playmill
