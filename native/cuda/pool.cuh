// The CUDA pool: a thread a game. Tables go through shared memory, so that the rules may touch any
// byte of a game while the card's memory is read and written in whole lines.
#pragma once

#include <cstring>

#include "../core/fast_math.hpp"
#include "../core/pool.hpp"
#include "pool.hpp"

namespace playmill {

inline constexpr int kBlock = 128;
inline constexpr int kBlocksWanted = 3;  // on a multiprocessor
// Copies of the tallies: blocks that count at the same time seldom share a cell.
inline constexpr int kTallyCopies = 256;

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

struct Drawn {
  int action;
  float log_probability;
};

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

// Where a step's actions come from.
enum class Answer { kNone, kGiven, kDrawn, kRandom };

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
    settle_tables(Tables<G> tables, Slot<G>* slots, const std::uint8_t* drivers, Tally* tallies, std::size_t count,
                  bool open, const std::uint64_t* seeds, std::uint32_t phases) {
  const std::size_t row = static_cast<std::size_t>(blockIdx.x) * kBlock + threadIdx.x;
  if (row >= count) return;
  Tally* tally = tallies + static_cast<std::size_t>(blockIdx.x % kTallyCopies) * kDrivers * Tables<G>::kStatCount;
  const std::uint8_t* mine = drivers + row * static_cast<std::size_t>(tables.seats);
  Slot<G>& slot = slots[row];
  if (open) {
    tables.open(row, slot, seeds != nullptr ? seeds[row] : tables.episode_seed(row, 0), phases, mine, tally);
  } else {
    tables.settle(row, slot, mine, tally);
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

// Adds up the copies of each cell, and empties them.
__global__ inline void gather_tallies(Tally* tallies, std::size_t cells, Tally* out) {
  const std::size_t cell = static_cast<std::size_t>(blockIdx.x) * kBlock + threadIdx.x;
  if (cell >= cells) return;
  Tally sum;
  for (std::size_t copy = 0; copy < kTallyCopies; ++copy) {
    Tally& part = tallies[copy * cells + cell];
    sum.sum += part.sum;
    sum.n += part.n;
    part = Tally{};
  }
  out[cell] = sum;
}

template <Game G>
class CudaPool final : public AnyCudaPool {
 public:
  static constexpr std::size_t kCells = static_cast<std::size_t>(kDrivers) * Tables<G>::kStatCount;

  CudaPool(const typename G::Options& options, std::size_t games, std::uint64_t seed)
      : tables_{options, G::seats(options), seed},
        row_bytes_(G::schema(options).bytes()),
        games_(games),
        slots_(games * sizeof(Slot<G>)),
        drivers_(games * static_cast<std::size_t>(tables_.seats)),
        tallies_(kTallyCopies * kCells * sizeof(Tally)),
        bad_(sizeof(unsigned long long)) {
    slots_.clear(nullptr);
    drivers_.clear(nullptr);
    tallies_.clear(nullptr);
    allow_shared(advance_tables<G, Answer::kNone>);
    allow_shared(advance_tables<G, Answer::kGiven>);
    allow_shared(advance_tables<G, Answer::kDrawn>);
    allow_shared(advance_tables<G, Answer::kRandom>);
    check(cudaStreamSynchronize(nullptr), "making a pool");
  }

  std::size_t games() const override { return games_; }
  std::size_t bytes() const override { return slots_.bytes() + drivers_.bytes() + tallies_.bytes(); }

  void turns(const TurnRows& out, cudaStream_t stream) override {
    advance<Answer::kNone>(0, games_, nullptr, {}, {}, out, stream);
    asked_ = true;
  }

  void act(const std::int32_t* actions, const OutcomeRows& outcome, cudaStream_t stream) override {
    if (!asked_) throw OutOfTurn("act() before turns(): ask for the waiting turns first, then answer them");
    const std::size_t row = first_bad(stream, [&](unsigned long long* bad) {
      find_illegal<G><<<blocks(games_), kBlock, 0, stream>>>(tables_, slots(), games_, actions, bad);
    });
    if (row < games_) {
      Slot<G> slot;
      std::int32_t action = 0;
      fetch(&slot, slots() + row, sizeof slot, stream);
      fetch(&action, actions + row, sizeof action, stream);
      throw IllegalAction(tables_.refusal(row, slot.game, action));
    }
    asked_ = false;
    advance<Answer::kGiven>(0, games_, actions, {}, outcome, {}, stream);
  }

  void bot_actions(const std::uint8_t* kinds, std::int32_t* actions, cudaStream_t stream) override {
    if (!asked_) throw OutOfTurn("bot_actions() before turns(): ask for the waiting turns first");
    const std::size_t row = first_bad(stream, [&](unsigned long long* bad) {
      script_tables<G><<<blocks(games_), kBlock, 0, stream>>>(tables_, slots(), games_, kinds, actions, bad);
    });
    if (row == games_) return;
    std::uint8_t kind = 0;
    fetch(&kind, kinds + row, 1, stream);
    throw std::invalid_argument("row " + std::to_string(row) + ": there is no bot number " + std::to_string(kind));
  }

  void step(std::size_t first, std::size_t count, const DrawRows& draw, const OutcomeRows& outcome,
            const TurnRows& next, cudaStream_t stream) override {
    advance<Answer::kDrawn>(first, count, nullptr, draw, outcome, next, stream);
    asked_ = true;
  }

  void step_random(std::size_t first, std::size_t count, const OutcomeRows& outcome, const TurnRows& next,
                   cudaStream_t stream) override {
    advance<Answer::kRandom>(first, count, nullptr, {}, outcome, next, stream);
    asked_ = true;
  }

  void reset(const std::uint64_t* seeds, bool stagger, cudaStream_t stream) override {
    const std::uint32_t phases = stagger && seeds == nullptr ? tables_.typical_turns() : 1;
    tables_.first_only = seeds != nullptr;
    DeviceMemory named(seeds != nullptr ? games_ * sizeof(std::uint64_t) : 0);
    if (seeds != nullptr)
      check(cudaMemcpyAsync(named.as(), seeds, named.bytes(), cudaMemcpyHostToDevice, stream), "sending seeds");
    settle(true, named.as<std::uint64_t>(), phases, stream);
  }

  void set_drivers(const std::uint8_t* drivers, cudaStream_t stream) override {
    if (const std::string wrong = tables_.check_drivers(drivers, games_); !wrong.empty())
      throw std::invalid_argument(wrong);
    check(cudaMemcpyAsync(drivers_.as(), drivers, drivers_.bytes(), cudaMemcpyHostToDevice, stream), "sending drivers");
    settle(false, nullptr, 1, stream);
  }

  std::vector<std::uint8_t> snapshot(cudaStream_t stream) const override {
    const SnapshotHeader<G> header = make_header();
    std::vector<std::uint8_t> out(snapshot_size());
    std::memcpy(out.data(), &header, sizeof header);
    std::uint8_t* at = out.data() + sizeof header;
    for (const DeviceMemory* part : {&slots_, &drivers_, &tallies_}) {
      fetch(at, part->as(), part->bytes(), stream);
      at += part->bytes();
    }
    return out;
  }

  void restore(const std::uint8_t* data, std::size_t size, cudaStream_t stream) override {
    SnapshotHeader<G> header = make_header();
    header.accept(data, size, snapshot_size());
    data += sizeof header;
    for (const DeviceMemory* part : {&slots_, &drivers_, &tallies_}) {
      check(cudaMemcpyAsync(part->as(), data, part->bytes(), cudaMemcpyHostToDevice, stream), "restoring a pool");
      data += part->bytes();
    }
    check(cudaStreamSynchronize(stream), "restoring a pool");
    tables_.first_only = header.first_only != 0;
    asked_ = false;
  }

  std::vector<Tally> tallies(cudaStream_t stream) const override {
    std::vector<Tally> all(kTallyCopies * kCells), sum(kCells);
    fetch(all.data(), tallies_.as(), tallies_.bytes(), stream);
    for (std::size_t i = 0; i < all.size(); ++i) {
      sum[i % kCells].sum += all[i].sum;
      sum[i % kCells].n += all[i].n;
    }
    return sum;
  }

  void clear_tallies(cudaStream_t stream) override { tallies_.clear(stream); }

  std::size_t tally_cells() const override { return kCells; }
  void take_tallies(Tally* out, cudaStream_t stream) override {
    gather_tallies<<<blocks(kCells), kBlock, 0, stream>>>(tallies_.as<Tally>(), kCells, out);
    check(cudaGetLastError(), "adding up tallies");
  }

 private:
  Slot<G>* slots() const { return slots_.as<Slot<G>>(); }
  static unsigned blocks(std::size_t rows) { return static_cast<unsigned>((rows + kBlock - 1) / kBlock); }

  template <class Kernel>
  void allow_shared(Kernel kernel) const {
    const auto size = static_cast<int>(Staging<G>::bytes(row_bytes_));
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, size), "asking for shared memory");
    // Three blocks a multiprocessor: a fourth would take the cache from the rules' own arrays.
    int all = 0;
    check(cudaDeviceGetAttribute(&all, cudaDevAttrMaxSharedMemoryPerMultiprocessor, 0), "asking for shared memory");
    const int percent = std::min(100, (kBlocksWanted * (size + 1024) * 100 + all - 1) / all);
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, percent),
          "asking for shared memory");
  }

  template <Answer kAnswer>
  void advance(std::size_t first, std::size_t count, const std::int32_t* actions, const DrawRows& draw,
               const OutcomeRows& outcome, const TurnRows& next, cudaStream_t stream) {
    advance_tables<G, kAnswer><<<blocks(count), kBlock, Staging<G>::bytes(row_bytes_), stream>>>(
        tables_, slots(), drivers_.as<std::uint8_t>(), tallies_.as<Tally>(), first, count, actions, draw, outcome, next,
        row_bytes_);
    check(cudaGetLastError(), "stepping the games");
  }

  void settle(bool open, const std::uint64_t* seeds, std::uint32_t phases, cudaStream_t stream) {
    settle_tables<G><<<blocks(games_), kBlock, 0, stream>>>(tables_, slots(), drivers_.as<std::uint8_t>(),
                                                            tallies_.as<Tally>(), games_, open, seeds, phases);
    check(cudaGetLastError(), "settling the games");
    check(cudaStreamSynchronize(stream), "settling the games");
    asked_ = false;
  }

  // Runs a check that lowers *bad to the first row that fails; `games()` when none does.
  template <class Launch>
  std::size_t first_bad(cudaStream_t stream, Launch&& launch) {
    unsigned long long bad = games_;
    check(cudaMemcpyAsync(bad_.as(), &bad, sizeof bad, cudaMemcpyHostToDevice, stream), "checking actions");
    launch(bad_.as<unsigned long long>());
    check(cudaGetLastError(), "checking actions");
    fetch(&bad, bad_.as(), sizeof bad, stream);
    return bad;
  }

  static void fetch(void* to, const void* from, std::size_t size, cudaStream_t stream) {
    check(cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToHost, stream), "reading from the card");
    check(cudaStreamSynchronize(stream), "reading from the card");
  }

  SnapshotHeader<G> make_header() const { return SnapshotHeader<G>::of("playcuda", tables_, games_, kTallyCopies); }
  std::size_t snapshot_size() const { return sizeof(SnapshotHeader<G>) + bytes(); }

  Tables<G> tables_;
  int row_bytes_;
  std::size_t games_;
  DeviceMemory slots_, drivers_, tallies_, bad_;
  bool asked_ = false;
};

template <Game... Games>
std::map<std::string, CudaPoolMaker> make_cuda_pools(GameList<Games...>) {
  return {{Games::kName,
           [](const OptionValues& values, std::size_t games, std::uint64_t seed) -> std::unique_ptr<AnyCudaPool> {
             return std::make_unique<CudaPool<Games>>(read_options<Games>(values), games, seed);
           }}...};
}

}  // namespace playmill
