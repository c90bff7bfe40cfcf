// V-trace along each seat's own sequence of turns: what seat_returns() is for rows that an older
// policy played. Ratios of the probabilities then and now, cut off above, weigh each step.
#pragma once

#include <algorithm>
#include <cmath>

#include "returns.hpp"

namespace playmill {

struct VtraceSettings {
  float gamma = 1, lambda = 1;
  float rho = 1;       // the largest ratio by which a step counts
  float c = 1;         // the largest ratio that is handed on to the steps before
  bool others = true;  // what the other seats played until a seat's next turn is part of its ratio
};

// Besides the columns' value, which is the policy's own now: the logarithm of the probability of the
// actions taken, when they were played and now. Both [steps, games].
struct VtraceColumns {
  const float* played = nullptr;
  const float* now = nullptr;
};

// Writes advantage, target, weight (the ratio that the advantage holds) and usable, all [steps, games].
// A row that is not usable has advantage and weight 0 and its own value as target; see seat_returns().
// With all ratios 1 the advantage is that of seat_returns().
inline void seat_vtrace(Workers& workers, const RolloutColumns& in, const VtraceColumns& logs,
                        const VtraceSettings& settings, float* advantage, float* target, float* weight,
                        std::uint8_t* usable) {
  const auto games = static_cast<std::size_t>(in.games);
  workers.run(games, [&](std::size_t begin, std::size_t end, int) {
    struct Next {
      float value, target, reward;
      float others;  // logarithm of the ratio of all turns of other seats in between
      bool known;
    };
    std::vector<Next> next(static_cast<std::size_t>(in.seats));
    for (std::size_t g = begin; g < end; ++g) {
      for (auto& n : next) n = {0, 0, 0, 0, false};
      for (int t = in.steps - 1; t >= 0; --t) {
        const std::size_t at = static_cast<std::size_t>(t) * games + g;
        if (in.over[at])
          for (auto& n : next) n = {0, 0, 0, 0, true};
        const float* reward = in.reward + at * static_cast<std::size_t>(in.seats);
        for (std::size_t s = 0; s < next.size(); ++s) next[s].reward += reward[s];
        Next& mine = next[in.seat[at]];
        const float value = in.value[at];
        const float own = logs.now[at] - logs.played[at];
        float gained = 0, wanted = value, counts = 0;
        if (mine.known) {
          const float ratio = std::exp(own + mine.others), later = mine.target - mine.value;
          const float c = settings.lambda * std::min(settings.c, ratio);
          const float surprise = mine.reward + settings.gamma * mine.value - value;
          counts = std::min(settings.rho, ratio);
          wanted = value + counts * surprise + settings.gamma * c * later;
          gained = counts * (surprise + settings.gamma * settings.lambda * later);
        }
        if (settings.others)
          for (auto& n : next) n.others += own;
        advantage[at] = gained;
        target[at] = wanted;
        weight[at] = counts;
        usable[at] = mine.known;
        mine = {value, wanted, 0, 0, true};
      }
    }
  });
}

}  // namespace playmill
