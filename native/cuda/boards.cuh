// Large games: a warp plays a game, its lanes are the hands of a crew (core/crew.hpp). The game lies in shared memory
// for the length of a step; rows are written straight to the card's memory.
#pragma once

#include "../core/fast_math.hpp"
#include "steps.cuh"

namespace playmill {

inline constexpr int kWarp = 32;

// The same action as sample_actions() draws on the CPU, sum for sum; all lanes of a warp together.
__device__ inline Drawn draw_together(const float* logits, const std::uint8_t* legal, int actions, bool greedy,
                                      float unit) {
  const int hand = Crew::hand();
  const auto allowed = [&](int a) { return a < actions && (legal[a >> 3] >> (a & 7) & 1); };
  float largest = kNever;
  for (int a = hand; a < actions; a += kWarp)
    if (allowed(a) && logits[a] > largest) largest = logits[a];
  for (int k = kWarp / 2; k > 0; k /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, k));
  const auto weight = [&](int a) {
    return !allowed(a) || logits[a] == kNever ? 0.0f : exp_negative(logits[a] - largest);
  };
  // Sixteen sums, as the CPU has them: each lane of the first sixteen has one.
  float total = 0.0f;
  for (int a = hand; hand < kLanes && a < actions; a += kLanes) total += weight(a);
  for (int k = kLanes / 2; k > 0; k /= 2) total += __shfl_down_sync(~0u, total, k);
  total = __shfl_sync(~0u, total, 0);

  int chosen = -1;
  if (greedy) {
    float best = -1.0f;
    for (int a = hand; a < actions; a += kWarp)
      if (allowed(a) && weight(a) > best) best = weight(a), chosen = a;
    for (int k = kWarp / 2; k > 0; k /= 2) {
      const float other = __shfl_xor_sync(~0u, best, k);
      const int action = __shfl_xor_sync(~0u, chosen, k);
      if (other > best || (other == best && action >= 0 && action < chosen)) best = other, chosen = action;
    }
  } else {
    const float target = unit * total;
    float sum = 0.0f;
    bool found = false;
    for (int from = 0; from < actions && !found; from += kWarp) {
      const float mine = weight(from + hand);
      for (unsigned left = __ballot_sync(~0u, mine != 0.0f); left != 0 && !found; left &= left - 1) {
        const int who = __ffs(static_cast<int>(left)) - 1;
        chosen = from + who;
        sum += __shfl_sync(~0u, mine, who);
        found = sum > target;
      }
    }
  }
  return {chosen, chosen < 0 ? NAN : logits[chosen] - largest - logf(total)};
}

// What is taken where the policy's output has no numbers; the guard reports them.
__device__ inline int first_legal(const std::uint8_t* legal, int actions) {
  int action = 0;
  while (action < actions && !(legal[action >> 3] >> (action & 7) & 1)) ++action;
  return action;
}

// A game in shared memory, and the reports of its step.
template <Game G>
struct alignas(16) Place {
  Slot<G> slot;
  Report report, later;

  __device__ static Place& mine() {
    extern __shared__ __align__(16) std::uint8_t places[];
    return reinterpret_cast<Place*>(places)[threadIdx.x / kWarp];
  }
  __device__ void load(const Slot<G>& from) {
    copy(&from, &slot, 0);
    Crew::join();
  }
  __device__ void store(Slot<G>& to, std::size_t unchanged = 0) const {
    Crew::join();
    copy(&slot, &to, unchanged);
  }

 private:
  using Wide = std::conditional_t<sizeof(Slot<G>) % 16 == 0, uint4, std::uint64_t>;

  // What comes behind the first `kept` bytes.
  __device__ static void copy(const void* from, void* to, std::size_t kept) {
    constexpr int kCount = static_cast<int>(sizeof(Slot<G>) / sizeof(Wide));
#pragma unroll 4
    for (int i = static_cast<int>(kept / sizeof(Wide)) + Crew::hand(); i < kCount; i += kWarp)
      static_cast<Wide*>(to)[i] = static_cast<const Wide*>(from)[i];
  }
};

// Games of a block: together they take about a sixth of a multiprocessor's shared memory.
template <Game G>
constexpr int games_a_block() {
  int games = 8;
  while (games > 1 && games * sizeof(Place<G>) > 40 * 1024) games /= 2;
  return games;
}

// Blocks that a multiprocessor should hold at least: 32 warps where shared memory has room for their games. What the
// rules then have no registers for is in bots and maps, which are seldom.
template <Game G>
constexpr int blocks_wanted() {
  const auto room = static_cast<int>(200 * 1024 / (games_a_block<G>() * sizeof(Place<G>)));
  const int full = 32 / games_a_block<G>();
  return room < 1 ? 1 : room < full ? room : full;
}

// The row of the step that this warp plays.
template <Game G>
__device__ std::size_t warp_row() {
  return static_cast<std::size_t>(blockIdx.x) * games_a_block<G>() + threadIdx.x / kWarp;
}

// One kernel whatever the answer: the rules are compiled once for each, and are long.
template <Game G>
__global__ void __launch_bounds__(games_a_block<G>() * kWarp, blocks_wanted<G>())
    advance_boards(const __grid_constant__ Tables<G> tables, const __grid_constant__ Step<G> step, Answer answer) {
  const std::size_t at = warp_row<G>(), row = step.first + at;
  if (at >= step.count) return;
  Place<G>& place = Place<G>::mine();
  Slot<G>& slot = place.slot;
  place.load(step.slots[row]);
  const std::uint8_t* mine = step.drivers_of(row, tables.seats);

  if (answer != Answer::kNone) {
    int action = -1;
    if (answer == Answer::kGiven) action = step.given[at];
    if (answer == Answer::kDrawn) {
      const std::uint8_t* legal = step.draw.legal + at * static_cast<std::size_t>(step.legal_bytes);
      const float* heads = step.draw.heads + at * static_cast<std::size_t>(step.draw.stride);
      const Drawn drawn = draw_together(heads, legal, step.actions, step.draw.greedy, step.unit(row));
      action = drawn.action < 0 ? first_legal(legal, step.actions) : drawn.action;  // logits that are no numbers
      if (Crew::hand() == 0) {
        step.draw.action[at] = action;
        step.draw.log_probability[at] = drawn.log_probability;
        if (step.draw.value != nullptr) step.draw.value[at] = heads[step.actions];
      }
    }
    if (answer == Answer::kRandom) action = tables.scripted(slot, 0);
    Tally* tally = step.tally();
    const int ticks = slot.game.ticks();
    Crew::alone([&] { place.report = tables.make_report(slot, mine, tally); });
    tables.apply(slot, action, place.report);
    const bool over = tables.settle(row, slot, mine, tally, place.report, place.later);
    Crew::share(tables.seats, [&](int s) {
      step.outcome.rewards[at * static_cast<std::size_t>(tables.seats) + static_cast<std::size_t>(s)] =
          place.report.reward[s];
    });
    if (Crew::hand() == 0) step.outcome.over[at] = static_cast<std::uint8_t>(over);
    const bool quiet = !over && slot.game.ticks() == ticks;
    place.store(step.slots[row], quiet ? slot.game.quiet_bytes() : 0);
  }
  if (step.next.observation != nullptr) {
    const int seat = slot.game.seat();
    slot.game.legal_row(tables.options, step.next.legal + at * static_cast<std::size_t>(step.legal_bytes));
    slot.game.observe(tables.options, seat, step.next.observation + at * static_cast<std::size_t>(step.row_bytes));
    if (Crew::hand() == 0) {
      step.next.seat[at] = static_cast<std::uint8_t>(seat);
      step.next.role[at] = static_cast<std::uint8_t>(slot.game.role());
      step.next.driver[at] = mine[seat];
    }
  }
}

template <Game G>
__global__ void __launch_bounds__(games_a_block<G>() * kWarp, blocks_wanted<G>())
    settle_boards(const __grid_constant__ Tables<G> tables, const __grid_constant__ Step<G> step, bool open,
                  const std::uint64_t* seeds, std::uint32_t phases) {
  const std::size_t row = warp_row<G>();
  if (row >= step.count) return;
  Place<G>& place = Place<G>::mine();
  place.load(step.slots[row]);
  const std::uint8_t* mine = step.drivers_of(row, tables.seats);
  if (open) {
    tables.open(row, place.slot, seeds != nullptr ? seeds[row] : tables.episode_seed(row, 0), phases, mine,
                step.tally());
  } else {
    tables.settle(row, place.slot, mine, step.tally());
  }
  place.store(step.slots[row]);
}

template <Game G>
__global__ void __launch_bounds__(games_a_block<G>() * kWarp, blocks_wanted<G>())
    script_boards(const __grid_constant__ Tables<G> tables, const Slot<G>* slots, std::size_t count,
                  const std::uint8_t* kinds, std::int32_t* actions, unsigned long long* bad) {
  const std::size_t row = warp_row<G>();
  if (row >= count) return;
  if (kinds[row] >= std::size(G::kBots)) {
    if (Crew::hand() == 0) atomicMin(bad, static_cast<unsigned long long>(row));
    return;
  }
  Place<G>& place = Place<G>::mine();
  place.load(slots[row]);
  const int action = tables.scripted(place.slot, kinds[row]);
  if (Crew::hand() == 0) actions[row] = action;
}

template <Game G>
__global__ void find_refused(const __grid_constant__ Tables<G> tables, const Slot<G>* slots, std::size_t count,
                             const std::int32_t* actions, unsigned long long* bad) {
  const std::size_t row = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row < count && !slots[row].game.allows(tables.options, actions[row]))
    atomicMin(bad, static_cast<unsigned long long>(row));
}

// How warps play.
template <Game G>
struct ByWarps {
  static constexpr int kGames = games_a_block<G>();
  static constexpr int kThreads = kGames * kWarp;
  static constexpr std::size_t kShared = kGames * sizeof(Place<G>);

  static void allow(int) {
    allow_one(advance_boards<G>);
    allow_one(settle_boards<G>);
    allow_one(script_boards<G>);
  }
  template <Answer kAnswer>
  static void advance(const Tables<G>& tables, const Step<G>& step, cudaStream_t stream) {
    advance_boards<G><<<blocks_of(step.count, kGames), kThreads, kShared, stream>>>(tables, step, kAnswer);
  }
  static void settle(const Tables<G>& tables, const Step<G>& step, bool open, const std::uint64_t* seeds,
                     std::uint32_t phases, cudaStream_t stream) {
    settle_boards<G><<<blocks_of(step.count, kGames), kThreads, kShared, stream>>>(tables, step, open, seeds, phases);
  }
  static void script(const Tables<G>& tables, const Slot<G>* slots, std::size_t count, const std::uint8_t* kinds,
                     std::int32_t* actions, unsigned long long* bad, cudaStream_t stream) {
    script_boards<G>
        <<<blocks_of(count, kGames), kThreads, kShared, stream>>>(tables, slots, count, kinds, actions, bad);
  }
  static void find_illegal(const Tables<G>& tables, const Slot<G>* slots, std::size_t count,
                           const std::int32_t* actions, unsigned long long* bad, cudaStream_t stream) {
    find_refused<G><<<blocks_of(count, 128), 128, 0, stream>>>(tables, slots, count, actions, bad);
  }

 private:
  template <class Kernel>
  static void allow_one(Kernel kernel) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kShared)),
          "asking for shared memory");
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 100),
          "asking for shared memory");
  }
};

}  // namespace playmill
