// A game in flight and how it runs: starts, scripted seats, restarts. The pool of threads and
// the CUDA pool are two ways of going round the same tables.
#pragma once

#include "crew.hpp"
#include "game.hpp"

namespace playmill {

// A table: one game and what names its next random draws. A large game begins with a line of the cache.
template <Game G>
struct alignas(sizeof(G) < 1024 ? alignof(G) : 64) Slot {
  G game;
  std::uint64_t seed = 0;
  std::uint32_t episode = 0;
  std::uint32_t turn = 0;  // decisions taken in this game: names the bots' streams
};

// What all tables of a pool have in common. Of a crew all hands come through here, and one of them writes.
template <Game G>
struct Tables {
  using Options = typename G::Options;
  using Legal = BitSet<G::kActions>;
  static constexpr int kStatCount = static_cast<int>(std::size(G::kStats));
  static constexpr std::uint64_t kStaggerStream = kBotStream << 1;

  Options options;
  int seats = 0;
  std::uint64_t seed = 0;
  bool first_only = false;  // only the first game of each table counts in the tallies

  PM_FN std::uint64_t episode_seed(std::size_t row, std::uint32_t episode) const {
    return mix64(mix64(seed, row), episode);
  }

  PM_FN void start(Slot<G>& slot, std::uint64_t named) const {
    alone([&] {
      slot.seed = named;
      slot.turn = 0;
    });
    slot.game.reset(options, named);
  }

  PM_FN void restart(std::size_t row, Slot<G>& slot) const {
    const std::uint32_t episode = slot.episode + 1;
    alone([&] { slot.episode = episode; });
    start(slot, episode_seed(row, episode));
  }

  PM_FN void apply(Slot<G>& slot, int action, Report& report) const {
    slot.game.apply(options, action, report);
    alone([&] { ++slot.turn; });
  }

  PM_FN int scripted(const Slot<G>& slot, int kind, const Legal& legal) const {
    Random random(slot.seed, kBotStream + slot.turn);
    return kind == 0 ? random_action(legal, random) : slot.game.bot(options, kind, random);
  }

  PM_FN int scripted(const Slot<G>& slot, int kind) const {
    if constexpr (Crewed<G>) {
      Random random(slot.seed, kBotStream + slot.turn);
      return kind == 0 ? slot.game.any_action(options, random) : slot.game.bot(options, kind, random);
    } else {
      Legal legal;
      if (kind == 0) slot.game.legal(options, legal);
      return scripted(slot, kind, legal);
    }
  }

  // `drivers` are those of the row's seats, `tally` the cells [drivers, stats] to count in.
  PM_FN Report make_report(const Slot<G>& slot, const std::uint8_t* drivers, Tally* tally) const {
    Report report;
    if (first_only && slot.episode > 0) return report;
    report.tally = tally;
    report.driver = drivers;
    report.stats = kStatCount;
    return report;
  }

  // Restarts an ended game and plays bots' seats until a policy's turn waits. Says whether the
  // game of `report` ended; what happens in the games after it is no reward of the turn answered.
  // `later` is room for a report of those.
  PM_FN bool settle(std::size_t row, Slot<G>& slot, const std::uint8_t* drivers, Tally* tally, Report& report,
                    Report& later) const {
    bool ended = false;
    for (;;) {
      if (slot.game.over()) {
        ended = true;
        restart(row, slot);
        alone([&] { later = make_report(slot, drivers, tally); });
      }
      const int driver = drivers[slot.game.seat()];
      if (driver < kFirstBot) return ended;
      apply(slot, scripted(slot, driver - kFirstBot), ended ? later : report);
    }
  }

  // A new game of that seed, up to `phases` - 1 random turns in, waiting for a policy's turn.
  PM_FN void open(std::size_t row, Slot<G>& slot, std::uint64_t named, std::uint32_t phases,
                  const std::uint8_t* drivers, Tally* tally) const {
    alone([&] { slot.episode = 0; });
    start(slot, named);
    Report quiet;
    for (auto left = Random(named, kStaggerStream).below(phases); left > 0; --left) {
      apply(slot, scripted(slot, 0), quiet);
      if (slot.game.over()) restart(row, slot);
    }
    settle(row, slot, drivers, tally);
  }

  PM_FN void settle(std::size_t row, Slot<G>& slot, const std::uint8_t* drivers, Tally* tally) const {
    Report report = make_report(slot, drivers, tally), later;
    settle(row, slot, drivers, tally, report, later);
  }

  template <class Work>
  PM_FN static void alone(Work&& work) {
    if constexpr (Crewed<G>) {
      Crew::alone(work);
    } else {
      work();
    }
  }

  // The mean length of a few games of random play: how far starts are spread.
  std::uint32_t typical_turns() const {
    constexpr int kProbes = 16;
    std::uint32_t turns = 0;
    for (int probe = 0; probe < kProbes; ++probe) {
      Slot<G> slot;
      start(slot, mix64(seed, ~static_cast<std::uint64_t>(probe)));
      for (Report report; !slot.game.over();) apply(slot, scripted(slot, 0), report);
      turns += slot.turn;
    }
    return turns / kProbes + 1;
  }

  // Why these drivers [games, seats] cannot be seated, or nothing.
  std::string check_drivers(const std::uint8_t* drivers, std::size_t games) const {
    const auto width = static_cast<std::size_t>(seats);
    for (std::size_t i = 0; i < games; ++i) {
      bool answered = false;
      for (std::size_t s = 0; s < width; ++s) {
        const int driver = drivers[i * width + s];
        if (driver >= kFirstBot + static_cast<int>(std::size(G::kBots)))
          return "row " + std::to_string(i) + ": no driver number " + std::to_string(driver);
        answered |= driver < kFirstBot;
      }
      if (!answered)
        return "row " + std::to_string(i) +
               ": every seat is a bot; leave at least one to a policy and answer it with bot_actions()";
    }
    return {};
  }

  // What to say of an illegal action.
  std::string refusal(std::size_t row, const G& game, std::int32_t action) const {
    std::string what = "row " + std::to_string(row) + " (" + G::kName + ", seat " + std::to_string(game.seat()) +
                       ", role " + G::kRoles[game.role()] + "): action " + std::to_string(action);
    if (action >= 0 && action < actions_of<G>(options)) what += " (" + game.action_text(options, action) + ")";
    return what + " is not legal; no game was changed";
  }
};

// Names a pool's snapshot: what must be the same for it to be restored.
template <Game G>
struct SnapshotHeader {
  char magic[8] = {};
  std::uint64_t name = 0, schema = 0, games = 0, seed = 0;
  std::uint32_t slot = 0, copies = 0;  // of the tallies
  std::uint64_t first_only = 0;
  typename G::Options options;

  static SnapshotHeader of(const char* magic, const Tables<G>& tables, std::size_t games, std::uint32_t copies) {
    SnapshotHeader header;
    memset(static_cast<void*>(&header), 0, sizeof header);
    memcpy(header.magic, magic, sizeof header.magic);
    for (const char* c = G::kName; *c != 0; ++c) header.name = mix64(header.name, static_cast<std::uint64_t>(*c));
    header.schema = G::schema(tables.options).hash();
    header.games = games;
    header.seed = tables.seed;
    header.first_only = tables.first_only;
    header.slot = sizeof(Slot<G>);
    header.copies = copies;
    header.options = tables.options;
    if constexpr (requires { header.options.prepared; }) header.options.prepared = nullptr;
    return header;
  }

  // Reads a snapshot's header from `data`; refuses that of another pool.
  void accept(const std::uint8_t* data, std::size_t size, std::size_t wanted) {
    SnapshotHeader theirs;
    if (size == wanted) memcpy(static_cast<void*>(&theirs), data, sizeof theirs);
    const std::uint64_t first = theirs.first_only;
    theirs.first_only = first_only;
    if (size != wanted || memcmp(&theirs, this, sizeof theirs) != 0)
      throw std::invalid_argument(
          "this snapshot is of another pool: device, game, options, number of games, seed and threads must be the "
          "same");
    first_only = first;
  }
};

}  // namespace playmill
