"""Boards of squares: which actions belong to which square, and the symmetries of the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

STEPS = {"u": (-1, 0), "d": (1, 0), "l": (0, -1), "r": (0, 1), ".": (0, 0)}
"""Rows and columns an action goes, by the letter of its heading."""


@dataclass(frozen=True)
class ActionGroup:
    """Actions with numbers one behind the other."""

    each_square: bool
    """Every square has all of them, square by square; otherwise they are there once."""
    headings: str
    """A letter for each: where it goes (u, d, l, r), or . for nowhere."""


@dataclass(frozen=True)
class Board:
    """Squares numbered row by row, and the game's actions in groups, in the order of their numbers."""

    height: int
    width: int
    groups: tuple[ActionGroup, ...]

    @classmethod
    def from_native(cls, height: int, width: int, groups: Sequence[tuple[bool, str]]) -> Board | None:
        return cls(height, width, tuple(ActionGroup(*group) for group in groups)) if height else None

    @property
    def squares(self) -> int:
        return self.height * self.width

    @property
    def square_actions(self) -> int:
        """Actions of one square, over all groups."""
        return sum(len(group.headings) for group in self.groups if group.each_square)

    @property
    def single_actions(self) -> int:
        """Actions that belong to no square."""
        return sum(len(group.headings) for group in self.groups if not group.each_square)

    @property
    def symmetries(self) -> int:
        """Ways to see the board that keep neighbours neighbours."""
        return 8 if self.height == self.width else 4

    def square_views(self) -> npt.NDArray[np.int64]:
        """[symmetries, squares]: the square of the board that is seen on each square of a view. View 0 is
        the board as it is; 1 is mirrored left to right, 2 top to bottom, 4 along the diagonal, and
        the others do these in that order."""
        squares = np.arange(self.squares).reshape(self.height, self.width)
        return np.stack([_seen(squares, view).flatten() for view in range(self.symmetries)])

    def action_views(self) -> npt.NDArray[np.int64]:
        """[symmetries, actions]: the number that each action of the game has in a view."""
        views = []
        for view, squares in enumerate(self.square_views()):
            place = np.argsort(squares)  # of each square, in the view
            parts: list[npt.NDArray[np.int64]] = []
            first = 0
            for group in self.groups:
                kinds = [_turned(group.headings, k, view) for k in range(len(group.headings))]
                size = len(kinds)
                at = place[:, None] * size if group.each_square else np.zeros((1, 1), np.int64)
                parts.append((first + at + np.array(kinds)).flatten())
                first += len(parts[-1])
            views.append(np.concatenate(parts))
        return np.stack(views)


def _seen(squares: npt.NDArray[np.int64], view: int) -> npt.NDArray[np.int64]:
    squares = squares[:, ::-1] if view & 1 else squares
    squares = squares[::-1, :] if view & 2 else squares
    return squares.T if view & 4 else squares


def _turned(headings: str, action: int, view: int) -> int:
    """The action of the group that goes in the view where `action` goes on the board. Where a heading
    occurs several times (a whole and a half move), the n-th stays the n-th."""
    down, right = STEPS[headings[action]]
    right = -right if view & 1 else right
    down = -down if view & 2 else down
    down, right = (right, down) if view & 4 else (down, right)
    heading = next(letter for letter, step in STEPS.items() if step == (down, right))
    alike = [k for k, letter in enumerate(headings) if letter == heading]
    return alike[headings[:action].count(headings[action])]
