#include "grid.hpp"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define PM_VECTORS 1
#endif

namespace playmill {

#ifdef PM_VECTORS

namespace {

bool wide_vectors() {
  static const bool found = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  return found;
}

#define PM_WIDE __attribute__((target("avx512f,avx512bw,avx512vl")))
#define PM_WIDE_INLINE __attribute__((target("avx512f,avx512bw,avx512vl"), always_inline)) inline

// The last squares of a board that fill no block of 64.
std::uint64_t rest(int squares) { return (1ull << (squares % 64)) - 1; }

PM_WIDE_INLINE void remember_block(__mmask64 on, __mmask64 seen, const std::uint16_t* plane, std::uint16_t* last,
                                   std::uint8_t* age) {
  const __m512i older = _mm512_adds_epu8(_mm512_maskz_loadu_epi8(on, age), _mm512_set1_epi8(1));
  const __m512i now = _mm512_maskz_mov_epi8(~seen, older);
  const auto on_low = static_cast<__mmask32>(on), on_high = static_cast<__mmask32>(on >> 32);
  const auto low = static_cast<__mmask32>(seen), high = static_cast<__mmask32>(seen >> 32);
  const __m512i first =
      _mm512_mask_mov_epi16(_mm512_maskz_loadu_epi16(on_low, last), low, _mm512_maskz_loadu_epi16(on_low, plane));
  const __m512i second = _mm512_mask_mov_epi16(_mm512_maskz_loadu_epi16(on_high, last + 32), high,
                                               _mm512_maskz_loadu_epi16(on_high, plane + 32));
  if (on == ~0ull) {  // whole vectors: a store with a mask is dear
    _mm512_storeu_si512(age, now);
    _mm512_storeu_si512(last, first);
    _mm512_storeu_si512(last + 32, second);
  } else {
    _mm512_mask_storeu_epi8(age, on, now);
    _mm512_mask_storeu_epi16(last, on_low, first);
    _mm512_mask_storeu_epi16(last + 32, on_high, second);
  }
}

PM_WIDE void remember_wide(const std::uint16_t* plane, const std::uint64_t* sight, int squares, std::uint16_t* last,
                           std::uint8_t* age) {
  int i = 0;
  for (; i < squares / 64; ++i) remember_block(~0ull, sight[i], plane + 64 * i, last + 64 * i, age + 64 * i);
  if (squares % 64 != 0) remember_block(rest(squares), sight[i], plane + 64 * i, last + 64 * i, age + 64 * i);
}

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
PM_WIDE_INLINE void widen_words(const std::uint64_t* in, int width, const Edges& edges, std::uint64_t* out) {
  const auto plane = load<kVectors>(in);
  const auto right = up(without(plane, load<kVectors>(edges.last)), 1);
  const auto left = down(without(plane, load<kVectors>(edges.first)), 1);
  const auto row = either(plane, either(right, left));
  store(out, both(either(row, either(up(row, width), down(row, width))), load<kVectors>(edges.all)));
}
PM_WIDE void widen_wide(const std::uint64_t* in, int width, const Edges& edges, int words, std::uint64_t* out) {
  words == 8 ? widen_words<1>(in, width, edges, out) : widen_words<2>(in, width, edges, out);
}

PM_WIDE_INLINE __m512i move_block(__mmask64 from, const std::uint64_t (*walls)[16], int i, const __m512i* bits) {
  __m512i byte = _mm512_maskz_mov_epi8(_kandn_mask64(_cvtu64_mask64(walls[0][i]), from), bits[0]);
  for (int d = 1; d < 4; ++d)
    byte = _mm512_or_si512(byte, _mm512_maskz_mov_epi8(_kandn_mask64(_cvtu64_mask64(walls[d][i]), from), bits[d]));
  return byte;
}

template <int kVectors>
PM_WIDE_INLINE void move_words(const std::uint16_t* army, const std::uint64_t* own, const std::uint64_t* closed,
                               int width, const Edges& edges, int squares, std::uint8_t* out) {
  const auto blocked = load<kVectors>(closed);
  alignas(64) std::uint64_t walls[4][16];
  store(walls[0], either(up(blocked, width), load<kVectors>(edges.top)));
  store(walls[1], either(down(blocked, width), load<kVectors>(edges.bottom)));
  store(walls[2], either(up(blocked, 1), load<kVectors>(edges.first)));
  store(walls[3], either(down(blocked, 1), load<kVectors>(edges.last)));
  const __m512i one = _mm512_set1_epi16(1);
  const __m512i bits[] = {_mm512_set1_epi8(0x11), _mm512_set1_epi8(0x22), _mm512_set1_epi8(0x44),
                          _mm512_set1_epi8(static_cast<char>(0x88))};
  int i = 0;
  for (; i < squares / 64; ++i) {
    const __mmask32 low = _mm512_cmpgt_epu16_mask(_mm512_loadu_si512(army + 64 * i), one);
    const __mmask32 high = _mm512_cmpgt_epu16_mask(_mm512_loadu_si512(army + 64 * i + 32), one);
    const __mmask64 from = _kand_mask64(_mm512_kunpackd(high, low), _cvtu64_mask64(own[i]));
    _mm512_storeu_si512(out + 64 * i, move_block(from, walls, i, bits));
  }
  if (squares % 64 == 0) return;
  const auto low = static_cast<__mmask32>(own[i]), high = static_cast<__mmask32>(own[i] >> 32);
  const __mmask32 first = _mm512_mask_cmpgt_epu16_mask(low, _mm512_maskz_loadu_epi16(low, army + 64 * i), one);
  const __mmask32 second = _mm512_mask_cmpgt_epu16_mask(high, _mm512_maskz_loadu_epi16(high, army + 64 * i + 32), one);
  _mm512_mask_storeu_epi8(out + 64 * i, rest(squares), move_block(_mm512_kunpackd(second, first), walls, i, bits));
}
PM_WIDE void move_bytes_wide(const std::uint16_t* army, const std::uint64_t* own, const std::uint64_t* closed,
                             int width, const Edges& edges, int squares, int words, std::uint8_t* out) {
  words == 8 ? move_words<1>(army, own, closed, width, edges, squares, out)
             : move_words<2>(army, own, closed, width, edges, squares, out);
}

}  // namespace

#else

namespace {
constexpr bool wide_vectors() { return false; }
constexpr auto remember_wide = remember_plain;
constexpr auto widen_wide = widen_plain;
constexpr auto move_bytes_wide = move_bytes_plain;
}  // namespace

#endif

void remember_squares(const std::uint16_t* plane, const std::uint64_t* sight, int squares, std::uint16_t* last,
                      std::uint8_t* age) {
  wide_vectors() ? remember_wide(plane, sight, squares, last, age) : remember_plain(plane, sight, squares, last, age);
}
void widen_squares(const std::uint64_t* in, int width, const Edges& edges, int words, std::uint64_t* out) {
  wide_vectors() ? widen_wide(in, width, edges, words, out) : widen_plain(in, width, edges, words, out);
}
void move_bytes(const std::uint16_t* army, const std::uint64_t* own, const std::uint64_t* closed, int width,
                const Edges& edges, int squares, int words, std::uint8_t* out) {
  wide_vectors() ? move_bytes_wide(army, own, closed, width, edges, squares, words, out)
                 : move_bytes_plain(army, own, closed, width, edges, squares, words, out);
}

}  // namespace playmill
