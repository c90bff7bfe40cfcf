// What a game must be: a trivially copyable value with a handful of functions. The pool,
// the CUDA lane, the adapters and the command line all stand on this concept alone.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "bits.hpp"
#include "random.hpp"
#include "schema.hpp"

namespace playmill {

inline constexpr int kMaxSeats = 8;

// Sum and number of what was counted under one name; see Report::count.
struct Tally {
  double sum = 0;
  std::uint64_t n = 0;
};

// What applying an action brought about. The caller clears it; the game adds to it.
struct Report {
  float reward[kMaxSeats] = {};  // for every seat, whoever acted

  // Named statistics (a game's kStats), kept apart by who drives the seat.
  Tally* tally = nullptr;                // [drivers, stats], or none wanted
  const std::uint8_t* driver = nullptr;  // [seats]
  int stats = 0;

  PM_FN void count(int stat, int seat, float value) {
    if (tally == nullptr) return;
    Tally& cell = tally[driver[seat] * stats + stat];
#if defined(__CUDA_ARCH__)
    atomicAdd(&cell.sum, static_cast<double>(value));
    atomicAdd(reinterpret_cast<unsigned long long*>(&cell.n), 1ull);
#else
    cell.sum += static_cast<double>(value);
    cell.n += 1;
#endif
  }
};

// One option of a game, as data: the command line, recipes and docs are made from it.
// Every option is an int; `choices` ("a,b,c") names the values 0, 1, 2.
template <class Options>
struct Option {
  const char* name;
  int Options::* member;
  int low;
  int high;
  const char* choices;  // empty: a number from low to high
  const char* help;
};

template <class G>
concept Game = std::is_trivially_copyable_v<G> && std::is_trivially_copyable_v<typename G::Options> &&
               requires(G game, const G& seen, const typename G::Options& options, BitSet<G::kActions>& legal,
                        Report& report, std::uint8_t* out, Random& random) {
                 // Facts. kRoles, kBots and kStats are arrays of const char*; bot 0 is always "random".
                 { G::kName } -> std::convertible_to<const char*>;
                 { G::kTitle } -> std::convertible_to<const char*>;
                 { G::kActions } -> std::convertible_to<int>;
                 std::span<const char* const>(G::kRoles);
                 std::span<const char* const>(G::kBots);
                 std::span<const char* const>(G::kStats);
                 std::span<const Option<typename G::Options>>(G::kOptions);

                 // Of the options alone. `check` says what is wrong with a combination, or nothing.
                 { G::check(options) } -> std::same_as<std::string>;
                 { G::seats(options) } -> std::same_as<int>;
                 { G::schema(options) } -> std::same_as<Schema>;

                 // Rules.
                 { game.reset(options, std::uint64_t{}) } -> std::same_as<void>;
                 { seen.over() } -> std::same_as<bool>;
                 { seen.seat() } -> std::same_as<int>;                  // whose turn; undefined once over
                 { seen.role() } -> std::same_as<int>;                  // the kind of decision asked
                 { seen.legal(options, legal) } -> std::same_as<void>;  // adds to an empty set; never leaves it empty
                 { seen.observe(options, int{}, out) } -> std::same_as<void>;  // what that seat may know, packed
                 {
                   game.apply(options, int{}, report)
                 } -> std::same_as<void>;  // the action is legal: the pool has checked
                 { seen.bot(options, int{}, random) } -> std::same_as<int>;  // kind >= 1: a scripted move for seat()

                 // Words for people, in rich's markup ([red]..[/]).
                 { seen.action_text(options, int{}) } -> std::same_as<std::string>;
                 { seen.table_text(options, int{}) } -> std::same_as<std::string>;  // as that seat sees it
               };

// A list of games as a type.
template <class... Games>
struct GameList {};

// How many actions there are: a game whose options change their number says so in actions(options), and
// numbers them from 0.
template <Game G>
int actions_of(const typename G::Options& options) {
  if constexpr (requires { G::actions(options); }) {
    return G::actions(options);
  } else {
    return G::kActions;
  }
}

// Bytes of a row of legal bits: whole words.
template <Game G>
std::size_t legal_bytes_of(const typename G::Options& options) {
  return static_cast<std::size_t>((actions_of<G>(options) + 63) / 64) * 8;
}

// The board of a game played on squares, numbered row by row. A field of the schema with a column for every square, or
// a table of height x width, is a plane over it. Actions come in groups, one behind the other.
struct Board {
  struct Group {
    bool each_square;      // square * size + k; otherwise the group is there once
    std::string headings;  // a letter for each action of the group: where it goes (u d l r), or . for nowhere
  };
  int height = 0, width = 0;  // 0: no board
  std::vector<Group> actions;
};

// A game on a board says so in board(options).
template <Game G>
Board board_of(const typename G::Options& options) {
  if constexpr (requires { G::board(options); }) {
    return G::board(options);
  } else {
    return {};
  }
}

// A game with many actions: it can tell of one whether it is legal, as legal() would, and writes a row of
// legal bits itself (legal_bytes_of bytes), so that a pool need keep none.
template <class G>
concept TellsLegal = requires(const G& seen, const typename G::Options& options, std::uint8_t* out) {
  { seen.allows(options, int{}) } -> std::same_as<bool>;
  { seen.legal_row(options, out) } -> std::same_as<void>;
};

// Tables of a game that all its games read: whoever plays keeps them, and its options point at them.
struct Prepared {
  std::shared_ptr<const void> owner;
  std::size_t bytes = 0;
};

template <Game G>
Prepared prepare(typename G::Options& options) {
  if constexpr (requires { G::prepare(options); }) return G::prepare(options);
  return {};
}

// A game that a crew of hands plays together on the card (crew.hpp). It draws bot 0's action itself, and says what
// need not be written back: as long as ticks() is the same, nothing in its first quiet_bytes() has changed. No row of
// its observations is longer than kRowBytes.
template <class G>
concept Crewed = requires(const G& seen, const typename G::Options& options, Random& random) {
  requires G::kCrewed;
  requires G::kRowBytes > 0;
  { seen.any_action(options, random) } -> std::same_as<int>;
  { seen.ticks() } -> std::same_as<int>;
  { seen.quiet_bytes() } -> std::same_as<std::size_t>;
};

// A uniform legal action: bot 0 of every game.
template <int N>
PM_FN int random_action(const BitSet<N>& legal, Random& random) {
  return legal.nth(static_cast<int>(random.below(static_cast<std::uint32_t>(legal.count()))));
}

// Drivers: who answers for a seat. Below kFirstBot a policy (its turns surface from the
// pool, 0 is the learner); from there on bot number driver - kFirstBot, played inside.
inline constexpr int kFirstBot = 32;
inline constexpr int kDrivers = 64;

}  // namespace playmill
