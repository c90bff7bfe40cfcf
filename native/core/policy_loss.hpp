// The policy's share of the PPO loss and its gradient with respect to the logits, in one pass
// over each row: masked softmax, clipped surrogate, entropy, and the distance to a magnet.
#pragma once

#include <cstdint>

#include "workers.hpp"

namespace playmill {

struct PolicyLossInput {
  std::size_t rows = 0;
  int actions = 0, legal_bytes = 0;
  const float* logits = nullptr;           // [rows, actions]
  const std::uint8_t* legal = nullptr;     // [rows, legal_bytes] bits
  const std::int64_t* action = nullptr;    // [rows]
  const float* log_probability = nullptr;  // [rows], when the action was chosen
  const float* advantage = nullptr;        // [rows]
  const float* magnet = nullptr;           // [rows, actions] logits to stay near, or none
  float clip = 0, entropy_weight = 0, magnet_weight = 0;
};

// Means over the rows.
struct PolicyLossTerms {
  double policy = 0, entropy = 0, kl = 0, magnet = 0, clip_share = 0;
};

// Minimises policy - entropy_weight * entropy + magnet_weight * magnet; gradient[rows, actions]
// is that of the means.
PolicyLossTerms policy_loss(Workers& workers, const PolicyLossInput& in, float* gradient);

}  // namespace playmill
