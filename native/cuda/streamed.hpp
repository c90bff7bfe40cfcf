// Products of rows with weights that stay in shared memory while the rows stream past them, for Hopper
// cards: the way back into a layer with relu's mask and the sums of columns done on the way out. cuBLASLt has
// no fast epilogue for these, and a mask of its own moves every slope through memory twice more.
#pragma once

#include "learn.hpp"

namespace playmill {

// slope[rows, trunks * width] = behind[rows, trunks * inner] weight, trunk by trunk, zero where the
// activation is; weight is [inner, width] for each trunk.
struct WayBack {
  int rows = 0, inner = 0, width = 0, trunks = 1;
  const void* behind = nullptr;
  const void* weight = nullptr;
  const void* activation = nullptr;
  void* slope = nullptr;
  int behind_stride = 0, weight_stride = 0, activation_stride = 0, slope_stride = 0;  // in elements
  float* sums = nullptr;  // [parts, slope_stride]: part sums of the slope's columns
};

// Whether the current card and these sizes allow it.
bool can_stream(const WayBack& back, Precision precision);
// Parts of `sums` that are written.
int stream_parts(const WayBack& back);
void stream_back(const WayBack& back, Precision precision, cudaStream_t stream);

}  // namespace playmill
