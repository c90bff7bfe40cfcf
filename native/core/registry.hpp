// Games by name: facts as data and factories, for the bindings. The list itself is in
// games/all_games.hpp.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hall.hpp"
#include "pool.hpp"

namespace playmill {

using OptionValues = std::map<std::string, int>;

struct OptionFacts {
  std::string name, choices, help;
  int low = 0, high = 0, standard = 0;
};

struct GameFacts {
  std::string name, title;
  int seats = 0, actions = 0, legal_bytes = 0, state_bytes = 0;
  std::vector<std::string> roles, bots, stats;
  std::vector<OptionFacts> options;
  std::string legend;       // what the signs of a table mean, where they are no words
  bool open_table = false;  // whether table_text(-1) shows all there is
  Schema schema;
  Board board;
};

// One game, for people and adapters: the same rules as in a pool, a call at a time.
class AnyGame {
 public:
  virtual ~AnyGame() = default;
  virtual std::unique_ptr<AnyGame> copy() const = 0;
  virtual bool over() const = 0;
  virtual int seat() const = 0;
  virtual int role() const = 0;
  virtual std::vector<int> legal() const = 0;
  virtual std::vector<std::uint8_t> legal_bits() const = 0;
  virtual std::vector<std::uint8_t> observe(int seat) const = 0;
  virtual std::vector<float> act(int action) = 0;
  virtual int bot(int kind) const = 0;
  virtual std::string action_text(int action) const = 0;
  virtual std::string table_text(int seat) const = 0;
  virtual std::vector<std::uint8_t> state() const = 0;
  virtual std::vector<Tally> tallies() const = 0;  // [seats, stats], of the game so far
};

struct GameEntry {
  GameFacts (*facts)(const OptionValues&);
  std::unique_ptr<AnyPool> (*pool)(const OptionValues&, std::size_t games, std::uint64_t seed, int threads);
  std::unique_ptr<AnyHall> (*hall)(const OptionValues&, int threads);
  std::unique_ptr<AnyGame> (*game)(const OptionValues&, std::uint64_t seed);
  // A game from a position in words, and what the words say of the options. Not every game has them.
  OptionValues (*text_options)(const std::string& text);
  std::unique_ptr<AnyGame> (*game_from)(const OptionValues&, const std::string& text, std::uint64_t seed);
};

template <Game G>
typename G::Options read_options(const OptionValues& values) {
  typename G::Options options;
  for (const auto& [name, value] : values) {
    const Option<typename G::Options>* found = nullptr;
    for (const auto& option : G::kOptions)
      if (name == option.name) found = &option;
    if (found == nullptr) throw std::invalid_argument(std::string(G::kName) + " has no option '" + name + "'");
    if (value < found->low || value > found->high)
      throw std::invalid_argument("option " + name + " must be from " + std::to_string(found->low) + " to " +
                                  std::to_string(found->high) + ", got " + std::to_string(value));
    options.*(found->member) = value;
  }
  if constexpr (requires { G::resolve(options); }) G::resolve(options);
  if (const std::string wrong = G::check(options); !wrong.empty()) throw std::invalid_argument(wrong);
  return options;
}

// A game whose positions can be written down: table_text(-1), read back.
template <class G>
concept StartsFromText = requires(G game, const typename G::Options& options, const std::string& text) {
  { G::text_options(text) } -> std::same_as<OptionValues>;
  { game.set_text(options, text) } -> std::same_as<void>;
};

template <Game G>
constexpr bool has_open_table() {
  if constexpr (requires { G::kOpenTable; }) return G::kOpenTable;
  return false;
}

template <Game G>
class OneGame final : public AnyGame {
 public:
  OneGame(const typename G::Options& options, std::uint64_t seed) : options_(options), seed_(seed) {
    game_.reset(options, seed);
    count_by_seat();
  }
  OneGame(const typename G::Options& options, const std::string& text, std::uint64_t seed)
    requires StartsFromText<G>
      : options_(options), seed_(seed) {
    game_.set_text(options, text);
    count_by_seat();
  }

  std::unique_ptr<AnyGame> copy() const override { return std::make_unique<OneGame>(*this); }
  bool over() const override { return game_.over(); }
  int seat() const override { return game_.seat(); }
  int role() const override { return game_.role(); }

  std::vector<int> legal() const override {
    const auto bits = legal_set();
    std::vector<int> out;
    for (int a = 0; a < actions_of<G>(options_); ++a)
      if (bits.has(a)) out.push_back(a);
    return out;
  }

  std::vector<std::uint8_t> legal_bits() const override {
    const auto bits = legal_set();
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(&bits);
    return {bytes, bytes + legal_bytes_of<G>(options_)};
  }

  std::vector<std::uint8_t> observe(int seat) const override {
    if (seat < 0 || seat >= G::seats(options_))
      throw std::invalid_argument("there is no seat " + std::to_string(seat) + " at this table");
    std::vector<std::uint8_t> row(static_cast<std::size_t>(G::schema(options_).bytes()));
    game_.observe(options_, seat, row.data());
    return row;
  }

  std::vector<float> act(int action) override {
    if (action < 0 || action >= actions_of<G>(options_) || !legal_set().has(action))
      throw IllegalAction(std::string(G::kName) + ", seat " + std::to_string(game_.seat()) + ": action " +
                          std::to_string(action) + " is not legal" + (game_.over() ? " (the game is over)" : ""));
    Report report;
    report.tally = tallies_.data();
    report.driver = seats_;
    report.stats = kStatCount;
    game_.apply(options_, action, report);
    ++turn_;
    return {report.reward, report.reward + G::seats(options_)};
  }

  int bot(int kind) const override {
    Random random(seed_, kBotStream + turn_);
    return kind == 0 ? random_action(legal_set(), random) : game_.bot(options_, kind, random);
  }

  std::string action_text(int action) const override { return game_.action_text(options_, action); }
  std::string table_text(int seat) const override {
    if (seat >= G::seats(options_) || (seat < 0 && !(seat == -1 && has_open_table<G>())))
      throw std::invalid_argument("there is no seat " + std::to_string(seat) + " at this table");
    return game_.table_text(options_, seat);
  }

  std::vector<std::uint8_t> state() const override {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(&game_);
    return {bytes, bytes + sizeof game_};
  }

  std::vector<Tally> tallies() const override { return tallies_; }

 private:
  static constexpr int kStatCount = static_cast<int>(std::size(G::kStats));

  // Statistics are kept by driver; here every seat drives itself.
  void count_by_seat() {
    for (int seat = 0; seat < kMaxSeats; ++seat) seats_[seat] = static_cast<std::uint8_t>(seat);
    tallies_.resize(static_cast<std::size_t>(G::seats(options_) * kStatCount));
  }

  BitSet<G::kActions> legal_set() const {
    BitSet<G::kActions> bits;
    if (!game_.over()) game_.legal(options_, bits);
    return bits;
  }

  typename G::Options options_;
  std::uint64_t seed_;
  std::uint32_t turn_ = 0;
  std::uint8_t seats_[kMaxSeats];
  std::vector<Tally> tallies_;
  G game_;
};

template <class Work, class Options, class First, class... Rest>
auto with_size(GameList<First, Rest...>, const Options& options, Work&& work) {
  if constexpr (sizeof...(Rest) > 0)
    if (!First::fits(options)) return with_size(GameList<Rest...>{}, options, work);
  return work(std::type_identity<First>{});
}

// Calls `work` with the type for these options: a game may come in sizes, the smallest that fits is taken.
template <Game G, class Work>
auto with_type(const typename G::Options& options, Work&& work) {
  if constexpr (requires { typename G::Sizes; }) {
    return with_size(typename G::Sizes{}, options, work);
  } else {
    return work(std::type_identity<G>{});
  }
}

template <Game G>
GameEntry make_entry() {
  GameEntry entry;
  entry.facts = [](const OptionValues& values) {
    const auto options = read_options<G>(values);
    GameFacts facts;
    facts.name = G::kName;
    facts.title = G::kTitle;
    facts.seats = G::seats(options);
    facts.actions = actions_of<G>(options);
    facts.legal_bytes = static_cast<int>(legal_bytes_of<G>(options));
    facts.state_bytes =
        with_type<G>(options, [](auto type) { return static_cast<int>(sizeof(typename decltype(type)::type)); });
    facts.roles.assign(std::begin(G::kRoles), std::end(G::kRoles));
    facts.bots.assign(std::begin(G::kBots), std::end(G::kBots));
    facts.stats.assign(std::begin(G::kStats), std::end(G::kStats));
    const typename G::Options standard;
    for (const auto& o : G::kOptions)
      facts.options.push_back({o.name, o.choices, o.help, o.low, o.high, standard.*(o.member)});
    if constexpr (requires { G::kLegend; }) facts.legend = G::kLegend;
    facts.open_table = has_open_table<G>();
    facts.schema = G::schema(options);
    facts.board = board_of<G>(options);
    return facts;
  };
  entry.pool = [](const OptionValues& values, std::size_t games, std::uint64_t seed, int threads) {
    const auto options = read_options<G>(values);
    return with_type<G>(options, [&](auto type) -> std::unique_ptr<AnyPool> {
      return std::make_unique<Pool<typename decltype(type)::type>>(options, games, seed, threads);
    });
  };
  entry.hall = [](const OptionValues& values, int threads) {
    const auto options = read_options<G>(values);
    return with_type<G>(options, [&](auto type) -> std::unique_ptr<AnyHall> {
      return std::make_unique<Hall<typename decltype(type)::type>>(options, threads);
    });
  };
  entry.game = [](const OptionValues& values, std::uint64_t seed) {
    const auto options = read_options<G>(values);
    return with_type<G>(options, [&](auto type) -> std::unique_ptr<AnyGame> {
      return std::make_unique<OneGame<typename decltype(type)::type>>(options, seed);
    });
  };
  entry.text_options = [](const std::string& text) -> OptionValues {
    if constexpr (StartsFromText<G>) return G::text_options(text);
    throw std::invalid_argument("this game cannot start from a text");
  };
  entry.game_from = [](const OptionValues& values, const std::string& text, std::uint64_t seed) {
    const auto options = read_options<G>(values);
    return with_type<G>(options, [&](auto type) -> std::unique_ptr<AnyGame> {
      using Sized = typename decltype(type)::type;
      if constexpr (StartsFromText<Sized>) return std::make_unique<OneGame<Sized>>(options, text, seed);
      throw std::invalid_argument("this game cannot start from a text");
    });
  };
  return entry;
}

template <Game... Games>
std::map<std::string, GameEntry> make_registry(GameList<Games...>) {
  return {{Games::kName, make_entry<Games>()}...};
}

}  // namespace playmill
