// Adam over the flat weights, and what a step changes in the control.
#include "kernels.cuh"

namespace playmill {

namespace {

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
    const bool step = isfinite(norm) && control->stopped == 0 && control->live > 0;
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
  const bool nothing = control->live == 0;
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

}  // namespace

void begin_update(Control* control, float lr, float entropy_weight, cudaStream_t stream) {
  set_update<<<1, 1, 0, stream>>>(control, lr, entropy_weight);
  launched("beginning an update");
}

void begin_pass(Control* control, std::uint64_t key, float target_kl, cudaStream_t stream) {
  set_pass<<<1, 1, 0, stream>>>(control, key, target_kl);
  launched("beginning a pass");
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

}  // namespace playmill
