"""Hand-made positions: a board in its text form, orders in words, and what comes of them."""

import random
import re
from typing import Any

from .board import DOWN, LEFT, RIGHT, UP, Board, Square, parse_board
from .referee import Referee, Rules
from .twin import Twin

WAYS = {"up": UP, "down": DOWN, "left": LEFT, "right": RIGHT}
QUIET = {"preset": "source", "city_period": 100, "land_period": 100}  # nothing grows in the first ticks


def stage(board: str, **options: Any) -> Twin:
    """Referee and engine at this board, without growth where no period is given."""
    parsed = parse_board(board)
    players = 1 + max(square.owner for square in parsed.squares if square.owner is not None)
    return Twin(Rules.of(QUIET | {"players": players} | options), parsed)


def action(board: Board, order: str) -> int:
    """The action of `2,0 right`, `2,0 right half`, `build 2,0` (column, row) or `pass`."""
    if order == "pass":
        return board.passing
    x, y = (int(number) for number in re.findall(r"\d+", order))
    square = y * board.width + x
    if order.startswith("build"):
        return board.passing + 1 + square
    way = next(WAYS[word] for word in order.split() if word in WAYS)
    return square * 8 + 4 * order.endswith("half") + way


def play(referee: Referee, *orders: str) -> list[float]:
    """A tick; the seats not named pass. Returns the rewards."""
    actions = dict.fromkeys(referee.asked, referee.board.passing)
    for seat, order in enumerate(orders):
        if seat in actions:
            actions[seat] = action(referee.board, order)
    return referee.tick(actions)


def shown(referee: Referee) -> str:
    """The board as one line, rows apart by a stroke."""
    return " / ".join(referee.text().splitlines()[1:])


def viewed(referee: Referee, seat: int) -> str:
    return " / ".join(referee.view_text(seat).splitlines()[1:])


def may(referee: Referee, seat: int, order: str) -> bool:
    return action(referee.board, order) in referee.legal(seat)


def scattered(dice: random.Random, width: int, height: int, players: int) -> Board:
    """A board at random with a general for each player and some land held, whatever its ways."""
    squares = [
        dice.choices(
            [Square("ground"), Square("mountain"), Square("city", None, dice.randint(0, 9))], [80, 12, 8]
        )[0]
        for _ in range(width * height)
    ]
    for seat, number in enumerate(dice.sample(range(width * height), players)):
        squares[number] = Square("general", seat, dice.randint(1, 30))
    for number in dice.sample(range(width * height), width * height // 6):
        if squares[number].kind in ("ground", "city") and squares[number].owner is None:
            kind = squares[number].kind
            squares[number] = Square(kind, dice.randrange(players), dice.randint(0, 20))
    return Board(width, height, squares)
