// Games that clients come and go at: opened, read, answered, reset and closed one by one or in
// batches, each seat behind a key of its own. Nothing restarts by itself; whoever asks twice is
// answered twice and played once.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "table.hpp"
#include "workers.hpp"

namespace playmill {

// How a row of a batch fared. The numbers are part of the service's contract.
enum class Standing : std::uint8_t {
  kOk = 0,
  kRepeated = 1,     // the same answer was given before: it counts once
  kNotYourTurn = 2,  // another seat is to act, or this one is out of the game
  kIllegal = 3,
  kOver = 4,
  kStale = 5,  // that turn was answered otherwise, or too long ago to tell
  kAhead = 6,  // the game has not come to that turn
  kNoGame = 7,
  kWrongKey = 8,
};

inline constexpr std::size_t kKeyBytes = 16;
inline constexpr std::uint8_t kNobody = 255;  // to act, once a game is over

// Which seats are asked for: `game` ids, seats (the number of seats is the host's place), keys.
struct Places {
  std::size_t rows = 0;
  const std::uint64_t* game = nullptr;
  const std::uint8_t* seat = nullptr;
  const std::uint8_t* key = nullptr;  // [rows, kKeyBytes]
};

// What those seats may know, one row each; rows that are not `kOk` are zeros.
struct StateColumns {
  std::uint8_t* standing = nullptr;
  std::uint32_t* turn = nullptr;  // decisions so far; never goes back, through resets too
  std::uint8_t* to_act = nullptr;
  std::uint8_t* role = nullptr;
  std::uint8_t* over = nullptr;
  float* rewards = nullptr;       // [rows, seats] since the game began
  std::uint8_t* legal = nullptr;  // zeros unless it is that seat's turn
  std::uint8_t* observation = nullptr;
};

// How submissions, resets and closings fared, and where the games stand now.
struct AnswerColumns {
  std::uint8_t* standing = nullptr;
  std::uint32_t* turn = nullptr;
  std::uint8_t* over = nullptr;
};

// What every hall can do, whatever its game. Calls may come from several threads.
class AnyHall {
 public:
  virtual ~AnyHall() = default;

  virtual std::size_t games() const = 0;  // open now
  virtual std::size_t bytes() const = 0;

  // Opens games: ids are `nonce` with the place in the hall written into the low bits. Keys are
  // [rows, seats + 1, kKeyBytes], the last of each row the host's. `drivers` [seats] are those of
  // all of them, `now` a clock's seconds, for `sweep`.
  virtual void open(std::size_t rows, const std::uint64_t* nonce, const std::uint64_t* seed, const std::uint8_t* keys,
                    const std::uint8_t* drivers, std::uint64_t now, std::uint64_t* id) = 0;
  virtual void states(const Places& places, const StateColumns& out) = 0;

  // Both return how many rows changed their game. A reset names the turn it takes place at, so
  // that it too happens once; `host` places only.
  virtual std::size_t submit(const Places& places, const std::uint32_t* turn, const std::int32_t* action,
                             std::uint64_t now, const AnswerColumns& out) = 0;
  virtual std::size_t reset(const Places& hosts, const std::uint32_t* turn, const std::uint64_t* seed,
                            std::uint64_t now, const AnswerColumns& out) = 0;
  virtual std::size_t close(const Places& hosts, std::uint8_t* standing) = 0;
  virtual std::size_t sweep(std::uint64_t before) = 0;  // closes games untouched since then

  // Keys of open games, for a caller that lost the answer to `open`; zeros for games that are gone.
  virtual void keys(std::size_t rows, const std::uint64_t* game, std::uint8_t* keys) = 0;

  // All games that were open when the room was asked for. Each is copied as a whole, a few at a time:
  // nobody who plays waits for all of them.
  virtual std::size_t snapshot_bytes() const = 0;
  virtual void snapshot(std::uint8_t* out, std::size_t size) const = 0;
  virtual void restore(const std::uint8_t* data, std::size_t size) = 0;

  // Turns played, games opened, reset and closed so far: what a checkpoint would have to keep.
  std::uint64_t changes() const { return changes_.load(std::memory_order_relaxed); }

  // Once it drains, nobody is to change anything; its callers see to that.
  bool draining() const { return draining_.load(std::memory_order_relaxed); }
  void drain() { draining_.store(true, std::memory_order_relaxed); }

 protected:
  std::size_t changed(std::size_t rows) {
    changes_.fetch_add(rows, std::memory_order_relaxed);
    return rows;
  }

 private:
  std::atomic<std::uint64_t> changes_{0};
  std::atomic<bool> draining_{false};
};

template <Game G>
class Hall final : public AnyHall {
 public:
  using Options = typename G::Options;
  using Legal = BitSet<G::kActions>;
  static constexpr int kPlaceBits = 24;  // of an id; the rest is the nonce
  static constexpr std::size_t kRemembered = 8;

  Hall(const Options& options, int threads)
      : tables_{options, G::seats(options)},
        prepared_(prepare<G>(tables_.options)),
        seats_(static_cast<std::size_t>(tables_.seats)),
        row_bytes_(static_cast<std::size_t>(G::schema(options).bytes())),
        legal_bytes_(legal_bytes_of<G>(options)),
        workers_(threads) {}

  std::size_t games() const override {
    const Reading lock(*this);
    return seatings_.size() - free_.size();
  }

  std::size_t bytes() const override {
    const Reading lock(*this);
    return seatings_.capacity() * sizeof(Seating) + free_.capacity() * sizeof(std::uint32_t);
  }

  void open(std::size_t rows, const std::uint64_t* nonce, const std::uint64_t* seed, const std::uint8_t* keys,
            const std::uint8_t* drivers, std::uint64_t now, std::uint64_t* id) override {
    if (const std::string wrong = tables_.check_drivers(drivers, 1); !wrong.empty()) throw std::invalid_argument(wrong);
    const Writing lock(*this);
    make_room(rows);
    for (std::size_t i = 0; i < rows; ++i) {
      const std::uint32_t place = free_.back();
      free_.pop_back();
      Seating& at = seatings_[place];
      std::memset(static_cast<void*>(&at), 0, sizeof at);
      at.id = id[i] = (nonce[i] | 1ull << 63) >> kPlaceBits << kPlaceBits | place;
      std::memcpy(at.keys, keys + i * (seats_ + 1) * kKeyBytes, (seats_ + 1) * kKeyBytes);
      std::memcpy(at.drivers, drivers, seats_);
      at.touched = now;
      begin(at, seed[i], 0);
    }
    changed(rows);
  }

  void states(const Places& places, const StateColumns& out) override {
    const Reading lock(*this);
    workers_.run(places.rows, [&](std::size_t first, std::size_t end, int) {
      for (std::size_t i = first; i < end; ++i) write_state(places, i, out);
    });
  }

  std::size_t submit(const Places& places, const std::uint32_t* turn, const std::int32_t* action, std::uint64_t now,
                     const AnswerColumns& out) override {
    const Writing lock(*this);
    std::size_t applied = 0;
    // In order and on one thread: rows may name the same game.
    for (std::size_t i = 0; i < places.rows; ++i) {
      const std::uint8_t seat = places.seat[i];
      Standing standing = Standing::kOk;
      Seating* at = find(places, i, seat, standing);
      if (at != nullptr && seat == seats_) standing = Standing::kNotYourTurn;
      if (standing == Standing::kOk) standing = answer(*at, seat, turn[i], action[i]);
      if (standing == Standing::kOk) {
        at->touched = now;
        ++applied;
      }
      write_answer(at, standing, out, i);
    }
    return changed(applied);
  }

  std::size_t reset(const Places& hosts, const std::uint32_t* turn, const std::uint64_t* seed, std::uint64_t now,
                    const AnswerColumns& out) override {
    const Writing lock(*this);
    std::size_t applied = 0;
    for (std::size_t i = 0; i < hosts.rows; ++i) {
      Standing standing = Standing::kOk;
      Seating* at = find_host(hosts, i, standing);
      if (at != nullptr) standing = reset_at(*at, turn[i], seed[i]);
      if (standing == Standing::kOk) {
        at->touched = now;
        ++applied;
      }
      write_answer(at, standing, out, i);
    }
    return changed(applied);
  }

  std::size_t close(const Places& hosts, std::uint8_t* standing) override {
    const Writing lock(*this);
    std::size_t closed = 0;
    for (std::size_t i = 0; i < hosts.rows; ++i) {
      Standing found = Standing::kOk;
      if (Seating* at = find_host(hosts, i, found); at != nullptr) {
        leave(*at);
        ++closed;
      }
      standing[i] = static_cast<std::uint8_t>(found);
    }
    return changed(closed);
  }

  std::size_t sweep(std::uint64_t before) override {
    const Writing lock(*this);
    std::size_t closed = 0;
    for (Seating& at : seatings_)
      if (at.id != 0 && at.touched < before) {
        leave(at);
        ++closed;
      }
    return changed(closed);
  }

  void keys(std::size_t rows, const std::uint64_t* game, std::uint8_t* keys) override {
    const Reading lock(*this);
    const std::size_t bytes = (seats_ + 1) * kKeyBytes;
    for (std::size_t i = 0; i < rows; ++i)
      if (const Seating* at = find_id(game[i]); at != nullptr)
        std::memcpy(keys + i * bytes, at->keys, bytes);
      else
        std::memset(keys + i * bytes, 0, bytes);
  }

  std::size_t snapshot_bytes() const override {
    const Reading lock(*this);
    return sizeof(SnapshotHeader<G>) + seatings_.size() * sizeof(Seating);
  }

  void snapshot(std::uint8_t* out, std::size_t size) const override {
    const std::size_t games = (size - sizeof(SnapshotHeader<G>)) / sizeof(Seating);
    const auto header = header_for(games);
    std::memcpy(out, &header, sizeof header);
    for (std::size_t first = 0; first < games; first += kCopied) {
      const Reading lock(*this);  // halls never shrink
      std::memcpy(out + sizeof header + first * sizeof(Seating), &seatings_[first],
                  std::min(kCopied, games - first) * sizeof(Seating));
    }
  }

  void restore(const std::uint8_t* data, std::size_t size) override {
    const Writing lock(*this);
    const std::size_t games =
        size < sizeof(SnapshotHeader<G>) ? 0 : (size - sizeof(SnapshotHeader<G>)) / sizeof(Seating);
    auto header = header_for(games);
    header.accept(data, size, sizeof header + games * sizeof(Seating));
    seatings_.resize(games);
    if (games > 0) std::memcpy(static_cast<void*>(seatings_.data()), data + sizeof header, games * sizeof(Seating));
    free_.clear();
    for (std::size_t place = games; place-- > 0;)
      if (seatings_[place].id == 0) free_.push_back(static_cast<std::uint32_t>(place));
  }

 private:
  // Readers go side by side; a writer goes alone, and readers that come after it wait behind it at
  // the gate: otherwise two that never stop reading would keep it out for ever.
  struct Reading {
    explicit Reading(const Hall& hall) : lock(hall.pass()) {}
    std::shared_lock<std::shared_mutex> lock;
  };
  struct Writing {
    explicit Writing(const Hall& hall) : gate(hall.gate_), lock(hall.mutex_) {}
    std::lock_guard<std::mutex> gate;
    std::lock_guard<std::shared_mutex> lock;
  };

  std::shared_lock<std::shared_mutex> pass() const {
    const std::lock_guard<std::mutex> gate(gate_);
    return std::shared_lock<std::shared_mutex>(mutex_);
  }

  // An answer that was taken, kept so that its repetition is known for one.
  struct Taken {
    std::uint32_t turn;
    std::int32_t action;
    std::uint32_t seat;  // as wide as the others: no padding, and equal halls are equal byte for byte
  };

  // A table and who sits at it.
  struct Seating {
    Slot<G> slot;
    std::uint64_t id;       // 0: nobody has it
    std::uint64_t touched;  // when it was last opened, answered or reset
    std::uint32_t first_turn;
    std::uint32_t taken;  // answers so far
    Taken answers[kRemembered];
    float rewards[kMaxSeats];
    std::uint8_t drivers[kMaxSeats];
    std::uint8_t keys[kMaxSeats + 1][kKeyBytes];

    std::uint32_t turn() const { return first_turn + slot.turn; }
  };
  static_assert(std::is_trivially_copyable_v<Seating>);
  static constexpr std::size_t kCopied = std::max<std::size_t>(1, 65536 / sizeof(Seating));  // at a time

  SnapshotHeader<G> header_for(std::size_t games) const {
    return SnapshotHeader<G>::of("playhall", tables_, games, sizeof(Seating));
  }

  void make_room(std::size_t rows) {
    if (free_.size() >= rows) return;
    const std::size_t before = seatings_.size(), after = before + rows - free_.size();
    if (after > std::size_t{1} << kPlaceBits) throw std::length_error("a hall has room for 16 million games");
    seatings_.resize(after);
    // Lowest place last: it is taken first.
    std::vector<std::uint32_t> fresh;
    for (std::size_t place = after; place-- > before;) fresh.push_back(static_cast<std::uint32_t>(place));
    free_.insert(free_.begin(), fresh.begin(), fresh.end());
  }

  void leave(Seating& at) {
    std::memset(static_cast<void*>(&at), 0, sizeof at);
    free_.push_back(static_cast<std::uint32_t>(&at - seatings_.data()));
  }

  void begin(Seating& at, std::uint64_t seed, std::uint32_t first_turn) {
    at.first_turn = first_turn;
    at.taken = 0;
    std::fill(std::begin(at.rewards), std::end(at.rewards), 0.0f);
    tables_.start(at.slot, seed);
    play_bots(at);
  }

  void play_bots(Seating& at) {
    while (!at.slot.game.over()) {
      const int driver = at.drivers[at.slot.game.seat()];
      if (driver < kFirstBot) return;
      apply(at, tables_.scripted(at.slot, driver - kFirstBot));
    }
  }

  void apply(Seating& at, int action) {
    Report report;
    tables_.apply(at.slot, action, report);
    for (std::size_t s = 0; s < seats_; ++s) at.rewards[s] += report.reward[s];
  }

  Seating* find_id(std::uint64_t id) {
    const std::uint64_t place = id & ((1ull << kPlaceBits) - 1);
    if (id == 0 || place >= seatings_.size() || seatings_[place].id != id) return nullptr;
    return &seatings_[place];
  }

  // The game of row i if its key opens `seat`; otherwise nothing, and why. The caller has read
  // the seat once: rows may lie in memory that a client can write to.
  Seating* find(const Places& places, std::size_t i, std::uint8_t seat, Standing& standing) {
    Seating* at = find_id(places.game[i]);
    if (at == nullptr) {
      standing = Standing::kNoGame;
      return nullptr;
    }
    std::uint64_t mine[2], given[2];
    static_assert(sizeof mine == kKeyBytes);
    std::memcpy(mine, at->keys[std::min<std::size_t>(seat, seats_)], kKeyBytes);
    std::memcpy(given, places.key + i * kKeyBytes, kKeyBytes);
    // In the same time, wherever they differ.
    const std::uint64_t differ = (mine[0] ^ given[0]) | (mine[1] ^ given[1]) | (seat > seats_ ? 1 : 0);
    standing = differ == 0 ? Standing::kOk : Standing::kWrongKey;
    return differ == 0 ? at : nullptr;
  }

  Seating* find_host(const Places& hosts, std::size_t i, Standing& standing) {
    return find(hosts, i, static_cast<std::uint8_t>(seats_), standing);
  }

  void write_state(const Places& places, std::size_t i, const StateColumns& out) {
    const std::uint8_t seat = places.seat[i];
    Standing standing = Standing::kOk;
    const Seating* at = find(places, i, seat, standing);
    if (at != nullptr && seat == seats_) standing = Standing::kWrongKey;  // a host sees no cards
    out.standing[i] = static_cast<std::uint8_t>(standing);
    std::uint8_t* legal = out.legal + i * legal_bytes_;
    if (standing != Standing::kOk) {
      out.turn[i] = 0;
      out.to_act[i] = kNobody;
      out.role[i] = out.over[i] = 0;
      std::fill_n(out.rewards + i * seats_, seats_, 0.0f);
      std::memset(legal, 0, legal_bytes_);
      std::memset(out.observation + i * row_bytes_, 0, row_bytes_);
      return;
    }
    const G& game = at->slot.game;
    const bool over = game.over();
    const int to_act = over ? kNobody : game.seat();
    if (to_act == seat) {
      write_legal(game, legal);
    } else {
      std::memset(legal, 0, legal_bytes_);
    }
    out.turn[i] = at->turn();
    out.to_act[i] = static_cast<std::uint8_t>(to_act);
    out.role[i] = static_cast<std::uint8_t>(over ? 0 : game.role());
    out.over[i] = over;
    std::memcpy(out.rewards + i * seats_, at->rewards, seats_ * sizeof(float));
    game.observe(tables_.options, seat, out.observation + i * row_bytes_);
  }

  void write_legal(const G& game, std::uint8_t* out) const {
    if constexpr (TellsLegal<G>) {
      game.legal_row(tables_.options, out);
    } else {
      Legal bits;
      game.legal(tables_.options, bits);
      std::memcpy(out, &bits, legal_bytes_);
    }
  }

  bool is_legal(const G& game, std::int32_t action) const {
    if constexpr (TellsLegal<G>) return game.allows(tables_.options, action);
    Legal bits;
    game.legal(tables_.options, bits);
    return action >= 0 && action < G::kActions && bits.has(action);
  }

  static void write_answer(const Seating* at, Standing standing, const AnswerColumns& out, std::size_t i) {
    out.standing[i] = static_cast<std::uint8_t>(standing);
    out.turn[i] = at == nullptr ? 0 : at->turn();
    out.over[i] = at != nullptr && at->slot.game.over();
  }

  Standing answer(Seating& at, std::uint8_t seat, std::uint32_t turn, std::int32_t action) {
    const G& game = at.slot.game;
    if (turn < at.turn()) return seen_before(at, seat, turn, action) ? Standing::kRepeated : Standing::kStale;
    if (turn > at.turn()) return Standing::kAhead;
    if (game.over()) return Standing::kOver;
    if (game.seat() != seat) return Standing::kNotYourTurn;
    if (!is_legal(game, action)) return Standing::kIllegal;
    at.answers[at.taken++ % kRemembered] = {turn, action, seat};
    apply(at, action);
    play_bots(at);
    return Standing::kOk;
  }

  static bool seen_before(const Seating& at, std::uint8_t seat, std::uint32_t turn, std::int32_t action) {
    for (std::size_t k = 0; k < std::min<std::size_t>(at.taken, kRemembered); ++k)
      if (const Taken& t = at.answers[k]; t.turn == turn) return t.seat == seat && t.action == action;
    return false;
  }

  Standing reset_at(Seating& at, std::uint32_t turn, std::uint64_t seed) {
    // The turn after the one it was reset at is the new game's first.
    if (turn < at.turn()) return turn + 1 == at.first_turn ? Standing::kRepeated : Standing::kStale;
    if (turn > at.turn()) return Standing::kAhead;
    begin(at, seed, turn + 1);
    return Standing::kOk;
  }

  Tables<G> tables_;
  Prepared prepared_;
  std::size_t seats_;
  std::size_t row_bytes_, legal_bytes_;
  Workers workers_;
  mutable std::mutex gate_;
  mutable std::shared_mutex mutex_;
  std::vector<Seating> seatings_;
  std::vector<std::uint32_t> free_;
};

}  // namespace playmill
