// What the learner's kernels have in common.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "learn.hpp"

namespace playmill {

constexpr int kThreads = 256;

inline int blocks_for(std::int64_t n, int each) { return static_cast<int>((n + each - 1) / each); }

template <class T>
__device__ T narrow(float x);
template <>
__device__ inline float narrow<float>(float x) {
  return x;
}
template <>
__device__ inline __nv_bfloat16 narrow<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ inline __half narrow<__half>(float x) {
  return __float2half_rn(x);
}

// Calls work(T{}) with the type of `precision`.
template <class Work>
void with_type(Precision precision, Work&& work) {
  switch (precision) {
    case Precision::kFloat32: return work(float{});
    case Precision::kBfloat16: return work(__nv_bfloat16{});
    case Precision::kFloat16: return work(__half{});
  }
}

// The sum over a block, in a fixed order; valid in thread 0.
__device__ inline double block_sum(double x) {
  __shared__ double part[32];
  for (int k = 16; k > 0; k /= 2) x += __shfl_down_sync(~0u, x, k);
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x < 32) {
    x = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0.0;
    for (int k = 16; k > 0; k /= 2) x += __shfl_down_sync(~0u, x, k);
  }
  return x;
}

// Neighbours, read and written as one.
template <class T>
struct alignas(2 * sizeof(T)) Two {
  T value[2];
};
template <class T>
struct alignas(16) Eight {
  T value[8];
};

inline void launched(const char* what) { check(cudaGetLastError(), what); }

}  // namespace playmill
