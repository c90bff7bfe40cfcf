#include "sample.hpp"

#include <cmath>
#include <cstring>
#include <vector>

#include "random.hpp"
#include "simd.hpp"

namespace playmill {

namespace {

// e^x for x <= 0 by a polynomial (Cephes' coefficients), with nothing from libm: the loop over a row
// becomes a handful of vector instructions and gives the same bits everywhere.
inline __attribute__((always_inline)) float exp_negative(float x) {
  x = x < -87.0f ? -87.0f : x;
  const float t = x * 1.44269504f;
  const auto whole = static_cast<std::int32_t>(t - 0.5f);  // round to nearest for t <= 0
  const auto k = static_cast<float>(whole);
  const float r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const std::int32_t bits = (whole + 127) << 23;
  float scale;
  std::memcpy(&scale, &bits, sizeof scale);
  return p * scale;
}

// weight[a] = legal ? e^(logit - largest legal logit) : 0. Returns the largest legal logit.
PM_CLONES float weigh(const float* logits, const std::uint8_t* legal, int actions, float* weight) {
  float largest = -INFINITY;
  for (int a = 0; a < actions; ++a) {
    const bool on = (legal[a >> 3] >> (a & 7)) & 1;
    weight[a] = on ? logits[a] : -INFINITY;
  }
  for (int a = 0; a < actions; ++a) largest = weight[a] > largest ? weight[a] : largest;
  for (int a = 0; a < actions; ++a) {
    const float e = exp_negative(weight[a] - largest);
    weight[a] = weight[a] == -INFINITY ? 0.0f : e;
  }
  return largest;
}

}  // namespace

void sample_actions(Workers& workers, const float* logits, const std::uint8_t* legal, std::size_t n, int actions,
                    int legal_bytes, std::uint64_t seed, std::uint64_t step, bool greedy, std::int32_t* action,
                    float* log_probability) {
  const std::uint64_t key = mix64(seed, step);
  workers.run(n, [&](std::size_t begin, std::size_t end, int) {
    std::vector<float> weight(static_cast<std::size_t>(actions));
    for (std::size_t i = begin; i < end; ++i) {
      const float* row = logits + i * static_cast<std::size_t>(actions);
      const float largest = weigh(row, legal + i * static_cast<std::size_t>(legal_bytes), actions, weight.data());
      float total = 0.0f;
      for (const float w : weight) total += w;
      const float target = Random(key, i).unit() * total;
      int chosen = -1;
      float sum = 0.0f;
      for (int a = 0; a < actions; ++a) {
        const float w = weight[static_cast<std::size_t>(a)];
        if (w == 0.0f) continue;
        if (greedy ? (chosen < 0 || w > sum) : (chosen < 0 || sum <= target)) {
          chosen = a;
          if (greedy) sum = w;
        } else if (!greedy) {
          break;
        }
        if (!greedy) sum += w;
      }
      action[i] = chosen;
      log_probability[i] = chosen < 0 ? NAN : row[chosen] - largest - std::log(total);
    }
  });
}

}  // namespace playmill
