// Generals: armies on a board of squares in fog; who takes the other's general wins. Rules, presets and the
// observation: docs/games/generals.md.
#pragma once

#include "../core/crew_plane.hpp"
#include "generals_map.hpp"

namespace playmill {

// A board of at most kSide by kSide with at most kPlayers. On the card a crew plays it: functions below are called by
// all hands together, unless they are said to be one hand's.
template <int kSide, int kPlayers>
class GeneralsBoard : public GeneralsFacts {
 public:
  static constexpr int kSquares = kSide * kSide;
  static constexpr int kActions = kSquares * 9 + 1;
  static constexpr int kMostArmy = 65535;
  using Legal = BitSet<kActions>;
  static constexpr bool kCrewed = true;
  static constexpr int kRowBytes = (6 + kPlayers) * ((kSquares + 7) / 8) + 3 * kSquares + 6 + 4 * kPlayers;
  using Map = GeneralsMap<kSide, kPlayers>;
  using Plane = typename Map::Plane;

  static bool fits(const Options& o) { return o.width <= kSide && o.height <= kSide && o.players <= kPlayers; }

  PM_APART PM_FN void reset(const Options& o, std::uint64_t seed) {
    empty();
    Crew::alone([&] {
      if (o.prepared != nullptr) {
        lay_out(o, static_cast<const Map*>(o.prepared)[Map::number(o, seed)]);
      } else {
        Map map;
        map.draw_game(o, seed);
        lay_out(o, map);
      }
    });
    look_around(o);
  }

  static Prepared prepare(Options& o) { return Map::prepare(o); }

  PM_FN bool over() const { return over_; }

  // What changes when an answer is only taken down, and not yet a tick played, lies behind so many bytes.
  PM_FN std::size_t quiet_bytes() const {
    return static_cast<std::size_t>(reinterpret_cast<const std::uint8_t*>(total_) -
                                    reinterpret_cast<const std::uint8_t*>(this));
  }
  PM_FN int ticks() const { return tick_; }

  PM_FN int seat() const { return seat_; }
  PM_FN int role() const { return 0; }

  PM_FN void legal(const Options& o, Legal& out) const { legal_row(o, reinterpret_cast<std::uint8_t*>(out.word)); }

  // The same as a row of bytes, whole words: a byte a square, then the pass, then builds.
  PM_FN void legal_row(const Options& o, std::uint8_t* out) const {
    const int n = squares(o), bytes = (actions(o) + 63) / 64 * 8;
    if (Crew::hand() == 0) {
      memset(out + bytes - 8, 0, 8);  // of a known size: no call; what it takes of the squares is written next
      if (o.build == kYes) memset(out + n, 0, static_cast<std::size_t>(bytes - n));
    }
    Crew::join();
    move_bytes(army_, owner_[seat_].word, mountain_.word, o.width, o.edges, n, Plane::kWords, out);
    if (Crew::hand() == 0) out[n] = 1;
    if (o.build != kYes) return;
    Crew::alone([&] {
      each_square(owner_[seat_], [&](int square) {
        const int action = pass(o) + 1 + square;
        if (can_build(o, seat_, square))
          out[action >> 3] = static_cast<std::uint8_t>(out[action >> 3] | 1u << (action & 7));
      });
    });
  }

  // A uniform legal action: the one random_action() takes of legal().
  PM_FN int any_action(const Options& o, Random& random) const;

  // Whether one action is legal: as legal() has it.
  PM_FN bool allows(const Options& o, int action) const {
    if (action < 0 || action >= actions(o)) return false;
    if (action == pass(o)) return true;
    if (const int site = action - pass(o) - 1; site >= 0) return owner_[seat_].has(site) && can_build(o, seat_, site);
    const int from = action / 8, to = neighbour(o, from, action % 4);
    return to >= 0 && owner_[seat_].has(from) && army_[from] > 1 && !mountain_.has(to);
  }

  PM_FN void observe(const Options& o, int seat, std::uint8_t* out) const {
    const Memory& mine = memory_[seat];
    View view;
    view.sight = mine.sight.word;
    view.explored = mine.explored.word;
    view.own = owner_[seat].word;
    view.closed = mountain_.word;
    if (o.fog_obstacles == kYes) view.built = city_.word;
    for (int k = 0; k + 1 < players(o); ++k) view.last_planes[view.planes++] = mine.others[k].word;
    view.last_planes[view.planes++] = mine.city.word;
    for (int s = 0; s < players(o); ++s) view.mark[view.marks++] = knows_general(seat, s) ? general_[s] : kNobody;
    view.now = army_;
    view.last = last_army_[seat];
    view.age = age_[seat];
    std::uint8_t* rest = write_view(view, squares(o), Plane::kWords, out);
    if (Crew::hand() == 0) observe_numbers(o, seat, rest);
  }

  PM_FN void apply(const Options& o, int action, Report& report) {
    const unsigned later = alive_ >> seat_ >> 1;
    Crew::alone([&] {
      answer_[seat_] = static_cast<std::uint16_t>(action);
      if (later != 0) seat_ = static_cast<std::uint8_t>(seat_ + 1 + lowest_bit(later));
    });
    if (later == 0) play_tick(o, report);
  }

  // A scripted move. Every hand has a Random of its own, equal to the others'.
  PM_FN int bot(const Options& o, int kind, Random& random) const;

  std::string action_text(const Options& o, int action) const;
  std::string table_text(const Options& o, int seat) const;
  void set_text(const Options& o, const std::string& text);  // a game that starts from a board in words

 private:
  static constexpr int kNobody = -1;
  static constexpr int kCityFull = 40;  // cities without an owner grow back to it

  // What an attentive player remembers; planes as in the observation.
  struct Memory {
    Plane sight;  // what is seen now
    Plane explored;
    Plane others[kPlayers - 1];  // from the next seat on
    Plane city;
  };

  struct Move {
    int seat, from, to;
    bool half;
    int marching;  // counted before any move
  };

  // ---- The start ----

  PM_FN void empty() {
    static_assert(sizeof(GeneralsBoard) % sizeof(std::uint64_t) == 0);
#ifdef PM_WARP
    Crew::join();
    Crew::share(sizeof *this / sizeof(std::uint64_t), [&](int i) { reinterpret_cast<std::uint64_t*>(this)[i] = 0; });
    Crew::join();
#else
    memset(static_cast<void*>(this), 0, sizeof *this);
#endif
  }

  // One hand's.
  PM_FN void lay_out(const Options& o, const Map& map) {
    mountain_ = map.mountain;
    city_ = map.city;
    int next = 0;
    each_square(city_, [&](int square) { army_[square] = map.city_army[next++]; });
    alive_ = static_cast<std::uint8_t>((1u << players(o)) - 1);
    for (int s = 0; s < players(o); ++s) {
      general_[s] = map.general[s];
      owner_[s].add(general_[s]);
      army_[general_[s]] = static_cast<std::uint16_t>(o.start_army);
      total_[s] = static_cast<std::uint32_t>(o.start_army);
      land_[s] = 1;
    }
  }
  PM_FN void observe_numbers(const Options& o, int seat, std::uint8_t* out) const {
    Writer write(out);
    write.u16(tick_);
    write.u8(until(o.city_period));
    write.u8(until(o.land_period));
    unsigned alive = 0;
    for (int k = 0; k < players(o); ++k) {
      const int s = after(o, seat, k);
      write.u16(land_[s]);
      alive |= static_cast<unsigned>(alive_ >> s & 1) << k;
    }
    for (int k = 0; k < players(o); ++k) {
      const std::uint32_t all = total_[after(o, seat, k)];
      write.u16(all < kMostArmy ? all : kMostArmy);
    }
    write.u8(static_cast<int>(alive));
    write.u8(before(o, seat));
  }

  // ---- Where things are ----

  // Two on a board for two: the compiler then knows, and what is done for each player stays in registers.
  PM_FN static int players(const Options& o) { return kPlayers == 2 ? 2 : o.players; }
  PM_FN static int pass(const Options& o) { return 8 * squares(o); }
  // The next square in a direction. Directions come at random: no branch guesses them.
  PM_FN static int beyond(const Options& o, int square, int direction) {
    const int step = direction < kLeft ? o.width : 1;
    return direction % 2 == 0 ? square - step : square + step;
  }
  // The same, or -1 beyond the edge.
  PM_FN static int neighbour(const Options& o, int square, int direction) {
    const bool edge = bit_of(o.edges.towards(direction), square);
    return edge ? -1 : beyond(o, square, direction);
  }
  PM_FN static int steps_between(const Options& o, int a, int b) {
    const int dx = a % o.width - b % o.width, dy = a / o.width - b / o.width;
    return (dx < 0 ? -dx : dx) + (dy < 0 ? -dy : dy);
  }
  PM_FN bool lives(int seat) const { return alive_ >> seat & 1; }
  // The k-th seat after `seat`.
  PM_FN static int after(const Options& o, int seat, int k) {
    const int s = seat + k;
    return s < players(o) ? s : s - players(o);
  }
  PM_FN int owner_of(const Options& o, int square) const {
    for (int s = 0; s < players(o); ++s)
      if (owner_[s].has(square)) return s;
    return kNobody;
  }
  // The army of a square as a seat saw it last.
  PM_FN int known_army(int seat, int square) const {
    if (memory_[seat].sight.has(square)) return army_[square];
    return memory_[seat].explored.has(square) ? last_army_[seat][square] : 0;
  }
  PM_FN bool knows_general(int seat, int other) const {
    return lives(other) & ((seat == other) | (met_[seat] >> other & 1));
  }
  PM_FN int until(int period) const {
    const unsigned left = static_cast<unsigned>(period) - tick_ % static_cast<unsigned>(period);
    return static_cast<int>(left < 255 ? left : 255);
  }
  // On reversed ticks the higher seats go first.
  PM_FN bool reversed(const Options& o) const { return o.order == kAlternating && tick_ % 2 == 1; }
  PM_FN int before(const Options& o, int seat) const {
    const unsigned lower = alive_ & ((1u << seat) - 1), higher = alive_ >> seat >> 1;
    return popcount64(reversed(o) ? higher : lower);
  }

  // ---- A tick ----

  PM_FN void play_tick(const Options& o, Report& report) {
    keep_under_attack(o);
    Crew::alone([&] {
      play_answers(o, report);
      ++tick_;
    });
    grow(o);
    const bool decided = (alive_ & (alive_ - 1)) == 0;
    Crew::alone([&] { over_ = decided || tick_ >= o.max_ticks; });
    look_around(o);
    Crew::alone([&] {
      if (decided) report.reward[lowest_bit(alive_)] += 1.0f;
      if (over_ && !decided && o.draw > 0) take_for_draw(o, report);
      if (o.shaping > 0) pay_gains(o, report);
      if (over_) count_stats(o, decided, report);
      seat_ = static_cast<std::uint8_t>(lowest_bit(alive_));
    });
  }

  // One hand's, as everything down to growth.
  PM_FN void play_answers(const Options& o, Report& report) {
    Move moves[kPlayers];
    PM_UNROLL_PLAYERS
    for (int s = 0; s < players(o); ++s) {
      const int answer = lives(s) ? answer_[s] : pass(o);
      moves[s] = Move{kNobody, kNobody, kNobody, false, 0};
      if (answer > pass(o)) found_city(o, s, answer - pass(o) - 1);
      if (answer < pass(o)) moves[s] = Move{s, answer / 8, beyond(o, answer / 8, answer % 4), answer % 8 >= 4, 0};
    }
    PM_UNROLL_PLAYERS
    for (int s = 0; s < players(o); ++s) {
      if (moves[s].seat == kNobody) continue;
      const int army = army_[moves[s].from];
      moves[s].marching = moves[s].half ? army / 2 : army - 1;
    }
    put_in_order(o, moves);
    PM_UNROLL_PLAYERS
    for (int i = 0; i < players(o); ++i)
      if (moves[i].seat != kNobody) make_move(o, moves[i], report);
  }

  // Whoever may lose squares keeps the armies in sight of them: what goes out of sight in this tick was seen before it.
  PM_FN void keep_under_attack(const Options& o) {
    for (int s = 0; s < players(o); ++s) {
      if (!lives(s) || answer_[s] >= pass(o)) continue;
      const int to = beyond(o, answer_[s] / 8, answer_[s] % 4);
      for (int other = 0; other < players(o); ++other)
        if (other != s && owner_[other].has(to))
          keep_numbers(army_, memory_[other].sight.word, squares(o), last_army_[other]);
    }
  }

  // Whoever has no move may be anywhere among them.
  PM_FN void put_in_order(const Options& o, Move (&moves)[kPlayers]) const {
    const int count = players(o);
    if (o.order == kPriority) order_by_priority(o, moves);
    if (o.order == kSmaller)  // stable: the lower seat of equals goes first
      for (int i = 1; i < count; ++i)
        for (int k = i; k > 0 && moves[k].marching < moves[k - 1].marching; --k) swap(moves[k], moves[k - 1]);
    if (reversed(o)) {
      PM_UNROLL_PLAYERS
      for (int i = 0; i < count / 2; ++i) swap(moves[i], moves[count - 1 - i]);
    }
  }

  PM_FN static void swap(Move& a, Move& b) {
    const Move kept = a;
    a = b;
    b = kept;
  }

  // Everything is judged by the board before the first move.
  PM_FN void order_by_priority(const Options& o, Move (&moves)[kPlayers]) const {
    const int count = players(o);
    int rank[kPlayers] = {};
    for (int i = 0; i < count; ++i) {
      const Move& move = moves[i];
      if (move.seat == kNobody) continue;
      int kind = 1;
      if (owner_[move.seat].has(move.to)) kind = 0;
      for (int s = 0; kind == 1 && s < count; ++s)
        if (s != move.seat && lives(s) && general_[s] == move.to) kind = 2;
      rank[i] = kind * (kMostArmy + 1) + kMostArmy - army_[move.from];
    }
    for (int i = 1; i < count; ++i)
      for (int k = i; k > 0 && rank[k] < rank[k - 1]; --k) {
        swap(moves[k], moves[k - 1]);
        const int kept = rank[k];
        rank[k] = rank[k - 1];
        rank[k - 1] = kept;
      }
    // Of those left always the first that no other holds up, or the first.
    for (int done = 0; done < count; ++done) {
      int next = done;
      for (int i = count - 1; i >= done; --i)
        if (!held_up(moves, done, count, i)) next = i;
      for (int i = count - 1; i > done; --i)
        if (i <= next) swap(moves[i], moves[i - 1]);
    }
  }

  // Whether another remaining move goes to the square this one leaves, other than to change places.
  PM_FN static bool held_up(const Move (&moves)[kPlayers], int done, int count, int mine) {
    bool held = false;
    for (int i = done; i < count; ++i)
      held |= i != mine && moves[i].to == moves[mine].from && moves[i].from != moves[mine].to;
    return held;
  }

  PM_FN void make_move(const Options& o, const Move& move, Report& report) {
    const int army = army_[move.from];
    if (!owner_[move.seat].has(move.from) || army < 2) return;
    int marching = move.half ? army / 2 : army - 1;
    if (o.order == kSmaller) marching = move.marching < army - 1 ? move.marching : army - 1;
    army_[move.from] = static_cast<std::uint16_t>(army - marching);
    const int there = army_[move.to];
    if (owner_[move.seat].has(move.to)) {
      const int all = there + marching;
      const int kept = all < kMostArmy ? all : kMostArmy;
      army_[move.to] = static_cast<std::uint16_t>(kept);
      total_[move.seat] -= static_cast<std::uint32_t>(all - kept);
      return;
    }
    const int owner = owner_of(o, move.to);
    const int fallen = marching < there ? marching : there;
    total_[move.seat] -= static_cast<std::uint32_t>(fallen);
    if (owner != kNobody) total_[owner] -= static_cast<std::uint32_t>(fallen);
    if (marching <= there) {
      army_[move.to] = static_cast<std::uint16_t>(there - marching);
      return;
    }
    army_[move.to] = static_cast<std::uint16_t>(marching - there);
    owner_[move.seat].add(move.to);
    ++land_[move.seat];
    if (owner == kNobody) return;
    owner_[owner].remove(move.to);
    --land_[owner];
    if (general_[owner] == move.to) fall(o, owner, move.seat, report);
  }

  // `seat` is out, and what it had is `captor`'s.
  PM_FN void fall(const Options& o, int seat, int captor, Report& report) {
    const int square = general_[seat];
    alive_ = static_cast<std::uint8_t>(alive_ & ~(1u << seat));
    report.reward[seat] -= 1.0f;
    city_.add(square);
    if (o.capture_share == kHalf)
      each_square(owner_[seat], [&](int held) {
        total_[seat] -= army_[held] / 2u;
        army_[held] = static_cast<std::uint16_t>((army_[held] + 1) / 2);
      });
    owner_[captor] = owner_[captor] | owner_[seat];
    owner_[seat].clear();
    total_[captor] += total_[seat];
    total_[seat] = 0;
    land_[captor] = static_cast<std::uint16_t>(land_[captor] + land_[seat]);
    land_[seat] = 0;
    for (int s = 0; s < players(o); ++s) {
      if (s == seat || (met_[s] >> seat & 1)) memory_[s].city.add(square);
      met_[s] = static_cast<std::uint8_t>(met_[s] & ~(1u << seat));
      if (s != seat) memory_[s].others[(seat - s + players(o)) % players(o) - 1].clear();
    }
  }

  PM_FN void grow(const Options& o) {
    const bool cities = tick_ % static_cast<unsigned>(o.city_period) == 0;
    const bool land = tick_ % static_cast<unsigned>(o.land_period) == 0;
    if (!cities && !land) return;
    Recruits recruits;
    recruits.built = city_.word;
    for (int s = 0; s < players(o); ++s) {
      recruits.own[recruits.owners++] = owner_[s].word;
      recruits.mark[recruits.marks++] = lives(s) ? general_[s] : kNobody;
    }
    const auto grow_now = [&](Recruits::Which which, int most_free) {
      recruits.which = which;
      recruits.most_free = most_free;
      grow_squares(army_, squares(o), Plane::kWords, recruits);
      if (Crew::hand() == 0)
        for (int s = 0; s < players(o); ++s) total_[s] += static_cast<std::uint32_t>(recruits.grown[s]);
    };
    if (land) grow_now(o.land_growth == kAll ? Recruits::kAll : Recruits::kNotBuilt, 0);
    if (cities) grow_now(Recruits::kBuilt, o.regrowth == kYes ? kCityFull : 0);
  }

  PM_FN void look_around(const Options& o) {
    for (int s = 0; s < players(o); ++s) look_around(o, s);
    Crew::join();
  }
  PM_FN void look_around(const Options& o, int seat) {
    Memory& mine = memory_[seat];
    Look look;
    look.sight = mine.sight.word;
    look.explored = mine.explored.word;
    look.age = age_[seat];
    for (int k = 0; k + 1 < players(o); ++k) {
      look.last[look.planes] = mine.others[k].word;
      look.now[look.planes++] = owner_[after(o, seat, 1 + k)].word;
    }
    look.last[look.planes] = mine.city.word;
    look.now[look.planes++] = city_.word;
    look_from(owner_[seat].word, o.width, o.edges, squares(o), Plane::kWords, look);
    if (Crew::hand() != 0) return;
    for (int s = 0; s < players(o); ++s)
      if (s != seat && lives(s) && mine.sight.has(general_[s]))
        met_[seat] = static_cast<std::uint8_t>(met_[seat] | 1u << s);
  }

  // ---- Building ----

  PM_FN bool can_build(const Options& o, int seat, int square) const {
    if (city_.has(square) || square == general_[seat]) return false;
    return army_[square] >= cost(o, seat, square);
  }
  PM_FN int cost(const Options& o, int seat, int square) const {
    int cost = 35;
    const auto near = [&](int other) {
      const int more = 14 - 2 * steps_between(o, square, other);
      cost += more > 0 ? more : 0;
    };
    near(general_[seat]);
    each_square(owner_[seat] & city_, near);
    return cost;
  }
  PM_FN void found_city(const Options& o, int seat, int square) {
    const int paid = cost(o, seat, square);
    army_[square] = static_cast<std::uint16_t>(army_[square] - paid);
    total_[seat] -= static_cast<std::uint32_t>(paid);
    city_.add(square);
  }

  // ---- Rewards ----

  // How far ahead a seat is, from -1 to 1; 0 for whoever is out, and for all at the end.
  PM_FN float potential(const Options& o, int seat) const {
    if (over_ || !lives(seat)) return 0.0f;
    float armies = 0, squares = 0;
    for (int s = 0; s < players(o); ++s) {
      if (s == seat || !lives(s)) continue;
      armies += static_cast<float>(total_[s]);
      squares += static_cast<float>(land_[s]);
    }
    const auto lead = [](float own, float others) { return own + others > 0 ? (own - others) / (own + others) : 0.0f; };
    return 0.5f * lead(static_cast<float>(total_[seat]), armies) +
           0.5f * lead(static_cast<float>(land_[seat]), squares);
  }

  PM_FN void take_for_draw(const Options& o, Report& report) const {
    for (int s = 0; s < players(o); ++s)
      if (lives(s)) report.reward[s] -= static_cast<float>(o.draw) * 0.01f;
  }

  PM_FN void pay_gains(const Options& o, Report& report) {
    const float weight = static_cast<float>(o.shaping) * 0.01f;
    for (int s = 0; s < players(o); ++s) {
      const float now = potential(o, s);
      report.reward[s] += weight * (now - paid_[s]);
      paid_[s] = now;
    }
  }

  PM_FN void count_stats(const Options& o, bool decided, Report& report) const {
    for (int s = 0; s < players(o); ++s) {
      const bool won = decided && lives(s), drew = !decided && lives(s);
      report.count(kScore, s, won ? 1.0f : drew ? 0.0f : -1.0f);
      report.count(kWin, s, won ? 1.0f : 0.0f);
      report.count(kDraw, s, drew ? 1.0f : 0.0f);
      report.count(kTurns, s, tick_);
      report.count(kLand, s, static_cast<float>(land_[s]));
      report.count(kArmies, s, static_cast<float>(total_[s]));
    }
  }

  // ---- Bots: generals_bots.hpp ----

  struct Scout;

  // A plane is a line of the cache, and what every turn reads or writes of the rest, down to the end of a Slot,
  // another.
  Plane owner_[kPlayers], mountain_, city_;
  Memory memory_[kPlayers] = {};
  std::uint16_t army_[kSquares] = {};
  std::uint16_t last_army_[kPlayers][kSquares] = {};  // of faded squares: see fog.hpp
  std::uint8_t age_[kPlayers][kSquares] = {};
  std::uint32_t total_[kPlayers] = {};  // armies in all
  float paid_[kPlayers] = {};           // potential paid for so far
  std::uint16_t land_[kPlayers] = {};   // squares in all
  std::uint16_t answer_[kPlayers] = {};
  std::uint16_t general_[kPlayers] = {};  // its square; stays where it was when its seat is out
  std::uint16_t tick_ = 0;                // played so far
  std::uint8_t met_[kPlayers] = {};       // bits of seats whose general was seen
  std::uint8_t alive_ = 0;                // bits of seats
  std::uint8_t seat_ = 0;
  bool over_ = false;
};

}  // namespace playmill

#include "generals_bots.hpp"
#include "generals_text.hpp"

namespace playmill {

template <int kSide, int kPlayers>
PM_FN int GeneralsBoard<kSide, kPlayers>::any_action(const Options& o, Random& random) const {
#ifdef PM_WARP
  const Ways ways(army_, owner_[seat_].word, mountain_.word, o.width, o.edges, squares(o));
  const int mine = ways.count(), upto = Crew::upto(mine);
  const int moves = __shfl_sync(~0u, upto, Crew::kHands - 1);
  int builds = 0;
  if (o.build == kYes) {
    Crew::share(squares(o), [&](int i) { builds += owner_[seat_].has(i) && can_build(o, seat_, i); });
    builds = Crew::sum(builds);
  }
  const int wanted = static_cast<int>(random.below(static_cast<std::uint32_t>(moves + 1 + builds)));
  if (wanted == moves) return pass(o);
  if (wanted > moves)
    return Crew::told([&] {
      int left = wanted - moves - 1, found = 0;
      each_square(owner_[seat_], [&](int square) {
        if (can_build(o, seat_, square) && left-- == 0) found = pass(o) + 1 + square;
      });
      return found;
    });
  const int who = __ffs(static_cast<int>(__ballot_sync(~0u, upto > wanted))) - 1;
  return ways.nth(who, wanted - __shfl_sync(~0u, upto - mine, who));
#else
  Legal legal;
  this->legal(o, legal);
  return random_action(legal, random);
#endif
}

// The game by its name: a board no larger than the options ask for.
class Generals : public GeneralsBoard<kMaxSide, kMaxSeats> {
 public:
  using Sizes = GameList<GeneralsBoard<12, 2>, GeneralsBoard<20, 2>, GeneralsBoard<32, 2>, GeneralsBoard<12, 8>,
                         GeneralsBoard<20, 8>, GeneralsBoard<32, 8>>;
  // On the card fewer: each takes its time to compile, for every kind of card.
  using CardSizes = GameList<GeneralsBoard<12, 2>, GeneralsBoard<20, 2>, GeneralsBoard<20, 8>, GeneralsBoard<32, 8>>;
};

static_assert(Game<GeneralsBoard<20, 2>>);

}  // namespace playmill
