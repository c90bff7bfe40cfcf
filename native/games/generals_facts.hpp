// Generals: what does not depend on the size of the board.
#pragma once

#include <map>

#include "../core/fog.hpp"
#include "../core/game.hpp"

namespace playmill {

struct GeneralsOptions {
  int preset = 1;
  int width = 20, height = 20, smallest = 0, largest = 0, size_step = 1;
  int players = 2;
  int max_ticks = 1000;
  // From here on -1, or 0 of the choices, is what the preset says.
  int city_period = -1, land_period = -1, start_army = -1;
  int land_growth = 0, capture_share = 0, regrowth = 0, order = 0, build = 0, fog_obstacles = 0;
  int mountains = -1, cities = -1, city_army = -1, city_army_spread = -1, distance = -1;
  int shaping = 0, draw = 0;
  int maps = 0;
  Edges edges;                     // of width and height
  const void* prepared = nullptr;  // the maps where they are made already
};

// What does not depend on the size of the board: facts, options, words.
class GeneralsFacts {
 public:
  using Options = GeneralsOptions;

  static constexpr const char* kName = "generals";
  static constexpr const char* kTitle = "Generals";
  static constexpr const char* kRoles[] = {"move"};
  static constexpr const char* kBots[] = {"random", "expander", "hunter", "defender"};
  static constexpr const char* kStats[] = {"score", "win", "draw", "turns", "land", "armies"};
  static constexpr bool kOpenTable = true;
  static constexpr const char* kLegend = "A general  a land  * city  ^ mountain  ' remembered  ? unseen  ?^ obstacle";
  enum Stat { kScore, kWin, kDraw, kTurns, kLand, kArmies };
  enum Bot { kExpander = 1, kHunter, kDefender };

  enum Share { kFull = 1, kHalf };
  enum Growth { kGround = 1, kAll };
  enum Order { kSeat = 1, kAlternating, kSmaller, kPriority };
  enum Answer { kNo = 1, kYes };
  enum Direction { kUp, kDown, kLeft, kRight };

  static constexpr Option<Options> kOptions[] = {
      {"preset", &Options::preset, 0, 2, "source,generalsio,competition", "what everything below is unless it is set"},
      {"width", &Options::width, 4, kMaxSide, "", "squares in a row"},
      {"height", &Options::height, 4, kMaxSide, "", "rows"},
      {"smallest", &Options::smallest, 0, kMaxSide, "",
       "sides of a map are drawn from this to width and height, the rest is mountain; 0: always the whole board"},
      {"largest", &Options::largest, 0, kMaxSide, "",
       "with smallest: the longest side of a map on a board that is larger; 0: width and height"},
      {"size_step", &Options::size_step, 1, kMaxSide, "",
       "with smallest: sides of maps differ by a multiple of this; 5 from 10 to 15: 10 and 15"},
      {"players", &Options::players, 2, kMaxSeats, "", "players on the board"},
      {"max_ticks", &Options::max_ticks, 1, 60000, "", "ticks after which it is a draw"},
      {"city_period", &Options::city_period, -1, 1000, "",
       "ticks between the growth of generals and cities; -1: preset"},
      {"land_period", &Options::land_period, -1, 1000, "", "ticks between the growth of land; -1: preset"},
      {"start_army", &Options::start_army, -1, 1000, "", "army of a general at the start; -1: preset"},
      {"land_growth", &Options::land_growth, 0, 2, "preset,ground,all",
       "whether land grows under cities and generals too"},
      {"capture_share", &Options::capture_share, 0, 2, "preset,full,half",
       "how much of their armies the squares of a fallen player keep"},
      {"regrowth", &Options::regrowth, 0, 2, "preset,no,yes", "cities without an owner grow back to 40"},
      {"order", &Options::order, 0, 4, "preset,seat,alternating,smaller,priority",
       "whose move is made first in a tick"},
      {"build", &Options::build, 0, 2, "preset,no,yes", "own ground can be made a city"},
      {"fog_obstacles", &Options::fog_obstacles, 0, 2, "preset,no,yes",
       "mountains and cities are known as obstacles before they are seen"},
      {"mountains", &Options::mountains, -1, 60, "", "mountains, in a hundred squares; -1: preset"},
      {"cities", &Options::cities, -1, 200, "", "cities, in a thousand squares; -1: preset"},
      {"city_army", &Options::city_army, -1, 1000, "", "the smallest army of a city at the start; -1: preset"},
      {"city_army_spread", &Options::city_army_spread, -1, 1000, "", "how many more it may be; -1: preset"},
      {"distance", &Options::distance, -1, 64, "",
       "steps between two generals at least, where maps have room; -1: preset"},
      {"shaping", &Options::shaping, 0, 100, "",
       "hundredths of reward for gains in armies and land, taken back at the end"},
      {"draw", &Options::draw, 0, 100, "", "hundredths of reward that a draw takes from everybody still alive"},
      {"maps", &Options::maps, 0, 1000000, "",
       "every game has one of so many maps, which a pool of games makes beforehand; 0: a new map for every game"},
  };

  // Puts the preset in where nothing is set.
  static void resolve(Options& o) {
    struct Preset {
      int city_period, land_period, start_army, land_growth, capture_share, regrowth, order, build, fog_obstacles,
          mountains, cities, city_army, city_army_spread, distance;
    };
    static constexpr Preset kPresets[] = {
        {1, 25, 2, kGround, kFull, kNo, kSeat, kNo, kNo, 12, 50, 40, 0, 5},
        {2, 50, 1, kAll, kHalf, kYes, kAlternating, kNo, kYes, 20, 25, 40, 10, 15},
        {2, 50, 1, kAll, kHalf, kNo, kPriority, kYes, kYes, 22, 0, 40, 10, 17},
    };
    const Preset& p = kPresets[o.preset];
    const auto number = [](int& value, int standard) { value = value < 0 ? standard : value; };
    const auto choice = [](int& value, int standard) { value = value == 0 ? standard : value; };
    number(o.city_period, p.city_period);
    number(o.land_period, p.land_period);
    number(o.start_army, p.start_army);
    choice(o.land_growth, p.land_growth);
    choice(o.capture_share, p.capture_share);
    choice(o.regrowth, p.regrowth);
    choice(o.order, p.order);
    choice(o.build, p.build);
    choice(o.fog_obstacles, p.fog_obstacles);
    number(o.mountains, p.mountains);
    number(o.cities, p.cities);
    number(o.city_army, p.city_army);
    number(o.city_army_spread, p.city_army_spread);
    number(o.distance, p.distance);
    o.edges = Edges(o.width, o.height);
  }

  static std::string check(const Options& o) {
    if (o.city_period < 1 || o.land_period < 1) return "city_period and land_period must be at least 1";
    if (o.smallest > 0 && (o.smallest < 4 || o.smallest > o.width || o.smallest > o.height))
      return "smallest must be 0, or from 4 to width and height, got " + std::to_string(o.smallest);
    if (o.largest > 0 && (o.smallest == 0 || o.largest < o.smallest))
      return "largest goes with smallest and must not be less, got " + std::to_string(o.largest) + " and " +
             std::to_string(o.smallest);
    const int side = o.smallest > 0 ? o.smallest : 0;
    const int squares = side > 0 ? side * side : o.width * o.height;
    if (squares < 8 * o.players)
      return std::to_string(o.players) + " players need a board of at least " + std::to_string(8 * o.players) +
             " squares, got " + std::to_string(squares);
    return {};
  }
  // What a board in words says of the options.
  static std::map<std::string, int> text_options(const std::string& text);
  static int seats(const Options& o) { return o.players; }
  PM_FN static int squares(const Options& o) { return o.width * o.height; }
  PM_FN static int actions(const Options& o) { return squares(o) * (o.build == kYes ? 9 : 8) + 1; }

  // In the order of Direction, whole armies and then halves; the pass; builds.
  static Board board(const Options& o) {
    Board board{o.height, o.width, {{true, "udlrudlr"}, {false, "."}}};
    if (o.build == kYes) board.actions.push_back({true, "."});
    return board;
  }

  static Schema schema(const Options& o) {
    const int h = o.height, w = o.width, n = o.players, all = squares(o);
    Schema schema;
    schema.bits("visible", 1, all).bits("explored", 1, all).bits("own", 1, all).bits("others", n - 1, all);
    schema.bits("city", 1, all).bits("general", 1, all).bits("mountain", 1, all).bits("obstacle", 1, all);
    schema.log16("army", h, w, 1.0f / 16).u8("age", h, w, 1.0f / 255);
    schema.u16("tick", 1, 1, 0.001f).u8("growth", 1, 2, 1.0f / 50);
    schema.u16("land", 1, n, 1.0f / static_cast<float>(w * h)).log16("armies", 1, n, 1.0f / 16);
    schema.bits("alive", 1, n).u8("before", 1, 1, 1.0f / 8);
    return schema;
  }
};

}  // namespace playmill
