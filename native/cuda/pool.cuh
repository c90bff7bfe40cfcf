// The CUDA pool: games in flight on the card, played by threads (tables.cuh) or by warps (boards.cuh).
#pragma once

#include <cstring>

#include "boards.cuh"
#include "tables.cuh"

namespace playmill {

template <Game G>
using Playing = std::conditional_t<Crewed<G>, ByWarps<G>, ByThreads<G>>;

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
        prepared_(prepare_tables()),
        row_bytes_(G::schema(options).bytes()),
        games_(games),
        slots_(games * sizeof(Slot<G>)),
        drivers_(games * static_cast<std::size_t>(tables_.seats)),
        tallies_(kTallyCopies * kCells * sizeof(Tally)),
        bad_(sizeof(unsigned long long)) {
    slots_.clear(nullptr);
    drivers_.clear(nullptr);
    tallies_.clear(nullptr);
    Playing<G>::allow(row_bytes_);
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
      Playing<G>::find_illegal(tables_, slots(), games_, actions, bad, stream);
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
      Playing<G>::script(tables_, slots(), games_, kinds, actions, bad, stream);
    });
    if (row == games_) return;
    std::uint8_t kind = 0;
    fetch(&kind, kinds + row, 1, stream);
    throw std::invalid_argument("row " + std::to_string(row) + ": there is no bot number " + std::to_string(kind));
  }

  void script(std::size_t first, std::size_t count, const std::uint8_t* kinds, std::int32_t* actions,
              cudaStream_t stream) override {
    Playing<G>::script(tables_, slots() + first, count, kinds, actions, bad_.as<unsigned long long>(), stream);
    check(cudaGetLastError(), "asking bots");
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
    const std::uint32_t phases = stagger && seeds == nullptr ? typical_turns() : 1;
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
    gather_tallies<<<blocks_of(kCells, kBlock), kBlock, 0, stream>>>(tallies_.as<Tally>(), kCells, out);
    check(cudaGetLastError(), "adding up tallies");
  }

 private:
  Slot<G>* slots() const { return slots_.as<Slot<G>>(); }

  // Tables that the options point at, copied to the card.
  DeviceMemory prepare_tables() {
    const Prepared made = prepare<G>(tables_.options);
    DeviceMemory copy(made.bytes);
    if constexpr (requires { tables_.options.prepared; }) {
      if (made.bytes > 0)
        check(cudaMemcpy(copy.as(), tables_.options.prepared, made.bytes, cudaMemcpyHostToDevice), "sending tables");
      tables_.options.prepared = made.bytes > 0 ? copy.as() : nullptr;
    }
    return copy;
  }

  // Played on the host, which does not see the card's tables.
  std::uint32_t typical_turns() const {
    Tables<G> here = tables_;
    if constexpr (requires { here.options.prepared; }) here.options.prepared = nullptr;
    return here.typical_turns();
  }

  Step<G> step_of(std::size_t first, std::size_t count) const {
    Step<G> step;
    step.slots = slots();
    step.drivers = drivers_.as<std::uint8_t>();
    step.tallies = tallies_.as<Tally>();
    step.first = first;
    step.count = count;
    step.row_bytes = row_bytes_;
    step.legal_bytes = static_cast<int>(legal_bytes_of<G>(tables_.options));
    step.actions = actions_of<G>(tables_.options);
    return step;
  }

  template <Answer kAnswer>
  void advance(std::size_t first, std::size_t count, const std::int32_t* actions, const DrawRows& draw,
               const OutcomeRows& outcome, const TurnRows& next, cudaStream_t stream) {
    Step<G> step = step_of(first, count);
    step.given = actions;
    step.draw = draw;
    step.outcome = outcome;
    step.next = next;
    Playing<G>::template advance<kAnswer>(tables_, step, stream);
    check(cudaGetLastError(), "stepping the games");
  }

  void settle(bool open, const std::uint64_t* seeds, std::uint32_t phases, cudaStream_t stream) {
    Playing<G>::settle(tables_, step_of(0, games_), open, seeds, phases, stream);
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
  DeviceMemory prepared_;
  int row_bytes_;
  std::size_t games_;
  DeviceMemory slots_, drivers_, tallies_, bad_;
  bool asked_ = false;
};

// As with_type(), of the sizes there are on the card.
template <Game G, class Work>
auto on_card(const typename G::Options& options, Work&& work) {
  if constexpr (requires { typename G::CardSizes; }) {
    return with_size(typename G::CardSizes{}, options, work);
  } else {
    return work(std::type_identity<G>{});
  }
}

template <Game... Games>
std::map<std::string, CudaPoolMaker> make_cuda_pools(GameList<Games...>) {
  return {{Games::kName,
           [](const OptionValues& values, std::size_t games, std::uint64_t seed) -> std::unique_ptr<AnyCudaPool> {
             const auto options = read_options<Games>(values);
             return on_card<Games>(options, [&](auto type) -> std::unique_ptr<AnyCudaPool> {
               return std::make_unique<CudaPool<typename decltype(type)::type>>(options, games, seed);
             });
           }}...};
}

}  // namespace playmill
