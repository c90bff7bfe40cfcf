// Advantages and returns along each seat's own sequence of turns (generalised advantage
// estimation). Turns of different seats interleave in a game; a seat's next value is that of
// its own next turn, and its reward is all that came to it in between.
#pragma once

#include <cstdint>
#include <vector>

#include "game.hpp"
#include "workers.hpp"

namespace playmill {

struct RolloutColumns {
  int steps = 0, games = 0, seats = 0;
  const float* reward = nullptr;       // [steps, games, seats], after the turn's action
  const std::uint8_t* over = nullptr;  // [steps, games], the game ended after the turn's action
  const std::uint8_t* seat = nullptr;  // [steps, games]
  const float* value = nullptr;        // [steps, games]
};

// Writes advantage[steps, games], and usable[steps, games] = 1 where it is one. The last turn of a
// seat whose game goes on has no successor yet: its value closes the turns before it and its own
// row is left out (usable 0).
inline void seat_returns(Workers& workers, const RolloutColumns& in, float gamma, float lambda, float* advantage,
                         std::uint8_t* usable) {
  const auto games = static_cast<std::size_t>(in.games);
  workers.run(games, [&](std::size_t begin, std::size_t end, int) {
    struct Next {
      float value, advantage, reward;
      bool known;
    };
    std::vector<Next> next(static_cast<std::size_t>(in.seats));
    for (std::size_t g = begin; g < end; ++g) {
      for (auto& n : next) n = {0, 0, 0, false};
      for (int t = in.steps - 1; t >= 0; --t) {
        const std::size_t at = static_cast<std::size_t>(t) * games + g;
        if (in.over[at])
          for (auto& n : next) n = {0, 0, 0, true};
        const float* reward = in.reward + at * static_cast<std::size_t>(in.seats);
        for (std::size_t s = 0; s < next.size(); ++s) next[s].reward += reward[s];
        Next& mine = next[in.seat[at]];
        float gained = 0;
        if (mine.known) {
          const float surprise = mine.reward + gamma * mine.value - in.value[at];
          gained = surprise + gamma * lambda * mine.advantage;
        }
        advantage[at] = gained;
        usable[at] = mine.known;
        mine = {in.value[at], gained, 0, true};
      }
    }
  });
}

}  // namespace playmill
