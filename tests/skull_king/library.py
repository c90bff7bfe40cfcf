"""A library of tricks and rounds as the ENGINE played them, told by its observations alone.

The named tests pick from it the tricks that show their edge and say what must have happened.
Places are absolute: seat 0 counts places from itself, so its view needs no turning.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from playmill.games import Game, registry

from . import rules as r
from .driver import Case, EngineView, members
from .rules import Play, Rules


@dataclass(frozen=True)
class Trick:
    """A finished trick. What came after is None where the round ended with it unseen."""

    rules: Rules
    name: str  # the game it is from
    plays: tuple[Play, ...]
    hands: dict[int, frozenset[int]]  # by player, before the card was played
    legal: dict[int, frozenset[int]]
    leads: dict[int, int]  # the `lead` field each player saw
    cards: int  # dealt to a hand in its round
    last: bool
    won: tuple[int, ...] | None = None  # tricks gained by every player
    bonus: tuple[int, ...] | None = None  # points gained by every player
    leader: int | None = None
    allied: frozenset[frozenset[int]] = frozenset()  # pairs allied after the trick
    allied_before: frozenset[frozenset[int]] = frozenset()
    asked: tuple[int, str] | None = None  # who decides what next
    hands_after: dict[int, frozenset[int]] = field(default_factory=dict)
    undealt_seen: dict[int, frozenset[int]] = field(default_factory=dict)

    @property
    def winner(self) -> int | None:
        """The player who took it; None for nobody, also for Graybeard."""
        assert self.won is not None
        return self.won.index(1) if 1 in self.won else None

    def has(self, *cards: int) -> bool:
        return any(play.card in cards for play in self.plays)

    def where(self, *cards: int) -> list[Play]:
        return [play for play in self.plays if play.card in cards]

    @property
    def pirates(self) -> list[Play]:
        return [play for play in self.plays if play.card in r.PIRATES or play.as_pirate]

    @property
    def numbers(self) -> list[Play]:
        return [play for play in self.plays if play.card in r.NUMBERS]


@dataclass(frozen=True)
class Round:
    """A scored round, with the last decision's sight of it and the points it brought."""

    rules: Rules
    name: str
    cards: int
    bids: tuple[int, ...]
    won: tuple[int, ...]
    bonus: tuple[int, ...]
    wagers: tuple[int, ...]
    cannonball: tuple[bool, ...]
    loots: tuple[tuple[int, int], ...]  # who played a loot, who took it: once a card
    points: tuple[int, ...]
    scores_before: tuple[int, ...]
    scores_after: tuple[int, ...]

    def exact(self, seat: int) -> bool:
        return self.bids[seat] == self.won[seat]

    def extras(self, seat: int) -> int:
        """Loot and wager: the same in every scoring."""
        made = sum(20 for pair in self.loots if seat in pair and all(self.exact(s) for s in pair))
        return made + (self.wagers[seat] if self.exact(seat) else -self.wagers[seat])


class Recorder:
    """Plays one game of the engine and writes down its tricks and rounds."""

    def __init__(self, case: Case) -> None:
        self.rules = Rules.of(case.options)
        self.case = case
        self.game = Game("skull_king", options=case.options, seed=case.seed)
        self.schema = registry.spec("skull_king", case.options).schema
        self.dice = random.Random(case.seed)
        self.tricks: list[Trick] = []
        self.rounds: list[Round] = []
        self.plays: list[Play] = []
        self.loots: list[tuple[int, int]] = []
        self.pairs: frozenset[frozenset[int]] = frozenset()
        self.hands: dict[int, frozenset[int]] = {}
        self.legal: dict[int, frozenset[int]] = {}
        self.leads: dict[int, int] = {}

    def view(self, seat: int = 0) -> EngineView:
        view: EngineView = self.schema.unpack(self.game.observe(seat))
        return view

    def hand(self, seat: int) -> frozenset[int]:
        return frozenset(members(self.view(seat)["hand"]))

    def record(self) -> "Recorder":
        while not self.game.over:
            self.turn()
        return self

    def turn(self) -> None:
        game, before = self.game, self.view()
        seat, role = int(game.seat), str(game.role)
        driver = self.case.drivers[seat]
        action = self.dice.choice(game.legal()) if driver == "random" else game.bot(driver)
        if role == "play":
            self.hands[seat], self.legal[seat] = self.hand(seat), frozenset(game.legal())
            self.leads[seat] = int(before["lead"].item())
            card = r.TIGRESS if action == r.TIGRESS_PIRATE else action
            self.plays.append(Play(seat, card, action == r.TIGRESS_PIRATE))
        rewards = game.act(action)
        after = self.view()
        ended = bool(game.over) or before["round"].item() != after["round"].item()
        if role == "play" and len(self.plays) == self.rules.places:
            self.finish_trick(before, after, ended)
        if ended:
            points = tuple(round(100 * float(reward)) for reward in rewards)
            self.finish_round(before, after, seat, role, action, points)
        elif self.rules.players == 2:
            mine = {play.card for play in self.plays if play.place == r.GRAYBEARD}
            on_table = int(after["trick"][r.GRAYBEARD].item())
            if on_table != 255 and on_table not in mine:
                self.plays.append(Play(r.GRAYBEARD, on_table))

    def read_pairs(self) -> frozenset[frozenset[int]]:
        seats = range(self.rules.players)
        return frozenset(
            frozenset({s, (s + k) % self.rules.players})
            for s in seats
            for k in members(self.view(s)["allied"])
        )

    def finish_trick(self, before: EngineView, after: EngineView, ended: bool) -> None:
        last = len(self.hands[self.plays[-1].place]) == 1
        cards = int(before["cards"].item())
        told = (self.hands, self.legal, self.leads, cards, last)
        common = (self.rules, str(self.case), tuple(self.plays), *told)
        if ended:
            trick = Trick(*common)
        else:
            seats, pairs = range(self.rules.players), self.pairs
            self.pairs = self.read_pairs()
            trick = Trick(
                *common,
                won=tuple((after["won"] - before["won"]).reshape(-1).tolist()),
                bonus=tuple((10 * (after["bonus"] - before["bonus"])).reshape(-1).tolist()),
                leader=int(after["leader"].item()),
                allied=self.pairs,
                allied_before=pairs,
                asked=(int(self.game.seat), str(self.game.role)),
                hands_after={s: self.hand(s) for s in seats},
                undealt_seen={s: frozenset(members(self.view(s)["undealt"])) for s in seats},
            )
        outcome = r.resolve(self.plays, self.rules)
        if outcome.winner is not None:
            self.loots += [(s, outcome.winner.place) for s in r.loot_players(self.plays, outcome, self.rules)]
        self.tricks.append(trick)
        self.plays, self.hands, self.legal, self.leads = [], {}, {}, {}

    def finish_round(
        self,
        before: EngineView,
        after: EngineView,
        seat: int,
        role: str,
        action: int,
        points: tuple[int, ...],
    ) -> None:
        bids, won, bonus = (before[name].reshape(-1).tolist() for name in ("bid", "won", "bonus"))
        bonus = [10 * tens for tens in bonus]
        wagers = [0 if w == 255 else 10 * w for w in before["wager"].reshape(-1).tolist()]
        if role == "play":  # the last trick's result was never shown: take the referee's word
            plays = self.tricks[-1].plays
            outcome = r.resolve(plays, self.rules)
            if outcome.winner is not None and outcome.winner.place < self.rules.players:
                won[outcome.winner.place] += 1
                bonus[outcome.winner.place] += r.trick_bonus(plays, outcome, self.rules)
        elif role == "wager":
            wagers[seat] = 10 * (action - r.WAGER)
        elif role == "harry":
            bids[seat] += action - r.HARRY_SHIFT - 1
        self.rounds.append(
            Round(
                self.rules,
                str(self.case),
                int(before["cards"].item()),
                tuple(bids),
                tuple(won),
                tuple(bonus),
                tuple(wagers),
                tuple(bool(ball) for ball in before["cannonball"].reshape(-1)),
                tuple(self.loots),
                points,
                tuple(before["score"].reshape(-1).tolist()),
                tuple(after["score"].reshape(-1).tolist()),
            )
        )
        self.loots, self.pairs = [], frozenset()


# Words the named tests share


def some(tricks: Iterable[Trick], shows: Callable[[Trick], bool]) -> list[Trick]:
    """The tricks that show an edge; there must be at least one."""
    found = [trick for trick in tricks if shows(trick)]
    assert found, "the library holds no such trick: record more games"
    return found


def beastless(trick: Trick) -> bool:
    return not trick.has(r.KRAKEN, r.WHALE)


def acting(trick: Trick, beast: int) -> bool:
    """Whether this beast is the only or the later one."""
    beasts = trick.where(r.KRAKEN, r.WHALE)
    return bool(beasts) and beasts[-1].card == beast


def only_numbers_count(trick: Trick) -> bool:
    return beastless(trick) and not trick.pirates and not trick.has(r.SKULL_KING, *r.MERMAIDS)


def taken_by(trick: Trick, play: Play) -> bool:
    """That this card took the trick: its player gained it and leads, or Graybeard leads."""
    gained = trick.winner == play.place or (play.place >= trick.rules.players and trick.winner is None)
    return gained and (trick.leader == play.place or trick.asked == (play.place, "rosie"))


def suit_led(before: list[Play]) -> int | None:
    """The suit to follow, said once more: the first card that is no escape, if a number."""
    for play in before:
        if play.card in r.ESCAPES or play.card in r.LOOTS or (play.card == r.TIGRESS and not play.as_pirate):
            continue
        return r.suit(play.card) if play.card in r.NUMBERS else None
    return None


def seats(rounds: list[Round], scoring: str, shows: Callable[[Round, int], bool]) -> list[tuple[Round, int]]:
    """Rounds of this scoring without a bonus for winning, by the seats that show an edge."""
    found = [
        (round, seat)
        for round in rounds
        if round.rules.scoring == scoring and round.rules.win_bonus == 0
        for seat in range(round.rules.players)
        if shows(round, seat)
    ]
    assert found, "the library holds no such round: record more games"
    return found
