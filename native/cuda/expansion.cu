// Packed rows as floats.
#include <algorithm>

#include "kernels.cuh"

namespace playmill {

namespace {

constexpr int kExpandRows = 32;  // of a block, fewer where rows are long
constexpr int kExpandThreads = 128;

// What eight bits come to.
__device__ Eight<float> ones(unsigned bits, float) {
  Eight<float> eight;
#pragma unroll
  for (int k = 0; k < 8; ++k) eight.value[k] = bits >> k & 1 ? 1.0f : 0.0f;
  return eight;
}
template <class T>
__device__ Eight<T> ones(unsigned bits, T) {
  constexpr unsigned kOne = std::is_same_v<T, __half> ? 0x3C00 : 0x3F80;
  const unsigned spread = bits | bits << 15;  // every second bit in the upper half
  uint4 eight;
  eight.x = (spread & 0x10001u) * kOne;
  eight.y = (spread >> 2 & 0x10001u) * kOne;
  eight.z = (spread >> 4 & 0x10001u) * kOne;
  eight.w = (spread >> 6 & 0x10001u) * kOne;
  return *reinterpret_cast<const Eight<T>*>(&eight);
}

// Rows into shared memory.
__device__ void stage_rows(const std::uint8_t* rows, const std::int32_t* index, int base, int live, int bytes,
                           std::uint8_t* stage) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const std::uint8_t* block = rows + static_cast<std::size_t>(base) * static_cast<std::size_t>(bytes);
  if (index == nullptr && (reinterpret_cast<std::uintptr_t>(block) & 15u) == 0) {
    const int size = live * bytes;
    for (int i = thread; i < size / 16; i += threads)
      reinterpret_cast<uint4*>(stage)[i] = reinterpret_cast<const uint4*>(block)[i];
    for (int i = size / 16 * 16 + thread; i < size; i += threads) stage[i] = block[i];
    return;
  }
  // A warp has several rows on their way at a time: they lie far apart.
  constexpr int kRows = 4, kSteps = 4;
  const int step = threads / 32;
  for (int first = thread / 32; first < live; first += kRows * step) {
    const std::uint8_t* from[kRows];
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      const int r = first + k * step < live ? first + k * step : first;
      const int row = index != nullptr ? index[base + r] : base + r;
      from[k] = rows + static_cast<std::size_t>(row < 0 ? 0 : row) * static_cast<std::size_t>(bytes);  // left out: any
    }
    for (int begin = thread % 32; begin < bytes; begin += 32 * kSteps) {
      std::uint8_t byte[kRows][kSteps];
#pragma unroll
      for (int k = 0; k < kRows; ++k)
#pragma unroll
        for (int i = 0; i < kSteps; ++i) byte[k][i] = begin + 32 * i < bytes ? from[k][begin + 32 * i] : 0;
#pragma unroll
      for (int k = 0; k < kRows; ++k)
#pragma unroll
        for (int i = 0; i < kSteps; ++i)
          if (begin + 32 * i < bytes && first + k * step < live)
            stage[(first + k * step) * bytes + begin + 32 * i] = byte[k][i];
    }
  }
}

// Singles first, into shared memory. Then each thread keeps eight features and goes down the rows with
// them, and one store writes all eight.
template <class T>
__global__ void __launch_bounds__(kExpandThreads)
    expand_kernel(const std::uint8_t* rows, const std::int32_t* index, int n, int each, int bytes, const Octet* octets,
                  const Feature* singles, int single_count, int padded, T* out) {
  extern __shared__ __align__(16) std::uint8_t stage[];
  auto* single = reinterpret_cast<T*>(stage + (each * bytes + 16) / 16 * 16);
  const int base = static_cast<int>(blockIdx.x) * each;
  const int live = n - base < each ? n - base : each;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  stage_rows(rows, index, base, live, bytes, stage);
  __syncthreads();
  for (int i = thread; i < live * single_count; i += threads)
    single[i] = narrow<T>(feature_of(singles[i % single_count], stage + i / single_count * bytes));
  __syncthreads();
  for (int group = thread; group < padded / 8; group += threads) {
    const Octet octet = octets[group];
    T* to = out + static_cast<std::size_t>(base) * static_cast<std::size_t>(padded) + group * 8;
#pragma unroll 4
    for (int r = 0; r < live; ++r) {
      Eight<T> eight = ones(octet_bits(octet, stage + r * bytes), T{});
      if (octet.singles >= 0) eight = *reinterpret_cast<const Eight<T>*>(single + r * single_count + octet.singles);
      *reinterpret_cast<Eight<T>*>(to + static_cast<std::size_t>(r) * static_cast<std::size_t>(padded)) = eight;
    }
  }
}

}  // namespace

ExpansionTable::ExpansionTable(const Schema& schema) : bytes_(schema.bytes()) {
  const Expansion expansion(schema);
  padded_ = static_cast<int>(expansion.octets.size() * 8);
  singles_count_ = static_cast<int>(expansion.singles.size());
  octets_ = DeviceMemory(expansion.octets.size() * sizeof(Octet));
  singles_ = DeviceMemory(expansion.singles.size() * sizeof(Feature));
  copy_to_card(octets_.as(), expansion.octets.data(), octets_.bytes(), "sending a schema");
  copy_to_card(singles_.as(), expansion.singles.data(), singles_.bytes(), "sending a schema");
}

void ExpansionTable::expand(const std::uint8_t* rows, const std::int32_t* index, int n, Precision precision, void* out,
                            cudaStream_t stream) const {
  const int threads = padded_ / 8 < kExpandThreads ? (padded_ / 8 + 31) / 32 * 32 : kExpandThreads;
  with_type(precision, [&](auto type) {
    using T = decltype(type);
    // A little more than the rows: the last bits may be read with their neighbour, singles are aligned.
    constexpr int kRoom = 48 * 1024 - 32;
    const int row = bytes_ + singles_count_ * static_cast<int>(sizeof(T));
    const int each = std::min(kExpandRows, kRoom / row);
    if (each < 1) throw std::invalid_argument("packed rows of this length cannot be expanded on the card");
    const std::size_t room = static_cast<std::size_t>(each * row) + 32;
    expand_kernel<T><<<blocks_for(n, each), threads, room, stream>>>(rows, index, n, each, bytes_, octets_.as<Octet>(),
                                                                     singles_.as<Feature>(), singles_count_, padded_,
                                                                     static_cast<T*>(out));
  });
  launched("expanding rows");
}

}  // namespace playmill
