// A warp acted on the host: 32 lanes take turns on stacks of their own and meet at every instruction that needs them
// all, in another order each time. Lanes that meet at different instructions, or not at all, end the program; what one
// reads before another has written it shows as a wrong result.
#pragma once

#include <ucontext.h>

#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>

#define __device__

namespace acted {

class Warp {
 public:
  static constexpr int kLanes = 32;

  static Warp& one() {
    static Warp warp;
    return warp;
  }

  // Every lane does `work`; returns when all have.
  void run(const std::function<void()>& work) {
    work_ = &work;
    for (int lane = 0; lane < kLanes; ++lane) {
      getcontext(&lane_[lane]);
      lane_[lane].uc_stack.ss_sp = stack_.get() + lane * kStack;
      lane_[lane].uc_stack.ss_size = kStack;
      lane_[lane].uc_link = &home_;
      makecontext(&lane_[lane], reinterpret_cast<void (*)()>(&Warp::enter), 0);
      where_[lane] = nullptr;
      ended_[lane] = false;
    }
    for (bool going = true; going;) {
      ++round_;
      // An odd factor visits all lanes in an order of its own.
      for (int k = 0; k < kLanes; ++k) {
        now_ = static_cast<int>((static_cast<unsigned>(k) * (2 * round_ + 1) + round_ / 5) % kLanes);
        swapcontext(&home_, &lane_[now_]);
      }
      for (int lane = 1; lane < kLanes; ++lane)
        if (ended_[lane] != ended_[0] || (!ended_[0] && where_[lane] != where_[0])) {
          std::fprintf(stderr, "lane %d is at %s, lane 0 at %s\n", lane, ended_[lane] ? "the end" : where_[lane],
                       ended_[0] ? "the end" : where_[0]);
          std::abort();
        }
      going = !ended_[0];
    }
  }

  int lane() const { return now_; }

  // Waits for all lanes at the instruction `name`; what each has brought.
  const std::uint64_t* meet(const char* name, std::uint64_t brought) {
    const int mine = now_;
    std::uint64_t* all = brought_[round_ % 2];
    all[mine] = brought;
    where_[mine] = name;
    swapcontext(&lane_[mine], &home_);
    return all;
  }

 private:
  static constexpr std::size_t kStack = 1 << 18;

  static void enter() {
    Warp& warp = one();
    (*warp.work_)();
    warp.ended_[warp.now_] = true;
  }

  ucontext_t home_, lane_[kLanes];
  std::unique_ptr<char[]> stack_{new char[kLanes * kStack]};
  const std::function<void()>* work_ = nullptr;
  const char* where_[kLanes] = {};
  bool ended_[kLanes] = {};
  std::uint64_t brought_[2][kLanes] = {};
  unsigned round_ = 0;
  int now_ = 0;
};

struct Thread {
  unsigned x;
};
inline Thread thread() { return {static_cast<unsigned>(Warp::one().lane())}; }

template <class T>
std::uint64_t packed(T value) {
  static_assert(sizeof(T) <= 8);
  std::uint64_t out = 0;
  std::memcpy(&out, &value, sizeof value);
  return out;
}
template <class T>
T unpacked(std::uint64_t bits) {
  T out;
  std::memcpy(&out, &bits, sizeof out);
  return out;
}

}  // namespace acted

#define threadIdx (acted::thread())

inline void __syncwarp() { acted::Warp::one().meet("syncwarp", 0); }
template <class T>
T __shfl_sync(unsigned, T value, int from) {
  return acted::unpacked<T>(acted::Warp::one().meet("shfl", acted::packed(value))[from & 31]);
}
template <class T>
T __shfl_up_sync(unsigned, T value, unsigned by) {
  const int mine = acted::Warp::one().lane();
  const std::uint64_t* all = acted::Warp::one().meet("shfl_up", acted::packed(value));
  return mine < static_cast<int>(by) ? value : acted::unpacked<T>(all[mine - static_cast<int>(by)]);
}
template <class T>
T __shfl_down_sync(unsigned, T value, unsigned by) {
  const int mine = acted::Warp::one().lane();
  const std::uint64_t* all = acted::Warp::one().meet("shfl_down", acted::packed(value));
  return mine + static_cast<int>(by) > 31 ? value : acted::unpacked<T>(all[mine + static_cast<int>(by)]);
}
inline unsigned __ballot_sync(unsigned, bool vote) {
  const std::uint64_t* all = acted::Warp::one().meet("ballot", vote);
  unsigned out = 0;
  for (int lane = 0; lane < 32; ++lane) out |= static_cast<unsigned>(all[lane]) << lane;
  return out;
}
inline bool __any_sync(unsigned, bool vote) {
  const std::uint64_t* all = acted::Warp::one().meet("any", vote);
  bool out = false;
  for (int lane = 0; lane < 32; ++lane) out |= all[lane] != 0;
  return out;
}
inline int __reduce_add_sync(unsigned, int value) {
  const std::uint64_t* all = acted::Warp::one().meet("reduce_add", acted::packed(value));
  int out = 0;
  for (int lane = 0; lane < 32; ++lane) out += acted::unpacked<int>(all[lane]);
  return out;
}
inline unsigned __reduce_max_sync(unsigned, unsigned value) {
  const std::uint64_t* all = acted::Warp::one().meet("reduce_max", value);
  unsigned out = 0;
  for (int lane = 0; lane < 32; ++lane)
    out = static_cast<unsigned>(all[lane]) > out ? static_cast<unsigned>(all[lane]) : out;
  return out;
}
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned by) {
  const std::uint64_t both = static_cast<std::uint64_t>(high) << 32 | low;
  return by >= 32 ? low : static_cast<unsigned>(both << by >> 32);
}
inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned by) {
  const std::uint64_t both = static_cast<std::uint64_t>(high) << 32 | low;
  return by >= 32 ? high : static_cast<unsigned>(both >> by);
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return __funnelshift_lc(low, high, by & 31);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return __funnelshift_rc(low, high, by & 31);
}
