"""Skull King in plain words: cards, following, who takes a trick, what a round is worth.

Pure functions over small values, written from the rules and never from the native engine.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

SKULL_KING, WHALE, KRAKEN = 0, 1, 2
MERMAIDS = range(3, 5)
PIRATES = range(5, 10)
ROSIE, BENDT, ROATAN, JADE, HARRY = PIRATES
NUMBERS = range(10, 66)  # black, green, purple, yellow: 1 to 14 each
BLACK = 0
ESCAPES = range(66, 71)
TIGRESS = 71
LOOTS = range(72, 74)
CARDS = 74
GRAYBEARD = 2  # the third place of a game of two

TIGRESS_PIRATE = 74  # the action and the sight of a tigress played as a pirate
BID, LEAD_NEXT, WAGER, HARRY_SHIFT, CANNONBALL = 75, 86, 94, 97, 100
ACTIONS = 111

SCHEDULES: dict[str, list[int]] = {
    "standard": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    "even_keeled": [2, 4, 6, 8, 10],
    "skip_to_the_brawl": [6, 7, 8, 9, 10],
    "swift_and_salty": [5] * 5,
    "broadside": [10] * 10,
    "whirlpool": [9, 9, 7, 7, 5, 5, 3, 3, 1, 1],
    "past_your_bedtime": [1],
}


@dataclass(frozen=True)
class Rules:
    """The options of a game, by the names and values the engine takes."""

    players: int = 4
    deck: str = "74"
    powers: str = "on"
    schedule: str = "standard"
    first_round: int = 1
    scoring: str = "skull_king"
    kraken_lead: str = "would_win"
    capture_bonus: str = "per_card"
    skull_king_capture: str = "40"
    harry: str = "round_end"
    win_bonus: int = 0

    @classmethod
    def of(cls, options: Mapping[str, int | str]) -> "Rules":
        known = {field.name for field in fields(cls)}
        assert set(options) <= known, f"unknown options {set(options) - known}"
        return cls(**options)  # type: ignore[arg-type]

    @property
    def places(self) -> int:
        """Hands dealt: Graybeard holds the third in a game of two."""
        return 3 if self.players == 2 else self.players

    @property
    def cards_in_deck(self) -> set[int]:
        beasts_and_loot = {WHALE, KRAKEN, *LOOTS} if self.deck == "70" else set()
        return set(range(CARDS)) - beasts_and_loot

    @property
    def rounds(self) -> list[int]:
        """Cards a hand in every round still to come when the game begins."""
        most = int(self.deck) // self.places
        return [min(cards, most) for cards in SCHEDULES[self.schedule][self.first_round - 1 :]]


@dataclass(frozen=True)
class Play:
    """One card on the table. A tigress is an escape unless said otherwise."""

    place: int
    card: int
    as_pirate: bool = False

    @property
    def sight(self) -> int:
        return TIGRESS_PIRATE if self.as_pirate else self.card


def is_number(card: int) -> bool:
    return card in NUMBERS


def suit(card: int) -> int:
    """0 black, 1 green, 2 purple, 3 yellow; of number cards only."""
    return (card - NUMBERS.start) // 14


def number(card: int) -> int:
    return (card - NUMBERS.start) % 14 + 1


def is_pirate(play: Play) -> bool:
    return play.card in PIRATES or play.as_pirate


def is_escape(play: Play) -> bool:
    """Cards that neither win nor set a suit: escapes, loot, the tigress at rest."""
    return play.card in ESCAPES or play.card in LOOTS or (play.card == TIGRESS and not play.as_pirate)


def first_that_counts(trick: Sequence[Play]) -> Play | None:
    """The first card that is no escape: it alone decides about a suit."""
    return next((play for play in trick if not is_escape(play)), None)


def lead_suit(trick: Sequence[Play]) -> int | None:
    first = first_that_counts(trick)
    return suit(first.card) if first is not None and is_number(first.card) else None


def playable(hand: Iterable[int], trick: Sequence[Play]) -> set[int]:
    """Cards that may be played: follow the suit if able, any special at any time."""
    hand = set(hand)
    lead = lead_suit(trick)
    if not any(is_number(card) and suit(card) == lead for card in hand):
        return hand
    return {card for card in hand if not is_number(card) or suit(card) == lead}


@dataclass(frozen=True)
class Outcome:
    """Who leads next and, where somebody took the trick, with which card."""

    leader: int
    winner: Play | None
    by_whale: bool = False


def beast_that_acts(trick: Sequence[Play]) -> Play | None:
    """The kraken or the whale; of both, the later."""
    beasts = [play for play in trick if play.card in (KRAKEN, WHALE)]
    return beasts[-1] if beasts else None


def resolve(trick: Sequence[Play], rules: Rules) -> Outcome:
    beast = beast_that_acts(trick)
    if beast is None:
        winner = best_without_beasts(trick)
        return Outcome(winner.place, winner)
    if beast.card == KRAKEN:
        return Outcome(leader_after_kraken(trick, beast, rules), None)
    numbers = [play for play in trick if is_number(play.card)]
    if not numbers:
        return Outcome(beast.place, None, by_whale=True)
    highest = max(numbers, key=lambda play: number(play.card))  # of equals the first played
    return Outcome(highest.place, highest, by_whale=True)


def leader_after_kraken(trick: Sequence[Play], kraken: Play, rules: Rules) -> int:
    if rules.kraken_lead == "left_of_kraken":  # in the order of this trick: Graybeard moves about
        return trick[(trick.index(kraken) + 1) % len(trick)].place
    others = [play for play in trick if play.card not in (KRAKEN, WHALE)]
    return best_without_beasts(others).place if others else kraken.place


def best_without_beasts(trick: Sequence[Play]) -> Play:
    skull_king = [play for play in trick if play.card == SKULL_KING]
    mermaids = [play for play in trick if play.card in MERMAIDS]
    pirates = [play for play in trick if is_pirate(play)]
    if skull_king and mermaids:
        return mermaids[0]
    for characters in (skull_king, pirates, mermaids):
        if characters:
            return characters[0]
    for wanted in (BLACK, lead_suit(trick)):
        of_suit = [play for play in trick if is_number(play.card) and suit(play.card) == wanted]
        if of_suit:
            return max(of_suit, key=lambda play: number(play.card))
    return trick[0]


def trick_bonus(trick: Sequence[Play], outcome: Outcome, rules: Rules) -> int:
    """Points for the fourteens and captures in a trick, to whoever took it."""
    if outcome.winner is None:
        return 0
    fourteens = [play.card for play in trick if is_number(play.card) and number(play.card) == 14]
    bonus = sum(20 if suit(card) == BLACK else 10 for card in fourteens)
    if outcome.by_whale:
        return bonus
    each, taken = 0, 0
    if is_pirate(outcome.winner):
        each, taken = 20, sum(play.card in MERMAIDS for play in trick)
    elif outcome.winner.card == SKULL_KING:
        each, taken = 30, sum(is_pirate(play) for play in trick)
    elif outcome.winner.card in MERMAIDS:
        each, taken = int(rules.skull_king_capture), sum(play.card == SKULL_KING for play in trick)
    return bonus + each * (min(taken, 1) if rules.capture_bonus == "per_trick" else taken)


def loot_players(trick: Sequence[Play], outcome: Outcome, rules: Rules) -> list[int]:
    """Players who ally with the winner of this trick, once for every loot."""
    if outcome.winner is None or outcome.by_whale or outcome.winner.place >= rules.players:
        return []
    looters = [play.place for play in trick if play.card in LOOTS]
    return [place for place in looters if place < rules.players and place != outcome.winner.place]


@dataclass(frozen=True)
class Account:
    """What a player's round is scored by."""

    bid: int
    won: int
    cards: int
    bonus: int = 0
    cannonball: bool = False
    wager: int = 0
    alliances_made: int = 0  # alliances in which both sides were exact

    @property
    def exact(self) -> bool:
        return self.bid == self.won


def round_score(account: Account, rules: Rules) -> int:
    off = abs(account.bid - account.won)
    if account.cannonball:
        score = 15 * account.cards + account.bonus if account.exact else 0
    elif rules.scoring in ("rascal", "cannonball"):
        full = 10 * account.cards + account.bonus
        score = full if off == 0 else full // 2 if off == 1 else 0
    elif account.bid == 0:
        score = 10 * account.cards + account.bonus if account.exact else -10 * account.cards
    else:
        score = 20 * account.bid + account.bonus if account.exact else -10 * off
    return score + 20 * account.alliances_made + (account.wager if account.exact else -account.wager)
