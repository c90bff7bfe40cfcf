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

// Rows are worked on in lanes of sixteen: sums then have a fixed order that is also a fast one.
inline constexpr int kLanes = 16;
PM_FN constexpr int padded(int n) { return (n + kLanes - 1) / kLanes * kLanes; }

// The functions below take rows of padded(n) floats.

// out[a] = the logit where the bit is set, kNever elsewhere and in the padding.
PM_FN void mask_logits(const float* logits, const std::uint8_t* legal, int actions, float* out) {
  // Whole bytes of bits first: the inner loop over eight has constant shifts and becomes one vector.
  int a = 0;
  for (; a + 8 <= actions; a += 8) {
    const std::int32_t byte = legal[a >> 3];
    for (int k = 0; k < 8; ++k) out[a + k] = (byte >> k) & 1 ? logits[a + k] : kNever;
  }
  for (; a < actions; ++a) out[a] = (legal[a >> 3] >> (a & 7)) & 1 ? logits[a] : kNever;
  for (; a < padded(actions); ++a) out[a] = kNever;
}

PM_FN float largest_of(const float* x, int width) {
  float lane[kLanes];
  for (int k = 0; k < kLanes; ++k) lane[k] = x[k];
  for (int i = kLanes; i < width; i += kLanes)
    for (int k = 0; k < kLanes; ++k) lane[k] = x[i + k] > lane[k] ? x[i + k] : lane[k];
  float most = lane[0];
  for (int k = 1; k < kLanes; ++k) most = lane[k] > most ? lane[k] : most;
  return most;
}

PM_FN float add_lanes(float* lane) {
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int k = 0; k < half; ++k) lane[k] += lane[k + half];
  return lane[0];
}

PM_FN float sum_of(const float* x, int width) {
  float lane[kLanes] = {};
  for (int i = 0; i < width; i += kLanes)
    for (int k = 0; k < kLanes; ++k) lane[k] += x[i + k];
  return add_lanes(lane);
}

PM_FN float dot(const float* x, const float* y, int width) {
  float lane[kLanes] = {};
  for (int i = 0; i < width; i += kLanes)
    for (int k = 0; k < kLanes; ++k) lane[k] += x[i + k] * y[i + k];
  return add_lanes(lane);
}

}  // namespace playmill
