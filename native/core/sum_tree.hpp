// Numbers over which one draws in proportion: a tree of sums, sixteen children a node. A node of
// leaves is one line of the cache, a node of sums two. Sums are taken anew from the children and in
// their order whenever one changes: they depend on the leaves alone, whatever happened before, and
// nothing drifts. One thread at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <vector>

#include "random.hpp"

namespace playmill {

// A place in the k-th of n equal strata of [0, 1). `random` is drawn from in the order of k.
inline double in_stratum(std::size_t k, std::size_t n, Random& random) {
  const std::uint64_t high = random.next() >> 5, low = random.next() >> 6;
  const double unit = static_cast<double>(high << 26 | low) * 0x1p-53;
  return (static_cast<double>(k) + unit) / static_cast<double>(n);
}

class SumTree {
 public:
  explicit SumTree(std::size_t leaves) : leaves_(leaves), weights_(nodes_over(leaves) * kWide) {
    for (std::size_t n = nodes_over(leaves); n > 1; n = nodes_over(n)) sums_.emplace_back(nodes_over(n) * kWide);
    for (auto& level : sums_) std::fill(level.begin(), level.end(), 0.0);
    std::fill(weights_.begin(), weights_.end(), 0.0f);
  }

  static std::size_t bytes_for(std::size_t leaves) {
    std::size_t n = nodes_over(leaves), bytes = n * kWide * sizeof(float);
    for (; n > 1; n = nodes_over(n)) bytes += nodes_over(n) * kWide * sizeof(double);
    return bytes;
  }

  std::size_t leaves() const { return leaves_; }
  double total() const { return sums_.empty() ? sum(&weights_[0]) : sum(&sums_.back()[0]); }

  // Sets leaves[i] to weights[i], not negative and finite. Of two for one leaf the later holds.
  void set(const std::int64_t* leaves, const float* weights, std::size_t n) {
    touched_.clear();
    for (std::size_t i = 0; i < n; ++i) {
      if (i + kAhead < n) __builtin_prefetch(&weights_[static_cast<std::size_t>(leaves[i + kAhead])], 1);
      weights_[static_cast<std::size_t>(leaves[i])] = weights[i];
      touch(static_cast<std::size_t>(leaves[i]) / kWide);
    }
    const auto renew = [this](const auto& below, auto& level) {
      std::size_t kept = 0;
      for (std::size_t i = 0; i < touched_.size(); ++i) {
        const std::size_t node = touched_[i];
        level[node] = sum(&below[node * kWide]);
        if (kept == 0 || touched_[kept - 1] != node / kWide) touched_[kept++] = node / kWide;
      }
      touched_.resize(kept);
    };
    for (std::size_t l = 0; l < sums_.size(); ++l)
      if (l == 0)
        renew(weights_, sums_[0]);
      else
        renew(sums_[l - 1], sums_[l]);
  }

  // Draws n leaves, one from each of n equal strata of the total, in the order of the leaves; with
  // a total of 0 there is none to draw. The draws are a function of the weights, seed and counter.
  void sample(std::uint64_t seed, std::uint64_t counter, std::size_t n, std::int64_t* leaves, float* weights) const {
    Random random(seed, counter);
    const double all = total();
    // Some go down together: while one waits for memory the others are worked on.
    for (std::size_t first = 0; first < n; first += kTogether) {
      const std::size_t count = std::min(kTogether, n - first);
      double place[kTogether];
      std::size_t node[kTogether];
      for (std::size_t i = 0; i < count; ++i) {
        place[i] = in_stratum(first + i, n, random) * all;
        node[i] = 0;
      }
      for (std::size_t l = sums_.size(); l-- > 0;)
        for (std::size_t i = 0; i < count; ++i) {
          node[i] = node[i] * kWide + child(&sums_[l][node[i] * kWide], place[i]);
          if (l > 0) {
            __builtin_prefetch(&sums_[l - 1][node[i] * kWide]);
            __builtin_prefetch(&sums_[l - 1][node[i] * kWide + kWide / 2]);
          } else {
            __builtin_prefetch(&weights_[node[i] * kWide]);
          }
        }
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t leaf = node[i] * kWide + child(&weights_[node[i] * kWide], place[i]);
        leaves[first + i] = static_cast<std::int64_t>(leaf);
        weights[first + i] = weights_[leaf];
      }
    }
  }

  // How much each of n drawn leaves is to count, so that what is learnt from them is as if all had
  // been equally likely: (N P)^-beta, as a share of the largest among them. In place of their weights.
  static void importance(double beta, std::size_t n, float* weights) {
    const float least = *std::min_element(weights, weights + n);
    const auto power = static_cast<float>(-beta);
    for (std::size_t i = 0; i < n; ++i) weights[i] = std::pow(weights[i] / least, power);
  }

 private:
  static constexpr std::size_t kWide = 16, kTogether = 64, kAhead = 16;

  // Nodes begin on a line of the cache.
  template <class T>
  struct OnLines {
    using value_type = T;
    OnLines() = default;
    template <class U>
    OnLines(const OnLines<U>&) {}  // NOLINT: what allocators are made from
    T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t{64})); }
    void deallocate(T* p, std::size_t) { ::operator delete(p, std::align_val_t{64}); }
    bool operator==(const OnLines&) const { return true; }
  };
  template <class T>
  using Lines = std::vector<T, OnLines<T>>;

  static std::size_t nodes_over(std::size_t n) { return (n + kWide - 1) / kWide; }

  void touch(std::size_t node) {
    if (touched_.empty() || touched_.back() != node) touched_.push_back(node);
  }

  template <class T>
  static double four(const T* children) {
    return ((static_cast<double>(children[0]) + children[1]) + children[2]) + children[3];
  }

  template <class T>
  static double sum(const T* children) {
    return ((four(children) + four(children + 4)) + four(children + 8)) + four(children + 12);
  }

  // Which of four, one behind the other, holds `place`; that is then counted from where it begins.
  // Rounding may leave a place behind the last: then it is in the last one that has any weight.
  static std::size_t among(double a, double b, double c, double d, double& place) {
    const double begins[] = {0, a, a + b, a + b + c};
    const std::size_t found = (begins[1] <= place) + (begins[2] <= place) + (begins[3] <= place);
    if (begins[3] + d <= place) [[unlikely]] {
      const double weights[] = {a, b, c, d};
      std::size_t last = 3;
      while (last > 0 && weights[last] == 0) --last;
      place = weights[last];
      return last;
    }
    place -= begins[found];
    return found;
  }

  // First by fours, then within the four: few steps wait for one another.
  template <class T>
  static std::size_t child(const T* children, double& place) {
    const std::size_t first =
        4 * among(four(children), four(children + 4), four(children + 8), four(children + 12), place);
    const T* in = children + first;
    return first + among(in[0], in[1], in[2], in[3], place);
  }

  std::size_t leaves_;
  Lines<float> weights_;             // [leaves], up to whole nodes
  std::vector<Lines<double>> sums_;  // level by level upwards; the last is one node
  std::vector<std::size_t> touched_;
};

}  // namespace playmill
