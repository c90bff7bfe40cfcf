// Many hands on one game. On the card a large game is played by the lanes of a warp together: all of them run the
// rules, what is a single number is written by one, what is done square by square is shared out. On the CPU a crew
// is one thread, and nothing of this costs anything.
#pragma once

#include "platform.hpp"

namespace playmill {

struct Crew {
#ifdef PM_WARP
  static constexpr int kHands = 32;
  PM_FN static int hand() {
#ifdef __CUDA_ARCH__
    int lane;  // asked for each time: as a number that is kept it would go to memory again and again
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
#else
    return static_cast<int>(threadIdx.x % kHands);
#endif
  }
  // Waits for all hands; what each has written, all see.
  PM_FN static void join() { __syncwarp(); }
  PM_FN static int sum(int mine) { return __reduce_add_sync(~0u, mine); }
  PM_FN static unsigned most(unsigned mine) { return __reduce_max_sync(~0u, mine); }
  PM_FN static bool any(bool mine) { return __any_sync(~0u, mine); }
  PM_FN static int from_first(int value) { return __shfl_sync(~0u, value, 0); }
  // Together with what the hands before have.
  PM_FN static int upto(int mine) {
    PM_UNROLL
    for (int k = 1; k < kHands; k *= 2) {
      const int before = __shfl_up_sync(~0u, mine, k);
      if (hand() >= k) mine += before;
    }
    return mine;
  }
#else
  static constexpr int kHands = 1;
  PM_FN static constexpr int hand() { return 0; }
  PM_FN static void join() {}
  PM_FN static int sum(int mine) { return mine; }
  PM_FN static int from_first(int value) { return value; }
#endif

  // One hand does it; before it begins all others have read what they need, and afterwards they see what it did.
  template <class Work>
  PM_FN static void alone(Work&& work) {
    join();
    if (hand() == 0) work();
    join();
  }

  // The same for a number that all need.
  template <class Work>
  PM_FN static int told(Work&& work) {
    int found = 0;
    alone([&] { found = work(); });
    return from_first(found);
  }

  // Calls work(i) for i from 0 to n - 1, shared out.
  template <class Work>
  PM_FN static void share(int n, Work&& work) {
    PM_ROLLED
    for (int i = hand(); i < n; i += kHands) work(i);
  }
};

}  // namespace playmill
