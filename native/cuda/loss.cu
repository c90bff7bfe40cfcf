// The order of rows, and the loss with its gradient.
#include "../core/random.hpp"
#include "kernels.cuh"

namespace playmill {

namespace {

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

// Rows of the control's minibatch of `whole` that there is something to learn from.
__device__ std::uint32_t live_rows(const Control* control, int whole) {
  const std::int64_t left = static_cast<std::int64_t>(control->usable) -
                            static_cast<std::int64_t>(control->minibatch) * static_cast<std::int64_t>(whole);
  return static_cast<std::uint32_t>(left <= 0 ? 0 : left < whole ? left : whole);
}

__global__ void pick_kernel(Control* control, const std::int32_t* list, const float* advantage, int rows,
                            std::int32_t* index, double* sums) {
  const int j = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (j == 0) control->live = live_rows(control, rows);
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

// ---- The loss ----

// Over kLanes neighbouring lanes of a warp.
template <int kLanes>
__device__ float lanes_max(float x) {
  for (int k = kLanes / 2; k > 0; k /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, k));
  return x;
}
template <int kLanes>
__device__ float lanes_sum(float x) {
  for (int k = kLanes / 2; k > 0; k /= 2) x += __shfl_xor_sync(~0u, x, k);
  return x;
}

// Outputs of a row are spread over kLanes lanes in pairs of neighbours: of each 2 kLanes in a row, a lane
// has two.
template <int kLanes>
__device__ int output_of(int k, int lane) {
  return k / 2 * 2 * kLanes + 2 * lane + k % 2;
}

// A bit for each output of a lane.
template <int kItems>
using Bits = std::conditional_t<(kItems > 32), std::uint64_t, std::uint32_t>;

// The outputs of a row, read whether they are legal or not: what is legal comes from elsewhere, later.
template <int kLanes, int kItems>
__device__ void read_outputs(const float* heads, int stride, int lane, float (&out)[kItems]) {
#pragma unroll
  for (int k = 0; k < kItems; k += 2) {
    const int a = output_of<kLanes>(k, lane);
    const float2 two = a < stride ? *reinterpret_cast<const float2*>(heads + a) : make_float2(0.0f, 0.0f);
    out[k] = two.x;
    out[k + 1] = two.y;
  }
}

// Logits become the logarithms of their probabilities among the legal ones.
template <int kLanes, int kItems>
__device__ void log_softmax(float (&log)[kItems], Bits<kItems> legal) {
  float largest = -3.0e38f;
#pragma unroll
  for (int k = 0; k < kItems; ++k)
    if (legal >> k & 1) largest = fmaxf(largest, log[k]);
  largest = lanes_max<kLanes>(largest);
  float total = 0;
#pragma unroll
  for (int k = 0; k < kItems; ++k) total += legal >> k & 1 ? expf(log[k] - largest) : 0.0f;
  const float shift = largest + logf(lanes_sum<kLanes>(total));
#pragma unroll
  for (int k = 0; k < kItems; ++k) log[k] -= shift;
}

// The sums of advantages, as what to take off and what to multiply by.
__device__ float2 normaliser(const LossInput& in, int live) {
  __shared__ float2 found;
  double sum = 0, square = 0;
  const int parts = (in.whole + kThreads - 1) / kThreads;
  const bool normalise = in.advantages == Advantages::kNormalised;
  for (int i = static_cast<int>(threadIdx.x); normalise && i < parts; i += kThreads) {
    sum += in.sums[2 * i];
    square += in.sums[2 * i + 1];
  }
  sum = block_sum(sum);
  square = block_sum(square);
  if (threadIdx.x == 0) {
    const double count = live > 0 ? live : 1;
    const double mean = sum / count;
    const auto variance = static_cast<float>(square / count - mean * mean);
    found = normalise ? make_float2(static_cast<float>(mean), 1.0f / (sqrtf(fmaxf(variance, 0.0f)) + 1e-8f))
                      : make_float2(0.0f, 1.0f);
  }
  __syncthreads();
  return found;
}

// The clipped objective of one row.
struct Objective {
  float advantage, log_ratio, ratio, clipped, pull;
  bool held;  // the clipped side is the smaller: no gradient

  __device__ Objective(const LossInput& in, float2 normal, float gained, float chosen, float said)
      : advantage(in.advantages == Advantages::kTaught ? 1.0f : (gained - normal.x) * normal.y),
        log_ratio(chosen - said),
        ratio(expf(log_ratio)),
        clipped(fminf(fmaxf(ratio, 1.0f - in.clip), 1.0f + in.clip)),
        pull(0.0f),
        held(clipped * advantage < ratio * advantage) {
    if (!held) pull = -ratio * advantage;
  }

  __device__ void add(float off, float entropy, float distance, float* terms) const {
    terms[0] -= held ? clipped * advantage : ratio * advantage;
    terms[1] += 0.5f * off * off;
    terms[2] += entropy;
    terms[3] += ratio - 1.0f - log_ratio;
    terms[4] += distance;
    terms[5] += clipped != ratio ? 1.0f : 0.0f;
  }
};

// A block's part of the terms.
__device__ void write_terms(const float* mine, bool counts, float share, double* terms) {
  for (int k = 0; k < kTerms; ++k) {
    const double part = block_sum(counts ? static_cast<double>(mine[k]) : 0.0);
    if (threadIdx.x == 0) terms[static_cast<int>(blockIdx.x) * kTerms + k] = part * static_cast<double>(share);
  }
}

// kLanes lanes a row, with up to kLanes kItems outputs.
template <class T, int kLanes, int kItems, bool kMagnet>
__global__ void __launch_bounds__(kThreads, kItems <= 16 && !kMagnet ? 3 : 1)
    loss_kernel(const Control* control, LossInput in, T* gradient, double* terms) {
  static_assert(kItems % 2 == 0 && kItems <= 64);
  const auto live = static_cast<int>(control->live);
  const float2 normal = normaliser(in, live);
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const float share = live > 0 ? 1.0f / static_cast<float>(live) : 0.0f;
  const float scale = share * control->scale;
  const float entropy_weight = control->entropy_weight;
  float mine[kTerms] = {};
  constexpr int kAtOnce = kThreads / kLanes;
  const int all = (in.rows + kAtOnce - 1) / kAtOnce * kAtOnce;  // a warp's lanes go on together
  for (int j = static_cast<int>(blockIdx.x) * kAtOnce + static_cast<int>(threadIdx.x) / kLanes; j < all;
       j += static_cast<int>(gridDim.x) * kAtOnce) {
    const std::size_t begin = static_cast<std::size_t>(j) * static_cast<std::size_t>(in.stride);
    const bool inside = j < in.rows;
    const std::int32_t row = inside ? in.index[j] : -1;
    float log[kItems], other[kMagnet ? kItems : 1];
    read_outputs<kLanes>(in.heads + (inside ? begin : 0), in.stride, lane, log);
    const float value = inside ? in.heads[begin + static_cast<std::size_t>(in.actions)] : 0.0f;
    const std::int32_t from = row < 0 ? 0 : row;  // a row left out has no legal action and counts for nothing
    const std::uint8_t* bits = in.legal + static_cast<std::size_t>(from) * static_cast<std::size_t>(in.legal_bytes);
    Bits<kItems> legal = 0;  // bit k: output_of(k)
#pragma unroll
    for (int k = 0; k < kItems; k += 2) {
      const int a = output_of<kLanes>(k, lane);
      if (row >= 0 && a < in.actions) {
        const unsigned two = bits[a >> 3] >> (a & 7) & (a + 1 < in.actions ? 3u : 1u);
        legal |= static_cast<Bits<kItems>>(two) << k;
      }
    }
    const int action = in.action[from];
    const float gained = in.advantage[from], said = in.log_probability[from], expected = in.value[from];
    log_softmax<kLanes>(log, legal);
    if constexpr (kMagnet) {
      read_outputs<kLanes>(in.magnet + (inside ? begin : 0), in.stride, lane, other);
      log_softmax<kLanes>(other, legal);
    }
    float entropy = 0, distance = 0, chosen = 0, chance[kItems];
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      chance[k] = legal >> k & 1 ? expf(log[k]) : 0.0f;
      if (legal >> k & 1) {
        entropy -= chance[k] * log[k];
        if constexpr (kMagnet) distance += chance[k] * (log[k] - other[k]);
      }
      if (output_of<kLanes>(k, lane) == action) chosen = log[k];
    }
    entropy = lanes_sum<kLanes>(entropy);
    if constexpr (kMagnet) distance = lanes_sum<kLanes>(distance);
    chosen = __shfl_sync(~0u, chosen, action % (2 * kLanes) / 2, kLanes);
    const Objective objective(in, normal, gained, chosen, said);
    const float off = value - (gained + expected);
#pragma unroll
    for (int k = 0; k < kItems; k += 2) {
      const int a = output_of<kLanes>(k, lane);
      if (!inside || a >= in.stride) break;
      Two<T> two;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float slope = a + i == in.actions && row >= 0 ? in.value_weight * off : 0.0f;
        if (legal >> (k + i) & 1) {
          slope = chance[k + i] * (entropy_weight * (log[k + i] + entropy) - objective.pull);
          if (a + i == action) slope += objective.pull;
          if constexpr (kMagnet) slope += in.magnet_weight * chance[k + i] * (log[k + i] - other[k + i] - distance);
        }
        two.value[i] = narrow<T>(scale * slope);
      }
      *reinterpret_cast<Two<T>*>(gradient + begin + a) = two;
    }
    if (row >= 0) objective.add(off, entropy, distance, mine);
  }
  write_terms(mine, lane == 0, share, terms);
}

// Rows of any number of outputs, a warp each. They do not fit the registers: what is legal is gone through three
// times, and few of so many are.
template <class T, bool kMagnet>
__global__ void __launch_bounds__(kThreads)
    long_loss_kernel(const Control* control, LossInput in, T* gradient, double* terms) {
  const auto live = static_cast<int>(control->live);
  const float2 normal = normaliser(in, live);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float share = live > 0 ? 1.0f / static_cast<float>(live) : 0.0f;
  const float scale = share * control->scale;
  const float entropy_weight = control->entropy_weight;
  float mine[kTerms] = {};
  constexpr int kAtOnce = kThreads / 32;
  for (int j = static_cast<int>(blockIdx.x) * kAtOnce + static_cast<int>(threadIdx.x) / 32; j < in.rows;
       j += static_cast<int>(gridDim.x) * kAtOnce) {
    const std::size_t begin = static_cast<std::size_t>(j) * static_cast<std::size_t>(in.stride);
    const float* heads = in.heads + begin;
    const float* others = kMagnet ? in.magnet + begin : nullptr;
    T* slopes = gradient + begin;
    const std::int32_t row = in.index[j];
    for (int a = lane; a < in.stride; a += 32) slopes[a] = narrow<T>(0.0f);
    if (row < 0) continue;
    const std::uint8_t* bits = in.legal + static_cast<std::size_t>(row) * static_cast<std::size_t>(in.legal_bytes);
    // Calls work(action) for the legal ones, 32 at a time.
    const auto each = [&](auto&& work) {
      for (int a = lane; a < in.actions; a += 32)
        if (bits[a >> 3] >> (a & 7) & 1) work(a);
    };
    float largest = -3.0e38f, most = -3.0e38f;
    each([&](int a) {
      largest = fmaxf(largest, heads[a]);
      if constexpr (kMagnet) most = fmaxf(most, others[a]);
    });
    largest = lanes_max<32>(largest);
    if constexpr (kMagnet) most = lanes_max<32>(most);
    float total = 0, all = 0;
    each([&](int a) {
      total += expf(heads[a] - largest);
      if constexpr (kMagnet) all += expf(others[a] - most);
    });
    const float shift = largest + logf(lanes_sum<32>(total));
    const float other_shift = kMagnet ? most + logf(lanes_sum<32>(all)) : 0.0f;
    float entropy = 0, distance = 0;
    each([&](int a) {
      const float log = heads[a] - shift, chance = expf(log);
      entropy -= chance * log;
      if constexpr (kMagnet) distance += chance * (log - (others[a] - other_shift));
    });
    entropy = lanes_sum<32>(entropy);
    if constexpr (kMagnet) distance = lanes_sum<32>(distance);
    const int action = in.action[row];
    const float gained = in.advantage[row];
    const Objective objective(in, normal, gained, heads[action] - shift, in.log_probability[row]);
    const float off = heads[in.actions] - (gained + in.value[row]);
    __syncwarp();  // the zeros are written
    each([&](int a) {
      const float log = heads[a] - shift, chance = expf(log);
      float slope = chance * (entropy_weight * (log + entropy) - objective.pull);
      if (a == action) slope += objective.pull;
      if constexpr (kMagnet) slope += in.magnet_weight * chance * (log - (others[a] - other_shift) - distance);
      slopes[a] = narrow<T>(scale * slope);
    });
    if (lane == 0) slopes[in.actions] = narrow<T>(scale * in.value_weight * off);
    objective.add(off, entropy, distance, mine);
  }
  write_terms(mine, lane == 0, share, terms);
}

}  // namespace

int pick_blocks(int rows) { return blocks_for(rows, kThreads); }

void pick_rows(Control* control, const std::int32_t* list, const float* advantage, int rows, std::int32_t* index,
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
    const auto launch = [&](auto kernel, auto with_magnet) {
      const auto chosen = in.magnet == nullptr ? kernel : with_magnet;
      chosen<<<loss_blocks(in.rows), kThreads, 0, stream>>>(control, in, static_cast<T*>(gradient), terms);
    };
    if (in.stride <= 32) return launch(loss_kernel<T, 8, 4, false>, loss_kernel<T, 8, 4, true>);
    if (in.stride <= 128) return launch(loss_kernel<T, 8, 16, false>, loss_kernel<T, 8, 16, true>);
    if (in.actions <= 1024) return launch(loss_kernel<T, 32, 34, false>, loss_kernel<T, 32, 34, true>);
    return launch(long_loss_kernel<T, false>, long_loss_kernel<T, true>);
  });
  launched("taking the loss");
}

}  // namespace playmill
