// V-trace along each seat's own sequence of turns: what seat_returns() is for rows that an older
// policy played. Ratios of the probabilities then and now, cut off above, weigh each step.
#pragma once

#include <algorithm>
#include <cmath>

#include "returns.hpp"

namespace playmill {

struct VtraceSettings {
  float gamma = 1, lambda = 1;
  float rho = 1;  // the largest ratio by which a step counts
  float c = 1;    // the largest ratio that is handed on to the steps before
};

// Besides the columns' value, which is the policy's own now: the logarithm of the probability of the
// actions taken, when they were played and now. Both [steps, games].
struct VtraceColumns {
  const float* played = nullptr;
  const float* now = nullptr;
};

// Writes advantage, target and usable, all [steps, games]. A row that is not usable has advantage 0
// and its own value as target; see seat_returns().
inline void seat_vtrace(Workers& workers, const RolloutColumns& in, const VtraceColumns& logs,
                        const VtraceSettings& settings, float* advantage, float* target, std::uint8_t* usable) {
  const auto games = static_cast<std::size_t>(in.games);
  workers.run(games, [&](std::size_t begin, std::size_t end, int) {
    struct Next {
      float value, target, reward;
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
        const float value = in.value[at];
        float gained = 0, wanted = value;
        if (mine.known) {
          const float ratio = std::exp(logs.now[at] - logs.played[at]);
          const float rho = std::min(settings.rho, ratio), c = settings.lambda * std::min(settings.c, ratio);
          const float surprise = rho * (mine.reward + settings.gamma * mine.value - value);
          wanted = value + surprise + settings.gamma * c * (mine.target - mine.value);
          gained = rho * (mine.reward + settings.gamma * mine.target - value);
        }
        advantage[at] = gained;
        target[at] = wanted;
        usable[at] = mine.known;
        mine = {value, wanted, 0, true};
      }
    }
  });
}

}  // namespace playmill
