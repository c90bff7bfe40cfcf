// Liar's dice with one die each: bids on both dice together rise until one is called a
// lie. Actions and payoffs as in OpenSpiel's liars_dice, so that its exact tools can
// judge a policy trained here.
#pragma once

#include "../core/game.hpp"

namespace playmill {

class LiarsDice {
 public:
  struct Options {
    int unused = 0;
  };

  static constexpr const char* kName = "liars_dice";
  static constexpr const char* kTitle = "Liar's dice";
  static constexpr int kFaces = 6;  // the highest is wild
  static constexpr int kBids = 2 * kFaces;
  static constexpr int kLiar = kBids;  // bid b < kLiar: at least b / 6 + 1 dice show b % 6 + 1
  static constexpr int kActions = kBids + 1;
  static constexpr const char* kRoles[] = {"bid"};
  static constexpr const char* kBots[] = {"random", "honest"};
  static constexpr const char* kStats[] = {"score", "turns"};
  static constexpr std::span<const Option<Options>> kOptions = {};

  static std::string check(const Options&) { return {}; }
  static int seats(const Options&) { return 2; }
  // Bids only rise and the seats alternate: who made which is the whole history.
  static Schema schema(const Options&) {
    return Schema()
        .category("seat", 1, 1, 2)
        .category("die", 1, 1, kFaces)
        .category("standing", 1, 1, kBids)  // the highest bid
        .bits("bids", 2, kBids);            // own, the other's
  }

  PM_FN void reset(const Options&, std::uint64_t seed) {
    *this = LiarsDice();
    Random random(seed, 0);
    for (auto& die : die_) die = static_cast<std::uint8_t>(random.below(kFaces));
  }

  PM_FN bool over() const { return over_; }
  PM_FN int seat() const { return turns_ & 1; }
  PM_FN int role() const { return 0; }
  PM_FN void legal(const Options&, BitSet<kActions>& out) const {
    out.add_range(standing_ + 1, kBids - 1 - standing_);
    if (standing_ >= 0) out.add(kLiar);
  }

  PM_FN void observe(const Options&, int seat, std::uint8_t* out) const {
    Writer write(out);
    write.u8(seat);
    write.u8(die_[seat]);
    write.u8(standing_ >= 0 ? standing_ : 255);
    write.bits(bids_[seat], 2);
    write.bits(bids_[1 - seat], 2);
  }

  PM_FN void apply(const Options&, int action, Report& report) {
    const int me = seat();
    ++turns_;
    if (action != kLiar) {
      standing_ = static_cast<std::int8_t>(action);
      bids_[me] = static_cast<std::uint16_t>(bids_[me] | (1u << action));
      return;
    }
    over_ = true;
    const int winner = true_bid(standing_) ? 1 - me : me;
    for (int s = 0; s < 2; ++s) {
      const float won = s == winner ? 1.0f : -1.0f;
      report.reward[s] += won;
      report.count(0, s, won);
      report.count(1, s, static_cast<float>(turns_));
    }
  }

  // "honest": bids what its own die proves, answers its own face with two of it, and calls
  // everything else a lie.
  PM_FN int bot(const Options&, int, Random&) const {
    const int face = die_[seat()];
    if (standing_ < face) return face;
    return standing_ == face ? kFaces + face : kLiar;
  }

  std::string action_text(const Options&, int action) const {
    if (action == kLiar) return "call liar";
    return std::to_string(action / kFaces + 1) + " x " + std::to_string(action % kFaces + 1);
  }

  std::string table_text(const Options& options, int seat) const {
    std::string text = "your die: [bold]" + std::to_string(die_[seat] + 1) + "[/]   bids:";
    for (int b = 0; b < kBids; ++b) {
      if (((bids_[0] | bids_[1]) >> b & 1) == 0) continue;
      text += (bids_[seat] >> b & 1) != 0 ? " you " : " other ";
      text += action_text(options, b) + ",";
    }
    if (text.back() == ',') text.pop_back();
    return standing_ < 0 ? text + " none" : text;
  }

 private:
  PM_FN bool true_bid(int bid) const {
    const int face = bid % kFaces;
    int matching = 0;
    for (auto die : die_) matching += die == face || die == kFaces - 1;
    return matching > bid / kFaces;
  }

  std::uint8_t die_[2] = {};    // face - 1
  std::uint16_t bids_[2] = {};  // made by each seat, a bit each
  std::int8_t standing_ = -1;   // the highest bid
  std::uint8_t turns_ = 0;
  bool over_ = false;
};

static_assert(Game<LiarsDice>);

}  // namespace playmill
