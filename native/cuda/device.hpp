// The card's memory and its errors, for host code.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace playmill {

// Anything the driver or a kernel reports.
struct CudaError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The card has no room for what was asked.
struct OutOfDeviceMemory : CudaError {
  using CudaError::CudaError;
};

inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // taken note of: the next call starts clean
  const std::string text = std::string(what) + ": " + cudaGetErrorString(status);
  if (status == cudaErrorMemoryAllocation) throw OutOfDeviceMemory(text);
  throw CudaError(text);
}

// Waits until the data is there: work on any stream may read it next.
inline void copy_to_card(void* to, const void* from, std::size_t bytes, const char* what) {
  check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), what);
  check(cudaStreamSynchronize(nullptr), what);
}

// Memory on the card, freed with its owner.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(std::size_t bytes) : bytes_(bytes) {
    if (bytes > 0)
      check(cudaMalloc(&data_, bytes), ("taking " + std::to_string(bytes >> 20) + " MB of the card").c_str());
  }
  DeviceMemory(DeviceMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceMemory() { cudaFree(data_); }

  template <class T = void>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::size_t bytes() const { return bytes_; }

  void clear(cudaStream_t stream) { check(cudaMemsetAsync(data_, 0, bytes_, stream), "clearing memory"); }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace playmill
