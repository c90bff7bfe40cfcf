// Leduc hold'em: six cards in three ranks, two rounds of limit betting with a public card
// between them. Actions, deals and payoffs as in OpenSpiel's leduc_poker, so that its
// exact tools can judge a policy trained here.
#pragma once

#include "../core/game.hpp"

namespace playmill {

class Leduc {
 public:
  struct Options {
    int unused = 0;
  };

  static constexpr const char* kName = "leduc";
  static constexpr const char* kTitle = "Leduc hold'em";
  static constexpr int kActions = 3;
  enum Action { kFold, kCall, kRaise };
  static constexpr const char* kRoles[] = {"bet"};
  static constexpr const char* kBots[] = {"random", "tight"};
  static constexpr const char* kStats[] = {"score", "turns"};
  static constexpr std::span<const Option<Options>> kOptions = {};

  static constexpr int kCards = 6;      // card = 2 * rank + suit
  static constexpr int kMaxRaises = 2;  // in a round
  static constexpr int kSlots = 4;      // the longest round: call raise raise call

  static std::string check(const Options&) { return {}; }
  static int seats(const Options&) { return 2; }
  // Suits decide nothing, but OpenSpiel's information states tell them apart. They stand
  // in a field of their own, so that what is learnt about a rank holds for both.
  static Schema schema(const Options&) {
    return Schema()
        .category("seat", 1, 1, 2)
        .category("rank", 1, 2, 3)  // own card, public card
        .category("suit", 1, 2, 2)
        .category("round", 1, 1, 2)
        .category("betting", 2, kSlots, 3)     // one row a round, in the order of play
        .u8("paid", 1, 2, 1.0f / kMostChips);  // into the pot: own, the other's
  }

  PM_FN void reset(const Options&, std::uint64_t seed) {
    *this = Leduc();
    Random random(seed, 0);
    std::uint64_t deck = (1u << kCards) - 1;
    for (int i = 0; i < 3; ++i) {
      const int card = nth_bit(deck, static_cast<int>(random.below(static_cast<std::uint32_t>(kCards - i))));
      deck &= ~(1ull << card);
      card_[i] = static_cast<std::uint8_t>(card);
    }
  }

  PM_FN bool over() const { return over_; }
  PM_FN int seat() const { return length_[round_] & 1; }  // seat 0 opens both rounds
  PM_FN int role() const { return 0; }
  PM_FN void legal(const Options&, BitSet<kActions>& out) const {
    if (faces_bet()) out.add(kFold);
    out.add(kCall);
    if (raises_ < kMaxRaises) out.add(kRaise);
  }

  PM_FN void observe(const Options&, int seat, std::uint8_t* out) const {
    const int own = card_[seat];
    const int open = card_[kPublic];
    Writer write(out);
    write.u8(seat);
    write.u8(own / 2);
    write.u8(round_ == 1 ? open / 2 : 255);
    write.u8(own % 2);
    write.u8(round_ == 1 ? open % 2 : 255);
    write.u8(round_);
    for (int r = 0; r < 2; ++r)
      for (int i = 0; i < kSlots; ++i) write.u8(i < length_[r] ? betting_[r][i] : 255);
    write.u8(paid_[seat]);
    write.u8(paid_[1 - seat]);
  }

  PM_FN void apply(const Options&, int action, Report& report) {
    const int me = seat();
    const int other = 1 - me;
    betting_[round_][length_[round_]++] = static_cast<std::uint8_t>(action);
    if (action == kFold) {
      finish(other, report);
      return;
    }
    paid_[me] = paid_[other];
    if (action == kRaise) {
      paid_[me] = static_cast<std::uint8_t>(paid_[me] + (round_ == 0 ? 2 : 4));
      ++raises_;
    } else if (length_[round_] > 1) {  // a call closes the round, unless it opens it
      if (round_ == 1) {
        finish(showdown(), report);
      } else {
        round_ = 1;
        raises_ = 0;
      }
    }
  }

  // "tight": raises a king or a pair, calls a queen before the public card and a king
  // after it, and gives up the rest.
  PM_FN int bot(const Options&, int, Random&) const {
    const int rank = card_[seat()] / 2;
    const bool pair = round_ == 1 && rank == card_[kPublic] / 2;
    if ((pair || (round_ == 0 && rank == 2)) && raises_ < kMaxRaises) return kRaise;
    const bool stays = pair || rank == 2 || (round_ == 0 && rank == 1);
    return stays || !faces_bet() ? kCall : kFold;
  }

  std::string action_text(const Options&, int action) const {
    if (action == kFold) return "fold";
    if (action == kRaise) return round_ == 0 ? "raise 2" : "raise 4";
    return faces_bet() ? "call" : "check";
  }

  std::string table_text(const Options&, int seat) const {
    std::string text = "your card: " + card_text(card_[seat]);
    text += "   public card: " + (round_ == 1 ? card_text(card_[kPublic]) : std::string("none yet"));
    text += "   in the pot: you " + std::to_string(paid_[seat]) + ", the other " + std::to_string(paid_[1 - seat]);
    constexpr const char* kWords[] = {" fold", " check", " raise", " call"};
    for (int r = 0; r <= round_; ++r) {
      text += r == 0 ? "\nround 1:" : "\nround 2:";
      bool raised = false;
      for (int i = 0; i < length_[r]; ++i) {
        const int action = betting_[r][i];
        text += kWords[action == kCall && raised ? 3 : action];
        raised |= action == kRaise;
      }
      if (length_[r] == 0) text += " nothing";
    }
    return text;
  }

 private:
  static constexpr int kPublic = 2;      // index in card_
  static constexpr int kMostChips = 13;  // ante 1, two raises of 2, two of 4

  static std::string card_text(int card) {
    return std::string("[bold]") + "JQK"[card / 2] + (card % 2 == 0 ? "♠" : "♥") + "[/]";
  }

  PM_FN bool faces_bet() const { return paid_[0] != paid_[1]; }

  // The winning seat, or -1 for a split pot: a pair beats all, else the higher rank.
  PM_FN int showdown() const {
    const int first = card_[0] / 2;
    const int second = card_[1] / 2;
    const int open = card_[kPublic] / 2;
    if (first == second) return -1;
    if (first == open) return 0;
    if (second == open) return 1;
    return first > second ? 0 : 1;
  }

  PM_FN void finish(int winner, Report& report) {
    over_ = true;
    for (int s = 0; s < 2; ++s) {
      float won = 0.0f;
      if (winner >= 0) won = s == winner ? paid_[1 - s] : -static_cast<float>(paid_[s]);
      report.reward[s] += won;
      report.count(0, s, won);
      report.count(1, s, static_cast<float>(length_[0] + length_[1]));
    }
  }

  std::uint8_t card_[3] = {};  // of seat 0, of seat 1, public
  std::uint8_t betting_[2][kSlots] = {};
  std::uint8_t length_[2] = {};
  std::uint8_t paid_[2] = {1, 1};
  std::uint8_t raises_ = 0;  // in this round
  std::uint8_t round_ = 0;
  bool over_ = false;
};

static_assert(Game<Leduc>);

}  // namespace playmill
