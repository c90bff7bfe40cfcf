#include "sample.hpp"

#include <bit>
#include <vector>

#include "fast_math.hpp"
#include "random.hpp"
#include "simd.hpp"

namespace playmill {

namespace {

struct Weights {
  float largest;  // of the legal logits
  float total;
};

// weight[a] = legal ? e^(logit - largest legal logit) : 0.
PM_CLONES Weights weigh(const float* logits, const std::uint8_t* legal, int actions, float* weight) {
  const int width = padded(actions);
  mask_logits(logits, legal, actions, weight);
  const float largest = largest_of(weight, width);
  for (int a = 0; a < width; ++a) weight[a] = weight[a] == kNever ? 0.0f : exp_negative(weight[a] - largest);
  return {largest, sum_of(weight, width)};
}

// Calls visit(action) for every legal action in order until it says stop.
template <class Visit>
void each_legal(const std::uint8_t* legal, int actions, Visit&& visit) {
  for (int byte = 0; byte * 8 < actions; ++byte)
    for (unsigned bits = legal[byte]; bits != 0; bits &= bits - 1)
      if (const int a = byte * 8 + std::countr_zero(bits); a >= actions || visit(a)) return;
}

int likeliest(const float* weight, const std::uint8_t* legal, int actions) {
  int best = -1;
  each_legal(legal, actions, [&](int a) {
    if (best < 0 || weight[a] > weight[best]) best = a;
    return false;
  });
  return best;
}

// The first action at which the running sum passes `target`; the last possible one if rounding
// leaves the sum short.
int draw(const float* weight, const std::uint8_t* legal, int actions, float target) {
  int last = -1;
  float sum = 0.0f;
  each_legal(legal, actions, [&](int a) {
    if (weight[a] == 0.0f) return false;
    last = a;
    sum += weight[a];
    return sum > target;
  });
  return last;
}

}  // namespace

void sample_actions(Workers& workers, const float* logits, const std::uint8_t* legal, std::size_t n, int actions,
                    int legal_bytes, std::uint64_t seed, std::uint64_t step, bool greedy, std::int32_t* action,
                    float* log_probability) {
  const std::uint64_t key = mix64(seed, step);
  workers.run(n, [&](std::size_t begin, std::size_t end, int) {
    std::vector<float> buffer(static_cast<std::size_t>(padded(actions)));
    float* weight = buffer.data();
    for (std::size_t i = begin; i < end; ++i) {
      const float* row = logits + i * static_cast<std::size_t>(actions);
      const std::uint8_t* bits = legal + i * static_cast<std::size_t>(legal_bytes);
      const Weights weights = weigh(row, bits, actions, weight);
      const int chosen = greedy ? likeliest(weight, bits, actions)
                                : draw(weight, bits, actions, Random(key, i).unit() * weights.total);
      action[i] = chosen;
      log_probability[i] = chosen < 0 ? NAN : row[chosen] - weights.largest - std::log(weights.total);
    }
  });
}

}  // namespace playmill
