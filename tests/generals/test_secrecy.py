"""A seat never learns what is hidden from it.

What a seat may know is what lies in its sight, who is alive, the land and armies of everyone in all
and, with `fog_obstacles`, where there are mountains or cities. Two tests on the referee change the
rest and find the same observation; `test_differential` holds the engine equal to the referee. The
last tests need no referee: the engine itself is played twice with one seed, the others act
differently out of sight, and the seat is shown the same.
"""

import copy
import random

import numpy as np
import pytest

from playmill.games import Game

from .board import Board, parse_board
from .players import PLAYERS
from .referee import Referee, Rules
from .staging import scattered

PUBLIC = {"land", "armies"}
KINDS = ("ground", "mountain", "city")


def in_sight(board: Board, seat: int) -> set[int]:
    return {near for number in board.owned(seat) for near in board.around(number)}


def permitted(board: Board, seat: int, explored: set[int], fog_obstacles: bool) -> list[object]:
    """All that this board may tell the seat, who has seen the squares of `explored`."""
    sight = sorted(in_sight(board, seat))
    generals = sorted(s.owner for s in board.squares if s.kind == "general" and s.owner is not None)
    obstacles = {n for n, s in enumerate(board.squares) if s.kind in ("mountain", "city")} - explored
    return [
        [(number, board.squares[number]) for number in sight],
        generals,
        sorted(obstacles) if fog_obstacles else [],
    ]


def table_at(number: int) -> tuple[Referee, random.Random]:
    dice = random.Random(number)
    players = dice.choice([2, 3, 4])
    options = {
        "preset": dice.choice(["source", "generalsio", "competition"]),
        "players": players,
        "max_ticks": 60,
        "city_period": 1,
        "shaping": 0,
    }
    return Referee(Rules.of(options), scattered(dice, 9, 9, players)), dice


def scramble(table: Referee, seat: int, dice: random.Random) -> Referee:
    """The same table with all changed that the seat does not see."""
    other = copy.deepcopy(table)
    for number, square in enumerate(other.board.squares):
        if number in table.sight[seat] or square.kind == "general":
            continue
        never = table.memory[seat][number] is None
        if never and table.rules.fog_obstacles == "yes":
            square.kind = dice.choice(KINDS[1:]) if square.kind in KINDS[1:] else "ground"
        else:
            square.kind = dice.choice(KINDS)
        owners = [None, *(s for s in table.seats if s != seat)]
        square.owner = None if square.kind == "mountain" else dice.choice(owners)
        square.army = 0 if square.kind == "mountain" else dice.randint(0, 60)
    for viewer in table.seats:
        if viewer != seat:
            dice.shuffle(other.memory[viewer])
            other.sight[viewer] = set(dice.sample(range(81), 9))
    return other


@pytest.mark.parametrize("number", range(12))
def test_a_view_does_not_move_with_what_is_hidden(number: int) -> None:
    table, dice = table_at(number)
    while not table.over:
        seat = dice.choice(table.asked)
        moved = scramble(table, seat, dice)
        before, after = table.observe(seat), moved.observe(seat)
        for name in before.keys() - PUBLIC:
            assert np.array_equal(before[name], after[name]), f"'{name}' tells a hidden thing"
        assert moved.legal(seat) == table.legal(seat)
        assert moved.view_text(seat).splitlines()[1:] == table.view_text(seat).splitlines()[1:]
        table.tick({s: PLAYERS["raider"](table, s, dice) for s in table.asked})


def test_scrambling_does_move_what_the_others_see() -> None:
    table, dice = table_at(1)
    moved = scramble(table, 0, dice)
    assert moved.view_text(1) != table.view_text(1)
    assert moved.text() != table.text()


def test_what_others_do_out_of_sight_leaves_no_trace() -> None:
    assert sum(ticks_without_a_trace(number) for number in range(12)) > 50


def ticks_without_a_trace(number: int) -> int:
    """Ticks after which hidden things differed and the seat was shown the same."""
    one, dice = table_at(number)
    other = copy.deepcopy(one)
    seat = dice.choice(one.asked)
    fog = one.rules.fog_obstacles == "yes"
    hidden = 0
    while not one.over and one.alive[seat]:
        mine = PLAYERS["lazy"](one, seat, dice)
        for table in (one, other):
            table.tick({s: PLAYERS["random"](table, s, dice) for s in table.asked} | {seat: mine})
        explored = [{n for n, m in enumerate(t.memory[seat]) if m is not None} for t in (one, other)]
        known = [permitted(t.board, seat, e, fog) for t, e in zip((one, other), explored, strict=True)]
        if known[0] != known[1]:
            other = copy.deepcopy(one)  # they have come into sight: begin again from here
            continue
        hidden += one.text() != other.text()
        views = one.observe(seat), other.observe(seat)
        for name in views[0].keys() - PUBLIC:
            assert np.array_equal(views[0][name], views[1][name]), f"'{name}' tells a hidden thing"
        assert one.legal(seat) == other.legal(seat)
        assert one.view_text(seat).splitlines()[1:] == other.view_text(seat).splitlines()[1:]
    return hidden


# The engine


class Watched:
    """A game of the engine and what one seat has seen in it."""

    def __init__(self, game: Game, seat: int) -> None:
        self.game, self.seat = game, seat
        self.explored: set[int] = set()
        self.look()

    def look(self) -> None:
        self.board = parse_board(self.game.table_text(-1))
        self.explored |= in_sight(self.board, self.seat)

    def copy(self) -> "Watched":
        other = copy.copy(self)
        other.game, other.explored = self.game.copy(), set(self.explored)
        return other

    def tick(self, mine: int, dice: random.Random) -> None:
        """The others act at random."""
        played = self.board.tick
        while not self.game.over and parse_board(self.game.table_text(-1)).tick == played:
            legal = self.game.legal()
            self.game.act(mine if self.game.seat == self.seat else dice.choice(legal))
        self.look()

    def shown(self) -> dict[str, np.ndarray]:
        view = self.game.spec.schema.unpack(self.game.observe(self.seat))
        return {name: values for name, values in view.items() if name not in PUBLIC}


def engine_options(number: int) -> dict[str, int | str]:
    dice = random.Random(number)
    preset = dice.choice(["source", "generalsio", "competition"])
    return {
        "preset": preset,
        "players": dice.choice([2, 3]),
        "width": 10,
        "height": 10,
        "distance": 5,
        "start_army": 9,
        "city_period": 1,
        "max_ticks": 60,
    }


def test_the_engine_shows_a_seat_the_same_whatever_is_hidden_from_it() -> None:
    assert sum(engine_ticks_without_a_trace(number) for number in range(12)) > 50


def engine_ticks_without_a_trace(number: int) -> int:
    options = engine_options(number)
    dice = random.Random(number)
    seat = number % int(options["players"])
    one = Watched(Game("generals", options, number), seat)
    other = one.copy()
    fog = options["preset"] != "source"
    hidden = 0
    while not one.game.over and one.board.owned(seat):
        table = Referee(Rules.of(options), one.board)
        mine = PLAYERS["lazy"](table, seat, dice)
        one.tick(mine, dice)
        other.tick(mine, dice)
        known = [permitted(w.board, seat, w.explored, fog) for w in (one, other)]
        if known[0] != known[1] or other.game.over:
            other = one.copy()
            continue
        hidden += one.game.table_text(-1) != other.game.table_text(-1)
        views = one.shown(), other.shown()
        for name in views[0]:
            assert np.array_equal(views[0][name], views[1][name]), f"'{name}' tells a hidden thing"
    return hidden


@pytest.mark.parametrize("number", range(4))
def test_the_engine_shows_nothing_of_answers_given_before(number: int) -> None:
    """Whatever the seats before have answered, nobody's view moves until the tick is played."""
    options = engine_options(number)
    dice = random.Random(number)
    game = Game("generals", options, number)
    players = range(int(options["players"]))
    answers = 0
    while not game.over:
        tick = parse_board(game.table_text(-1)).tick
        views = [game.observe(seat).tobytes() for seat in players]
        legal = game.legal()
        for action in dice.sample(legal, min(4, len(legal))):
            branch = game.copy()
            branch.act(action)
            if not branch.over and parse_board(branch.table_text(-1)).tick == tick:
                answers += 1
                assert [branch.observe(seat).tobytes() for seat in players] == views
        game.act(dice.choice(legal))
    assert answers > 50
