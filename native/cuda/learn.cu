#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <thrust/iterator/counting_iterator.h>

#include <algorithm>
#include <cub/device/device_select.cuh>

#include "../core/game.hpp"
#include "learn.hpp"

namespace playmill {

namespace {

constexpr int kThreads = 256;

int blocks_for(std::int64_t n, int each) { return static_cast<int>((n + each - 1) / each); }

template <class T>
__device__ T narrow(float x);
template <>
__device__ float narrow<float>(float x) {
  return x;
}
template <>
__device__ __nv_bfloat16 narrow<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ __half narrow<__half>(float x) {
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
__device__ double block_sum(double x) {
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

// ---- Expansion ----

constexpr int kExpandRows = 32;  // of a block, fewer where rows are long
constexpr int kExpandThreads = 128;

template <class T>
struct alignas(16) Eight {
  T value[8];
};

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

// ---- Returns ----

__global__ void returns_kernel(RolloutRows in, float gamma, float lambda, float* advantage, std::uint8_t* usable) {
  const int g = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (g >= in.games) return;
  struct Next {
    float value, advantage, reward;
    bool known;
  };
  Next next[kMaxSeats];
  for (int s = 0; s < in.seats; ++s) next[s] = {0, 0, 0, false};
  for (int t = in.steps - 1; t >= 0; --t) {
    const std::size_t at =
        static_cast<std::size_t>(t) * static_cast<std::size_t>(in.games) + static_cast<std::size_t>(g);
    if (in.over[at])
      for (int s = 0; s < in.seats; ++s) next[s] = {0, 0, 0, true};
    const float* reward = in.reward + at * static_cast<std::size_t>(in.seats);
    for (int s = 0; s < in.seats; ++s) next[s].reward += reward[s];
    Next& mine = next[in.seat[at]];
    const float value = in.value[at];
    float gained = 0;
    if (mine.known) {
      const float surprise = mine.reward + gamma * mine.value - value;
      gained = surprise + gamma * lambda * mine.advantage;
    }
    advantage[at] = gained;
    usable[at] = mine.known && (in.driver == nullptr || in.driver[at] == 0);
    mine = {value, gained, 0, true};
  }
}

__global__ void count_ended(const std::uint8_t* over, int rows, Control* control) {
  unsigned mine = 0;
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < rows;
       i += static_cast<int>(gridDim.x * blockDim.x))
    mine += over[i];
  for (int k = 16; k > 0; k /= 2) mine += __shfl_down_sync(~0u, mine, k);
  if (threadIdx.x % 32 == 0 && mine > 0) atomicAdd(&control->games, mine);
}

// ---- The order of rows ----

// A permutation of 0..n-1 as a function: a Feistel network on the next even power of two, walked
// until it lands below n.
__device__ std::uint32_t permuted(std::uint32_t i, std::uint32_t n, std::uint64_t key) {
  const int bits = 32 - __clz(static_cast<int>(n - 1 | 1u));
  const int half = (bits + 1) / 2;
  const std::uint32_t mask = (1u << half) - 1;
  do {
    std::uint32_t left = i >> half, right = i & mask;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const auto mixed = static_cast<std::uint32_t>(mix64(key + round, right) >> 32) & mask;
      const std::uint32_t then = left ^ mixed;
      left = right;
      right = then;
    }
    i = left << half | right;
  } while (i >= n);
  return i;
}

__global__ void pick_kernel(const Control* control, const std::int32_t* list, const float* advantage, int rows,
                            std::int32_t* index, double* sums) {
  const int j = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const std::uint32_t usable = control->usable;
  const std::uint64_t place =
      static_cast<std::uint64_t>(control->minibatch) * static_cast<std::uint64_t>(rows) + static_cast<std::uint64_t>(j);
  double gained = 0;
  if (j < rows) {
    // Beyond the last usable row there is nothing to learn; the loss leaves such rows out.
    const bool live = place < usable;
    const std::int32_t row = live ? list[permuted(static_cast<std::uint32_t>(place), usable, control->key)] : -1;
    index[j] = row;
    gained = live ? static_cast<double>(advantage[row]) : 0.0;
  }
  const double sum = block_sum(gained);
  const double square = block_sum(gained * gained);
  if (threadIdx.x == 0) {
    sums[2 * blockIdx.x] = sum;
    sums[2 * blockIdx.x + 1] = square;
  }
}

__device__ int live_rows(const Control* control, int whole) {
  const std::int64_t left = static_cast<std::int64_t>(control->usable) -
                            static_cast<std::int64_t>(control->minibatch) * static_cast<std::int64_t>(whole);
  return left <= 0 ? 0 : left < whole ? static_cast<int>(left) : whole;
}

// ---- The loss ----

__device__ float warp_max(float x) {
  for (int k = 16; k > 0; k /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, k));
  return x;
}
__device__ float warp_sum(float x) {
  for (int k = 16; k > 0; k /= 2) x += __shfl_xor_sync(~0u, x, k);
  return x;
}

__device__ bool has_bit(const std::uint8_t* bits, int i) { return (bits[i >> 3] >> (i & 7)) & 1; }

// The legal logits of a row, spread over a warp's lanes: action lane + 32 k is item k.
template <int kItems>
struct Spread {
  float log[kItems];  // of the probability; kNone where not legal
  static constexpr float kNone = -3.0e38f;

  __device__ Spread(const float* logits, unsigned legal, int lane) {
    float largest = kNone;
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      log[k] = legal >> k & 1 ? logits[lane + 32 * k] : kNone;
      largest = fmaxf(largest, log[k]);
    }
    largest = warp_max(largest);
    float total = 0;
#pragma unroll
    for (int k = 0; k < kItems; ++k) total += legal >> k & 1 ? expf(log[k] - largest) : 0.0f;
    const float shift = largest + logf(warp_sum(total));
#pragma unroll
    for (int k = 0; k < kItems; ++k) log[k] -= legal >> k & 1 ? shift : 0.0f;
  }
};

// The sums of advantages, as what to take off and what to multiply by.
__device__ float2 normaliser(const LossInput& in, int live) {
  __shared__ float2 found;
  double sum = 0, square = 0;
  const int parts = (in.whole + kThreads - 1) / kThreads;
  for (int i = static_cast<int>(threadIdx.x); in.normalise && i < parts; i += kThreads) {
    sum += in.sums[2 * i];
    square += in.sums[2 * i + 1];
  }
  sum = block_sum(sum);
  square = block_sum(square);
  if (threadIdx.x == 0) {
    const double count = live > 0 ? live : 1;
    const double mean = sum / count;
    const auto variance = static_cast<float>(square / count - mean * mean);
    found = in.normalise ? make_float2(static_cast<float>(mean), 1.0f / (sqrtf(fmaxf(variance, 0.0f)) + 1e-8f))
                         : make_float2(0.0f, 1.0f);
  }
  __syncthreads();
  return found;
}

// A warp a row, up to 32 kItems actions.
template <class T, int kItems>
__global__ void __launch_bounds__(kThreads)
    loss_kernel(const Control* control, LossInput in, T* gradient, double* terms) {
  const int live = live_rows(control, in.whole);
  const float2 normal = normaliser(in, live);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const float share = live > 0 ? 1.0f / static_cast<float>(live) : 0.0f;
  const float scale = share * control->scale;
  const float entropy_weight = control->entropy_weight;
  float mine[kTerms] = {};
  const int warps = static_cast<int>(gridDim.x) * (kThreads / 32);
  for (int j = static_cast<int>(blockIdx.x) * (kThreads / 32) + static_cast<int>(threadIdx.x / 32); j < in.rows;
       j += warps) {
    const std::size_t begin = static_cast<std::size_t>(j) * static_cast<std::size_t>(in.stride);
    const float* heads = in.heads + begin;
    T* out = gradient + begin;
    const std::int32_t row = in.index[j];
    if (row < 0) {
      for (int a = lane; a < in.stride; a += 32) out[a] = narrow<T>(0.0f);
      continue;
    }
    const std::uint8_t* bits = in.legal + static_cast<std::size_t>(row) * static_cast<std::size_t>(in.legal_bytes);
    unsigned legal = 0;  // bit k: action lane + 32 k
#pragma unroll
    for (int k = 0; k < kItems; ++k)
      if (lane + 32 * k < in.actions && has_bit(bits, lane + 32 * k)) legal |= 1u << k;
    const Spread<kItems> mine_spread(heads, legal, lane);
    const float* log = mine_spread.log;
    float entropy = 0, distance = 0, other[kItems] = {};
    if (in.magnet != nullptr) {
      const Spread<kItems> magnet(in.magnet + begin, legal, lane);
#pragma unroll
      for (int k = 0; k < kItems; ++k) other[k] = magnet.log[k];
    }
    float chance[kItems];
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      chance[k] = legal >> k & 1 ? expf(log[k]) : 0.0f;
      if (legal >> k & 1) {
        entropy -= chance[k] * log[k];
        if (in.magnet != nullptr) distance += chance[k] * (log[k] - other[k]);
      }
    }
    entropy = warp_sum(entropy);
    if (in.magnet != nullptr) distance = warp_sum(distance);

    const int action = in.action[row];
    float chosen = 0;
#pragma unroll
    for (int k = 0; k < kItems; ++k)
      if (lane + 32 * k == action) chosen = log[k];
    chosen = __shfl_sync(~0u, chosen, action % 32);
    const float advantage = (in.advantage[row] - normal.x) * normal.y;
    const float log_ratio = chosen - in.log_probability[row];
    const float ratio = expf(log_ratio);
    const float clipped = fminf(fmaxf(ratio, 1.0f - in.clip), 1.0f + in.clip);
    const bool held = clipped * advantage < ratio * advantage;  // the clipped side is the smaller: no gradient
    const float pull = held ? 0.0f : -ratio * advantage;
    const float off = heads[in.actions] - (in.advantage[row] + in.value[row]);
#pragma unroll
    for (int k = 0; k <= kItems; ++k) {
      const int a = lane + 32 * k;
      if (a >= in.stride) break;
      float slope = a == in.actions ? in.value_weight * off : 0.0f;
      if (k < kItems && legal >> k & 1) {
        slope = chance[k] * (entropy_weight * (log[k] + entropy) - pull);
        if (a == action) slope += pull;
        if (in.magnet != nullptr) slope += in.magnet_weight * chance[k] * (log[k] - other[k] - distance);
      }
      out[a] = narrow<T>(scale * slope);
    }
    mine[0] -= held ? clipped * advantage : ratio * advantage;
    mine[1] += 0.5f * off * off;
    mine[2] += entropy;
    mine[3] += ratio - 1.0f - log_ratio;
    mine[4] += distance;
    mine[5] += clipped != ratio ? 1.0f : 0.0f;
  }
  for (int k = 0; k < kTerms; ++k) {
    const double part = block_sum(lane == 0 ? static_cast<double>(mine[k]) : 0.0);
    if (threadIdx.x == 0) terms[static_cast<int>(blockIdx.x) * kTerms + k] = part * static_cast<double>(share);
  }
}

// ---- The optimiser ----

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

// Whether a cell of the head's block is a weight or a bias, and not a gap between the trunks.
__device__ bool is_weight(const HeadCells& head, std::int64_t i) {
  if (i < head.begin || i >= head.end) return true;
  const int row = static_cast<int>((i - head.begin) / head.stride);
  const int column = static_cast<int>((i - head.begin) % head.stride);
  if (row > head.actions) return false;
  if (column == head.width * head.trunks) return true;
  const int from = row < head.actions ? 0 : head.width * (head.trunks - 1);
  return column >= from && column < from + head.width;
}

constexpr int kNormBlocks = 512;

__global__ void norm_kernel(AdamInput in, double* norms) {
  double sum = 0;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < in.n / 4; i += step) {
    const float4 g = reinterpret_cast<const float4*>(in.gradients)[i];
    float part = 0;
    if (i * 4 + 3 < in.head.begin || i * 4 >= in.head.end) {
      part = g.x * g.x + g.y * g.y + g.z * g.z + g.w * g.w;
    } else {
      const float each[4] = {g.x, g.y, g.z, g.w};
      for (int k = 0; k < 4; ++k)
        if (is_weight(in.head, i * 4 + k)) part += each[k] * each[k];
    }
    sum += static_cast<double>(part);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) norms[blockIdx.x] = sum;
}

__device__ double norm_of(const double* norms) {
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < kNormBlocks; i += static_cast<int>(blockDim.x)) sum += norms[i];
  return block_sum(sum);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    adam_kernel(const Control* control, AdamInput in, const double* norms, bool small) {
  __shared__ float shorten;
  const double square = norm_of(norms);
  if (threadIdx.x == 0) {
    const float norm = sqrtf(static_cast<float>(square)) / control->scale;
    const float limit = in.max_norm / (norm + 1e-6f);
    const bool step = isfinite(norm) && control->stopped == 0 && live_rows(control, in.rows) > 0;
    shorten = step ? (limit < 1.0f ? limit : 1.0f) / control->scale : 0.0f;
  }
  __syncthreads();
  if (shorten == 0.0f) return;
  constexpr float kBeta1 = 0.9f, kBeta2 = 0.999f, kEpsilon = 1e-5f;
  const auto step = static_cast<float>(control->adam_step + 1);
  const float rate = control->lr / (1.0f - powf(kBeta1, step));
  const float root = rsqrtf(1.0f - powf(kBeta2, step));
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < in.n / 4;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    const float4 gradient = reinterpret_cast<const float4*>(in.gradients)[i];
    float4 mean = reinterpret_cast<float4*>(in.mean)[i];
    float4 moment = reinterpret_cast<float4*>(in.square)[i];
    float4 weight = reinterpret_cast<float4*>(in.parameters)[i];
    const bool whole = i * 4 + 3 < in.head.begin || i * 4 >= in.head.end;
    const auto move = [&](int k, float g, float& m, float& v, float& w) {
      if (!whole && !is_weight(in.head, i * 4 + k)) return;
      g *= shorten;
      m += (1.0f - kBeta1) * (g - m);
      v = kBeta2 * v + (1.0f - kBeta2) * g * g;
      w -= rate * m / (sqrtf(v) * root + kEpsilon);
    };
    move(0, gradient.x, mean.x, moment.x, weight.x);
    move(1, gradient.y, mean.y, moment.y, weight.y);
    move(2, gradient.z, mean.z, moment.z, weight.z);
    move(3, gradient.w, mean.w, moment.w, weight.w);
    reinterpret_cast<float4*>(in.mean)[i] = mean;
    reinterpret_cast<float4*>(in.square)[i] = moment;
    reinterpret_cast<float4*>(in.parameters)[i] = weight;
    if (small) {
      T* to = static_cast<T*>(in.small) + i * 4;
      to[0] = narrow<T>(weight.x);
      to[1] = narrow<T>(weight.y);
      to[2] = narrow<T>(weight.z);
      to[3] = narrow<T>(weight.w);
    }
  }
}

// Doubled after so many good steps in a row, halved after a bad one.
constexpr std::uint32_t kPatience = 2000;

__global__ void count_step(Control* control, AdamInput in, const double* norms) {
  __shared__ double term[kTerms];
  const double square = norm_of(norms);
  for (int k = 0; k < kTerms; ++k) {
    double part = 0;
    for (int i = static_cast<int>(threadIdx.x); i < in.term_blocks; i += static_cast<int>(blockDim.x))
      part += in.terms[i * kTerms + k];
    part = block_sum(part);
    if (threadIdx.x == 0) term[k] = part;
  }
  if (threadIdx.x != 0) return;
  const bool nothing = live_rows(control, in.rows) == 0;
  control->minibatch += 1;
  if (control->stopped != 0 || nothing) return;
  const float norm = sqrtf(static_cast<float>(square)) / control->scale;
  control->gradient_norm = norm;
  if (!isfinite(norm)) {
    control->skipped += 1;
    control->good_steps = 0;
    if (in.scaled && control->scale > 1.0f) control->scale *= 0.5f;
    return;
  }
  control->adam_step += 1;
  control->steps += 1;
  for (int k = 0; k < kTerms; ++k) control->terms[k] += term[k];
  control->pass_kl += static_cast<float>(term[3]);
  control->pass_steps += 1;
  control->good_steps += 1;
  if (in.scaled && control->good_steps >= kPatience) {
    control->good_steps = 0;
    if (control->scale < 65536.0f * 256.0f) control->scale *= 2.0f;
  }
}

__global__ void set_update(Control* control, float lr, float entropy_weight) {
  control->lr = lr;
  control->entropy_weight = entropy_weight;
  control->steps = control->stopped = control->pass_steps = 0;
  control->passes = control->pass_kl = 0;
  for (double& term : control->terms) term = 0;
}

__global__ void set_pass(Control* control, std::uint64_t key, float target_kl) {
  const bool far = target_kl > 0 && control->pass_steps > 0 &&
                   control->pass_kl / static_cast<float>(control->pass_steps) > target_kl;
  if (far) control->stopped = 1;
  if (control->stopped == 0) control->passes += 1;
  control->key = key;
  control->minibatch = control->pass_steps = 0;
  control->pass_kl = 0;
}

__global__ void count_draws(Control* control, std::uint64_t draws) {
  control->draw += draws;
  control->games = 0;
}

__global__ void answer_kernel(const std::uint8_t* driver, int number, const float* other, int rows, int stride,
                              float* heads) {
  const int row = static_cast<int>(blockIdx.x) * (kThreads / 32) + static_cast<int>(threadIdx.x / 32);
  if (row >= rows || driver[row] != number) return;
  const std::size_t at = static_cast<std::size_t>(row) * static_cast<std::size_t>(stride);
  for (int a = static_cast<int>(threadIdx.x % 32); a < stride; a += 32) heads[at + a] = other[at + a];
}

void launched(const char* what) { check(cudaGetLastError(), what); }

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

void seat_returns_on_card(const RolloutRows& in, float gamma, float lambda, float* advantage, std::uint8_t* usable,
                          cudaStream_t stream) {
  returns_kernel<<<blocks_for(in.games, 64), 64, 0, stream>>>(in, gamma, lambda, advantage, usable);
  launched("taking returns");
}

std::size_t list_usable(const std::uint8_t* usable, const std::uint8_t* over, int rows, std::int32_t* list,
                        Control* control, void* temporary, std::size_t size, cudaStream_t stream) {
  thrust::counting_iterator<std::int32_t> numbers(0);
  auto* count = control == nullptr ? nullptr : &control->usable;
  check(cub::DeviceSelect::Flagged(temporary, size, numbers, usable, list, count, rows, stream), "listing rows");
  if (temporary == nullptr) return size;
  count_ended<<<264, kThreads, 0, stream>>>(over, rows, control);
  launched("counting games");
  return size;
}

void begin_update(Control* control, float lr, float entropy_weight, cudaStream_t stream) {
  set_update<<<1, 1, 0, stream>>>(control, lr, entropy_weight);
  launched("beginning an update");
}

void begin_pass(Control* control, std::uint64_t key, float target_kl, cudaStream_t stream) {
  set_pass<<<1, 1, 0, stream>>>(control, key, target_kl);
  launched("beginning a pass");
}

void end_rollout(Control* control, std::uint64_t draws, cudaStream_t stream) {
  count_draws<<<1, 1, 0, stream>>>(control, draws);
  launched("ending a rollout");
}

int pick_blocks(int rows) { return blocks_for(rows, kThreads); }

void pick_rows(const Control* control, const std::int32_t* list, const float* advantage, int rows, std::int32_t* index,
               double* sums, cudaStream_t stream) {
  pick_kernel<<<pick_blocks(rows), kThreads, 0, stream>>>(control, list, advantage, rows, index, sums);
  launched("picking rows");
}

int loss_blocks(int rows) {
  const int all = blocks_for(rows, kThreads / 32);
  return all < 1056 ? all : 1056;
}

void ppo_loss_on_card(const Control* control, const LossInput& in, Precision precision, void* gradient, double* terms,
                      cudaStream_t stream) {
  with_type(precision, [&](auto type) {
    using T = decltype(type);
    const auto launch = [&](auto kernel) {
      kernel<<<loss_blocks(in.rows), kThreads, 0, stream>>>(control, in, static_cast<T*>(gradient), terms);
    };
    if (in.actions <= 32) return launch(loss_kernel<T, 1>);
    if (in.actions <= 128) return launch(loss_kernel<T, 4>);
    if (in.actions <= 1024) return launch(loss_kernel<T, 32>);
    throw std::invalid_argument("games with more than 1,024 actions cannot be learnt on the card yet");
  });
  launched("taking the loss");
}

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

int adam_blocks() { return kNormBlocks; }

void adam_step(Control* control, const AdamInput& in, double* norms, cudaStream_t stream) {
  norm_kernel<<<kNormBlocks, kThreads, 0, stream>>>(in, norms);
  const int all = blocks_for(in.n / 4, kThreads);
  const int blocks = all < 1056 ? all : 1056;
  with_type(in.precision, [&](auto type) {
    using T = decltype(type);
    adam_kernel<T><<<blocks, kThreads, 0, stream>>>(control, in, norms, in.small != nullptr);
  });
  count_step<<<1, kThreads, 0, stream>>>(control, in, norms);
  launched("stepping the optimiser");
}

void answer_rows(const std::uint8_t* driver, int number, const float* other, int rows, int stride, float* heads,
                 cudaStream_t stream) {
  answer_kernel<<<blocks_for(rows, kThreads / 32), kThreads, 0, stream>>>(driver, number, other, rows, stride, heads);
  launched("answering rows");
}

}  // namespace playmill
