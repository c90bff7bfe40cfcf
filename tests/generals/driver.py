"""Plays the native engine and the referee side by side and compares everything in sight.

The engine makes the board; the referee reads it once, from the text that shows all of it, and
decides everything else by itself.
"""

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from playmill.games import Game, IllegalAction, PlaymillError, registry
from tests.fuzzing import Difference

from .board import MOST, parse_board, plain
from .players import PLAYERS, destination
from .referee import Referee, Rules
from .rules import PRESETS

Options = dict[str, int | str]
CHOICES: dict[str, list[int | str]] = {
    "smallest": [0, 4, 4, 5],
    "city_period": [1, 1, 2, 3, 50, 255, 300],
    "land_period": [1, 2, 5, 25, 50, 255, 1000],
    "land_growth": ["ground", "all", "preset"],
    "start_army": [0, 1, 2, 2, 9, 60, 200, 1000, -1],
    "capture_share": ["full", "half", "preset"],
    "regrowth": ["no", "yes", "preset"],
    "order": ["seat", "alternating", "smaller", "priority", "priority", "preset"],
    "build": ["no", "yes", "yes", "preset"],
    "fog_obstacles": ["no", "yes", "preset"],
    "mountains": [0, 5, 12, 22, 30, -1],
    "cities": [0, 50, 150, -1],
    "city_army": [0, 1, 5, 38, -1],
    "city_army_spread": [0, 3, 10, -1],
}


@dataclass(frozen=True)
class Case:
    """One game of the fuzz; the same case is the same game for ever."""

    options: Options
    seed: int
    players: tuple[str, ...]  # of the seats
    whim: float = 0.1  # how often a seat does anything else

    @classmethod
    def numbered(cls, number: int, fuzz_seed: int) -> "Case":
        dice = random.Random(f"{fuzz_seed}/{number}")
        while True:
            options = drawn(dice)
            try:
                seats = registry.spec("generals", options).seats
            except PlaymillError:  # a board too small for so many generals so far apart
                continue
            who = tuple(dice.choices([*PLAYERS], [4, 2, 6, 8, 6, 2, 1], k=seats))
            return cls(options, dice.randrange(2**63), who, dice.choice([0.02, 0.1, 0.4]))


def drawn(dice: random.Random) -> Options:
    """Options at random: a preset, a size, and half of the rest set by themselves."""
    large = dice.random() < 0.04
    players = dice.choice([2, 2, 2, 3, 3, 4, 5, 6, 7, 8])
    width = height = 0
    while width * height < 8 * players:
        sides = range(12, 33) if large else (4, 4, 5, 5, 6, 7, 8, 9, 10, 11)
        width, height = dice.choice(sides), dice.choice(sides)
    options: Options = {
        "preset": dice.choice([*PRESETS]),
        "players": players,
        "width": width,
        "height": height,
        "max_ticks": dice.choice([1, dice.randint(2, 60), dice.randint(2, 60), 120]),
        "shaping": dice.choice([0, 0, 1, 50, 100]),
        "draw": dice.choice([0, 0, 30, 100]),
        "distance": dice.choice([1, 2, 3, 5]),
    }
    if large:
        options["max_ticks"] = dice.choice([3, 12, 40])
    for name, values in CHOICES.items():
        if dice.random() < 0.5:
            options[name] = dice.choice(values)
    return options


@dataclass
class SideBySide:
    """An engine and a referee at the same tick of the same game."""

    case: Case
    seen: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.rules = Rules.of(self.case.options)
        self.game = Game("generals", self.case.options, self.case.seed)
        self.schema = self.game.spec.schema
        self.dice = random.Random(self.case.seed)
        self.referee = Referee(self.rules, parse_board(self.game.table_text(-1)))
        self.answers: dict[int, int] = {}

    def play_out(self) -> Counter[str]:
        """The whole game; counts of what came up in it."""
        try:
            self.check_position()
            while not self.referee.over:
                self.tick()
        except Difference as difference:
            raise Difference(f"{difference}\n{self.scene()}") from None
        self.seen["games"] += 1
        self.seen["wins" if self.referee.alive.count(True) == 1 else "draws"] += 1
        return self.seen

    def scene(self) -> str:
        """Where the two stand, for a person who looks for the difference."""
        return "\n".join(
            [
                f"  {self.case}",
                f"  answers since the last tick or to it: {self.answers}",
                "engine:",
                plain(self.game.table_text(-1)),
                "referee:",
                self.referee.text(),
            ]
        )

    def tick(self) -> None:
        """Asks every seat, lets both play the tick, and compares."""
        self.answers = {}
        shown = self.game.table_text(-1)
        views = [self.game.observe(seat).tobytes() for seat in self.referee.seats]
        rewards = np.zeros(self.rules.players, np.float32)
        asked = self.referee.asked
        for seat in asked:
            self.check_turn(seat)
            if self.dice.random() < 0.005:
                self.check_illegal(seat)
            self.answers[seat] = self.choose(seat)
            rewards = self.game.act(self.answers[seat])
            if seat != asked[-1]:
                self.same("rewards within a tick", rewards.tolist(), [0.0] * self.rules.players)
            if seat != asked[-1] and self.dice.random() < 0.1:
                self.same("the table within a tick", self.game.table_text(-1), shown)
                now = [self.game.observe(seat).tobytes() for seat in self.referee.seats]
                self.same("views within a tick", now == views, True)
        self.count()
        alive = self.referee.alive.count(True)
        expected = self.referee.tick(self.answers)
        self.seen["falls"] += alive - self.referee.alive.count(True)
        if not np.allclose(rewards, expected, atol=1e-5):
            raise Difference(f"rewards:\n  engine  {rewards.tolist()}\n  referee {expected}")
        self.check_position()

    def choose(self, seat: int) -> int:
        player = "random" if self.dice.random() < self.case.whim else self.case.players[seat]
        return PLAYERS[player](self.referee, seat, self.dice)

    def check_turn(self, seat: int) -> None:
        self.same("over", bool(self.game.over), False)
        self.same("whose turn", int(self.game.seat), seat)
        legal = self.referee.legal(seat)
        self.same(f"legal actions of seat {seat}", sorted(self.game.legal()), sorted(legal))

    def check_position(self) -> None:
        """All there is to see between two ticks."""
        self.same("the table", plain(self.game.table_text(-1)), plain(self.referee.text()))
        self.same("over", bool(self.game.over), self.referee.over)
        if self.referee.over:
            self.same("legal actions after the end", list(self.game.legal()), [])
        for seat in self.referee.seats:
            engine = self.schema.unpack(self.game.observe(seat))
            referee = self.referee.observe(seat)
            self.same("observation fields", sorted(engine), sorted(referee))
            for name, values in referee.items():
                if not np.array_equal(engine[name].reshape(-1), values.reshape(-1)):
                    where = f"'{name}' as seat {seat} sees it"
                    raise Difference(f"{where}:\n  engine\n{engine[name]}\n  referee\n{values}")
            view = plain(self.game.table_text(seat))
            self.same(f"the table of seat {seat}", view, plain(self.referee.view_text(seat)))

    def check_illegal(self, seat: int) -> None:
        """An action that is not legal raises and changes nothing."""
        beyond = self.game.spec.actions
        illegal = sorted(set(range(-1, beyond + 1)) - self.referee.legal(seat))
        try:
            self.game.act(self.dice.choice(illegal))
        except IllegalAction:
            self.seen["illegal"] += 1
            self.check_turn(seat)
        else:
            raise Difference("an illegal action was taken without a word")

    def same(self, what: str, engine: Any, referee: Any) -> None:
        if engine != referee:
            raise Difference(f"{what}:\n  engine\n{engine}\n  referee\n{referee}")

    def count(self) -> None:
        """What this tick shows, so that a fuzz can say what it has covered."""
        squares, passing = self.referee.board.squares, self.referee.board.passing
        self.seen["ticks"] += 1
        self.seen["turns"] += len(self.answers)
        self.seen["builds"] += sum(action > passing for action in self.answers.values())
        self.seen["halves"] += sum(action < passing and action % 8 >= 4 for action in self.answers.values())
        moves = {s: (a // 8, destination(self.referee.board, a)) for s, a in self.answers.items()}
        for seat, (source, target) in moves.items():
            if target is None:
                continue
            self.seen["attacks"] += squares[target].owner not in (seat, None)
            self.seen["large armies"] += squares[source].army + squares[target].army > MOST
            for other, (start, goal) in moves.items():
                if goal is not None and other != seat and goal == source:
                    self.seen["changes of place" if start == target else "moves from under attack"] += 1
