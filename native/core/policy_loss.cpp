#include "policy_loss.hpp"

#include <vector>

#include "fast_math.hpp"
#include "simd.hpp"

namespace playmill {

namespace {

// logs[a] = log-probability and chance[a] = probability of the legal actions, both zero elsewhere;
// rows of padded(actions).
PM_CLONES void masked_softmax(const float* logits, const std::uint8_t* legal, int actions, float* logs, float* chance) {
  const int width = padded(actions);
  mask_logits(logits, legal, actions, logs);
  const float largest = largest_of(logs, width);
  for (int a = 0; a < width; ++a) chance[a] = logs[a] == kNever ? 0.0f : exp_negative(logs[a] - largest);
  const float total = sum_of(chance, width);
  const float shift = largest + std::log(total);
  const float share = 1.0f / total;
  for (int a = 0; a < width; ++a) {
    logs[a] = logs[a] == kNever ? 0.0f : logs[a] - shift;
    chance[a] *= share;
  }
}

PM_CLONES float product(const float* a, const float* b, int width) { return dot(a, b, width); }

// gradient = scale * (entropy_weight * p (log p + H) - pull * p), the action's own term apart.
PM_CLONES void descend(const float* chance, const float* logs, int actions, float entropy, float entropy_weight,
                       float pull, float scale, float* gradient) {
  for (int a = 0; a < actions; ++a) gradient[a] = scale * chance[a] * (entropy_weight * (logs[a] + entropy) - pull);
}

PM_CLONES void descend_to_magnet(const float* chance, const float* logs, const float* other, int actions,
                                 float distance, float scale, float* gradient) {
  for (int a = 0; a < actions; ++a) gradient[a] += scale * chance[a] * ((logs[a] - other[a]) - distance);
}

}  // namespace

PolicyLossTerms policy_loss(Workers& workers, const PolicyLossInput& in, float* gradient) {
  const auto width = static_cast<std::size_t>(in.actions);
  const float scale = 1.0f / static_cast<float>(in.rows);
  std::vector<PolicyLossTerms> parts(static_cast<std::size_t>(workers.slices()));
  workers.run(in.rows, [&](std::size_t begin, std::size_t end, int slice) {
    const int lanes = padded(in.actions);
    const auto size = static_cast<std::size_t>(lanes);
    std::vector<float> logs(size), chance(size), other(size), unused(size);
    PolicyLossTerms sum;
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint8_t* legal = in.legal + i * static_cast<std::size_t>(in.legal_bytes);
      float* out = gradient + i * width;
      masked_softmax(in.logits + i * width, legal, in.actions, logs.data(), chance.data());
      const auto action = static_cast<std::size_t>(in.action[i]);
      const float entropy = -product(chance.data(), logs.data(), lanes);
      const float log_ratio = logs[action] - in.log_probability[i];
      const float ratio = std::exp(log_ratio);
      const float low = 1.0f - in.clip;
      const float high = 1.0f + in.clip;
      const float clipped = ratio < low ? low : ratio > high ? high : ratio;
      const float advantage = in.advantage[i];
      const bool held = clipped * advantage < ratio * advantage;  // the clipped side is the smaller: no gradient
      const float pull = held ? 0.0f : -ratio * advantage;
      descend(chance.data(), logs.data(), in.actions, entropy, in.entropy_weight, pull, scale, out);
      out[action] += scale * pull;
      sum.policy -= static_cast<double>(held ? clipped * advantage : ratio * advantage);
      sum.entropy += static_cast<double>(entropy);
      sum.kl += static_cast<double>(ratio - 1.0f - log_ratio);
      sum.clip_share += clipped != ratio;
      if (in.magnet != nullptr) {
        masked_softmax(in.magnet + i * width, legal, in.actions, other.data(), unused.data());
        const float distance = product(chance.data(), logs.data(), lanes) - product(chance.data(), other.data(), lanes);
        descend_to_magnet(chance.data(), logs.data(), other.data(), in.actions, distance, scale * in.magnet_weight,
                          out);
        sum.magnet += static_cast<double>(distance);
      }
    }
    parts[static_cast<std::size_t>(slice)] = sum;
  });
  PolicyLossTerms mean;
  const double share = 1.0 / static_cast<double>(in.rows);
  for (const auto& part : parts) {
    mean.policy += part.policy * share;
    mean.entropy += part.entropy * share;
    mean.kl += part.kl * share;
    mean.magnet += part.magnet * share;
    mean.clip_share += part.clip_share * share;
  }
  return mean;
}

}  // namespace playmill
