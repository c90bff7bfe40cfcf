// Planes in vectors of 512 bits, and whether this machine has them. For the files that have kernels of both kinds.
#pragma once

#include "grid.hpp"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#if !defined(__clang__)  // its own headers set it off
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define PM_VECTORS 1
#define PM_WIDE_TARGET "avx512f,avx512bw,avx512dq,avx512vl,popcnt"
#define PM_WIDE __attribute__((target(PM_WIDE_TARGET)))
#define PM_WIDE_INLINE __attribute__((target(PM_WIDE_TARGET), always_inline)) inline
#define PM_MATRIX __attribute__((target(PM_WIDE_TARGET ",gfni")))
#define PM_MATRIX_INLINE __attribute__((target(PM_WIDE_TARGET ",gfni"), always_inline)) inline

namespace playmill {

inline const bool kWideVectors = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                                 __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("popcnt");
inline const bool kBitMatrices = kWideVectors && __builtin_cpu_supports("gfni");

namespace wide {

// A plane of 8 kVectors words.
template <int kVectors>
struct Words {
  __m512i v[kVectors];
};

template <int kVectors>
PM_WIDE_INLINE Words<kVectors> load(const std::uint64_t* from) {
  Words<kVectors> out;
  for (int k = 0; k < kVectors; ++k) out.v[k] = _mm512_loadu_si512(from + 8 * k);
  return out;
}
template <int kVectors>
PM_WIDE_INLINE void store(std::uint64_t* to, const Words<kVectors>& a) {
  for (int k = 0; k < kVectors; ++k) _mm512_storeu_si512(to + 8 * k, a.v[k]);
}
template <int kVectors>
PM_WIDE_INLINE Words<kVectors> either(const Words<kVectors>& a, const Words<kVectors>& b) {
  Words<kVectors> out;
  for (int k = 0; k < kVectors; ++k) out.v[k] = _mm512_or_si512(a.v[k], b.v[k]);
  return out;
}
template <int kVectors>
PM_WIDE_INLINE Words<kVectors> both(const Words<kVectors>& a, const Words<kVectors>& b) {
  Words<kVectors> out;
  for (int k = 0; k < kVectors; ++k) out.v[k] = _mm512_and_si512(a.v[k], b.v[k]);
  return out;
}
template <int kVectors>
PM_WIDE_INLINE Words<kVectors> without(const Words<kVectors>& a, const Words<kVectors>& b) {
  Words<kVectors> out;
  for (int k = 0; k < kVectors; ++k) out.v[k] = _mm512_andnot_si512(b.v[k], a.v[k]);
  return out;
}
template <int kVectors>
PM_WIDE_INLINE Words<kVectors> up(const Words<kVectors>& a, int n) {
  const __m128i by = _mm_cvtsi32_si128(n), back = _mm_cvtsi32_si128(64 - n);
  Words<kVectors> out;
  for (int k = 0; k < kVectors; ++k) {
    const __m512i below = _mm512_alignr_epi64(a.v[k], k > 0 ? a.v[k - 1] : _mm512_setzero_si512(), 7);
    out.v[k] = _mm512_or_si512(_mm512_sll_epi64(a.v[k], by), _mm512_srl_epi64(below, back));
  }
  return out;
}
template <int kVectors>
PM_WIDE_INLINE Words<kVectors> down(const Words<kVectors>& a, int n) {
  const __m128i by = _mm_cvtsi32_si128(n), back = _mm_cvtsi32_si128(64 - n);
  Words<kVectors> out;
  for (int k = 0; k < kVectors; ++k) {
    const __m512i above = _mm512_alignr_epi64(k + 1 < kVectors ? a.v[k + 1] : _mm512_setzero_si512(), a.v[k], 1);
    out.v[k] = _mm512_or_si512(_mm512_srl_epi64(a.v[k], by), _mm512_sll_epi64(above, back));
  }
  return out;
}

template <int kVectors>
PM_WIDE_INLINE Words<kVectors> nothing() {
  Words<kVectors> out;
  for (int k = 0; k < kVectors; ++k) out.v[k] = _mm512_setzero_si512();
  return out;
}
// Nothing for a square below 0.
template <int kVectors>
PM_WIDE_INLINE Words<kVectors> one_square(int square) {
  Words<kVectors> out;
  const unsigned word = 1u << (square >> 6 & 31);
  for (int k = 0; k < kVectors; ++k)
    out.v[k] = _mm512_maskz_set1_epi64(static_cast<__mmask8>(word >> 8 * k), 1ll << (square & 63));
  return out;
}
// A bit for each word that is not empty.
template <int kVectors>
PM_WIDE_INLINE unsigned nonzero_words(const Words<kVectors>& a) {
  unsigned out = 0;
  for (int k = 0; k < kVectors; ++k) out |= static_cast<unsigned>(_mm512_test_epi64_mask(a.v[k], a.v[k])) << 8 * k;
  return out;
}
// The squares of a plane and the eight around each.
template <int kVectors>
PM_WIDE_INLINE Words<kVectors> widened(const Words<kVectors>& plane, int width, const Edges& edges) {
  const auto right = up(without(plane, load<kVectors>(edges.last)), 1);
  const auto left = down(without(plane, load<kVectors>(edges.first)), 1);
  const auto row = either(plane, either(right, left));
  return both(either(row, either(up(row, width), down(row, width))), load<kVectors>(edges.all));
}

}  // namespace wide
}  // namespace playmill
#else
namespace playmill {
inline constexpr bool kWideVectors = false, kBitMatrices = false;
}  // namespace playmill
#endif

namespace playmill {
// Kernels that go over numbers in blocks of 64 need one whole block at least.
inline bool wide_board(int squares) { return kWideVectors && squares >= 64; }
}  // namespace playmill
