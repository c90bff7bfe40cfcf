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

// This thread and block. Registers are few, and what is kept too long goes to memory: this is asked for each time.
__device__ inline unsigned thread_again() {
  unsigned thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}
__device__ inline unsigned block_again() {
  unsigned block;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
  return block;
}

// A game in shared memory, the reports of its step, and the next row.
template <Game G>
struct alignas(16) Place {
  Slot<G> slot;
  Report report, later;
  std::uint8_t drivers[kMaxSeats];
  alignas(16) std::uint8_t row[G::kRowBytes + sizeof(std::uint32_t)];

  __device__ static Place& mine() {
    extern __shared__ __align__(16) std::uint8_t places[];
    return reinterpret_cast<Place*>(places)[thread_again() / kWarp];
  }
  // A game and who drives its seats.
  __device__ void load(const Slot<G>& from, const std::uint8_t* driven_by, int seats) {
    const auto to = static_cast<unsigned>(__cvta_generic_to_shared(&slot));
    share_lines([&](int i) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + 16 * i),
                   "l"(reinterpret_cast<const uint4*>(&from) + i));
    });
    if (Crew::hand() < seats) drivers[Crew::hand()] = driven_by[Crew::hand()];
    asm volatile("cp.async.wait_all;" ::: "memory");
    Crew::join();
  }
  // Without the first `unchanged` bytes.
  __device__ void store(Slot<G>& to, std::size_t unchanged = 0) const {
    Crew::join();
    const auto copy = [&](int i) { reinterpret_cast<uint4*>(&to)[i] = reinterpret_cast<const uint4*>(&slot)[i]; };
    if (unchanged == 0) {
      share_lines(copy);
    } else {
      for (int i = static_cast<int>(unchanged / sizeof(uint4)) + Crew::hand(); i < kLines; i += kWarp) copy(i);
    }
  }
  // The first bytes of the row to any address: whole words of the card's memory, and what lies before and behind.
  __device__ void send_row(std::uint8_t* to, int bytes) const {
    Crew::join();
    const int hand = Crew::hand(), lead = static_cast<int>(-reinterpret_cast<std::uintptr_t>(to) & 3);
    const int words = (bytes - lead) / 4, done = lead + 4 * words;
    const auto* from = reinterpret_cast<const std::uint32_t*>(row);
#pragma unroll 4
    for (int i = hand; i < words; i += kWarp)
      reinterpret_cast<std::uint32_t*>(to + lead)[i] = __funnelshift_r(from[i], from[i + 1], 8 * lead);
    if (hand < lead) to[hand] = row[hand];
    if (hand < bytes - done) to[done + hand] = row[done + hand];
  }

 private:
  static_assert(sizeof(Slot<G>) % sizeof(uint4) == 0);
  static constexpr int kLines = sizeof(Slot<G>) / sizeof(uint4);

  template <class Work>
  __device__ static void share_lines(Work&& work) {
#pragma unroll 8
    for (int k = 0; k < (kLines + kWarp - 1) / kWarp; ++k)
      if (const int i = k * kWarp + Crew::hand(); i < kLines) work(i);
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
  return static_cast<std::size_t>(block_again()) * games_a_block<G>() + thread_again() / kWarp;
}

// New games and bots' turns, which are seldom: a call of its own, so that whoever goes without keeps everything in
// registers.
template <Game G>
__device__ __noinline__ bool settle_apart(const Tables<G>& tables, std::size_t row, Place<G>& place, Tally* tally) {
  return tables.settle(row, place.slot, place.drivers, tally, place.report, place.later);
}

// The action that this warp's turn is answered with.
template <Game G>
__device__ int find_action(const Tables<G>& tables, const Step<G>& step, Answer answer) {
  const std::size_t at = warp_row<G>();
  if (answer == Answer::kGiven) return step.given[at];
  if (answer == Answer::kRandom) return tables.scripted(Place<G>::mine().slot, 0);
  const std::uint8_t* legal = step.draw.legal + at * static_cast<std::size_t>(step.legal_bytes);
  const float* heads = step.draw.heads + at * static_cast<std::size_t>(step.draw.stride);
  const Drawn drawn = draw_together(heads, legal, step.actions, step.draw.greedy, step.unit(step.first + at));
  const int action = drawn.action < 0 ? first_legal(legal, step.actions) : drawn.action;  // logits that are no numbers
  if (Crew::hand() == 0) {
    step.draw.action[at] = action;
    step.draw.log_probability[at] = drawn.log_probability;
    if (step.draw.value != nullptr) step.draw.value[at] = heads[step.actions];
  }
  return action;
}

template <Game G>
__device__ void answer_turn(const Tables<G>& tables, const Step<G>& step, int action) {
  Place<G>& place = Place<G>::mine();
  const int ticks = place.slot.game.ticks();
  Crew::alone([&] { place.report = tables.make_report(place.slot, place.drivers, step.tally()); });
  tables.apply(place.slot, action, place.report);
  Place<G>& played = Place<G>::mine();
  const G& game = played.slot.game;
  bool over = false;
  if (game.over() || played.drivers[game.seat()] >= kFirstBot)
    over = settle_apart(tables, step.first + warp_row<G>(), played, step.tally());
  const std::size_t at = warp_row<G>();
  Crew::share(tables.seats, [&](int s) {
    step.outcome.rewards[at * static_cast<std::size_t>(tables.seats) + static_cast<std::size_t>(s)] =
        played.report.reward[s];
  });
  if (Crew::hand() == 0) step.outcome.over[at] = static_cast<std::uint8_t>(over);
  const bool quiet = !over && game.ticks() == ticks;
  played.store(step.slots[step.first + at], quiet ? game.quiet_bytes() : 0);
}

template <Game G>
__device__ void tell_turn(const Tables<G>& tables, const Step<G>& step) {
  const std::size_t at = warp_row<G>();
  const G& game = Place<G>::mine().slot.game;
  game.legal_row(tables.options, step.next.legal + at * static_cast<std::size_t>(step.legal_bytes));
  Place<G>& place = Place<G>::mine();
  const int seat = place.slot.game.seat();
  place.slot.game.observe(tables.options, seat, place.row);
  const std::size_t row = warp_row<G>();
  Place<G>::mine().send_row(step.next.observation + row * static_cast<std::size_t>(step.row_bytes), step.row_bytes);
  if (Crew::hand() == 0) {
    step.next.seat[row] = static_cast<std::uint8_t>(seat);
    step.next.role[row] = static_cast<std::uint8_t>(Place<G>::mine().slot.game.role());
    step.next.driver[row] = Place<G>::mine().drivers[seat];
  }
}

// One kernel whatever the answer: the rules are compiled once for each, and are long.
template <Game G>
__global__ void __launch_bounds__(games_a_block<G>() * kWarp, blocks_wanted<G>())
    advance_boards(const __grid_constant__ Tables<G> tables, const __grid_constant__ Step<G> step, Answer answer) {
  const std::size_t at = warp_row<G>(), row = step.first + at;
  if (at >= step.count) return;
  Place<G>::mine().load(step.slots[row], step.drivers_of(row, tables.seats), tables.seats);
  if (answer != Answer::kNone) answer_turn(tables, step, find_action(tables, step, answer));
  if (step.next.observation != nullptr) tell_turn(tables, step);
}

template <Game G>
__global__ void __launch_bounds__(games_a_block<G>() * kWarp, blocks_wanted<G>())
    settle_boards(const __grid_constant__ Tables<G> tables, const __grid_constant__ Step<G> step, bool open,
                  const std::uint64_t* seeds, std::uint32_t phases) {
  const std::size_t row = warp_row<G>();
  if (row >= step.count) return;
  Place<G>& place = Place<G>::mine();
  const std::uint8_t* mine = step.drivers_of(row, tables.seats);
  place.load(step.slots[row], mine, tables.seats);
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
  place.load(slots[row], nullptr, 0);
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
