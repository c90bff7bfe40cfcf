// Small games: a thread plays a game. Tables go through shared memory, so that the rules may touch any
// byte of a game while the card's memory is read and written in whole lines.
#pragma once

#include <cstring>

#include "../core/fast_math.hpp"
#include "steps.cuh"

namespace playmill {

inline constexpr int kBlock = 128;
inline constexpr int kBlocksWanted = 3;  // on a multiprocessor

// A block of tables in shared memory. The distance between two is an odd number of words: the same
// field of neighbouring games then lies in different banks.
template <Game G>
struct Staging {
  static_assert(sizeof(Slot<G>) % 8 == 0);
  static constexpr int kWords = static_cast<int>(sizeof(Slot<G>) / 8);
  static constexpr int kStride = kWords | 1;
  static constexpr std::size_t kTableBytes = static_cast<std::size_t>(kBlock) * kStride * 8;
  // Behind the tables there is room for what comes one after another: sums of the draw, reports of
  // the step, rows of the next turns. Reports lie here because what does not fit registers would
  // otherwise go to the small rest of the cache.
  static constexpr std::size_t kLaneBytes = kLanes * sizeof(float);
  static constexpr std::size_t kReportBytes = 2 * sizeof(Report);
  static constexpr std::size_t kScratchBytes = kLaneBytes > kReportBytes ? kLaneBytes : kReportBytes;

  static std::size_t bytes(int row_bytes) {
    const auto each =
        static_cast<std::size_t>(row_bytes) > kScratchBytes ? static_cast<std::size_t>(row_bytes) : kScratchBytes;
    return kTableBytes + static_cast<std::size_t>(kBlock) * each;
  }

  template <class T>
  __device__ static T* scratch(std::uint8_t* room, int thread) {
    return reinterpret_cast<T*>(room + static_cast<std::size_t>(thread) * kScratchBytes);
  }

  // Calls visit(word in the card's memory, word in the stage) for this thread's share of the words.
  template <class Visit>
  __device__ static void each_word(int count, Visit&& visit) {
    constexpr int kSlots = kBlock / kWords, kRest = kBlock % kWords;
    int word = static_cast<int>(threadIdx.x) % kWords;
    int at = static_cast<int>(threadIdx.x) / kWords * kStride;
    for (int i = static_cast<int>(threadIdx.x); i < count * kWords; i += kBlock) {
      visit(i, at + word);
      word += kRest;
      at += kSlots * kStride;
      if (word >= kWords) word -= kWords, at += kStride;
    }
  }

  __device__ static void load(const Slot<G>* from, int count, std::uint64_t* stage) {
    const auto* words = reinterpret_cast<const std::uint64_t*>(from);
    each_word(count, [&](int i, int staged) { stage[staged] = words[i]; });
    __syncthreads();
  }

  __device__ static void store(const std::uint64_t* stage, int count, Slot<G>* to) {
    __syncthreads();
    auto* words = reinterpret_cast<std::uint64_t*>(to);
    each_word(count, [&](int i, int staged) { words[i] = stage[staged]; });
  }
};

// Writes a block's rows, which lie packed in shared memory, to the card's memory.
__device__ inline void copy_out(const std::uint8_t* stage, std::size_t size, std::uint8_t* out) {
  __syncthreads();
  const bool aligned = (reinterpret_cast<std::uintptr_t>(out) & 15u) == 0;
  const std::size_t wide = aligned ? size / 16 : 0;
  for (std::size_t i = threadIdx.x; i < wide; i += kBlock)
    reinterpret_cast<uint4*>(out)[i] = reinterpret_cast<const uint4*>(stage)[i];
  for (std::size_t i = wide * 16 + threadIdx.x; i < size; i += kBlock) out[i] = stage[i];
}

template <int N, class Visit>
__device__ void each_member(const BitSet<N>& set, Visit&& visit) {
  for (int w = 0; w < BitSet<N>::kWords; ++w)
    for (std::uint64_t bits = set.word[w]; bits != 0; bits &= bits - 1)
      if (visit(w * 64 + lowest_bit(bits))) return;
}

// The same action as sample_actions() draws on the CPU, sum for sum. `lane` is room for kLanes sums.
template <int N>
__device__ Drawn draw_action(const float* logits, const BitSet<N>& legal, bool greedy, float unit, float* lane) {
  float largest = kNever;
  each_member(legal, [&](int a) {
    largest = logits[a] > largest ? logits[a] : largest;
    return false;
  });
  const auto weight = [&](int a) { return logits[a] == kNever ? 0.0f : exp_negative(logits[a] - largest); };
  for (int k = 0; k < kLanes; ++k) lane[k] = 0.0f;
  each_member(legal, [&](int a) {
    lane[a % kLanes] += weight(a);
    return false;
  });
  const float total = add_lanes(lane);

  int chosen = -1;
  float sum = 0.0f, best = 0.0f;
  const float target = unit * total;
  each_member(legal, [&](int a) {
    const float w = weight(a);
    if (greedy) {
      if (chosen < 0 || w > best) chosen = a, best = w;
      return false;
    }
    if (w == 0.0f) return false;
    chosen = a;
    sum += w;
    return sum > target;
  });
  return {chosen, chosen < 0 ? NAN : logits[chosen] - largest - logf(total)};
}

// Its arguments come one by one: as one struct they cost registers.
template <Game G, Answer kAnswer>
__global__ void __launch_bounds__(kBlock)
    advance_tables(Tables<G> tables, Slot<G>* slots, const std::uint8_t* drivers, Tally* tallies, std::size_t first,
                   std::size_t count, const std::int32_t* given, DrawRows draw, OutcomeRows outcome, TurnRows next,
                   int row_bytes) {
  extern __shared__ __align__(16) std::uint64_t shared[];
  auto* rows = reinterpret_cast<std::uint8_t*>(shared) + Staging<G>::kTableBytes;
  const std::size_t begin = static_cast<std::size_t>(blockIdx.x) * kBlock;
  const int live = static_cast<int>(count - begin < kBlock ? count - begin : kBlock);
  const int thread = static_cast<int>(threadIdx.x);
  const std::size_t at = begin + threadIdx.x;  // this thread's row
  const std::size_t row = first + at;          // and its game
  Staging<G>::load(slots + first + begin, live, shared);
  Slot<G>& slot = *reinterpret_cast<Slot<G>*>(shared + thread * Staging<G>::kStride);
  const std::uint8_t* mine = drivers + row * static_cast<std::size_t>(tables.seats);

  if (kAnswer != Answer::kNone && thread < live) {
    Tally* tally = tallies + static_cast<std::size_t>(blockIdx.x % kTallyCopies) * kDrivers * Tables<G>::kStatCount;
    int action = 0;
    if constexpr (kAnswer == Answer::kGiven) action = given[at];
    if constexpr (kAnswer == Answer::kRandom) action = tables.scripted(slot, 0);
    if constexpr (kAnswer == Answer::kDrawn) {
      BitSet<G::kActions> legal;
      memcpy(&legal, draw.legal + at * sizeof legal, sizeof legal);
      const float* heads = draw.heads + at * static_cast<std::size_t>(draw.stride);
      const float unit = Random(mix64(draw.seed, *draw.first_draw + draw.draw), row).unit();
      const Drawn drawn =
          draw_action(heads, legal, draw.greedy, unit, Staging<G>::template scratch<float>(rows, thread));
      action = drawn.action < 0 ? legal.nth(0) : drawn.action;  // logits that are no numbers: the guard reports them
      draw.action[at] = action;
      draw.log_probability[at] = drawn.log_probability;
      if (draw.value != nullptr) draw.value[at] = heads[G::kActions];
    }
    Report* reports = Staging<G>::template scratch<Report>(rows, thread);
    Report& report = reports[0];
    report = tables.make_report(slot, mine, tally);
    tables.apply(slot, action, report);
    outcome.over[at] = static_cast<std::uint8_t>(tables.settle(row, slot, mine, tally, report, reports[1]));
    for (int s = 0; s < tables.seats; ++s)
      outcome.rewards[at * static_cast<std::size_t>(tables.seats) + static_cast<std::size_t>(s)] = report.reward[s];
  }
  if (next.observation != nullptr) {
    __syncthreads();  // the reports lie where the rows will
    if (thread < live) {
      const G& game = slot.game;
      const int seat = game.seat();
      BitSet<G::kActions> legal;
      game.legal(tables.options, legal);
      memcpy(next.legal + at * sizeof legal, &legal, sizeof legal);
      game.observe(tables.options, seat, rows + thread * row_bytes);
      next.seat[at] = static_cast<std::uint8_t>(seat);
      next.role[at] = static_cast<std::uint8_t>(game.role());
      next.driver[at] = mine[seat];
    }
    copy_out(rows, static_cast<std::size_t>(live) * static_cast<std::size_t>(row_bytes),
             next.observation + begin * static_cast<std::size_t>(row_bytes));
  }
  if (kAnswer != Answer::kNone) Staging<G>::store(shared, live, slots + first + begin);
}

// New games (`open`), or only on to the next turn a policy must answer.
template <Game G>
__global__ void __launch_bounds__(kBlock)
    settle_tables(Tables<G> tables, Step<G> step, bool open, const std::uint64_t* seeds, std::uint32_t phases) {
  const std::size_t row = static_cast<std::size_t>(blockIdx.x) * kBlock + threadIdx.x;
  if (row >= step.count) return;
  const std::uint8_t* mine = step.drivers_of(row, tables.seats);
  Slot<G>& slot = step.slots[row];
  if (open) {
    tables.open(row, slot, seeds != nullptr ? seeds[row] : tables.episode_seed(row, 0), phases, mine, step.tally());
  } else {
    tables.settle(row, slot, mine, step.tally());
  }
}

template <Game G>
__global__ void __launch_bounds__(kBlock)
    script_tables(Tables<G> tables, const Slot<G>* slots, std::size_t count, const std::uint8_t* kinds,
                  std::int32_t* actions, unsigned long long* bad) {
  const std::size_t row = static_cast<std::size_t>(blockIdx.x) * kBlock + threadIdx.x;
  if (row >= count) return;
  if (kinds[row] >= std::size(G::kBots))
    atomicMin(bad, static_cast<unsigned long long>(row));
  else
    actions[row] = tables.scripted(slots[row], kinds[row]);
}

template <Game G>
__global__ void __launch_bounds__(kBlock) find_illegal(Tables<G> tables, const Slot<G>* slots, std::size_t count,
                                                       const std::int32_t* actions, unsigned long long* bad) {
  const std::size_t row = static_cast<std::size_t>(blockIdx.x) * kBlock + threadIdx.x;
  if (row >= count) return;
  BitSet<G::kActions> legal;
  slots[row].game.legal(tables.options, legal);
  const std::int32_t action = actions[row];
  const bool known = static_cast<std::uint32_t>(action) < static_cast<std::uint32_t>(G::kActions);
  if (!known || !legal.has(action)) atomicMin(bad, static_cast<unsigned long long>(row));
}

// How threads play.
template <Game G>
struct ByThreads {
  static void allow(int row_bytes) {
    allow_one(advance_tables<G, Answer::kNone>, row_bytes);
    allow_one(advance_tables<G, Answer::kGiven>, row_bytes);
    allow_one(advance_tables<G, Answer::kDrawn>, row_bytes);
    allow_one(advance_tables<G, Answer::kRandom>, row_bytes);
  }
  template <Answer kAnswer>
  static void advance(const Tables<G>& tables, const Step<G>& step, cudaStream_t stream) {
    advance_tables<G, kAnswer><<<blocks_of(step.count, kBlock), kBlock, Staging<G>::bytes(step.row_bytes), stream>>>(
        tables, step.slots, step.drivers, step.tallies, step.first, step.count, step.given, step.draw, step.outcome,
        step.next, step.row_bytes);
  }
  static void settle(const Tables<G>& tables, const Step<G>& step, bool open, const std::uint64_t* seeds,
                     std::uint32_t phases, cudaStream_t stream) {
    settle_tables<G><<<blocks_of(step.count, kBlock), kBlock, 0, stream>>>(tables, step, open, seeds, phases);
  }
  static void script(const Tables<G>& tables, const Slot<G>* slots, std::size_t count, const std::uint8_t* kinds,
                     std::int32_t* actions, unsigned long long* bad, cudaStream_t stream) {
    script_tables<G><<<blocks_of(count, kBlock), kBlock, 0, stream>>>(tables, slots, count, kinds, actions, bad);
  }
  static void find_illegal(const Tables<G>& tables, const Slot<G>* slots, std::size_t count,
                           const std::int32_t* actions, unsigned long long* bad, cudaStream_t stream) {
    playmill::find_illegal<G><<<blocks_of(count, kBlock), kBlock, 0, stream>>>(tables, slots, count, actions, bad);
  }

 private:
  template <class Kernel>
  static void allow_one(Kernel kernel, int row_bytes) {
    const auto size = static_cast<int>(Staging<G>::bytes(row_bytes));
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, size), "asking for shared memory");
    // Three blocks a multiprocessor: a fourth would take the cache from the rules' own arrays.
    int all = 0;
    check(cudaDeviceGetAttribute(&all, cudaDevAttrMaxSharedMemoryPerMultiprocessor, 0), "asking for shared memory");
    const int percent = std::min(100, (kBlocksWanted * (size + 1024) * 100 + all - 1) / all);
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, percent),
          "asking for shared memory");
  }
};

}  // namespace playmill
