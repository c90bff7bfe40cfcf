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

#include "game.hpp"
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
  static constexpr int kStatCount = static_cast<int>(std::size(G::kStats));

  Pool(const Options& options, std::size_t games, std::uint64_t seed, int threads)
      : options_(options),
        seats_(G::seats(options)),
        row_bytes_(static_cast<std::size_t>(G::schema(options).bytes())),
        seed_(seed),
        workers_(threads),
        slots_(games),
        legal_(games),
        drivers_(games * static_cast<std::size_t>(seats_), 0),
        tallies_(static_cast<std::size_t>(workers_.slices()) * kDrivers * kStatCount) {
    // Padding too: the snapshots of equal pools are equal byte for byte.
    std::memset(static_cast<void*>(slots_.data()), 0, slots_.size() * sizeof(Slot));
  }

  std::size_t games() const override { return slots_.size(); }
  int threads() const override { return workers_.threads(); }
  std::size_t bytes() const override {
    return slots_.size() * (sizeof(Slot) + sizeof(Legal)) + drivers_.size() + tallies_.size() * sizeof(Tally);
  }

  void turns(std::uint8_t* observation, std::uint8_t* legal, std::uint8_t* seat, std::uint8_t* role,
             std::uint8_t* driver) override {
    workers_.run(slots_.size(), [&](std::size_t begin, std::size_t end, int) {
      for (std::size_t i = begin; i < end; ++i) {
        const G& game = slots_[i].game;
        const int s = game.seat();
        Legal bits;
        game.legal(options_, bits);
        legal_[i] = bits;
        std::memcpy(legal + i * sizeof(Legal), &bits, sizeof(Legal));
        game.observe(options_, s, observation + i * row_bytes_);
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
    workers_.run(slots_.size(), [&](std::size_t begin, std::size_t end, int slice) {
      for (std::size_t i = begin; i < end; ++i) {
        Report report = make_report(i, slice);
        apply(slots_[i], actions[i], report);
        over[i] = static_cast<std::uint8_t>(settle(i, slice, report));
        std::memcpy(rewards + i * static_cast<std::size_t>(seats_), report.reward,
                    static_cast<std::size_t>(seats_) * sizeof(float));
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
      for (std::size_t i = begin; i < end; ++i) actions[i] = scripted(slots_[i], kinds[i], legal_[i]);
    });
  }

  void reset(const std::uint64_t* seeds, bool stagger) override {
    const std::uint32_t phases = stagger ? typical_turns() : 1;
    first_only_ = seeds != nullptr;
    workers_.run(slots_.size(), [&](std::size_t begin, std::size_t end, int slice) {
      for (std::size_t i = begin; i < end; ++i) {
        Slot& slot = slots_[i];
        slot.episode = 0;
        start(slot, seeds != nullptr ? seeds[i] : episode_seed(i, 0));
        Report quiet;
        for (auto left = Random(slot.seed, kStaggerStream).below(phases); left > 0; --left) {
          apply(slot, scripted(slot, 0), quiet);
          if (slot.game.over()) restart(i);
        }
        Report report = make_report(i, slice);
        settle(i, slice, report);
      }
    });
    asked_ = false;
  }

  void set_drivers(const std::uint8_t* drivers) override {
    const auto seats = static_cast<std::size_t>(seats_);
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      bool answered = false;
      for (std::size_t s = 0; s < seats; ++s) {
        const int driver = drivers[i * seats + s];
        if (driver >= kFirstBot + static_cast<int>(std::size(G::kBots)))
          throw std::invalid_argument("row " + std::to_string(i) + ": no driver number " + std::to_string(driver));
        answered |= driver < kFirstBot;
      }
      if (!answered)
        throw std::invalid_argument(
            "row " + std::to_string(i) +
            ": every seat is a bot; leave at least one to a policy and answer it with bot_actions()");
    }
    std::memcpy(drivers_.data(), drivers, drivers_.size());
    workers_.run(slots_.size(), [&](std::size_t begin, std::size_t end, int slice) {
      for (std::size_t i = begin; i < end; ++i) {
        Report report = make_report(i, slice);
        settle(i, slice, report);
      }
    });
    asked_ = false;
  }

  std::vector<std::uint8_t> snapshot() const override {
    const Header header = make_header();
    std::vector<std::uint8_t> out(snapshot_size());
    std::uint8_t* at = out.data();
    const auto put = [&at](const void* data, std::size_t size) {
      std::memcpy(at, data, size);
      at += size;
    };
    put(&header, sizeof header);
    put(slots_.data(), slots_.size() * sizeof(Slot));
    put(drivers_.data(), drivers_.size());
    put(tallies_.data(), tallies_.size() * sizeof(Tally));
    return out;
  }

  void restore(const std::uint8_t* data, std::size_t size) override {
    const Header mine = make_header();
    Header theirs;
    if (size == snapshot_size()) std::memcpy(static_cast<void*>(&theirs), data, sizeof theirs);
    const bool first_only = theirs.first_only != 0;
    theirs.first_only = mine.first_only;
    if (size != snapshot_size() || std::memcmp(&theirs, &mine, sizeof mine) != 0)
      throw std::invalid_argument(
          "this snapshot is of another pool: game, options, number of games, seed and threads must be the same");
    data += sizeof mine;
    const auto take = [&data](void* out, std::size_t bytes) {
      std::memcpy(out, data, bytes);
      data += bytes;
    };
    take(slots_.data(), slots_.size() * sizeof(Slot));
    take(drivers_.data(), drivers_.size());
    take(tallies_.data(), tallies_.size() * sizeof(Tally));
    first_only_ = first_only;
    asked_ = false;
  }

  std::vector<Tally> tallies() const override {
    constexpr std::size_t cells = static_cast<std::size_t>(kDrivers) * kStatCount;
    std::vector<Tally> sum(cells);
    for (std::size_t i = 0; i < tallies_.size(); ++i) {
      sum[i % cells].sum += tallies_[i].sum;
      sum[i % cells].n += tallies_[i].n;
    }
    return sum;
  }

  void clear_tallies() override { std::fill(tallies_.begin(), tallies_.end(), Tally{}); }

 private:
  struct Slot {
    G game;
    std::uint64_t seed = 0;
    std::uint32_t episode = 0;
    std::uint32_t turn = 0;  // decisions taken in this game: names the bots' streams
  };

  struct Header {
    char magic[8] = {'p', 'l', 'a', 'y', 'p', 'o', 'o', 'l'};
    std::uint64_t name = 0, schema = 0, games = 0, seed = 0;
    std::uint32_t slot = 0, threads = 0;
    std::uint64_t first_only = 0;
    Options options;
  };

  static constexpr std::uint64_t kStaggerStream = kBotStream << 1;

  Header make_header() const {
    Header header;
    std::memset(static_cast<void*>(&header), 0, sizeof header);
    std::memcpy(header.magic, "playpool", 8);
    for (const char* c = G::kName; *c != 0; ++c) header.name = mix64(header.name, static_cast<std::uint64_t>(*c));
    header.schema = G::schema(options_).hash();
    header.games = slots_.size();
    header.seed = seed_;
    header.first_only = first_only_;
    header.slot = sizeof(Slot);
    header.threads = static_cast<std::uint32_t>(workers_.threads());
    header.options = options_;
    return header;
  }

  std::size_t snapshot_size() const {
    return sizeof(Header) + slots_.size() * sizeof(Slot) + drivers_.size() + tallies_.size() * sizeof(Tally);
  }

  const std::uint8_t* drivers_of(std::size_t row) const {
    return drivers_.data() + row * static_cast<std::size_t>(seats_);
  }

  Report make_report(std::size_t row, int slice) {
    Report report;
    if (first_only_ && slots_[row].episode > 0) return report;
    report.tally = tallies_.data() + static_cast<std::size_t>(slice) * kDrivers * kStatCount;
    report.driver = drivers_of(row);
    report.stats = kStatCount;
    return report;
  }

  std::uint64_t episode_seed(std::size_t row, std::uint32_t episode) const { return mix64(mix64(seed_, row), episode); }

  void start(Slot& slot, std::uint64_t seed) {
    slot.seed = seed;
    slot.turn = 0;
    slot.game.reset(options_, seed);
  }

  void restart(std::size_t row) {
    Slot& slot = slots_[row];
    ++slot.episode;
    start(slot, episode_seed(row, slot.episode));
  }

  void apply(Slot& slot, int action, Report& report) {
    slot.game.apply(options_, action, report);
    ++slot.turn;
  }

  int scripted(const Slot& slot, int kind, const Legal& legal) const {
    Random random(slot.seed, kBotStream + slot.turn);
    return kind == 0 ? random_action(legal, random) : slot.game.bot(options_, kind, random);
  }

  int scripted(const Slot& slot, int kind) const {
    Legal legal;
    if (kind == 0) slot.game.legal(options_, legal);
    return scripted(slot, kind, legal);
  }

  // Restarts an ended game and plays bots' seats until a policy's turn waits. Says whether the
  // game of `report` ended; what happens in the games after it is no reward of the turn answered.
  bool settle(std::size_t row, int slice, Report& report) {
    Slot& slot = slots_[row];
    const std::uint8_t* drivers = drivers_of(row);
    bool ended = false;
    Report later;
    for (;;) {
      if (slot.game.over()) {
        ended = true;
        restart(row);
        later = make_report(row, slice);
      }
      const int driver = drivers[slot.game.seat()];
      if (driver < kFirstBot) return ended;
      apply(slot, scripted(slot, driver - kFirstBot), ended ? later : report);
    }
  }

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
    if (const std::size_t row = bad.load(); row < slots_.size()) refuse(row, actions[row]);
  }

  bool is_legal(std::size_t row, std::int32_t action) const {
    return static_cast<std::uint32_t>(action) < static_cast<std::uint32_t>(G::kActions) && legal_[row].has(action);
  }

  [[noreturn]] void refuse(std::size_t row, std::int32_t action) const {
    const G& game = slots_[row].game;
    std::string what = "row " + std::to_string(row) + " (" + G::kName + ", seat " + std::to_string(game.seat()) +
                       ", role " + G::kRoles[game.role()] + "): action " + std::to_string(action);
    if (action >= 0 && action < G::kActions) what += " (" + game.action_text(options_, action) + ")";
    throw IllegalAction(what + " is not legal; no game was changed");
  }

  // The mean length of a few games of random play: how far starts are spread.
  std::uint32_t typical_turns() const {
    constexpr int kProbes = 16;
    std::uint32_t turns = 0;
    for (int probe = 0; probe < kProbes; ++probe) {
      Slot slot;
      slot.seed = mix64(seed_, ~static_cast<std::uint64_t>(probe));
      slot.game.reset(options_, slot.seed);
      for (Report report; !slot.game.over(); ++slot.turn) slot.game.apply(options_, scripted(slot, 0), report);
      turns += slot.turn;
    }
    return turns / kProbes + 1;
  }

  Options options_;
  int seats_;
  std::size_t row_bytes_;
  std::uint64_t seed_;
  Workers workers_;
  std::vector<Slot> slots_;
  std::vector<Legal> legal_;
  std::vector<std::uint8_t> drivers_;
  std::vector<Tally> tallies_;
  bool asked_ = false;
  bool first_only_ = false;
};

}  // namespace playmill
