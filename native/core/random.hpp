// Counter-based randomness: a seed and a stream name a sequence for ever, on any
// thread and on any device. Nothing is kept between draws but the counter.
#pragma once

#include <cstdint>

#include "platform.hpp"

namespace playmill {

// The finaliser of splitmix64: every bit of the input reaches every bit of the output.
PM_FN constexpr std::uint64_t mix64(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9ull;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBull;
  x ^= x >> 31;
  return x;
}

PM_FN constexpr std::uint64_t mix64(std::uint64_t a, std::uint64_t b) {
  return mix64(mix64(a + 0x9E3779B97F4A7C15ull) ^ (b * 0xD1342543DE82EF95ull + 0x632BE59BD9B4E019ull));
}

// Streams keep the uses of one seed apart: what a bot draws never moves a deal.
// A game numbers its own streams from 0 (below kBotStream).
inline constexpr std::uint64_t kBotStream = 1ull << 32;

class Random {
 public:
  PM_FN Random(std::uint64_t seed, std::uint64_t stream) : key_(mix64(seed, stream)) {}

  PM_FN std::uint32_t next() {
    key_ += 0x9E3779B97F4A7C15ull;
    return static_cast<std::uint32_t>(mix64(key_) >> 32);
  }

  // Uniform in [0, n), without bias (Lemire's multiply and reject).
  PM_FN std::uint32_t below(std::uint32_t n) {
    std::uint64_t product = static_cast<std::uint64_t>(next()) * n;
    auto low = static_cast<std::uint32_t>(product);
    if (low < n) {
      const std::uint32_t threshold = (0u - n) % n;
      while (low < threshold) {
        product = static_cast<std::uint64_t>(next()) * n;
        low = static_cast<std::uint32_t>(product);
      }
    }
    return static_cast<std::uint32_t>(product >> 32);
  }

  // Uniform in [0, 1), 24 bits.
  PM_FN float unit() { return static_cast<float>(next() >> 8) * (1.0f / 16777216.0f); }

 private:
  std::uint64_t key_;
};

}  // namespace playmill
