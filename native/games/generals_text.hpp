// Generals in words and colours.
#pragma once

#include "generals.hpp"

namespace playmill {

inline constexpr const char* kGeneralsColours[] = {"red",     "blue", "green",   "yellow",
                                                   "magenta", "cyan", "orange3", "white"};

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
    if (lives(s)) text += static_cast<char>('a' + s);
    lands += ' ' + std::to_string(land_[s]);
    armies += ' ' + std::to_string(total_[s]);
  }
  text += "  land" + lands + "  armies" + armies;
  const bool all = seat < 0;
  const Plane sight = all ? Plane() : memory_[seat].sight;
  for (int square = 0; square < squares(o); ++square) {
    text += square % o.width == 0 ? '\n' : ' ';
    const bool here = all || sight.has(square);
    if (!all && !memory_[seat].explored.has(square)) {
      const bool obstacle = o.fog_obstacles == kYes && (mountain_.has(square) || city_.has(square));
      text += obstacle ? "[dim]?^[/]" : "[dim]?[/]";
      continue;
    }
    int owner = kNobody;
    for (int s = 0; s < o.players; ++s) {
      const bool theirs = here || s == seat ? owner_[s].has(square)
                                            : memory_[seat].others[(s - seat + o.players) % o.players - 1].has(square);
      if (theirs) owner = s;
    }
    bool general = false;
    for (int s = 0; s < o.players; ++s) general |= general_[s] == square && lives(s) && (all || knows_general(seat, s));
    const bool city = all ? city_.has(square) : memory_[seat].city.has(square);
    const int army = all ? army_[square] : known_army(seat, square);
    std::string cell;
    if (mountain_.has(square)) {
      cell = "^";
    } else if (owner == kNobody && !general) {
      cell = city ? "*" + std::to_string(army) : ".";
    } else {
      const char letter = static_cast<char>((general ? 'A' : 'a') + (owner == kNobody ? 0 : owner));
      cell = letter + std::string(city ? "*" : "") + std::to_string(army);
    }
    if (!here) cell += "'";
    const bool painted = owner != kNobody;
    text += painted ? std::string("[") + (general ? "bold " : "") + kGeneralsColours[owner] + "]" + cell + "[/]" : cell;
  }
  const bool ordered = !all && !over_ && lives(seat) && seat < seat_;
  return ordered ? text + "\nordered: " + action_text(o, answer_[seat]) : text;
}

}  // namespace playmill
