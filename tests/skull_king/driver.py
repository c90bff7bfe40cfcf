"""Plays the native engine and the referee side by side and compares everything in sight.

The engine decides chance; the referee learns it from what the engine shows each seat (its
hand, Graybeard's card on the table, what Jade reveals) and decides all the rest by itself.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from playmill.games import Game, IllegalAction, registry
from tests.fuzzing import Difference

from . import rules as r
from .referee import Referee
from .rules import Rules

Options = dict[str, int | str]
EngineView = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """One game of the fuzz; the same case is the same game for ever."""

    options: Options
    seed: int
    drivers: tuple[str, ...]  # of the seats: "random" or a bot of the engine

    @classmethod
    def numbered(cls, number: int, fuzz_seed: int) -> "Case":
        dice = random.Random(f"{fuzz_seed}/{number}")
        schedule = dice.choice([*r.SCHEDULES, *["standard"] * 6])
        players = dice.randint(2, 8)
        options: Options = {
            "players": players,
            "deck": dice.choice(["70", "74", "74"]),
            "powers": dice.choice(["off", "on", "on"]),
            "schedule": schedule,
            "first_round": dice.randint(1, len(r.SCHEDULES[schedule])),
            "scoring": dice.choice(["skull_king", "rascal", "cannonball"]),
            "kraken_lead": dice.choice(["would_win", "left_of_kraken"]),
            "capture_bonus": dice.choice(["per_card", "per_trick"]),
            "skull_king_capture": dice.choice(["40", "50"]),
            "harry": dice.choice(["round_end", "at_once"]),
            "win_bonus": dice.choice([0, 0, 100, 1000]),
        }
        drivers = tuple(dice.choice(["random", "random", "hard", "greedy"]) for _ in range(players))
        return cls(options, dice.randrange(2**63), drivers)


class EngineChance:
    """Reads off the engine what chance has done."""

    def __init__(self, game: Game, rules: Rules, unpack: Callable[[int], EngineView]) -> None:
        self.game = game
        self.rules = rules
        self.unpack = unpack
        self.known_undealt: set[int] | None = None  # by Jade, in a game of two

    def first_leader(self) -> int:
        return int(self.game.seat)  # bids are asked from the leader on

    def hands(self, size: int) -> list[set[int]]:
        self.known_undealt = None
        hands = [members(self.unpack(seat)["hand"]) for seat in range(self.rules.players)]
        if any(len(hand) != size for hand in hands) or len(set().union(*hands)) != size * len(hands):
            raise Difference(f"a deal of {size} cards a hand, all different, but got {hands}")
        if not set().union(*hands) <= self.rules.cards_in_deck:
            raise Difference(f"hands hold cards that are not in the deck of {self.rules.deck}: {hands}")
        return hands

    def drawn(self, table: Referee, seat: int, count: int) -> set[int]:
        cards = members(self.unpack(seat)["hand"]) - table.players[seat].hand
        source = table.hidden if self.known_undealt is None else self.known_undealt
        if len(cards) != count or not cards <= source:
            raise Difference(f"Bendt draws {count} of the undealt {sorted(source)}, but got {sorted(cards)}")
        if self.known_undealt is not None:
            self.known_undealt -= cards
        return cards

    def undealt(self, table: Referee, seat: int) -> set[int]:
        if self.rules.players > 2:
            return set(table.hidden)
        cards = members(self.unpack(seat)["undealt"])
        if not cards <= table.hidden or len(cards) != len(table.hidden) - table.graybeards_cards:
            raise Difference(f"Jade shows the undealt of {sorted(table.hidden)}, but got {sorted(cards)}")
        self.known_undealt = set(cards)
        return cards

    def graybeard(self, table: Referee) -> int:
        before = {play.card for play in table.played[r.GRAYBEARD]}
        cards = members(self.unpack(0)["played"][r.GRAYBEARD]) - before
        if len(cards) != 1 or not cards <= table.hidden - (self.known_undealt or set()):
            raise Difference(f"Graybeard plays one card of his hand, but got {sorted(cards)}")
        return cards.pop()


def members(row: np.ndarray) -> set[int]:
    """The positions of the ones in a row of bits."""
    return {int(i) for i in np.flatnonzero(np.asarray(row).reshape(-1))}


@dataclass
class SideBySide:
    """An engine and a referee at the same turn of the same game."""

    case: Case
    seen: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.rules = Rules.of(self.case.options)
        self.schema = registry.spec("skull_king", self.case.options).schema
        self.game = Game("skull_king", options=self.case.options, seed=self.case.seed)
        self.dice = random.Random(self.case.seed)
        self.turns = 0
        chance = EngineChance(self.game, self.rules, self.engine_view)
        self.referee = Referee(self.rules, chance)

    def engine_view(self, seat: int) -> EngineView:
        view: EngineView = self.schema.unpack(self.game.observe(seat))
        return view

    def play_out(self) -> Counter[str]:
        """The whole game; counts of what came up in it."""
        try:
            self.check_turn()
            while not self.referee.over:
                self.act(self.choose())
        except Difference as difference:
            raise Difference(f"{difference}\n  turn {self.turns} of {self.case}") from None
        self.seen["games"] += 1
        return self.seen

    def choose(self) -> int:
        driver = self.case.drivers[self.game.seat]
        if driver == "random":
            return int(self.dice.choice(self.game.legal()))
        return int(self.game.bot(driver))

    def act(self, action: int) -> None:
        if self.dice.random() < 0.01:
            self.check_illegal()
        self.turns += 1
        self.count(action)
        seat, role = self.referee.turn
        legal = self.referee.legal()
        if action not in legal:
            raise Difference(
                f"{self.case.drivers[seat]} chose {action} for {role}, legal are {sorted(legal)}"
            )
        rewards = self.game.act(action)
        expected = np.array(self.referee.act(action), np.float32)
        self.same("rewards", np.round(rewards, 3).tolist(), np.round(expected, 3).tolist())
        self.check_turn()

    def check_turn(self) -> None:
        game, referee = self.game, self.referee
        self.same("game over", bool(game.over), referee.over)
        if referee.over:
            scores = self.engine_view(0)["score"].reshape(-1).tolist()
            self.same("final scores", scores, referee.scores)
            best = [seat for seat, score in enumerate(scores) if score == max(scores)]
            self.same("winners", best, referee.winners)
            return
        self.same("turn and role", (int(game.seat), str(game.role)), referee.turn)
        self.same("legal actions", sorted(int(a) for a in game.legal()), sorted(referee.legal()))
        self.check_views()

    def check_views(self) -> None:
        seats = range(self.rules.players)
        engine = self.schema.unpack(np.stack([self.game.observe(seat) for seat in seats]))
        referee = [self.referee.view(seat) for seat in seats]
        self.same("observation fields", sorted(engine), sorted(referee[0]))
        for name, tables in engine.items():
            for seat, table in enumerate(tables.tolist()):
                self.same(f"'{name}' as seat {seat} sees it", table, referee[seat][name])

    def check_illegal(self) -> None:
        """An action that is not legal raises and changes nothing."""
        illegal = sorted(set(range(-1, r.ACTIONS + 1)) - self.referee.legal())
        try:
            self.game.act(self.dice.choice(illegal))
        except IllegalAction:
            self.check_turn()
        else:
            raise Difference("an illegal action was taken without a word")

    def same(self, what: str, engine: Any, referee: Any) -> None:
        if engine != referee:
            raise Difference(f"{what}:\n  engine  {engine}\n  referee {referee}")

    def count(self, action: int) -> None:
        """What this turn shows, so that a fuzz can say what it has covered."""
        seat, role = self.referee.turn
        self.seen["turns"] += 1
        self.seen[role] += 1
        if role != "play":
            return
        card = r.TIGRESS if action == r.TIGRESS_PIRATE else action
        trick = [*self.referee.trick, r.Play(seat, card, action == r.TIGRESS_PIRATE)]
        if len(trick) == self.rules.places:
            self.seen["tricks"] += 1
            outcome = r.resolve(trick, self.rules)
            beast = r.beast_that_acts(trick)
            if beast is not None:
                self.seen["krakens" if beast.card == r.KRAKEN else "whales"] += 1
            self.seen["alliances"] += len(r.loot_players(trick, outcome, self.rules))
            self.seen["bonus tricks"] += r.trick_bonus(trick, outcome, self.rules) > 0
