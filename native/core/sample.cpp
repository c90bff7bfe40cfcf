#include "sample.hpp"

#include <vector>

#include "fast_math.hpp"
#include "random.hpp"
#include "simd.hpp"

namespace playmill {

namespace {

// weight[a] = legal ? e^(logit - largest legal logit) : 0. Returns the largest legal logit.
PM_CLONES float weigh(const float* logits, const std::uint8_t* legal, int actions, float* weight) {
  const float largest = mask_logits(logits, legal, actions, weight);
  for (int a = 0; a < actions; ++a)
    weight[a] = weight[a] == kNever ? 0.0f : exp_negative(weight[a] - largest);
  return largest;
}

int likeliest(const std::vector<float>& weight) {
  int best = -1;
  float most = 0.0f;
  for (std::size_t a = 0; a < weight.size(); ++a) {
    if (weight[a] <= most) continue;
    most = weight[a];
    best = static_cast<int>(a);
  }
  return best;
}

// The first action at which the running sum passes `target`; the last possible one if rounding
// leaves the sum short.
int draw(const std::vector<float>& weight, float target) {
  int last = -1;
  float sum = 0.0f;
  for (std::size_t a = 0; a < weight.size(); ++a) {
    if (weight[a] == 0.0f) continue;
    last = static_cast<int>(a);
    sum += weight[a];
    if (sum > target) break;
  }
  return last;
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
      const int chosen = greedy ? likeliest(weight) : draw(weight, Random(key, i).unit() * total);
      action[i] = chosen;
      log_probability[i] = chosen < 0 ? NAN : row[chosen] - largest - std::log(total);
    }
  });
}

}  // namespace playmill
