// Scripted players for Skull King. They know what their seat knows and nothing else, and
// count in integers, so that host and device choose alike.
#pragma once

#include "skull_king.hpp"

namespace playmill {

struct SkullKingBots {
  using Game = SkullKing;
  using Cards = SkullKing::Cards;
  using Options = SkullKing::Options;
  enum Kind { kEasy = 1, kMedium, kHard, kGreedy };

  const SkullKing& game;
  const Options& options;
  Random& random;
  int seat;

  PM_FN SkullKingBots(const SkullKing& seen, const Options& with, Random& source)
      : game(seen), options(with), random(source), seat(seen.turn_) {}

  PM_FN int choose(int kind) const {
    switch (game.role_) {
      case Game::kBidding: return Game::kBid + bid(kind);
      case Game::kPlay: return kind == kGreedy ? greedy_play() : rule_play(kind);
      case Game::kChooseLeader: return Game::kLeads;
      case Game::kDiscard: return discard();
      case Game::kWagering: return Game::kWager + (on_track() ? 2 : 0);
      default: return adjust();
    }
  }

 private:
  // ---- What the seat knows ----

  PM_FN Cards held() const { return game.hand(seat); }
  PM_FN int need() const { return game.bid_[seat] - game.won_[seat]; }

  PM_FN static int count(Cards cards, int first, int n) {
    const Cards range = {((1ull << n) - 1) << first, 0};
    return (cards & range).count();
  }
  PM_FN static int pirates(Cards cards) { return count(cards, Game::kRosie, 5); }
  PM_FN static int mermaids(Cards cards) { return count(cards, Game::kMermaid, 2); }
  // Cards of a suit from a rank (1 to 14) upwards.
  PM_FN static Cards from_rank(int suit, int rank) {
    const int first = Game::kNumbers + 14 * suit + rank - 1;
    Cards cards = Game::suit_cards(suit);
    cards.lo &= first < 64 ? ~0ull << first : 0;
    cards.hi &= first < 64 ? ~0u : ~0u << (first - 64);
    return cards;
  }

  // Cards that may still be in other hands (or undealt).
  PM_FN Cards unseen() const {
    Cards rest = Game::deck(options) - held();
    for (int p = 0; p < Game::places(options); ++p) rest = rest - game.played(p);
    if (game.bendt_ == seat)
      for (int c : game.discarded_)
        if (c != Game::kNoCard) rest.remove(c);
    return rest;
  }

  PM_FN bool on_track() const {
    const int needed = need();
    if (needed < 0 || needed > game.tricks_left_) return false;
    const int expected = greedy_tricks(held());
    return expected > 100 * needed - 60 && expected < 100 * needed + 60;
  }

  // ---- Bids ----

  PM_FN int bid(int kind) const {
    const Cards cards = held();
    int percent = 0;
    if (kind == kGreedy) {
      percent = greedy_tricks(cards);
    } else {
      const int blur = kind == kEasy ? 100 : kind == kMedium ? 50 : 20;
      percent = rule_tricks(cards) + static_cast<int>(random.below(static_cast<std::uint32_t>(2 * blur + 1))) - blur;
    }
    const int bid = percent < 0 ? 0 : (percent + 50) / 100;
    return bid < game.cards_ ? bid : game.cards_;
  }

  // The original's guess at the tricks in a hand, in hundredths.
  PM_FN static int rule_tricks(Cards cards) {
    int sum = 90 * cards.has(Game::kSkullKing) + 60 * pirates(cards) + 40 * mermaids(cards);
    sum += 35 * cards.has(Game::kTigress) + 20 * cards.has(Game::kWhale) + 15 * cards.has(Game::kKraken);
    sum += 5 * (cards.has(Game::kLoot) + cards.has(Game::kLoot + 1));
    sum += 20 * (cards & from_rank(0, 1)).count() + 20 * (cards & from_rank(0, 6)).count() +
           30 * (cards & from_rank(0, 10)).count();
    for (int suit = 1; suit < 4; ++suit)
      sum += 15 * (cards & from_rank(suit, 8)).count() + 15 * (cards & from_rank(suit, 12)).count();
    return sum;
  }

  // Tricks in a hand, in hundredths. Found by hill climbing on games against hard; they count more
  // than the card's own trick because a strong hand also wins with what is left.
  static constexpr int kBidKing = 112;
  static constexpr int kBidPirate = 112;
  static constexpr int kBidTigress = 105;
  static constexpr int kBidMermaid = 75;
  static constexpr int kBidBlack = 44;  // the 7, and for each rank above or below it:
  static constexpr int kBidBlackRank = 8;
  static constexpr int kBidColour12 = 13;  // from the 12 upwards, and so on
  static constexpr int kBidColour13 = 12;
  static constexpr int kBidColour14 = 5;
  static constexpr int kBidEscape = -6;
  static constexpr int kBidCrowd = 11;  // percent less for each player beyond four
  static constexpr int kBidFew = 32;    // percent more with three places

  PM_FN int greedy_tricks(Cards cards) const {
    int sum = kBidKing * cards.has(Game::kSkullKing) + kBidPirate * pirates(cards) + kBidMermaid * mermaids(cards) +
              kBidTigress * cards.has(Game::kTigress);
    Cards black = cards & Game::suit_cards(0);
    while (!black.empty()) sum += kBidBlack + kBidBlackRank * (Game::rank_of(black.pop()) - 7);
    for (int suit = 1; suit < 4; ++suit)
      sum += kBidColour12 * (cards & from_rank(suit, 12)).count() +
             kBidColour13 * (cards & from_rank(suit, 13)).count() +
             kBidColour14 * (cards & from_rank(suit, 14)).count();
    const Cards escapes = {1ull << Game::kKraken, 0x37Cu};  // and loot: what never wins
    sum += kBidEscape * (cards & escapes).count();
    const int beyond = Game::places(options) - 4;
    return sum * (100 - (beyond < 0 ? kBidFew : kBidCrowd) * beyond) / 100;
  }

  // ---- Easy, medium, hard: one ranking of cards, played from the bottom, the middle or the top ----

  PM_FN static int rule_strength(int c, bool strong_whale) {
    if (Game::is_number(c)) return Game::suit_of(c) == 0 ? 560 + 40 * Game::rank_of(c) : 140 + 30 * Game::rank_of(c);
    if (c == Game::kSkullKing) return 1400;
    if (c == Game::kWhale) return strong_whale ? 840 : 490;
    if (c == Game::kKraken) return 350;
    if (c < Game::kRosie) return 1050;
    if (c < Game::kNumbers) return 1190;
    if (c < Game::kTigress) return 0;
    return c == Game::kTigress ? 770 : 70;
  }

  PM_FN int rule_play(int kind) const {
    Cards cards = game.playable(held());
    const int n = cards.count();
    if (kind == kEasy && random.below(10) < 3) {
      const int c = cards.nth(static_cast<int>(random.below(static_cast<std::uint32_t>(n))));
      return c == Game::kTigress && need() > 0 ? Game::kTigressPirate : c;
    }
    int high = 0;
    for (int suit = 0; suit < 4; ++suit) high += (held() & from_rank(suit, 12)).count();
    int order[12];  // strength << 8 | card, weakest first
    for (int i = 0; i < n; ++i) {
      const int c = cards.pop();
      const int key = rule_strength(c, high >= 2) << 8 | c;
      int at = i;
      for (; at > 0 && order[at - 1] > key; --at) order[at] = order[at - 1];
      order[at] = key;
    }
    const int left = game.tricks_left_;
    const int needed = need();
    const bool weak = needed <= 0 || needed > left;
    const int c = order[weak ? 0 : 2 * needed > left ? n - 1 : n / 2] & 0xFF;
    return c == Game::kTigress && !weak ? Game::kTigressPirate : c;
  }

  // ---- Greedy: tests every card on the trick as it lies ----

  // What a card is worth for tricks to come, in hundredths.
  PM_FN static int worth(int c) {
    if (Game::is_number(c)) {
      const int rank = Game::rank_of(c);
      return Game::suit_of(c) == 0 ? 22 + 4 * rank : 2 * rank + (rank > 10 ? 5 * (rank - 10) : 0);
    }
    if (c == Game::kSkullKing) return 98;
    if (c == Game::kWhale) return 12;
    if (c == Game::kKraken) return 6;
    if (c < Game::kRosie) return 70;
    if (c < Game::kNumbers) return 88;
    if (c == Game::kTigressPirate) return 60;
    return c == Game::kTigress ? 50 : 0;
  }

  static constexpr int kOffSuit = 30;    // weight of a trump that only a void seat may play on a colour
  static constexpr int kCharacter = 83;  // of a pirate or mermaid still out, a card to be kept by some
  static constexpr int kHigher = 110;
  static constexpr int kRisk = 84;    // danger from which a trick is not fought for
  static constexpr int kThrift = 60;  // worth against danger, in hundredths

  // Weighted number of cards that would beat this one and that those yet to play may hold, in hundredths.
  PM_FN int danger(int c, Cards out, int out_count, int to_play) const {
    const int tigress = out.has(Game::kTigress);
    int beaters = 0;
    if (c == Game::kSkullKing) {
      beaters = kCharacter * mermaids(out);
    } else if (Game::is_number(c)) {
      const int suit = Game::suit_of(c);
      beaters = kHigher * (out & from_rank(suit, Game::rank_of(c) + 1)).count();
      if (suit != 0) beaters += kOffSuit * (out & Game::suit_cards(0)).count();
      beaters += kCharacter * (mermaids(out) + pirates(out) + tigress + out.has(Game::kSkullKing));
    } else if (c < Game::kRosie) {
      beaters = kCharacter * (pirates(out) + tigress);
    } else if (c < Game::kNumbers || c == Game::kTigressPirate) {
      beaters = 100 * out.has(Game::kSkullKing);
    } else {
      beaters = 60 * (out_count - 5);  // an escape holds only against escapes
    }
    return beaters * to_play * game.tricks_left_ / (out_count > 0 ? out_count : 1);
  }

  PM_FN int greedy_play() const {
    const int places = Game::places(options);
    const int position = game.position_;
    const int to_play = places - position - 1;
    std::uint8_t laid[kMaxSeats];
    for (int i = 0; i < position; ++i) laid[i] = game.trick_[game.place_at(options, i)];

    const Cards out = unseen();
    const int out_count = out.count();
    const int needed = need();
    const bool wanted = needed > 0;
    const bool must = needed >= game.tricks_left_;

    Cards cards = game.playable(held());
    const bool tigress = cards.has(Game::kTigress);
    int best = -1, best_value = 0;
    bool extra = tigress;
    while (extra || !cards.empty()) {
      int c = Game::kTigressPirate;
      if (extra)
        extra = false;
      else
        c = cards.pop();
      laid[position] = static_cast<std::uint8_t>(c);
      const bool wins = Game::resolve(options, laid, position + 1).winner == position;
      const int risk = wins && to_play > 0 ? danger(c, out, out_count, to_play) : 0;
      // Takers first, the safe and cheap ones before the others; else lose what helps least,
      // or, when no trick is wanted, what would harm most.
      int value = 0;
      if (wanted) {
        const bool fights = wins && (must || risk < kRisk);
        value = fights ? 100000 - 100 * risk - (must ? 0 : kThrift * worth(c)) : -100 * worth(c) - (wins ? risk : 0);
      } else {
        value = wins ? (to_play > 0 ? 100 * risk + worth(c) - 200000 : worth(c) - 200000) : worth(c);
      }
      if (best < 0 || value > best_value) best = c, best_value = value;
    }
    return best;
  }

  // ---- Powers ----

  // With tricks to take, the weakest card goes; with none, the strongest.
  PM_FN int discard() const {
    Cards cards = held();
    const bool wanted = need() > 0;
    int best = -1, best_worth = 0;
    while (!cards.empty()) {
      const int c = cards.pop();
      const int value = wanted ? -worth(c) : worth(c);
      if (best < 0 || value > best_worth) best = c, best_worth = value;
    }
    return best;
  }

  PM_FN int adjust() const {
    int change = -need();
    if (game.tricks_left_ > 0) {
      const int expected = greedy_tricks(held()) - 100 * need();
      change = expected > 60 ? 1 : expected < -60 ? -1 : 0;
    }
    const int to = game.bid_[seat] + (change > 0 ? 1 : change < 0 ? -1 : 0);
    return Game::kAdjust + 1 + (to < 0 || to > game.cards_ ? 0 : to - game.bid_[seat]);
  }
};

PM_FN int SkullKing::bot(const Options& options, int kind, Random& random) const {
  if (kind == 0) {
    BitSet<kActions> actions;
    legal(options, actions);
    return random_action(actions, random);
  }
  return SkullKingBots(*this, options, random).choose(kind);
}

}  // namespace playmill
