// A team of threads that runs one function over slices of a batch. The caller works too, and
// never waits for a thread that has not begun: on a machine shared with others a team is then no
// slower than its caller alone. With one thread nothing is started and nothing is locked.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace playmill {

class Workers {
 public:
  explicit Workers(int threads)
      : threads_(threads < 1 ? 1 : threads),
        errors_(static_cast<std::size_t>(slices())),
        taken_(static_cast<std::size_t>(slices())) {
    for (int t = 1; t < threads_; ++t) team_.emplace_back([this, t] { serve(t); });
  }

  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  ~Workers() {
    stop_.store(true, std::memory_order_relaxed);
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
    for (auto& thread : team_) thread.join();
  }

  int threads() const { return threads_; }

  // How many slices a batch is cut into: several a thread, so that who is late has less to do.
  int slices() const { return threads_ == 1 ? 1 : kEach * threads_; }

  // Calls work(begin, end, slice) on consecutive slices of [0, count). The slices depend on the
  // number of threads alone, not on who takes them: what is summed up per slice is the same
  // every time.
  template <class Work>
  void run(std::size_t count, Work&& work) {
    if (threads_ == 1 || count < 2) {
      work(std::size_t{0}, count, 0);
      return;
    }
    const std::lock_guard<std::mutex> one_at_a_time(busy_);
    count_ = count;
    work_ = [&work](std::size_t begin, std::size_t end, int slice) { work(begin, end, slice); };
    done_.store(0, std::memory_order_relaxed);
    const std::uint32_t round = round_.load(std::memory_order_relaxed) + 1;
    round_.store(round, std::memory_order_release);
    round_.notify_all();
    take_slices(round, 0);
    // Whatever was taken by others is being worked on right now.
    for (int spin = 0; done_.load(std::memory_order_acquire) != slices(); ++spin)
      if (spin < kSpins)
        relax();
      else
        std::this_thread::yield();
    for (auto& error : errors_)
      if (error) std::rethrow_exception(std::exchange(error, nullptr));
  }

 private:
  // Calls follow one another within tens of microseconds, and waking a sleeping thread takes as
  // long: a worker spins for about 100 microseconds before it goes to sleep.
  static constexpr int kSpins = 3000;
  // Where each slice of a thread's share begins, in 64ths of it: large ones first, for few crossings,
  // small ones last, so that nobody waits long for another's last one.
  static constexpr int kBegins[] = {0, 16, 32, 40, 48, 52, 56, 58, 60, 61, 62, 63, 64};
  static constexpr int kEach = static_cast<int>(std::size(kBegins)) - 1;

  std::size_t begin_of(std::size_t slice) const {
    const std::size_t each = kEach, whole = static_cast<std::size_t>(kBegins[kEach]);
    const std::size_t at = slice / each * whole + static_cast<std::size_t>(kBegins[slice % each]);
    return count_ * at / (whole * static_cast<std::size_t>(threads_));
  }

  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  // Takes slices of this round until none is left: first its own, which lie in its cache since the
  // last round, then the others' from the end that they come to last. A slice carries the round it
  // was taken in; a thread that comes late finds a later one there and touches nothing.
  void take_slices(std::uint32_t round, int thread) {
    const int n = slices(), first = thread * kEach;
    for (int i = 0; i < n; ++i) {
      const int slice = i < kEach ? first + i : (first + n + kEach - 1 - i) % n;
      std::uint32_t before = round - 1;
      auto& taken = taken_[static_cast<std::size_t>(slice)];
      if (!taken.compare_exchange_strong(before, round, std::memory_order_acq_rel)) continue;
      call(static_cast<std::size_t>(slice));
      done_.fetch_add(1, std::memory_order_acq_rel);
    }
  }

  void call(std::size_t slice) {
    try {
      work_(begin_of(slice), begin_of(slice + 1), static_cast<int>(slice));
    } catch (...) {
      errors_[slice] = std::current_exception();
    }
  }

  void serve(int thread) {
    std::uint32_t seen = 0;
    for (;;) {
      for (int i = 0; i < kSpins && round_.load(std::memory_order_acquire) == seen; ++i) relax();
      while (round_.load(std::memory_order_acquire) == seen) round_.wait(seen, std::memory_order_acquire);
      seen = round_.load(std::memory_order_acquire);
      if (stop_.load(std::memory_order_relaxed)) return;
      take_slices(seen, thread);
    }
  }

  std::mutex busy_;
  int threads_;
  std::vector<std::exception_ptr> errors_;
  std::vector<std::atomic<std::uint32_t>> taken_;
  std::function<void(std::size_t, std::size_t, int)> work_;
  std::size_t count_ = 0;
  alignas(64) std::atomic<std::uint32_t> round_{0};  // watched by those who wait for work
  alignas(64) std::atomic<int> done_{0};             // counted up by all
  std::atomic<bool> stop_{false};
  std::vector<std::thread> team_;
};

}  // namespace playmill
