"""A position turned over and its seats renamed: what a symmetry of the game must leave alike."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from .board import DOWN, LEFT, RIGHT, UP, Board
from .referee import Referee

WAYS = ("as it is", "left to right", "upside down", "along the diagonal")
DIRECTIONS = {
    "as it is": (UP, DOWN, LEFT, RIGHT),
    "left to right": (UP, DOWN, RIGHT, LEFT),
    "upside down": (DOWN, UP, LEFT, RIGHT),
    "along the diagonal": (LEFT, RIGHT, UP, DOWN),
}


@dataclass(frozen=True)
class Image:
    way: str
    seats: tuple[int, ...]
    """What each seat is called in the image."""

    def grid(self, values: np.ndarray) -> np.ndarray:
        """[..., height, width] as the image has it."""
        if self.way == "left to right":
            return values[..., ::-1]
        if self.way == "upside down":
            return values[..., ::-1, :]
        return values.swapaxes(-1, -2) if self.way == "along the diagonal" else values

    def order(self, board: Board) -> list[int]:
        """The square of the board for each square of the image."""
        numbers = np.arange(len(board.squares)).reshape(board.height, board.width)
        return self.grid(numbers).reshape(-1).tolist()

    def board(self, board: Board) -> Board:
        def renamed(number: int):
            square = board.squares[number]
            return replace(square, owner=None if square.owner is None else self.seats[square.owner])

        turned = self.way == "along the diagonal"
        width, height = (board.height, board.width) if turned else (board.width, board.height)
        return Board(width, height, [renamed(number) for number in self.order(board)], board.tick)

    def action(self, board: Board, action: int) -> int:
        place = {number: at for at, number in enumerate(self.order(board))}
        if action == board.passing:
            return action
        if action > board.passing:
            return board.passing + 1 + place[action - board.passing - 1]
        square, rest = divmod(action, 8)
        return place[square] * 8 + rest // 4 * 4 + DIRECTIONS[self.way][rest % 4]

    def actions(self, board: Board, actions: Mapping[int, int]) -> dict[int, int]:
        return {self.seats[seat]: self.action(board, action) for seat, action in sorted(actions.items())}

    def view(self, view: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """An observation; right for others only if the seats keep their order round the table."""
        return {name: self.grid(values) if values.ndim > 1 else values for name, values in view.items()}


def untied(table: Referee, actions: Mapping[int, int]) -> dict[int, int]:
    """The same actions, but who would tie with a lower seat for the order of moves passes."""
    moves = {s: table._move(s, a) for s, a in sorted(actions.items()) if a < table.board.passing}
    taken: set[tuple[int, int]] = set()
    out = dict(actions)
    for seat, move in moves.items():
        key = (0, move.planned) if table.rules.order == "smaller" else (table._rank(move), move.army)
        if key in taken:
            out[seat] = table.board.passing
        taken.add(key)
    return out
