// Masked sampling: one action a row from logits and legal bits, in float32.
#pragma once

#include <cstdint>

#include "workers.hpp"

namespace playmill {

// For every row: action ~ softmax(logits over the legal actions), with its log-probability.
// Row r of call `step` draws from stream (seed, step, r): the same on any number of threads.
// With `greedy` the likeliest legal action is taken.
void sample_actions(Workers& workers, const float* logits, const std::uint8_t* legal, std::size_t n, int actions,
                    int legal_bytes, std::uint64_t seed, std::uint64_t step, bool greedy, std::int32_t* action,
                    float* log_probability);

}  // namespace playmill
