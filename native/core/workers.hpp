// A team of threads that runs one function over slices of a batch. The caller works too;
// with one thread nothing is started and nothing is locked.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace playmill {

class Workers {
 public:
  explicit Workers(int threads) : threads_(threads < 1 ? 1 : threads) {
    errors_.resize(static_cast<std::size_t>(threads_));
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

  // Calls work(begin, end, thread) on consecutive slices of [0, count). The slices depend on
  // the number of threads alone, so what each thread adds up is the same every time.
  template <class Work>
  void run(std::size_t count, Work&& work) {
    if (threads_ == 1 || count < 2) {
      work(std::size_t{0}, count, 0);
      return;
    }
    const std::lock_guard<std::mutex> one_at_a_time(busy_);
    count_ = count;
    work_ = [&work](std::size_t begin, std::size_t end, int thread) { work(begin, end, thread); };
    pending_.store(threads_ - 1, std::memory_order_relaxed);
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
    call(0);
    for (int left = wait_spinning(); left != 0; left = pending_.load(std::memory_order_acquire))
      pending_.wait(left, std::memory_order_acquire);
    for (auto& error : errors_)
      if (error) std::rethrow_exception(std::exchange(error, nullptr));
  }

 private:
  // Calls follow one another within tens of microseconds, and waking a sleeping thread takes as
  // long: everybody spins for about 100 microseconds before going to sleep.
  static constexpr int kSpins = 3000;

  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  int wait_spinning() const {
    for (int i = 0; i < kSpins; ++i) {
      if (pending_.load(std::memory_order_acquire) == 0) return 0;
      relax();
    }
    return pending_.load(std::memory_order_acquire);
  }

  void call(int thread) {
    const auto t = static_cast<std::size_t>(thread);
    const auto n = static_cast<std::size_t>(threads_);
    try {
      work_(count_ * t / n, count_ * (t + 1) / n, thread);
    } catch (...) {
      errors_[t] = std::current_exception();
    }
  }

  void serve(int thread) {
    std::uint32_t seen = 0;
    for (;;) {
      for (int i = 0; i < kSpins && round_.load(std::memory_order_acquire) == seen; ++i) relax();
      while (round_.load(std::memory_order_acquire) == seen) round_.wait(seen, std::memory_order_acquire);
      ++seen;
      if (stop_.load(std::memory_order_relaxed)) return;
      call(thread);
      if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
    }
  }

  std::mutex busy_;
  int threads_;
  std::vector<std::thread> team_;
  std::vector<std::exception_ptr> errors_;
  std::function<void(std::size_t, std::size_t, int)> work_;
  std::size_t count_ = 0;
  std::atomic<std::uint32_t> round_{0};
  std::atomic<int> pending_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace playmill
