// Packed rows as floats.
#include <algorithm>

#include "kernels.cuh"

namespace playmill {

namespace {

constexpr int kExpandRows = 32;  // of a block, fewer where rows are long
constexpr int kExpandThreads = 128;

// Singles first, into shared memory. Then each thread keeps eight features and goes down the rows with
// them: what eight bits come to is looked up, singles are put in their places, and one store writes all.
template <class T>
__global__ void __launch_bounds__(kExpandThreads)
    expand_kernel(const std::uint8_t* rows, const std::int32_t* index, int n, int each, int bytes, const Octet* octets,
                  const Feature* singles, int single_count, int padded, T* out) {
  extern __shared__ __align__(16) std::uint8_t shared[];
  auto* ones = reinterpret_cast<Eight<T>*>(shared);
  std::uint8_t* stage = shared + 256 * sizeof(Eight<T>);
  auto* single = reinterpret_cast<T*>(stage + (each * bytes + 16) / 16 * 16);
  const int base = static_cast<int>(blockIdx.x) * each;
  const int live = n - base < each ? n - base : each;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  for (int i = thread; i < 256; i += threads) {
    Eight<T> eight;
    for (int k = 0; k < 8; ++k) eight.value[k] = narrow<T>(i >> k & 1 ? 1.0f : 0.0f);
    ones[i] = eight;
  }
  const std::uint8_t* block = rows + static_cast<std::size_t>(base) * static_cast<std::size_t>(bytes);
  if (index == nullptr && (reinterpret_cast<std::uintptr_t>(block) & 15u) == 0) {
    const int size = live * bytes;
    for (int i = thread; i < size / 16; i += threads)
      reinterpret_cast<uint4*>(stage)[i] = reinterpret_cast<const uint4*>(block)[i];
    for (int i = size / 16 * 16 + thread; i < size; i += threads) stage[i] = block[i];
  } else {
    for (int r = thread / 32; r < live; r += threads / 32) {
      const int row = index != nullptr ? index[base + r] : base + r;
      const auto from = static_cast<std::size_t>(row < 0 ? 0 : row);  // a row left out: anything will do
      for (int i = thread % 32; i < bytes; i += 32)
        stage[r * bytes + i] = rows[from * static_cast<std::size_t>(bytes) + static_cast<std::size_t>(i)];
    }
  }
  __syncthreads();
  for (int i = thread; i < live * single_count; i += threads)
    single[i] = narrow<T>(feature_of(singles[i % single_count], stage + i / single_count * bytes));
  __syncthreads();
  for (int group = thread; group < padded / 8; group += threads) {
    const Octet octet = octets[group];
    T* to = out + static_cast<std::size_t>(base) * static_cast<std::size_t>(padded) + group * 8;
#pragma unroll 4
    for (int r = 0; r < live; ++r) {
      Eight<T> eight = ones[octet_bits(octet, stage + r * bytes)];
      if (octet.patched != 0) {
        const T* next = single + r * single_count + octet.first;
#pragma unroll
        for (int k = 0; k < 8; ++k)
          if (octet.patched >> k & 1) eight.value[k] = *next++;
      }
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
    constexpr int kRoom = 48 * 1024 - 256 * static_cast<int>(sizeof(Eight<T>)) - 32;
    const int row = bytes_ + singles_count_ * static_cast<int>(sizeof(T));
    const int each = std::min(kExpandRows, kRoom / row);
    if (each < 1) throw std::invalid_argument("packed rows of this length cannot be expanded on the card");
    const std::size_t room = 256 * sizeof(Eight<T>) + static_cast<std::size_t>(each * row) + 32;
    expand_kernel<T><<<blocks_for(n, each), threads, room, stream>>>(rows, index, n, each, bytes_, octets_.as<Octet>(),
                                                                     singles_.as<Feature>(), singles_count_, padded_,
                                                                     static_cast<T*>(out));
  });
  launched("expanding rows");
}

}  // namespace playmill
