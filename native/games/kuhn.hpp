// Kuhn poker: three cards, one chip ante, one bet. Actions and payoffs as in OpenSpiel's
// kuhn_poker, so that its exact tools can judge a policy trained here.
#pragma once

#include "../core/game.hpp"

namespace playmill {

class Kuhn {
 public:
  struct Options {
    int unused = 0;
  };

  static constexpr const char* kName = "kuhn";
  static constexpr const char* kTitle = "Kuhn poker";
  static constexpr int kActions = 2;
  enum Action { kPass, kBet };
  static constexpr const char* kRoles[] = {"bet"};
  static constexpr const char* kBots[] = {"random"};
  static constexpr const char* kStats[] = {"score", "turns"};
  static constexpr std::span<const Option<Options>> kOptions = {};

  static std::string check(const Options&) { return {}; }
  static int seats(const Options&) { return 2; }
  static Schema schema(const Options&) { return Schema().category("card", 1, 1, 3).category("history", 1, 3, 2); }

  PM_FN void reset(const Options&, std::uint64_t seed) {
    Random random(seed, 0);
    const auto first = random.below(3);
    const auto second = random.below(2);
    card_[0] = static_cast<std::uint8_t>(first);
    card_[1] = static_cast<std::uint8_t>(second < first ? second : second + 1);
    length_ = 0;
    over_ = false;
  }

  PM_FN bool over() const { return over_; }
  PM_FN int seat() const { return length_ & 1; }
  PM_FN int role() const { return 0; }
  PM_FN void legal(const Options&, BitSet<kActions>& out) const { out.add_range(0, 2); }

  PM_FN void observe(const Options&, int seat, std::uint8_t* out) const {
    Writer write(out);
    write.u8(card_[seat]);
    for (int i = 0; i < 3; ++i) write.u8(i < length_ ? history_[i] : 255);
  }

  PM_FN void apply(const Options&, int action, Report& report) {
    history_[length_++] = static_cast<std::uint8_t>(action);
    // pp, pbp, pbb, bp, bb: the game ends when a pass or a call answers.
    const bool ended = (length_ == 2 && !(history_[0] == kPass && history_[1] == kBet)) || length_ == 3;
    if (!ended) return;
    over_ = true;
    float won = 1.0f;  // by seat 0
    const bool answered_bet = history_[length_ - 2] == kBet;
    if (answered_bet && action == kPass) {
      won = ((length_ - 1) & 1) == 0 ? -1.0f : 1.0f;  // the folder loses the ante
    } else {
      won = answered_bet ? 2.0f : 1.0f;
      if (card_[0] < card_[1]) won = -won;
    }
    report.reward[0] += won;
    report.reward[1] -= won;
    for (int s = 0; s < 2; ++s) {
      report.count(0, s, s == 0 ? won : -won);
      report.count(1, s, static_cast<float>(length_));
    }
  }

  PM_FN int bot(const Options&, int, Random& random) const { return static_cast<int>(random.below(2)); }

  std::string action_text(const Options&, int action) const { return action == kBet ? "bet" : "pass"; }
  std::string table_text(const Options&, int seat) const {
    std::string text = std::string("your card: [bold]") + "JQK"[card_[seat]] + "[/]   so far:";
    for (int i = 0; i < length_; ++i) text += history_[i] == kBet ? " bet" : " pass";
    return length_ == 0 ? text + " nothing" : text;
  }

 private:
  std::uint8_t card_[2] = {};
  std::uint8_t history_[3] = {};
  std::uint8_t length_ = 0;
  bool over_ = false;
};

static_assert(Game<Kuhn>);

}  // namespace playmill
