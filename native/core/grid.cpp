#include "grid.hpp"

#include "wide.hpp"

namespace playmill {

#ifdef PM_VECTORS

namespace {

using namespace wide;

// Where own squares are open in each direction: up, down, left, right.
template <int kVectors>
struct Ways {
  Words<kVectors> to[4];
};
template <int kVectors>
PM_WIDE_INLINE Ways<kVectors> ways_of(const std::uint64_t* own, const std::uint64_t* closed, int width,
                                      const Edges& edges) {
  const auto blocked = load<kVectors>(closed), from = load<kVectors>(own);
  return {{without(from, either(up(blocked, width), load<kVectors>(edges.top))),
           without(from, either(down(blocked, width), load<kVectors>(edges.bottom))),
           without(from, either(up(blocked, 1), load<kVectors>(edges.first))),
           without(from, either(down(blocked, 1), load<kVectors>(edges.last)))}};
}

// Which of 64 squares, of those `on` the board, have an army above 1.
PM_WIDE_INLINE __mmask64 armed(const std::uint16_t* army, std::uint64_t on) {
  const __m512i one = _mm512_set1_epi16(1);
  const __m512i low = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(on), army);
  const __m512i high = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(on >> 32), army + 32);
  return _mm512_kunpackd(_mm512_cmpgt_epu16_mask(high, one), _mm512_cmpgt_epu16_mask(low, one));
}

// The bits of squares from `first` on that are on the board.
PM_WIDE_INLINE std::uint64_t board_bits(int squares, int first) {
  return squares - first >= 64 ? ~0ull : (1ull << (squares - first)) - 1;
}

template <int kVectors>
PM_WIDE_INLINE void move_words(const std::uint16_t* army, const Ways<kVectors>& ways, int squares, std::uint8_t* out) {
  alignas(64) std::uint64_t open[4][8 * kVectors];
  for (int d = 0; d < 4; ++d) store(open[d], ways.to[d]);
  for (int first = 0; first < squares; first += 64) {
    const std::uint64_t on = board_bits(squares, first);
    __m512i byte = _mm512_setzero_si512();
    for (int d = 0; d < 4; ++d)
      byte = _mm512_mask_add_epi8(byte, _cvtu64_mask64(open[d][first / 64]), byte,
                                  _mm512_set1_epi8(static_cast<char>(17 << d)));
    _mm512_mask_storeu_epi8(out + first, _cvtu64_mask64(on), _mm512_maskz_mov_epi8(armed(army + first, on), byte));
  }
}
PM_WIDE void move_bytes_wide(const std::uint16_t* army, const std::uint64_t* own, const std::uint64_t* closed,
                             int width, const Edges& edges, int squares, int words, std::uint8_t* out) {
  words == 8 ? move_words(army, ways_of<1>(own, closed, width, edges), squares, out)
             : move_words(army, ways_of<2>(own, closed, width, edges), squares, out);
}

// The same where the machine turns matrices of 8 x 8 bits: a byte of each direction's plane is a row, and each column
// is the byte of a square.
template <int kVectors>
PM_MATRIX_INLINE void turn_words(const std::uint16_t* army, const Ways<kVectors>& ways, int squares,
                                 std::uint8_t* out) {
  const __m512i unit = _mm512_set1_epi64(static_cast<long long>(0x8040201008040201ull));
  for (int v = 0; v < kVectors; ++v) {
    const __m512i upper = ways.to[0].v[v], lower = ways.to[1].v[v], left = ways.to[2].v[v], right = ways.to[3].v[v];
    // Rows of a matrix go from the last bit to the first. Four bytes each, of four squares' groups in every lane.
    const __m512i sides[] = {_mm512_unpacklo_epi8(right, left), _mm512_unpackhi_epi8(right, left)};
    const __m512i ends[] = {_mm512_unpacklo_epi8(lower, upper), _mm512_unpackhi_epi8(lower, upper)};
    __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 16, 16, 17, 17, 18, 18, 19, 19);
    for (int lane = 0; lane < 4; ++lane) {
      for (int half = 0; half < 2; ++half) {
        const int first = 512 * v + 128 * lane + 64 * half;
        if (first >= squares) return;
        const __m512i matrices = _mm512_permutex2var_epi32(_mm512_unpacklo_epi16(sides[half], ends[half]), twice,
                                                           _mm512_unpackhi_epi16(sides[half], ends[half]));
        const std::uint64_t on = board_bits(squares, first);
        const __m512i bytes = _mm512_maskz_gf2p8affine_epi64_epi8(armed(army + first, on), unit, matrices, 0);
        if (on == ~0ull) {
          _mm512_storeu_si512(out + first, bytes);
        } else {
          _mm512_mask_storeu_epi8(out + first, _cvtu64_mask64(on), bytes);
        }
      }
      twice = _mm512_add_epi32(twice, _mm512_set1_epi32(4));
    }
  }
}
PM_MATRIX void move_bytes_turned(const std::uint16_t* army, const std::uint64_t* own, const std::uint64_t* closed,
                                 int width, const Edges& edges, int squares, int words, std::uint8_t* out) {
  words == 8 ? turn_words(army, ways_of<1>(own, closed, width, edges), squares, out)
             : turn_words(army, ways_of<2>(own, closed, width, edges), squares, out);
}

// 32 numbers `before`: one more on the squares of `own`, and on those of `free` that have less than `most_free`.
// `full` are the squares of `own` that have no room.
PM_WIDE_INLINE __m512i grown(__m512i before, __mmask32 own, __mmask32 free, __m512i most_free, __mmask32& full) {
  full = _mm512_mask_cmpeq_epu16_mask(own, before, _mm512_set1_epi16(-1));
  const __mmask32 more = _kor_mask32(own, _mm512_mask_cmplt_epu16_mask(free, before, most_free));
  return _mm512_mask_adds_epu16(before, more, before, _mm512_set1_epi16(1));
}

template <int kVectors>
PM_WIDE_INLINE void grow_words(std::uint16_t* army, int squares, Recruits& g) {
  auto built = load<kVectors>(g.built), free = built, owned = nothing<kVectors>();
  for (int k = 0; k < g.marks; ++k) built = either(built, one_square<kVectors>(g.mark[k]));
  alignas(64) std::uint64_t planes[kMostPlanes][8 * kVectors], all[8 * kVectors], nobodys[8 * kVectors];
  for (int k = 0; k < g.owners; ++k) {
    const auto own = load<kVectors>(g.own[k]);
    const auto grows = g.which == Recruits::kAll     ? own
                       : g.which == Recruits::kBuilt ? both(own, built)
                                                     : without(own, built);
    free = without(free, own);
    owned = either(owned, grows);
    store(planes[k], grows);
  }
  store(all, owned);
  store(nobodys, free);
  for (int k = 0; k < g.owners; ++k) {
    g.grown[k] = 0;
    for (int w = 0; w < 8 * kVectors; ++w) g.grown[k] += static_cast<int>(_mm_popcnt_u64(planes[k][w]));
  }
  const __m512i most_free = _mm512_set1_epi16(static_cast<short>(g.most_free));
  for (int w = 0; 64 * w < squares; ++w) {
    const std::uint64_t own = all[w], nobody = nobodys[w];
    std::uint16_t* low = army + 64 * w;
    const auto own_low = static_cast<__mmask32>(own), own_high = static_cast<__mmask32>(own >> 32);
    const auto free_low = static_cast<__mmask32>(nobody), free_high = static_cast<__mmask32>(nobody >> 32);
    __mmask32 full_low, full_high;
    if (64 * w + 64 <= squares) {
      _mm512_storeu_si512(low, grown(_mm512_loadu_si512(low), own_low, free_low, most_free, full_low));
      _mm512_storeu_si512(low + 32, grown(_mm512_loadu_si512(low + 32), own_high, free_high, most_free, full_high));
    } else {
      const std::uint64_t on = (1ull << (squares % 64)) - 1;
      const auto on_low = static_cast<__mmask32>(on), on_high = static_cast<__mmask32>(on >> 32);
      _mm512_mask_storeu_epi16(low, on_low,
                               grown(_mm512_maskz_loadu_epi16(on_low, low), own_low, free_low, most_free, full_low));
      _mm512_mask_storeu_epi16(
          low + 32, on_high,
          grown(_mm512_maskz_loadu_epi16(on_high, low + 32), own_high, free_high, most_free, full_high));
    }
    if (__builtin_expect(!_kortestz_mask32_u8(full_low, full_high), 0)) {
      const std::uint64_t full = _cvtmask64_u64(_mm512_kunpackd(full_high, full_low));
      for (int k = 0; k < g.owners; ++k) g.grown[k] -= static_cast<int>(_mm_popcnt_u64(full & planes[k][w]));
    }
  }
}
PM_WIDE void grow_squares_wide(std::uint16_t* army, int squares, int words, Recruits& recruits) {
  words == 8 ? grow_words<1>(army, squares, recruits) : grow_words<2>(army, squares, recruits);
}

}  // namespace

#else

namespace {
constexpr auto grow_squares_wide = grow_squares_plain;
constexpr auto move_bytes_wide = move_bytes_plain;
constexpr auto move_bytes_turned = move_bytes_plain;
}  // namespace

#endif

void grow_squares(std::uint16_t* army, int squares, int words, Recruits& recruits) {
  kWideVectors ? grow_squares_wide(army, squares, words, recruits) : grow_squares_plain(army, squares, words, recruits);
}
void move_bytes(const std::uint16_t* army, const std::uint64_t* own, const std::uint64_t* closed, int width,
                const Edges& edges, int squares, int words, std::uint8_t* out) {
  const auto way = kBitMatrices ? move_bytes_turned : kWideVectors ? move_bytes_wide : move_bytes_plain;
  way(army, own, closed, width, edges, squares, words, out);
}

}  // namespace playmill
