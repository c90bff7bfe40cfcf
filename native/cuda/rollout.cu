// What follows a rollout: returns, the list of rows to learn from, counters; and past policies' answers in it.
#include <thrust/iterator/counting_iterator.h>

#include <cub/device/device_select.cuh>

#include "../core/game.hpp"
#include "kernels.cuh"

namespace playmill {

namespace {

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

}  // namespace

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

void end_rollout(Control* control, std::uint64_t draws, cudaStream_t stream) {
  count_draws<<<1, 1, 0, stream>>>(control, draws);
  launched("ending a rollout");
}

void answer_rows(const std::uint8_t* driver, int number, const float* other, int rows, int stride, float* heads,
                 cudaStream_t stream) {
  answer_kernel<<<blocks_for(rows, kThreads / 32), kThreads, 0, stream>>>(driver, number, other, rows, stride, heads);
  launched("answering rows");
}

}  // namespace playmill
