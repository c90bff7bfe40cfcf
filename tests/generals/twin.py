"""A referee that has the engine play along from the same board, and compares after every tick.

The engine wants boards of a certain size. Smaller ones are put into the corner of a larger one that is
mountains otherwise: that changes nothing within.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict

import numpy as np
import pytest

from playmill.games import Game

from .board import Board, Square, plain
from .referee import Referee, Rules

LEAST = 4  # squares on a side
LEAST_EACH = 8  # squares for each player


def framed(board: Board, players: int) -> Board:
    """The board with as many mountains to the right and below as the engine needs."""
    width = max(LEAST, board.width)
    height = max(LEAST, board.height, -(-LEAST_EACH * players // width))
    squares = [Square("mountain") for _ in range(width * height)]
    for number, square in enumerate(board.squares):
        squares[number // board.width * width + number % board.width] = square
    return Board(width, height, squares, board.tick)


class Twin(Referee):
    def __init__(self, rules: Rules, board: Board) -> None:
        super().__init__(rules, board)
        self.frame = framed(board, rules.players)
        text = "\n".join([self._head(), *self.frame.rows([square.text() for square in self.frame.squares])])
        self.engine = Game.from_text("generals", text, asdict(rules))
        self.compare()

    def again(self) -> "Twin":
        """The same position, and nothing remembered."""
        return Twin(self.rules, deepcopy(self.board))

    def tick(self, actions: Mapping[int, int]) -> list[float]:
        legal = {seat: self.legal(seat) for seat in self.asked}
        rewards = super().tick(actions)
        gains = np.zeros(self.rules.players, np.float32)
        for seat in sorted(actions):
            assert self.engine.seat == seat
            assert set(self.engine.legal()) == {self.theirs(action) for action in legal[seat]}
            gains = self.engine.act(self.theirs(actions[seat]))
        assert gains.tolist() == pytest.approx(rewards, abs=1e-5)
        self.compare()
        return rewards

    def theirs(self, action: int) -> int:
        """The action by the engine's number."""
        if action == self.board.passing:
            return self.frame.passing
        square, rest = divmod(action, 8)
        if action > self.board.passing:
            square, rest = action - self.board.passing - 1, 0
        place = square // self.board.width * self.frame.width + square % self.board.width
        return self.frame.passing + 1 + place if action > self.board.passing else place * 8 + rest

    def compare(self) -> None:
        """Everything there is to see is the same."""
        assert self.engine.over == self.over
        assert self.corner(self.engine.table_text(-1)) == plain(self.text())
        for seat in self.seats:
            assert self.corner(self.engine.table_text(seat)) == plain(self.view_text(seat))
            view = self.engine.spec.schema.unpack(self.engine.observe(seat))
            for name, values in self.observe(seat).items():
                theirs = view[name].reshape(-1)
                if values.ndim > 1:
                    grid = theirs.reshape(-1, self.frame.height, self.frame.width)
                    theirs = grid[:, : self.board.height, : self.board.width].reshape(-1)
                assert np.array_equal(theirs, values.reshape(-1)), f"'{name}' of seat {seat}"

    def corner(self, markup: str) -> str:
        """The engine's text without the mountains round the board."""
        head, *rows = plain(markup).splitlines()
        return "\n".join(
            [head, *(" ".join(r.split()[: self.board.width]) for r in rows[: self.board.height])]
        )
