// Planes as a crew holds them while it thinks. On the card a hand has 32 squares of a plane in a register, hand k
// those from 32 k on; on the CPU the one hand has the whole plane. What is written with them stands once for both:
// all hands call together, with the same numbers, and all get the same answers.
#pragma once

#include "grid.hpp"

namespace playmill {

#ifdef PM_WARP
template <int N>
class CrewPlane {
 public:
  CrewPlane() = default;
  __device__ explicit CrewPlane(const std::uint64_t* plane) : mine_(word_of(plane, Crew::hand(), N / 32)) {}

  __device__ static CrewPlane only(int square) {
    return CrewPlane(Crew::hand() == square >> 5 ? 1u << (square & 31) : 0);
  }

  __device__ friend CrewPlane operator&(CrewPlane a, CrewPlane b) { return CrewPlane(a.mine_ & b.mine_); }
  __device__ friend CrewPlane operator|(CrewPlane a, CrewPlane b) { return CrewPlane(a.mine_ | b.mine_); }
  __device__ friend CrewPlane operator-(CrewPlane a, CrewPlane b) { return CrewPlane(a.mine_ & ~b.mine_); }

  __device__ bool empty() const { return !Crew::any(mine_ != 0); }
  __device__ bool has(int square) const { return __shfl_sync(~0u, mine_, square >> 5) >> (square & 31) & 1; }
  __device__ int count() const { return Crew::sum(__popc(mine_)); }

  // The n-th square, from 0; there must be more than n.
  __device__ int nth(int n) const {
    const int hand = Crew::hand(), here = __popc(mine_), upto = Crew::upto(here);
    const int who = __ffs(static_cast<int>(__ballot_sync(~0u, upto > n))) - 1;
    const std::uint32_t word = __shfl_sync(~0u, mine_, who);
    const int left = n - __shfl_sync(~0u, upto - here, who);
    const bool found = (word >> hand & 1) != 0 && __popc(word & ((1u << hand) - 1)) == left;
    return 32 * who + __ffs(static_cast<int>(__ballot_sync(~0u, found))) - 1;
  }

  // The squares for which test(square) holds.
  template <class Test>
  __device__ CrewPlane where(Test&& test) const {
    std::uint32_t kept = 0;
    each([&](int who, int square, bool here) {
      const std::uint32_t all = __ballot_sync(~0u, here && test(square));
      if (Crew::hand() == who) kept = all;
    });
    return CrewPlane(kept);
  }

  // The square with the largest number, of equals the first; -1 where the plane is empty.
  __device__ int most(const std::uint16_t* numbers) const {
    std::uint32_t best = 0;
    each([&](int, int square, bool here) {
      const std::uint32_t rank = here ? rank_of(numbers, square) : 0;
      best = rank > best ? rank : best;
    });
    return square_of(Crew::most(best));
  }

  // Every square moved by -width, +width, -1 and +1, regardless of edges.
  __device__ void moved(int width, CrewPlane (&out)[4]) const {
    const int hand = Crew::hand();
    const std::uint32_t lower = __shfl_up_sync(~0u, mine_, 1), higher = __shfl_down_sync(~0u, mine_, 1);
    const std::uint32_t below = hand > 0 ? lower : 0, above = hand + 1 < Crew::kHands ? higher : 0;
    const auto by = static_cast<unsigned>(width);
    out[0].mine_ = __funnelshift_rc(mine_, above, by);
    out[1].mine_ = __funnelshift_lc(below, mine_, by);
    out[2].mine_ = __funnelshift_r(mine_, above, 1);
    out[3].mine_ = __funnelshift_l(below, mine_, 1);
  }

 private:
  std::uint32_t mine_ = 0;

  __device__ explicit CrewPlane(std::uint32_t mine) : mine_(mine) {}

  // Goes over the words with squares in them, each hand with one square: work(whose word, square, in the plane).
  template <class Work>
  __device__ void each(Work&& work) const {
    PM_ROLLED
    for (std::uint32_t left = __ballot_sync(~0u, mine_ != 0); left != 0; left &= left - 1) {
      const int who = __ffs(static_cast<int>(left)) - 1, hand = Crew::hand();
      work(who, 32 * who + hand, (__shfl_sync(~0u, mine_, who) >> hand & 1) != 0);
    }
  }
#else
template <int N>
class CrewPlane {
 public:
  CrewPlane() = default;
  PM_FN explicit CrewPlane(const std::uint64_t* plane) { memcpy(all_.word, plane, sizeof all_.word); }

  PM_FN static CrewPlane only(int square) {
    CrewPlane out;
    out.all_.add(square);
    return out;
  }

  PM_FN friend CrewPlane operator&(const CrewPlane& a, const CrewPlane& b) { return CrewPlane(a.all_ & b.all_); }
  PM_FN friend CrewPlane operator|(const CrewPlane& a, const CrewPlane& b) { return CrewPlane(a.all_ | b.all_); }
  PM_FN friend CrewPlane operator-(const CrewPlane& a, const CrewPlane& b) { return CrewPlane(a.all_ - b.all_); }

  PM_FN bool empty() const { return all_.empty(); }
  PM_FN bool has(int square) const { return all_.has(square); }
  PM_FN int count() const { return all_.count(); }
  PM_FN int nth(int n) const { return all_.nth(n); }

  template <class Test>
  PM_FN CrewPlane where(Test&& test) const {
    CrewPlane out;
    each_square(all_, [&](int square) {
      if (test(square)) out.all_.add(square);
    });
    return out;
  }

  PM_FN int most(const std::uint16_t* numbers) const {
    std::uint32_t best = 0;
    each_square(all_, [&](int square) {
      const std::uint32_t rank = rank_of(numbers, square);
      best = rank > best ? rank : best;
    });
    return square_of(best);
  }

  PM_FN void moved(int width, CrewPlane (&out)[4]) const {
    // Word by word on purpose: vectors read across words that were just written, and wait for them.
    std::uint64_t below = 0, here = all_.word[0];
    for (int w = 0; w < BitSet<N>::kWords; ++w) {
      const std::uint64_t above = w + 1 < BitSet<N>::kWords ? all_.word[w + 1] : 0;
      out[0].all_.word[w] = here >> width | above << 1 << (63 - width);
      out[1].all_.word[w] = here << width | below >> 1 >> (63 - width);
      out[2].all_.word[w] = here >> 1 | above << 63;
      out[3].all_.word[w] = here << 1 | below >> 63;
      below = here;
      here = above;
    }
  }

 private:
  BitSet<N> all_;

  PM_FN explicit CrewPlane(const BitSet<N>& all) : all_(all) {}
#endif

  // Larger numbers first, then lower squares; never 0.
  PM_FN static std::uint32_t rank_of(const std::uint16_t* numbers, int square) {
    return static_cast<std::uint32_t>(numbers[square]) << 16 | (0xffffu - static_cast<std::uint32_t>(square));
  }
  PM_FN static int square_of(std::uint32_t rank) { return rank == 0 ? -1 : 0xffff - static_cast<int>(rank & 0xffff); }
};

// What keeps such planes on a board.
template <int N>
struct CrewGround {
  using Squares = CrewPlane<N>;
  int width;
  Squares all, first, last;  // first and last: columns

  PM_FN CrewGround(const Edges& edges, int row) : width(row), all(edges.all), first(edges.first), last(edges.last) {}

  // The squares next to those of `in`: above, below, to the left, to the right of them.
  PM_FN void beside(const Squares& in, Squares (&out)[4]) const {
    in.moved(width, out);
    out[1] = out[1] & all;
    out[2] = out[2] - last;
    out[3] = (out[3] & all) - first;
  }

  // The squares of `in` and the four next to each, where there is a `way`.
  PM_FN Squares stepped(const Squares& in, const Squares& way) const {
    Squares side[4];
    beside(in, side);
    return (in | side[0] | side[1] | side[2] | side[3]) & way;
  }

  // The squares of `in` and the eight around each.
  PM_FN Squares widened(const Squares& in) const {
    Squares side[4];
    beside(in, side);
    const Squares row = in | side[2] | side[3];
    beside(row, side);
    return row | side[0] | side[1];
  }
};

}  // namespace playmill
