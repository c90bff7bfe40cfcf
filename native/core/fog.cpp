#include "fog.hpp"

#include "wide.hpp"

namespace playmill {

#ifdef PM_VECTORS

namespace {

using namespace wide;

// Boards of at least 64 squares. The last block of 64 numbers ends with the board and overlaps the one before it, so
// that nothing beyond the board is touched; its bits are those from the same square on.
PM_WIDE_INLINE std::uint64_t last_bits(const std::uint64_t* plane, int squares) {
  const int word = squares / 64, rest = squares % 64;
  return plane[word - 1] >> rest | plane[word] << (64 - rest);
}

PM_WIDE_INLINE void fade_block(__mmask64 older, __mmask64 fresh, std::uint8_t* age) {
  const __m512i one = _mm512_set1_epi8(1), before = _mm512_loadu_si512(age);
  const __m512i now = _mm512_mask_adds_epu8(before, older, before, one);
  _mm512_storeu_si512(age, _mm512_mask_mov_epi8(now, fresh, one));
}

template <int kVectors>
PM_WIDE_INLINE void look_words(const std::uint64_t* own, int width, const Edges& edges, int squares, const Look& to) {
  const auto sight = wide::widened(load<kVectors>(own), width, edges);
  const auto explored = either(load<kVectors>(to.explored), sight);
  const auto faded = without(explored, sight);
  if (unsigned blocks = nonzero_words(faded)) {
    alignas(64) std::uint64_t fading[8 * kVectors];
    store(fading, faded);
    for (; blocks != 0; blocks &= blocks - 1) {
      const int w = __builtin_ctz(blocks);
      std::uint64_t all = fading[w], fresh = all & to.sight[w];
      int first = 64 * w;
      if (const int beyond = first + 64 - squares; beyond > 0) {
        first -= beyond;
        all <<= beyond;
        fresh <<= beyond;
      }
      fade_block(_cvtu64_mask64(all & ~fresh), _cvtu64_mask64(fresh), to.age + first);
    }
  }
  store(to.sight, sight);
  store(to.explored, explored);
  for (int k = 0; k < to.planes; ++k)
    store(to.last[k], either(without(load<kVectors>(to.last[k]), sight), both(load<kVectors>(to.now[k]), sight)));
}
PM_WIDE void look_wide(const std::uint64_t* own, int width, const Edges& edges, int squares, int words,
                       const Look& to) {
  words == 8 ? look_words<1>(own, width, edges, squares, to) : look_words<2>(own, width, edges, squares, to);
}

PM_WIDE_INLINE void keep_block(std::uint64_t sight, const std::uint16_t* now, std::uint16_t* last) {
  const auto low = static_cast<__mmask32>(sight), high = static_cast<__mmask32>(sight >> 32);
  _mm512_storeu_si512(last, _mm512_mask_loadu_epi16(_mm512_loadu_si512(last), low, now));
  _mm512_storeu_si512(last + 32, _mm512_mask_loadu_epi16(_mm512_loadu_si512(last + 32), high, now + 32));
}
PM_WIDE void keep_numbers_wide(const std::uint16_t* now, const std::uint64_t* sight, int squares, std::uint16_t* last) {
  for (int w = 0; w < squares / 64; ++w) keep_block(sight[w], now + 64 * w, last + 64 * w);
  if (squares % 64 != 0) keep_block(last_bits(sight, squares), now + squares - 64, last + squares - 64);
}

template <bool kFaded>
PM_WIDE_INLINE void write_block(std::uint64_t sight, std::uint64_t explored, const View& view, int first,
                                std::uint8_t* numbers, std::uint8_t* ages) {
  __m512i age = _mm512_movm_epi8(_cvtu64_mask64(~explored));
  __m512i front = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(sight), view.now + first);
  __m512i back = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(sight >> 32), view.now + first + 32);
  if constexpr (kFaded) {
    const std::uint64_t faded = explored & ~sight;
    age = _mm512_mask_loadu_epi8(age, _cvtu64_mask64(faded), view.age + first);
    front = _mm512_mask_loadu_epi16(front, static_cast<__mmask32>(faded), view.last + first);
    back = _mm512_mask_loadu_epi16(back, static_cast<__mmask32>(faded >> 32), view.last + first + 32);
  }
  _mm512_storeu_si512(numbers + 2 * first, front);
  _mm512_storeu_si512(numbers + 2 * first + 64, back);
  _mm512_storeu_si512(ages + first, age);
}

template <bool kFaded>
PM_WIDE_INLINE void write_numbers(const View& view, int squares, std::uint8_t* numbers, std::uint8_t* ages) {
  for (int w = 0; w < squares / 64; ++w)
    write_block<kFaded>(view.sight[w], view.explored[w], view, 64 * w, numbers, ages);
  if (squares % 64 != 0)
    write_block<kFaded>(last_bits(view.sight, squares), last_bits(view.explored, squares), view, squares - 64, numbers,
                        ages);
}

template <int kVectors>
PM_WIDE_INLINE void put(std::uint8_t*& out, int bytes, const Words<kVectors>& plane) {
  for (int k = 0; k < kVectors; ++k) _mm512_storeu_si512(out + 64 * k, plane.v[k]);
  out += bytes;
}

template <int kVectors>
PM_WIDE_INLINE std::uint8_t* write_words(const View& view, int squares, std::uint8_t* out) {
  const int bytes = (squares + 7) / 8;
  const auto sight = load<kVectors>(view.sight), explored = load<kVectors>(view.explored);
  const auto closed = load<kVectors>(view.closed);
  put(out, bytes, sight);
  put(out, bytes, explored);
  put(out, bytes, load<kVectors>(view.own));
  for (int k = 0; k < view.planes; ++k) put(out, bytes, load<kVectors>(view.last_planes[k]));
  auto marks = nothing<kVectors>(), hidden = nothing<kVectors>();
  for (int k = 0; k < view.marks; ++k) marks = either(marks, one_square<kVectors>(view.mark[k]));
  put(out, bytes, marks);
  put(out, bytes, both(closed, explored));
  if (view.built != nullptr) hidden = without(either(closed, load<kVectors>(view.built)), explored);
  put(out, bytes, hidden);
  std::uint8_t* ages = out + 2 * squares;
  // Often nothing has faded: one branch for the board, and none for a block.
  nonzero_words(without(explored, sight)) != 0 ? write_numbers<true>(view, squares, out, ages)
                                               : write_numbers<false>(view, squares, out, ages);
  return ages + squares;
}
PM_WIDE std::uint8_t* write_view_wide(const View& view, int squares, int words, std::uint8_t* out) {
  return words == 8 ? write_words<1>(view, squares, out) : write_words<2>(view, squares, out);
}

}  // namespace

#else

namespace {
constexpr auto look_wide = look_plain;
constexpr auto keep_numbers_wide = keep_numbers_plain;
constexpr auto write_view_wide = write_view_plain;
}  // namespace

#endif

void look_from(const std::uint64_t* own, int width, const Edges& edges, int squares, int words, const Look& to) {
  wide_board(squares) ? look_wide(own, width, edges, squares, words, to)
                      : look_plain(own, width, edges, squares, words, to);
}
void keep_numbers(const std::uint16_t* now, const std::uint64_t* sight, int squares, std::uint16_t* last) {
  wide_board(squares) ? keep_numbers_wide(now, sight, squares, last) : keep_numbers_plain(now, sight, squares, last);
}
std::uint8_t* write_view(const View& view, int squares, int words, std::uint8_t* out) {
  return wide_board(squares) ? write_view_wide(view, squares, words, out) : write_view_plain(view, squares, words, out);
}

}  // namespace playmill
