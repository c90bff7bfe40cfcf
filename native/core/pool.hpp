// Many games in flight on the CPU: `turns` writes the rows that wait, `act` answers them.
// Every game waits for exactly one turn at a time; ended games restart in place.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "table.hpp"
#include "workers.hpp"

namespace playmill {

// An action that is not legal now; nothing was changed.
struct IllegalAction : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Calls in the wrong order: act before turns.
struct OutOfTurn : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What every pool can do, whatever its game. Arrays are the caller's, one row a game.
class AnyPool {
 public:
  virtual ~AnyPool() = default;

  virtual std::size_t games() const = 0;
  virtual int threads() const = 0;
  virtual std::size_t bytes() const = 0;  // memory held for the games in flight

  virtual void turns(std::uint8_t* observation, std::uint8_t* legal, std::uint8_t* seat, std::uint8_t* role,
                     std::uint8_t* driver) = 0;
  virtual void act(const std::int32_t* actions, float* rewards, std::uint8_t* over) = 0;

  // Scripted answers to the waiting turns: bot `kinds[row]` (0 random).
  virtual void bot_actions(const std::uint8_t* kinds, std::int32_t* actions) = 0;

  // New games. With `seeds` game i is that seed, and only these games count in the tallies, not
  // those that follow them; otherwise seeds follow from the pool's own and `stagger` spreads the
  // games over all phases by random play.
  virtual void reset(const std::uint64_t* seeds, bool stagger) = 0;
  virtual void set_drivers(const std::uint8_t* drivers) = 0;  // [games, seats]; takes effect at once

  virtual std::vector<std::uint8_t> snapshot() const = 0;
  virtual void restore(const std::uint8_t* data, std::size_t size) = 0;

  virtual std::vector<Tally> tallies() const = 0;  // [drivers, stats]
  virtual void clear_tallies() = 0;
};

template <Game G>
class Pool final : public AnyPool {
 public:
  using Options = typename G::Options;
  using Legal = BitSet<G::kActions>;
  static constexpr std::size_t kCells = static_cast<std::size_t>(kDrivers) * Tables<G>::kStatCount;

  Pool(const Options& options, std::size_t games, std::uint64_t seed, int threads)
      : tables_{options, G::seats(options), seed},
        prepared_(prepare<G>(tables_.options)),
        row_bytes_(static_cast<std::size_t>(G::schema(options).bytes())),
        legal_bytes_(legal_bytes_of<G>(options)),
        workers_(threads),
        slots_(games),
        legal_(TellsLegal<G> ? 0 : games),
        drivers_(games * static_cast<std::size_t>(tables_.seats), 0),
        tallies_(static_cast<std::size_t>(workers_.slices()) * kCells) {
    // Padding too: the snapshots of equal pools are equal byte for byte.
    std::memset(static_cast<void*>(slots_.data()), 0, slots_.size() * sizeof(Slot<G>));
  }

  std::size_t games() const override { return slots_.size(); }
  int threads() const override { return workers_.threads(); }
  std::size_t bytes() const override {
    return slots_.size() * sizeof(Slot<G>) + legal_.size() * sizeof(Legal) + drivers_.size() +
           tallies_.size() * sizeof(Tally);
  }

  void turns(std::uint8_t* observation, std::uint8_t* legal, std::uint8_t* seat, std::uint8_t* role,
             std::uint8_t* driver) override {
    workers_.run(slots_.size(), [&](std::size_t begin, std::size_t end, int) {
      for (std::size_t i = begin; i < end; ++i) {
        const G& game = slots_[i].game;
        const int s = game.seat();
        std::uint8_t* row = legal + i * legal_bytes_;
        if constexpr (TellsLegal<G>) {
          game.legal_row(tables_.options, row);
        } else {
          Legal bits;
          game.legal(tables_.options, bits);
          legal_[i] = bits;
          std::memcpy(row, &bits, legal_bytes_);
        }
        game.observe(tables_.options, s, observation + i * row_bytes_);
        seat[i] = static_cast<std::uint8_t>(s);
        role[i] = static_cast<std::uint8_t>(game.role());
        driver[i] = drivers_of(i)[s];
      }
    });
    asked_ = true;
  }

  void act(const std::int32_t* actions, float* rewards, std::uint8_t* over) override {
    if (!asked_) throw OutOfTurn("act() before turns(): ask for the waiting turns first, then answer them");
    check_legal(actions);
    asked_ = false;
    const auto seats = static_cast<std::size_t>(tables_.seats);
    workers_.run(slots_.size(), [&](std::size_t begin, std::size_t end, int slice) {
      for (std::size_t i = begin; i < end; ++i) {
        Slot<G>& slot = slots_[i];
        Report report = tables_.make_report(slot, drivers_of(i), tally_of(slice)), later;
        tables_.apply(slot, actions[i], report);
        over[i] = static_cast<std::uint8_t>(tables_.settle(i, slot, drivers_of(i), tally_of(slice), report, later));
        for (std::size_t s = 0; s < seats; ++s) rewards[i * seats + s] = report.reward[s];
      }
    });
  }

  void bot_actions(const std::uint8_t* kinds, std::int32_t* actions) override {
    if (!asked_) throw OutOfTurn("bot_actions() before turns(): ask for the waiting turns first");
    std::uint8_t highest = 0;
    for (std::size_t i = 0; i < slots_.size(); ++i) highest = std::max(highest, kinds[i]);
    if (highest >= std::size(G::kBots))
      throw std::invalid_argument("row " + std::to_string(std::find(kinds, kinds + slots_.size(), highest) - kinds) +
                                  ": there is no bot number " + std::to_string(highest));
    workers_.run(slots_.size(), [&](std::size_t begin, std::size_t end, int) {
      for (std::size_t i = begin; i < end; ++i) {
        if constexpr (TellsLegal<G>) {
          actions[i] = tables_.scripted(slots_[i], kinds[i]);
        } else {
          actions[i] = tables_.scripted(slots_[i], kinds[i], legal_[i]);
        }
      }
    });
  }

  void reset(const std::uint64_t* seeds, bool stagger) override {
    const std::uint32_t phases = stagger && seeds == nullptr ? tables_.typical_turns() : 1;
    tables_.first_only = seeds != nullptr;
    workers_.run(slots_.size(), [&](std::size_t begin, std::size_t end, int slice) {
      for (std::size_t i = begin; i < end; ++i)
        tables_.open(i, slots_[i], seeds != nullptr ? seeds[i] : tables_.episode_seed(i, 0), phases, drivers_of(i),
                     tally_of(slice));
    });
    asked_ = false;
  }

  void set_drivers(const std::uint8_t* drivers) override {
    if (const std::string wrong = tables_.check_drivers(drivers, slots_.size()); !wrong.empty())
      throw std::invalid_argument(wrong);
    std::memcpy(drivers_.data(), drivers, drivers_.size());
    workers_.run(slots_.size(), [&](std::size_t begin, std::size_t end, int slice) {
      for (std::size_t i = begin; i < end; ++i) tables_.settle(i, slots_[i], drivers_of(i), tally_of(slice));
    });
    asked_ = false;
  }

  std::vector<std::uint8_t> snapshot() const override {
    const SnapshotHeader<G> header = make_header();
    std::vector<std::uint8_t> out(snapshot_size());
    std::uint8_t* at = out.data();
    const auto put = [&at](const void* data, std::size_t size) {
      std::memcpy(at, data, size);
      at += size;
    };
    put(&header, sizeof header);
    put(slots_.data(), slots_.size() * sizeof(Slot<G>));
    put(drivers_.data(), drivers_.size());
    put(tallies_.data(), tallies_.size() * sizeof(Tally));
    return out;
  }

  void restore(const std::uint8_t* data, std::size_t size) override {
    SnapshotHeader<G> header = make_header();
    header.accept(data, size, snapshot_size());
    data += sizeof header;
    const auto take = [&data](void* out, std::size_t bytes) {
      std::memcpy(out, data, bytes);
      data += bytes;
    };
    take(slots_.data(), slots_.size() * sizeof(Slot<G>));
    take(drivers_.data(), drivers_.size());
    take(tallies_.data(), tallies_.size() * sizeof(Tally));
    tables_.first_only = header.first_only != 0;
    asked_ = false;
  }

  std::vector<Tally> tallies() const override {
    std::vector<Tally> sum(kCells);
    for (std::size_t i = 0; i < tallies_.size(); ++i) {
      sum[i % kCells].sum += tallies_[i].sum;
      sum[i % kCells].n += tallies_[i].n;
    }
    return sum;
  }

  void clear_tallies() override { std::fill(tallies_.begin(), tallies_.end(), Tally{}); }

 private:
  SnapshotHeader<G> make_header() const {
    return SnapshotHeader<G>::of("playpool", tables_, slots_.size(), static_cast<std::uint32_t>(workers_.threads()));
  }

  std::size_t snapshot_size() const {
    return sizeof(SnapshotHeader<G>) + slots_.size() * sizeof(Slot<G>) + drivers_.size() +
           tallies_.size() * sizeof(Tally);
  }

  const std::uint8_t* drivers_of(std::size_t row) const {
    return drivers_.data() + row * static_cast<std::size_t>(tables_.seats);
  }
  Tally* tally_of(int slice) { return tallies_.data() + static_cast<std::size_t>(slice) * kCells; }

  void check_legal(const std::int32_t* actions) {
    std::atomic<std::size_t> bad{slots_.size()};
    workers_.run(slots_.size(), [&](std::size_t begin, std::size_t end, int) {
      for (std::size_t i = begin; i < end; ++i)
        if (!is_legal(i, actions[i])) {
          std::size_t first = bad.load();
          while (i < first && !bad.compare_exchange_weak(first, i)) {
          }
          return;
        }
    });
    if (const std::size_t row = bad.load(); row < slots_.size())
      throw IllegalAction(tables_.refusal(row, slots_[row].game, actions[row]));
  }

  bool is_legal(std::size_t row, std::int32_t action) const {
    if constexpr (TellsLegal<G>) return slots_[row].game.allows(tables_.options, action);
    return static_cast<std::uint32_t>(action) < static_cast<std::uint32_t>(G::kActions) && legal_[row].has(action);
  }

  Tables<G> tables_;
  Prepared prepared_;
  std::size_t row_bytes_, legal_bytes_;
  Workers workers_;
  std::vector<Slot<G>> slots_;
  std::vector<Legal> legal_;  // of the turns asked; none where the game can tell
  std::vector<std::uint8_t> drivers_;
  std::vector<Tally> tallies_;
  bool asked_ = false;
};

}  // namespace playmill
