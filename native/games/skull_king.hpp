// Skull King: bid how many tricks you will take, then take exactly that many. Two to eight
// players, the 70 or 74 card deck, pirate powers, three ways of scoring; with two players
// Graybeard's ghost plays a third hand.
#pragma once

#include "../core/game.hpp"

namespace playmill {

class SkullKing {
 public:
  struct Options {
    int players = 4;
    int deck = 1;
    int powers = 1;
    int schedule = 0;
    int first_round = 1;
    int scoring = 0;
    int kraken_lead = 0;
    int capture_bonus = 0;
    int skull_king_capture = 0;
    int harry = 0;
    int win_bonus = 0;
  };
  enum Schedule { kStandard, kEvenKeeled, kBrawl, kSwift, kBroadside, kWhirlpool, kBedtime };
  enum Scoring { kClassic, kRascal, kCannonball };

  static constexpr const char* kName = "skull_king";
  static constexpr const char* kTitle = "Skull King";

  // Cards, which are also the actions that play or discard them.
  enum Card {
    kSkullKing = 0,
    kWhale = 1,
    kKraken = 2,
    kMermaid = 3,  // two
    kRosie = 5,    // the five pirates
    kBendt = 6,
    kRoatan = 7,
    kJade = 8,
    kHarry = 9,
    kNumbers = 10,  // black, green, purple, yellow: 1 to 14 each
    kEscape = 66,   // five
    kTigress = 71,  // played under this number she is an escape
    kLoot = 72,     // two
    kCards = 74,
    kTigressPirate = 74,
    kNoCard = 255,
  };
  enum Action { kBid = 75, kLeads = 86, kWager = 94, kAdjust = 97, kCannonballBid = 100 };
  static constexpr int kActions = 111;

  enum Role { kBidding, kPlay, kChooseLeader, kDiscard, kWagering, kAdjusting, kOver };
  static constexpr const char* kRoles[] = {"bid", "play", "rosie", "discard", "wager", "harry"};
  static constexpr const char* kBots[] = {"random", "easy", "medium", "hard", "greedy"};
  enum Stat { kScore, kWin, kBidMade };  // then one for each number of cards
  static constexpr const char* kStats[] = {"score",       "win",         "bid_made",    "bid_made_r1", "bid_made_r2",
                                           "bid_made_r3", "bid_made_r4", "bid_made_r5", "bid_made_r6", "bid_made_r7",
                                           "bid_made_r8", "bid_made_r9", "bid_made_r10"};

  static constexpr Option<Options> kOptions[] = {
      {"players", &Options::players, 2, 8, "", "players at the table; with 2, Graybeard plays a third hand"},
      {"deck", &Options::deck, 0, 1, "70,74", "74 adds the kraken, the white whale and two loot cards"},
      {"powers", &Options::powers, 0, 1, "off,on", "what winning a trick with a named pirate brings"},
      {"schedule", &Options::schedule, 0, 6,
       "standard,even_keeled,skip_to_the_brawl,swift_and_salty,broadside,whirlpool,past_your_bedtime",
       "cards a round: 1 to 10; 2 4 6 8 10; 6 to 10; five times 5; ten times 10; 9 9 7 7 5 5 3 3 1 1; a single 1"},
      {"first_round", &Options::first_round, 1, 10, "",
       "where in the schedule the game starts, 1 being its first round"},
      {"scoring", &Options::scoring, 0, 2, "skull_king,rascal,cannonball",
       "skull_king: by the bid; rascal: by the cards dealt, half if off by one; cannonball: rascal, where a bid may "
       "also be all or nothing"},
      {"kraken_lead", &Options::kraken_lead, 0, 1, "would_win,left_of_kraken",
       "who leads after a kraken: who would have won had no beast been played, or the next in turn after its player"},
      {"capture_bonus", &Options::capture_bonus, 0, 1, "per_card,per_trick",
       "whether a captured second pirate or mermaid in one trick pays again"},
      {"skull_king_capture", &Options::skull_king_capture, 0, 1, "40,50",
       "bonus for taking the Skull King with a mermaid"},
      {"harry", &Options::harry, 0, 1, "round_end,at_once", "when Harry's winner may change the bid by one"},
      {"win_bonus", &Options::win_bonus, 0, 1000, "",
       "points of extra reward for winning the game, paid by all and shared on ties; scores do not show it"},
  };

  static std::string check(const Options& options) {
    if (options.first_round <= rounds(options)) return {};
    return "first_round " + std::to_string(options.first_round) + " is beyond the schedule's " +
           std::to_string(rounds(options)) + " round(s)";
  }
  static int seats(const Options& options) { return options.players; }
  static Schema schema(const Options& options) {
    const int n = options.players;
    const int p = places(options);
    Schema schema;
    schema.bits("hand", 1, kCards).bits("played", p, kCards);
    schema.bits("undealt", 1, kCards).bits("discarded", 1, kCards);
    schema.category("trick", p, 1, kCards + 1).category("lead", 1, 1, 6).bits("void", p, 4);
    schema.category("bid", n, 1, 11).category("won", n, 1, 11);
    schema.u8("need", n, 1, 0.1f).u8("over", n, 1, 0.1f).u8("bonus", n, 1, 0.1f).i16("score", n, 1, 0.01f);
    schema.category("round", 1, 1, 10).category("cards", 1, 1, 11).u8("tricks_left", 1, 1, 0.1f);
    schema.category("leader", 1, 1, p).category("position", 1, 1, p).bits("called", 1, n).category("role", 1, 1, 6);
    schema.bits("allied", 1, n).category("wager", n, 1, 3).bits("cannonball", 1, n).bits("harry", 1, n);
    return schema;
  }

  // A set of cards. Black, green and purple lie in `lo`; yellow 13 and 14 are bits 0 and 1 of `hi`.
  struct Cards {
    std::uint64_t lo = 0;
    std::uint32_t hi = 0;

    PM_FN bool has(int c) const { return ((c < 64 ? lo >> c : hi >> (c - 64)) & 1u) != 0; }
    PM_FN void add(int c) {
      if (c < 64)
        lo |= 1ull << c;
      else
        hi |= 1u << (c - 64);
    }
    PM_FN void remove(int c) {
      if (c < 64)
        lo &= ~(1ull << c);
      else
        hi &= ~(1u << (c - 64));
    }
    PM_FN bool empty() const { return (lo | hi) == 0; }
    PM_FN int count() const { return popcount64(lo) + popcount64(hi); }
    PM_FN int nth(int n) const {
      const int low = popcount64(lo);
      return n < low ? nth_bit(lo, n) : 64 + nth_bit(hi, n - low);
    }
    // Takes the lowest card out; there must be one.
    PM_FN int pop() {
      if (lo != 0) {
        const int c = lowest_bit(lo);
        lo &= lo - 1;
        return c;
      }
      const int c = lowest_bit(hi);
      hi &= hi - 1;
      return 64 + c;
    }
    PM_FN friend Cards operator&(Cards a, Cards b) { return {a.lo & b.lo, a.hi & b.hi}; }
    PM_FN friend Cards operator|(Cards a, Cards b) { return {a.lo | b.lo, a.hi | b.hi}; }
    PM_FN friend Cards operator-(Cards a, Cards b) { return {a.lo & ~b.lo, a.hi & ~b.hi}; }
  };

  PM_FN static constexpr bool is_number(int c) { return static_cast<unsigned>(c - kNumbers) < 56u; }
  PM_FN static constexpr int suit_of(int c) { return (c - kNumbers) / 14; }
  PM_FN static constexpr int rank_of(int c) { return (c - kNumbers) % 14 + 1; }
  PM_FN static constexpr Cards suit_cards(int suit) {
    return {0x3FFFull << (kNumbers + 14 * suit), suit == 3 ? 3u : 0u};
  }
  PM_FN static constexpr Cards specials() { return {0x3FFull, 0x3FCu}; }

  // Places at the table: the players, and with two of them Graybeard's as number 2.
  PM_FN static int places(const Options& options) { return options.players == 2 ? 3 : options.players; }
  PM_FN static int rounds(const Options& options) {
    switch (options.schedule) {
      case kEvenKeeled:
      case kBrawl:
      case kSwift: return 5;
      case kBedtime: return 1;
      default: return 10;
    }
  }
  PM_FN static int cards_in(const Options& options, int round) {
    int cards = round + 1;
    switch (options.schedule) {
      case kEvenKeeled: cards = 2 * round + 2; break;
      case kBrawl: cards = round + 6; break;
      case kSwift: cards = 5; break;
      case kBroadside: cards = 10; break;
      case kWhirlpool: cards = 9 - round / 2 * 2; break;
      case kBedtime: cards = 1; break;
      default: break;
    }
    const int most = deck_size(options) / places(options);
    return cards < most ? cards : most;
  }

  // ---- A trick, as a pure function of the cards in the order they were played ----

  struct Trick {
    int winner;  // index into the cards; -1 when nobody takes the trick
    int leader;  // index of who leads next
    int bonus;   // in tens of points, for the winner
    bool whale;  // the whale decided: loot is void
  };

  PM_FN static Trick resolve(const Options& options, const std::uint8_t* card, int n) {
    int beast = -1, king = -1, pirate = -1, mermaid = -1, escape = -1;
    int pirates = 0, mermaids = 0, fourteens = 0;
    int lead = -1, best = -1, best_key = -1;  // among the numbers, trump first, then the suit led
    int highest = -1, highest_rank = 0;       // among the numbers, whatever their suit
    for (int i = 0; i < n; ++i) {
      const int c = card[i];
      if (is_number(c)) {
        const int suit = suit_of(c);
        const int rank = rank_of(c);
        if (lead < 0) lead = suit;
        const int key = rank + (suit == 0 ? 32 : suit == lead ? 16 : 0);
        if (key > best_key) best_key = key, best = i;
        if (rank > highest_rank) highest_rank = rank, highest = i;
        if (rank == 14) fourteens += suit == 0 ? 2 : 1;
      } else if (c == kSkullKing) {
        king = i;
      } else if (c < kMermaid) {
        beast = i;  // of two, the later acts
      } else if (c < kRosie) {
        if (mermaids++ == 0) mermaid = i;
      } else if (c < kNumbers || c == kTigressPirate) {
        if (pirates++ == 0) pirate = i;
      } else if (escape < 0) {
        escape = i;
      }
    }

    const bool beast_is_whale = beast >= 0 && card[beast] == kWhale;
    if (beast_is_whale) {
      if (highest < 0) return {-1, beast, 0, true};
      return {highest, highest, fourteens, true};
    }
    int winner = escape;
    int bonus = fourteens;
    if (king >= 0 && mermaid >= 0) {
      winner = mermaid;
      bonus += options.skull_king_capture == 0 ? 4 : 5;
    } else if (king >= 0) {
      winner = king;
      bonus += 3 * (options.capture_bonus == 0 ? pirates : pirates > 0);
    } else if (pirate >= 0) {
      winner = pirate;
      bonus += 2 * (options.capture_bonus == 0 ? mermaids : mermaids > 0);
    } else if (mermaid >= 0) {
      winner = mermaid;
    } else if (best >= 0) {
      winner = best;
    }
    if (beast < 0) return {winner, winner, bonus, false};
    if (options.kraken_lead == 0) return {-1, winner < 0 ? beast : winner, 0, false};
    return {-1, beast + 1 < n ? beast + 1 : 0, 0, false};
  }

  // Points for a bid, without loot and wager. `bonus` is in tens.
  PM_FN static int bid_points(const Options& options, int bid, int won, int cards, int bonus, bool cannonball) {
    const int off = bid < won ? won - bid : bid - won;
    if (options.scoring == kClassic) {
      if (off == 0) return (bid == 0 ? 10 * cards : 20 * bid) + 10 * bonus;
      return bid == 0 ? -10 * cards : -10 * off;
    }
    if (off == 0) return (cannonball ? 15 : 10) * cards + 10 * bonus;
    return off == 1 && !cannonball ? 5 * cards + 5 * bonus : 0;
  }

  // ---- Rules ----

  PM_FN void reset(const Options& options, std::uint64_t seed) {
    seed_ = seed;
    for (int p = 0; p < kMaxSeats; ++p) {
      score_[p] = 0;
      trick_[p] = kNoCard;
    }
    dealer_ = static_cast<std::uint8_t>(Random(seed, kDealerStream).below(static_cast<std::uint32_t>(options.players)));
    round_ = static_cast<std::uint8_t>(options.first_round - 1);
    deal(options);
  }

  PM_FN bool over() const { return role_ == kOver; }
  PM_FN int seat() const { return turn_; }
  PM_FN int role() const { return role_; }

  PM_FN void legal(const Options& options, BitSet<kActions>& out) const {
    const Cards held = hand(turn_);
    switch (role_) {
      case kBidding: {
        const std::uint64_t bids = (2ull << cards_) - 1;
        out.word[1] |= bids << (kBid - 64);
        if (options.scoring == kCannonball) out.word[1] |= bids << (kCannonballBid - 64);
        break;
      }
      case kPlay: {
        const Cards cards = playable(held);
        out.word[0] |= cards.lo;
        out.word[1] |= cards.hi | (cards.hi & 1u << (kTigress - 64)) << (kTigressPirate - kTigress);
        break;
      }
      case kChooseLeader: out.word[1] |= ((1ull << options.players) - 1) << (kLeads - 64); break;
      case kDiscard:
        out.word[0] |= held.lo;
        out.word[1] |= held.hi;
        break;
      case kWagering: out.word[1] |= 7ull << (kWager - 64); break;
      default: {
        const std::uint64_t down = bid_[turn_] > 0 ? 1 : 0;
        const std::uint64_t up = bid_[turn_] < cards_ ? 4 : 0;
        out.word[1] |= (down | 2 | up) << (kAdjust - 64);
      }
    }
  }

  PM_FN void apply(const Options& options, int action, Report& report) {
    const int seat = turn_;
    switch (role_) {
      case kBidding: {
        const bool cannonball = action >= kCannonballBid;
        bid_[seat] = static_cast<std::uint8_t>(action - (cannonball ? kCannonballBid : kBid));
        if (cannonball) cannonball_ = static_cast<std::uint8_t>(cannonball_ | 1u << seat);
        const int next = seat + 1 == options.players ? 0 : seat + 1;
        if (next != leader_) {
          turn_ = static_cast<std::uint8_t>(next);
          return;
        }
        break;
      }
      case kPlay: lay(seat, action); break;
      case kChooseLeader: {
        const int chosen = seat + action - kLeads;
        lead_with(options, chosen < options.players ? chosen : chosen - options.players);
        break;
      }
      case kDiscard:
        remove_from_hand(seat, action);
        discarded_[discarded_[0] != kNoCard] = static_cast<std::uint8_t>(action);
        if (hand(seat).count() > tricks_left_) return;
        break;
      case kWagering: wager_ = static_cast<std::uint8_t>(action - kWager); break;
      default: bid_[seat] = static_cast<std::uint8_t>(bid_[seat] + action - kAdjust - 1); harry_ = kNobody;
    }
    proceed(options, report);
  }

  // What a seat may know, every place counted from it.
  PM_FN void observe(const Options& options, int seat, std::uint8_t* out) const {
    const int n = options.players;
    const int p = places(options);
    out = put(out, hand(seat));
    int at = seat;
    for (int k = 0; k < n; ++k) {
      out = put(out, played(at));
      at = at + 1 == n ? 0 : at + 1;
    }
    if (p > n) out = put(out, played(n));
    out = put(out, jade_ == seat ? Cards{sight_lo_, sight_hi_} : Cards{});
    Cards discarded;
    if (bendt_ == seat) {
      if (discarded_[0] != kNoCard) discarded.add(discarded_[0]);
      if (discarded_[1] != kNoCard) discarded.add(discarded_[1]);
    }
    out = put(out, discarded);

    // The byte tables are turned as one word each; what a short row spills over, the next write covers.
    constexpr std::uint64_t kTops = 0x8080808080808080ull;
    const bool bidding = role_ == kBidding;
    out = put(out, position_ == 0 ? ~0ull : turned(trick_, n, seat), p);
    *out++ = lead_;
    out = put(out, turned(void_, n, seat), p);
    const std::uint64_t bids = turned(bid_, n, seat);
    const std::uint64_t bid = bids | (bidding ? ~0xFFull : 0);
    const std::uint64_t won = turned(won_, n, seat);
    const std::uint64_t hidden = ((bid & kTops) >> 7) * 0xFF;
    out = put(out, bid, n);
    out = put(out, won, n);
    out = put(out, above(bid & ~hidden, won) & ~hidden, n);
    out = put(out, above(won, bid & ~hidden) & ~hidden, n);
    out = put(out, turned(bonus_, n, seat), n);
    at = seat;
    for (int k = 0; k < n; ++k) {
      *out++ = static_cast<std::uint8_t>(score_[at]);
      *out++ = static_cast<std::uint8_t>(score_[at] >> 8);
      at = at + 1 == n ? 0 : at + 1;
    }
    *out++ = round_;
    *out++ = cards_;
    *out++ = tricks_left_;
    *out++ = static_cast<std::uint8_t>(from(seat, leader_, n));
    *out++ = position_;
    *out++ = static_cast<std::uint8_t>(bidding ? tops(~bids) & ((1u << n) - 1) : 0);  // 255 is no bid yet
    *out++ = role_ != kOver && turn_ == seat ? role_ : 255;
    *out++ = turned_bits(allies(seat), n, seat);
    const int wagers = roatan_ == kNobody ? n : from(seat, roatan_, n);
    for (int k = 0; k < n; ++k) *out++ = k == wagers ? wager_ : 255;
    *out++ = turned_bits(bidding ? cannonball_ & 1u << seat : cannonball_, n, seat);
    *out++ = harry_ == kNobody ? 0 : static_cast<std::uint8_t>(1u << from(seat, harry_, n));
  }

  PM_FN int bot(const Options& options, int kind, Random& random) const;  // in skull_king_bots.hpp

  // ---- Words for people ----

  std::string action_text(const Options&, int action) const {
    if (action < kBid) return (role_ == kDiscard ? "discard " : "") + card_text(action);
    if (action < kLeads) return "bid " + std::to_string(action - kBid);
    if (action < kWager) return name(action - kLeads) + (action == kLeads ? " lead" : " leads");
    if (action < kAdjust) return "wager " + std::to_string(10 * (action - kWager));
    if (action < kCannonballBid)
      return action == kAdjust ? "bid one less" : action == kAdjust + 1 ? "keep the bid" : "bid one more";
    return "cannonball " + std::to_string(action - kCannonballBid);
  }

  std::string table_text(const Options& options, int viewer) const {
    const int n = options.players;
    auto who = [&](int place) { return place < n ? name(from(viewer, place, n)) : std::string("Graybeard"); };
    std::string text = "[bold]Round " + std::to_string(round_ + 1) + " of " + std::to_string(rounds(options)) +
                       "[/], " + std::to_string(cards_) + (cards_ == 1 ? " card" : " cards") + "; " + who(dealer_) +
                       " dealt, " + who(leader_) + (leader_ == viewer ? " lead" : " leads") + "\n";
    for (int k = 0; k < n; ++k) text += player_text((viewer + k) % n, viewer, k) + "\n";

    text += position_ == 0 ? "last trick:" : "trick:";
    SkullKing then = *this;  // with the order of the trick shown
    then.leader_ = led_ >> 4;
    then.first_ = led_ & 15;
    bool any = false;
    for (int i = 0; i < places(options); ++i) {
      const int place = then.place_at(options, i);
      if (trick_[place] == kNoCard) continue;
      text += (any ? ", " : " ") + who(place) + " " + card_text(trick_[place]);
      any = true;
    }
    if (!any) text += " none";
    text += "\nyour hand: " + cards_text(hand(viewer));
    if (jade_ == viewer) text += "\nundealt when you looked: " + cards_text({sight_lo_, sight_hi_});
    if (bendt_ == viewer && discarded_[0] != kNoCard) {
      Cards discarded;
      for (int c : discarded_)
        if (c != kNoCard) discarded.add(c);
      text += "\nyou discarded: " + cards_text(discarded);
    }
    for (int loot : loot_)
      if (loot != kNobody) text += "\nloot: " + who(loot >> 4) + " with " + who(loot & 15);
    return text;
  }

 private:
  friend struct SkullKingBots;
  friend struct SkullKingPeek;  // tests arrange and check positions through it

  static constexpr std::uint8_t kNobody = 255;
  // Streams of the seed: 0 to 9 deal the rounds.
  static constexpr std::uint64_t kDealerStream = 10;
  static constexpr std::uint64_t kBendtStream = 16;
  static constexpr std::uint64_t kGraybeardStream = 32;

  PM_FN static int deck_size(const Options& options) { return options.deck == 0 ? 70 : 74; }
  PM_FN static Cards deck(const Options& options) {
    return options.deck == 0 ? Cards{~0x6ull, 0xFFu} : Cards{~0ull, 0x3FFu};
  }

  PM_FN Cards hand(int place) const { return {hand_lo_[place], hand_hi_[place]}; }
  PM_FN Cards played(int place) const { return {played_lo_[place], played_hi_[place]}; }
  PM_FN void set_hand(int place, Cards cards) {
    hand_lo_[place] = cards.lo;
    hand_hi_[place] = static_cast<std::uint16_t>(cards.hi);
  }
  PM_FN void remove_from_hand(int place, int card) {
    Cards cards = hand(place);
    cards.remove(card);
    set_hand(place, cards);
  }

  // In hand, what may be played to the trick as it lies: who can follow must, or play a special.
  PM_FN Cards playable(Cards held) const {
    const int suit = lead_ - 1;
    if (static_cast<unsigned>(suit) > 3u) return held;
    const Cards follow = held & suit_cards(suit);
    return follow.empty() ? held : follow | (held & specials());
  }

  PM_FN Cards undealt(const Options& options) const {
    Cards rest = deck(options);
    for (int p = 0; p < places(options); ++p) rest = rest - hand(p) - played(p);
    for (int c : discarded_)
      if (c != kNoCard) rest.remove(c);
    return rest;
  }

  // Who plays the i-th card of this trick. Graybeard goes second unless it leads.
  PM_FN int place_at(const Options& options, int i) const {
    const int n = options.players;
    if (n > 2) return leader_ + i < n ? leader_ + i : leader_ + i - n;
    if (i == 2) return 1 - first_;
    return (i == 0) == (leader_ == 2) ? 2 : first_;
  }

  PM_FN void lead_with(const Options& options, int place) {
    leader_ = static_cast<std::uint8_t>(place);
    if (place < options.players) first_ = leader_;
  }

  PM_FN void deal(const Options& options) {
    const int n = options.players;
    const int size = deck_size(options);
    cards_ = static_cast<std::uint8_t>(cards_in(options, round_));
    tricks_left_ = cards_;
    // The cards in order, four at a time. Without beasts and loot: the king, then 3 to 71.
    alignas(4) std::uint8_t pile[kCards + 2];
    const std::uint32_t gap = size == kCards ? 0 : 0x02020202u;
    for (std::uint32_t i = 0; i < sizeof pile / 4; ++i) {
      const std::uint32_t four = 0x03020100u + i * 0x04040404u + (i == 0 ? gap & ~0xFFu : gap);
      memcpy(pile + 4 * i, &four, 4);
    }
    Random random(seed_, round_);
    int at = 0;
    for (int p = 0; p < places(options); ++p) {
      Cards cards;
      for (int k = 0; k < cards_; ++k, ++at) {
        const int from = at + static_cast<int>(random.below(static_cast<std::uint32_t>(size - at)));
        cards.add(pile[from]);
        pile[from] = pile[at];
      }
      set_hand(p, cards);
    }
    for (int p = 0; p < kMaxSeats; ++p) {
      played_lo_[p] = 0;
      played_hi_[p] = 0;
      bid_[p] = 255;
      won_[p] = bonus_[p] = void_[p] = 0;
    }
    jade_ = bendt_ = roatan_ = harry_ = kNobody;
    loot_[0] = loot_[1] = kNobody;
    discarded_[0] = discarded_[1] = kNoCard;
    wager_ = 255;
    cannonball_ = position_ = lead_ = 0;
    lead_with(options, dealer_ + 1 == n ? 0 : dealer_ + 1);
    turn_ = leader_;
    role_ = kBidding;
  }

  PM_FN void lay(int place, int action) {
    const int card = action == kTigressPirate ? kTigress : action;
    remove_from_hand(place, card);
    Cards cards = played(place);
    cards.add(card);
    played_lo_[place] = cards.lo;
    played_hi_[place] = static_cast<std::uint16_t>(cards.hi);
    if (position_ == 0) {
      for (auto& c : trick_) c = kNoCard;
      led_ = static_cast<std::uint8_t>(leader_ << 4 | first_);
    }
    trick_[place] = static_cast<std::uint8_t>(action);
    ++position_;
    if (is_number(action)) {
      const int suit = suit_of(action);
      if (lead_ == 0)
        lead_ = static_cast<std::uint8_t>(suit + 1);
      else if (lead_ != suit + 1 && lead_ < 5)
        void_[place] = static_cast<std::uint8_t>(void_[place] | 1u << (lead_ - 1));
    } else if (lead_ == 0 && (action < kNumbers || action == kTigressPirate)) {
      lead_ = 5;
    }
  }

  // On to the next decision, through whatever needs none.
  PM_FN void proceed(const Options& options, Report& report) {
    const int all = places(options);
    for (;;) {
      if (position_ == all) {
        if (end_trick(options)) return;
        continue;
      }
      if (tricks_left_ == 0) {
        if (harry_ != kNobody) {
          ask(harry_, kAdjusting);
          return;
        }
        end_round(options, report);
        return;
      }
      const int place = place_at(options, position_);
      if (place < options.players) {
        ask(place, kPlay);
        return;
      }
      lay_graybeard(place);
    }
  }

  PM_FN void ask(int seat, int role) {
    turn_ = static_cast<std::uint8_t>(seat);
    role_ = static_cast<std::uint8_t>(role);
  }

  PM_FN void lay_graybeard(int place) {
    Random random(seed_, kGraybeardStream + 16u * round_ + tricks_left_);
    const Cards held = hand(place);
    lay(place, held.nth(static_cast<int>(random.below(static_cast<std::uint32_t>(held.count())))));
    void_[place] = 0;  // it need not follow: what it plays says nothing
  }

  // Takes the trick in. Whether a power waits for an answer.
  PM_FN bool end_trick(const Options& options) {
    std::uint8_t laid[kMaxSeats];
    for (int i = 0; i < position_; ++i) laid[i] = trick_[place_at(options, i)];
    const Trick trick = resolve(options, laid, position_);
    const int winner = trick.winner < 0 ? -1 : place_at(options, trick.winner);
    lead_with(options, place_at(options, trick.leader));
    position_ = lead_ = 0;
    --tricks_left_;
    if (winner < 0) return false;
    ++won_[winner];
    if (winner >= options.players) return false;
    bonus_[winner] = static_cast<std::uint8_t>(bonus_[winner] + trick.bonus);
    if (!trick.whale && options.deck != 0) {
      for (int p = 0; p < options.players; ++p) {
        const unsigned loot = trick_[p] - static_cast<unsigned>(kLoot);
        if (loot < 2u && p != winner) loot_[loot] = static_cast<std::uint8_t>(p << 4 | winner);
      }
    }
    const int card = trick_[winner];
    return options.powers != 0 && card >= kRosie && card <= kHarry && power(options, winner, card);
  }

  PM_FN bool power(const Options& options, int winner, int pirate) {
    if (tricks_left_ == 0 && pirate != kRoatan && pirate != kHarry) return false;
    switch (pirate) {
      case kRosie: ask(winner, kChooseLeader); return true;
      case kBendt: {
        Cards rest = undealt(options);
        Cards held = hand(winner);
        Random random(seed_, kBendtStream + round_);
        for (int i = 0; i < 2 && !rest.empty(); ++i) {
          const int c = rest.nth(static_cast<int>(random.below(static_cast<std::uint32_t>(rest.count()))));
          rest.remove(c);
          held.add(c);
        }
        if (held.count() == tricks_left_) return false;  // every card was dealt
        set_hand(winner, held);
        void_[winner] = 0;
        bendt_ = static_cast<std::uint8_t>(winner);
        ask(winner, kDiscard);
        return true;
      }
      case kRoatan:
        roatan_ = static_cast<std::uint8_t>(winner);
        ask(winner, kWagering);
        return true;
      case kJade: {
        const Cards rest = undealt(options);
        sight_lo_ = rest.lo;
        sight_hi_ = static_cast<std::uint16_t>(rest.hi);
        jade_ = static_cast<std::uint8_t>(winner);
        return false;
      }
      default:
        if (options.harry == 0) {
          harry_ = static_cast<std::uint8_t>(winner);
          return false;
        }
        ask(winner, kAdjusting);
        return true;
    }
  }

  PM_FN void end_round(const Options& options, Report& report) {
    const int n = options.players;
    int points[kMaxSeats];
    for (int s = 0; s < n; ++s)
      points[s] = bid_points(options, bid_[s], won_[s], cards_, bonus_[s], (cannonball_ >> s & 1) != 0);
    for (int loot : loot_) {
      if (loot == kNobody || !exact(loot >> 4) || !exact(loot & 15)) continue;
      points[loot >> 4] += 20;
      points[loot & 15] += 20;
    }
    if (roatan_ != kNobody) points[roatan_] += (exact(roatan_) ? 10 : -10) * wager_;
    for (int s = 0; s < n; ++s) {
      score_[s] = static_cast<std::int16_t>(score_[s] + points[s]);
      report.reward[s] += static_cast<float>(points[s]) * 0.01f;
      const float made = exact(s) ? 1.0f : 0.0f;
      report.count(kBidMade, s, made);
      report.count(kBidMade + cards_, s, made);
    }
    if (round_ + 1 < rounds(options)) {
      ++round_;
      dealer_ = static_cast<std::uint8_t>(dealer_ + 1 == n ? 0 : dealer_ + 1);
      deal(options);
    } else {
      end_game(options, report);
    }
  }

  PM_FN void end_game(const Options& options, Report& report) {
    const int n = options.players;
    role_ = kOver;
    int best = score_[0], winners = 0;
    for (int s = 1; s < n; ++s) best = score_[s] > best ? score_[s] : best;
    for (int s = 0; s < n; ++s) winners += score_[s] == best;
    for (int s = 0; s < n; ++s) {
      const float share = score_[s] == best ? 1.0f / static_cast<float>(winners) : 0.0f;
      report.reward[s] += static_cast<float>(options.win_bonus) * 0.01f * (share - 1.0f / static_cast<float>(n));
      report.count(kScore, s, score_[s]);
      report.count(kWin, s, share);
    }
  }

  PM_FN bool exact(int seat) const { return bid_[seat] == won_[seat]; }

  // ---- Observation ----

  // Writes eight bytes and keeps the first `bytes`; more must follow in the row.
  PM_FN static std::uint8_t* put(std::uint8_t* out, std::uint64_t word, int bytes) {
    memcpy(out, &word, 8);
    return out + bytes;
  }
  PM_FN static std::uint8_t* put(std::uint8_t* out, Cards cards) {
    const auto hi = static_cast<std::uint16_t>(cards.hi);
    memcpy(out, &cards.lo, 8);
    memcpy(out + 8, &hi, 2);
    return out + 10;
  }

  // A byte for each place as one word, the first `n` turned so that `seat` comes first.
  PM_FN static std::uint64_t turned(const std::uint8_t* bytes, int n, int seat) {
    std::uint64_t word;
    memcpy(&word, bytes, 8);
    if (seat == 0) return word;
    const std::uint64_t players = ~0ull >> (64 - 8 * n);
    const std::uint64_t part = word & players;
    return (word & ~players) | (part >> (8 * seat)) | (part << (8 * (n - seat)) & players);
  }
  PM_FN static std::uint8_t turned_bits(unsigned bits, int n, int seat) {
    return static_cast<std::uint8_t>((bits >> seat | bits << (n - seat)) & ((1u << n) - 1));
  }
  // Bytewise a - b where that is positive, else 0; all bytes below 128.
  PM_FN static std::uint64_t above(std::uint64_t a, std::uint64_t b) {
    constexpr std::uint64_t kTops = 0x8080808080808080ull;
    const std::uint64_t difference = (a | kTops) - b;
    return difference & ((difference & kTops) >> 7) * 0x7F;
  }
  // The place as counted from a seat; Graybeard is always last.
  PM_FN static int from(int seat, int place, int n) {
    return place >= n ? place : place >= seat ? place - seat : place - seat + n;
  }
  // The top bit of each byte, gathered.
  PM_FN static unsigned tops(std::uint64_t word) {
    return static_cast<unsigned>(((word >> 7 & 0x0101010101010101ull) * 0x0102040810204080ull) >> 56);
  }
  PM_FN unsigned allies(int seat) const {
    unsigned bits = 0;
    for (int loot : loot_) {
      if (loot == kNobody) continue;
      if (loot >> 4 == seat) bits |= 1u << (loot & 15);
      if ((loot & 15) == seat) bits |= 1u << (loot >> 4);
    }
    return bits;
  }

  // ---- Words ----

  static std::string name(int relative) { return relative == 0 ? "you" : "seat +" + std::to_string(relative); }

  static std::string card_text(int c) {
    static constexpr const char* kSuits[] = {"[bright_black]black ", "[green]parrot ", "[magenta]map ",
                                             "[yellow]chest "};
    static constexpr const char* kPirates[] = {"Rosie", "Bendt", "Roatan", "Jade", "Harry"};
    if (is_number(c)) return kSuits[suit_of(c)] + std::to_string(rank_of(c)) + "[/]";
    if (c == kSkullKing) return "[bold magenta]Skull King[/]";
    if (c == kWhale) return "[bold white]white whale[/]";
    if (c == kKraken) return "[bold blue]kraken[/]";
    if (c < kRosie) return "[cyan]mermaid[/]";
    if (c < kNumbers) return std::string("[red]pirate ") + kPirates[c - kRosie] + "[/]";
    if (c < kTigress) return "[dim]escape[/]";
    if (c == kTigress) return "[red]Tigress[/]";
    return c == kTigressPirate ? "[red]Tigress as pirate[/]" : "[bold yellow]loot[/]";
  }

  static std::string cards_text(Cards cards) {
    if (cards.empty()) return "none";
    std::string text = card_text(cards.pop());
    while (!cards.empty()) text += ", " + card_text(cards.pop());
    return text;
  }

  std::string player_text(int seat, int viewer, int relative) const {
    auto padded = [](std::string word, std::size_t width) {
      return word.size() < width ? std::string(width - word.size(), ' ') + word : word;
    };
    const bool hidden = bid_[seat] == 255 || (role_ == kBidding && seat != viewer);
    std::string text = name(relative);
    text += std::string(text.size() < 8 ? 8 - text.size() : 0, ' ');
    text += " bid " + padded(hidden ? (bid_[seat] == 255 ? "-" : "?") : std::to_string(bid_[seat]), 2);
    text += "  won " + padded(std::to_string(won_[seat]), 2);
    text += "  bonus " + padded(std::to_string(10 * bonus_[seat]), 3);
    text += "  score " + padded(std::to_string(score_[seat]), 4);
    if (!hidden && (cannonball_ >> seat & 1) != 0) text += "  cannonball";
    if (roatan_ == seat && wager_ != 255) text += "  wager " + std::to_string(10 * wager_);
    if (harry_ == seat) text += "  holds Harry";
    if (role_ != kOver && turn_ == seat) text = "[bold]" + text + "[/]  <";
    return text;
  }

  std::uint64_t seed_ = 0;
  std::uint64_t hand_lo_[kMaxSeats] = {};
  std::uint64_t played_lo_[kMaxSeats] = {};  // this round
  std::uint64_t sight_lo_ = 0;               // what Jade's winner saw undealt
  std::uint8_t trick_[kMaxSeats] = {};       // by place; with position_ 0 the trick before
  std::uint8_t bid_[kMaxSeats] = {};         // 255: not yet
  std::uint8_t won_[kMaxSeats] = {};
  std::uint8_t bonus_[kMaxSeats] = {};  // in tens of points
  std::uint8_t void_[kMaxSeats] = {};   // a bit for each suit the place is known to lack
  std::uint16_t hand_hi_[kMaxSeats] = {};
  std::uint16_t played_hi_[kMaxSeats] = {};
  std::int16_t score_[kMaxSeats] = {};
  std::uint16_t sight_hi_ = 0;
  std::uint8_t discarded_[2] = {};  // Bendt's
  std::uint8_t loot_[2] = {};       // alliances: player << 4 | winner
  std::uint8_t jade_ = kNobody;     // seats that won with these
  std::uint8_t bendt_ = kNobody;
  std::uint8_t roatan_ = kNobody;
  std::uint8_t harry_ = kNobody;  // still to be used at the round's end
  std::uint8_t wager_ = 255;      // in tens of points
  std::uint8_t cannonball_ = 0;   // a bit for each seat
  std::uint8_t round_ = 0;
  std::uint8_t cards_ = 0;
  std::uint8_t tricks_left_ = 0;  // with the one being played
  std::uint8_t dealer_ = 0;
  std::uint8_t leader_ = 0;  // a place
  std::uint8_t first_ = 0;   // the first player, not Graybeard, to play to this trick
  std::uint8_t turn_ = 0;
  std::uint8_t role_ = kOver;
  std::uint8_t lead_ = 0;      // 0 undecided, 1 to 4 a suit, 5 none in this trick
  std::uint8_t position_ = 0;  // cards in the trick
  std::uint8_t led_ = 0;       // leader_ << 4 | first_ of the trick in trick_
};

static_assert(sizeof(SkullKing) <= 256);

}  // namespace playmill

#include "skull_king_bots.hpp"

namespace playmill {
static_assert(Game<SkullKing>);
}  // namespace playmill
