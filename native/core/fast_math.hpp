// Elementary functions without libm, so that loops over rows become vector instructions and
// give the same bits everywhere.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "platform.hpp"

namespace playmill {

// e^x for x <= 0 by a polynomial on the remainder after powers of two (Cephes' coefficients).
// About 1e-7 of relative error; below -87 it stays at e^-87.
PM_FN float exp_negative(float x) {
  x = x < -87.0f ? -87.0f : x;
  const auto whole = static_cast<std::int32_t>(x * 1.44269504f - 0.5f);  // to nearest, as x <= 0
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
  memcpy(&scale, &bits, sizeof scale);
  return p * scale;
}

// A logit no action is ever drawn with: far below any real one, yet finite, so that sums of
// products with probability zero stay numbers.
inline constexpr float kNever = -1e30f;

// out[a] = the logit where the bit is set, kNever elsewhere. Returns the largest.
PM_FN float mask_logits(const float* logits, const std::uint8_t* legal, int actions, float* out) {
  float largest = kNever;
  for (int a = 0; a < actions; ++a) {
    const float logit = (legal[a >> 3] >> (a & 7)) & 1 ? logits[a] : kNever;
    out[a] = logit;
    largest = logit > largest ? logit : largest;
  }
  return largest;
}

}  // namespace playmill
