// Generals in words and colours, and a game from a board in words.
#pragma once

#include <stdexcept>
#include <vector>

#include "generals.hpp"

namespace playmill {

// Colours of the seats: both of letters and of ground, so that they are read on any background.
struct GeneralsColours {
  const char *letters, *ground;              // what is seen
  const char *faded_letters, *faded_ground;  // what is remembered
};
inline constexpr GeneralsColours kGeneralsColours[] = {
    {"#ffffff", "#b5242b", "#d5c0c0", "#5d2a2d"}, {"#ffffff", "#1f5fbf", "#c2cbdb", "#2b4064"},
    {"#ffffff", "#1c7c38", "#c0d0c4", "#2a4a33"}, {"#000000", "#e3b505", "#dad2b4", "#655a28"},
    {"#ffffff", "#8a35ad", "#d0c0d8", "#4b2e57"}, {"#000000", "#35bfc4", "#bcd6d7", "#2a5557"},
    {"#000000", "#f2853d", "#e0cdbd", "#6f4a31"}, {"#ffffff", "#6b4a2f", "#cfc5bd", "#43362c"}};

// The style of a seat's squares. Those of generals stand out: letters and ground change their colours.
inline std::string generals_style(int seat, bool seen = true, bool general = false) {
  const GeneralsColours& of = kGeneralsColours[seat];
  const std::string letters = seen ? of.letters : of.faded_letters, ground = seen ? of.ground : of.faded_ground;
  return general ? "bold " + ground + " on " + letters : letters + " on " + ground;
}

// A square in words; a style that is empty is none.
struct GeneralsCell {
  std::string text, style;
};

inline std::string generals_marked(const std::string& text, const std::string& style) {
  return style.empty() ? text : "[" + style + "]" + text + "[/]";
}

// Rows with columns in line, each as wide as its widest square, and wide enough not to jump with every new army.
inline std::string generals_rows(const std::vector<GeneralsCell>& cells, int width) {
  std::vector<std::size_t> widths(static_cast<std::size_t>(width), 2);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    std::size_t& widest = widths[i % widths.size()];
    widest = widest < cells[i].text.size() ? cells[i].text.size() : widest;
  }
  std::string text;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::size_t column = i % widths.size();
    // The blank before a square has its colour: land that hangs together is one patch.
    const std::string room(widths[column] - cells[i].text.size() + (column > 0), ' ');
    text += (column == 0 ? "\n" : "") + generals_marked(room + cells[i].text, cells[i].style);
  }
  return text;
}

template <int kSide, int kPlayers>
std::string GeneralsBoard<kSide, kPlayers>::action_text(const Options& o, int action) const {
  if (action == pass(o)) return "pass";
  const auto place = [&](int square) {
    return "(" + std::to_string(square % o.width) + ", " + std::to_string(square / o.width) + ")";
  };
  if (action > pass(o)) return "build a city on " + place(action - pass(o) - 1);
  constexpr const char* kWays[] = {"up", "down", "left", "right"};
  const int from = action / 8, army = army_[from];
  const bool half = action % 8 >= 4;
  return place(from) + " " + kWays[action % 4] + " with " +
         std::to_string(half       ? army / 2
                        : army > 0 ? army - 1
                                   : 0) +
         (half ? ", half" : "");
}

template <int kSide, int kPlayers>
std::string GeneralsBoard<kSide, kPlayers>::table_text(const Options& o, int seat) const {
  std::string text = "tick " + std::to_string(tick_) + "  alive ", lands, armies;
  for (int s = 0; s < o.players; ++s) {
    const std::string style = generals_style(s);
    if (lives(s)) text += generals_marked(std::string(1, static_cast<char>('a' + s)), style);
    lands += ' ' + generals_marked(std::to_string(land_[s]), style);
    armies += ' ' + generals_marked(std::to_string(total_[s]), style);
  }
  text += "  land" + lands + "  armies" + armies;
  const bool all = seat < 0;
  const Plane sight = all ? Plane() : memory_[seat].sight;
  const auto cell = [&](int square) -> GeneralsCell {
    const bool here = all || sight.has(square);
    if (!all && !memory_[seat].explored.has(square)) {
      const bool obstacle = o.fog_obstacles == kYes && (mountain_.has(square) || city_.has(square));
      return {obstacle ? "?^" : "?", "dim"};
    }
    const std::string mark = here ? "" : "'";
    if (mountain_.has(square)) return {"^" + mark, "#808080"};
    int owner = kNobody;
    for (int s = 0; s < o.players; ++s) {
      const bool theirs = here || s == seat ? owner_[s].has(square)
                                            : memory_[seat].others[(s - seat + o.players) % o.players - 1].has(square);
      if (theirs) owner = s;
    }
    bool general = false;
    for (int s = 0; s < o.players; ++s) general |= general_[s] == square && lives(s) && (all || knows_general(seat, s));
    const bool city = all ? city_.has(square) : memory_[seat].city.has(square);
    const std::string army = std::to_string(all ? army_[square] : known_army(seat, square));
    if (owner == kNobody && !general) {
      if (!city) return {"." + mark, "dim"};
      return {"*" + army + mark, here ? "#000000 on #b4b4b4" : "#d0d0d0 on #5a5a5a"};
    }
    const int whose = owner == kNobody ? 0 : owner;
    const char letter = static_cast<char>((general ? 'A' : 'a') + whose);
    return {letter + std::string(city ? "*" : "") + army + mark, generals_style(whose, here, general)};
  };
  std::vector<GeneralsCell> cells;
  for (int square = 0; square < squares(o); ++square) cells.push_back(cell(square));
  text += generals_rows(cells, o.width);
  const bool ordered = !all && !over_ && lives(seat) && seat < seat_;
  return ordered ? text + "\nordered: " + action_text(o, answer_[seat]) : text;
}

// ---- From words ----

// A board as it is written: table_text(-1) without its colours. Of the first line, which may be missing, the
// tick and the number of players are read.
class GeneralsText {
 public:
  struct Square {
    int line = 0, column = 0;
    char kind = '.';  // . ground, ^ mountain, * city, A general
    int owner = -1, army = 0;
  };

  int tick = 0, width = 0, height = 0, players = 2;
  std::vector<Square> squares;

  explicit GeneralsText(const std::string& text) {
    int line = 1;
    for (std::size_t begin = 0; begin <= text.size(); ++line) {
      std::size_t end = text.find('\n', begin);
      end = end == std::string::npos ? text.size() : end;
      const std::vector<Word> words = split(text.substr(begin, end - begin), line);
      begin = end + 1;
      if (words.empty()) continue;
      if (height == 0 && words[0].text == "tick") {
        read_head(words);
      } else {
        read_row(words);
      }
    }
    if (height == 0) throw std::invalid_argument("there is no board in this text");
  }

  static std::string place(const Square& at) {
    return "line " + std::to_string(at.line) + ", column " + std::to_string(at.column);
  }
  [[noreturn]] static void refuse(const Square& at, const std::string& why) {
    throw std::invalid_argument(place(at) + ": " + why);
  }

 private:
  struct Word {
    Square at;
    std::string text;
  };

  static std::vector<Word> split(const std::string& row, int line) {
    const auto blank = [&](std::size_t i) { return row[i] == ' ' || row[i] == '\t' || row[i] == '\r'; };
    std::vector<Word> words;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (blank(i)) continue;
      if (i == 0 || blank(i - 1)) {
        words.emplace_back();
        words.back().at.line = line;
        words.back().at.column = static_cast<int>(i) + 1;
      }
      words.back().text += row[i];
    }
    return words;
  }

  // A number of digits alone, or -1.
  static int number(const std::string& digits) {
    if (digits.empty() || digits.size() > 8) return -1;
    int value = 0;
    for (const char c : digits) {
      if (c < '0' || c > '9') return -1;
      value = 10 * value + (c - '0');
    }
    return value;
  }

  void read_head(const std::vector<Word>& words) {
    tick = words.size() < 2 ? -1 : number(words[1].text);
    if (tick < 0 || tick > 60000) refuse(words[words.size() < 2 ? 0 : 1].at, "'tick' must be followed by a number");
    bool land = false;
    int count = 0;
    for (const Word& word : words) {
      land = word.text == "land" || (land && number(word.text) >= 0);
      count += land && word.text != "land";
    }
    players = count > players ? count : players;
  }

  void read_row(const std::vector<Word>& words) {
    const int wide = static_cast<int>(words.size());
    if (height > 0 && wide != width)
      refuse(words[0].at, "a row of " + std::to_string(wide) + " squares; those above have " + std::to_string(width));
    width = wide;
    ++height;
    for (const Word& word : words) squares.push_back(read_square(word));
  }

  Square read_square(const Word& word) {
    Square out = word.at;
    const std::string& text = word.text;
    if (text == "." || text == "^") {
      out.kind = text[0];
      return out;
    }
    std::size_t i = 0;
    if (text[0] >= 'a' && text[0] <= 'h') out.owner = text[i++] - 'a';
    if (out.owner < 0 && text[0] >= 'A' && text[0] <= 'H') {
      out.owner = text[i++] - 'A';
      out.kind = 'A';
    }
    if (out.kind == '.' && i < text.size() && text[i] == '*') {
      out.kind = '*';
      ++i;
    }
    out.army = number(text.substr(i));
    if (out.army < 0 || i == 0)
      refuse(out, "no square is written '" + text + "'; write . ^ *40 a7 a*7 or A7, with letters from a to h");
    if (out.army > 65535) refuse(out, "an army is at most 65535, got " + std::to_string(out.army));
    players = out.owner + 1 > players ? out.owner + 1 : players;
    return out;
  }
};

inline std::map<std::string, int> GeneralsFacts::text_options(const std::string& text) {
  const GeneralsText board(text);
  return {{"width", board.width}, {"height", board.height}, {"players", board.players}};
}

template <int kSide, int kPlayers>
void GeneralsBoard<kSide, kPlayers>::set_text(const Options& o, const std::string& text) {
  const GeneralsText board(text);
  const auto fit = [](const char* what, int written, int option) {
    if (written != option)
      throw std::invalid_argument("the board has " + std::to_string(written) + " " + what + ", the options say " +
                                  std::to_string(option));
  };
  fit("columns", board.width, o.width);
  fit("rows", board.height, o.height);
  if (board.tick >= o.max_ticks)
    throw std::invalid_argument("tick " + std::to_string(board.tick) + ": the game ends at max_ticks, " +
                                std::to_string(o.max_ticks));
  *this = GeneralsBoard();
  tick_ = static_cast<std::uint16_t>(board.tick);
  const GeneralsText::Square* generals[kPlayers] = {};
  for (int square = 0; square < squares(o); ++square) {
    const GeneralsText::Square& at = board.squares[static_cast<std::size_t>(square)];
    if (at.owner >= o.players)
      GeneralsText::refuse(at, std::string("seat ") + static_cast<char>('a' + at.owner) + ", but there are " +
                                   std::to_string(o.players) + " players");
    if (at.kind == '^') mountain_.add(square);
    if (at.kind == '*') city_.add(square);
    army_[square] = static_cast<std::uint16_t>(at.army);
    if (at.owner < 0) continue;
    owner_[at.owner].add(square);
    ++land_[at.owner];
    total_[at.owner] += static_cast<std::uint32_t>(at.army);
    if (at.kind != 'A') continue;
    const GeneralsText::Square*& first = generals[at.owner];
    if (first != nullptr)
      GeneralsText::refuse(at, "its owner has a general already, on " + GeneralsText::place(*first));
    first = &at;
    general_[at.owner] = static_cast<std::uint16_t>(square);
    alive_ = static_cast<std::uint8_t>(alive_ | 1u << at.owner);
  }
  for (const GeneralsText::Square& at : board.squares)
    if (at.owner >= 0 && !lives(at.owner)) GeneralsText::refuse(at, "its owner has no general on the board");
  if ((alive_ & (alive_ - 1)) == 0)
    throw std::invalid_argument("a game needs two generals at least (A7, B7, ...), the board has " +
                                std::to_string(popcount64(alive_)));
  seat_ = static_cast<std::uint8_t>(lowest_bit(alive_));
  look_around(o);
}

}  // namespace playmill
