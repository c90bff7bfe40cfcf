// The way back through relu.
#include "kernels.cuh"

namespace playmill {

namespace {

constexpr int kMaskBlocks = 528;

// Each thread keeps eight columns and goes down the rows with them.
template <class T>
__global__ void __launch_bounds__(kThreads)
    mask_kernel(const T* activation, int stride, int rows, int width, T* slope, float* sums) {
  const int columns = width / 8;
  const int across = columns < kThreads ? columns : kThreads;  // threads on one row
  const int lines = kThreads / across;                         // rows at a time
  const int line = static_cast<int>(threadIdx.x) / across;
  for (int first = 0; first < columns; first += across) {
    const int column = first + static_cast<int>(threadIdx.x) % across;
    float sum[8] = {};
    if (line < lines && column < columns)
      for (int r = static_cast<int>(blockIdx.x) * lines + line; r < rows; r += static_cast<int>(gridDim.x) * lines) {
        auto* at =
            reinterpret_cast<Eight<T>*>(slope + static_cast<std::size_t>(r) * static_cast<std::size_t>(width)) + column;
        const auto here = *(reinterpret_cast<const Eight<T>*>(activation + static_cast<std::size_t>(r) *
                                                                               static_cast<std::size_t>(stride)) +
                            column);
        Eight<T> eight = *at;
        for (int k = 0; k < 8; ++k) {
          if (!(static_cast<float>(here.value[k]) > 0.0f)) eight.value[k] = narrow<T>(0.0f);
          sum[k] += static_cast<float>(eight.value[k]);
        }
        *at = eight;
      }
    __shared__ float part[kThreads][8];
    __syncthreads();
    for (int k = 0; k < 8; ++k) part[threadIdx.x][k] = sum[k];
    __syncthreads();
    if (line == 0 && column < columns)
      for (int k = 0; k < 8; ++k) {
        float all = 0;
        for (int l = 0; l < lines; ++l) all += part[l * across + static_cast<int>(threadIdx.x)][k];
        sums[static_cast<std::size_t>(blockIdx.x) * static_cast<std::size_t>(width) + column * 8 + k] = all;
      }
  }
}

__global__ void columns_kernel(const float* sums, int blocks, int width, bool add, float* gradients) {
  // A warp a column would read across rows; 32 columns and 8 parts of the rows a block read along them.
  __shared__ float part[8][32];
  const int column = static_cast<int>(blockIdx.x) * 32 + static_cast<int>(threadIdx.x % 32);
  const int slice = static_cast<int>(threadIdx.x / 32);
  float sum = 0;
  for (int b = slice; b < blocks; b += 8) sum += sums[static_cast<std::size_t>(b) * width + column];
  part[slice][threadIdx.x % 32] = sum;
  __syncthreads();
  if (slice > 0) return;
  for (int k = 1; k < 8; ++k) sum += part[k][threadIdx.x];
  gradients[column] = (add ? gradients[column] : 0.0f) + sum;
}

}  // namespace

int mask_blocks() { return kMaskBlocks; }

void mask_slope(const void* activation, int stride, int rows, int width, Precision precision, void* slope, float* sums,
                cudaStream_t stream) {
  with_type(precision, [&](auto type) {
    using T = decltype(type);
    mask_kernel<T><<<kMaskBlocks, kThreads, 0, stream>>>(static_cast<const T*>(activation), stride, rows, width,
                                                         static_cast<T*>(slope), sums);
  });
  launched("going back through relu");
}

void add_columns(const float* sums, int blocks, int width, bool add, float* gradients, cudaStream_t stream) {
  columns_kernel<<<width / 32, kThreads, 0, stream>>>(sums, blocks, width, add, gradients);
  launched("adding up biases");
}

}  // namespace playmill
