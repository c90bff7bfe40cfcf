"""Action numbers of Generals in the two encodings of the system the preset `source` comes from.

Ours is square * 8 + 4 if half + direction (up, down, left, right), then one pass, then a build
for each square. Theirs is square * 4 + direction beside a flag for half; no order is a pass, and
there are no builds. Their engine and its messages count up, right, down, left; their experience
serializer counts as we do.
"""

from __future__ import annotations

from dataclasses import dataclass

from playmill.games.errors import PlaymillError

UP, DOWN, LEFT, RIGHT = range(4)
ENGINE = (UP, RIGHT, DOWN, LEFT)
EXPERIENCE = (UP, DOWN, LEFT, RIGHT)


@dataclass(frozen=True)
class Order:
    """A move as the other system writes it."""

    index: int
    """square * 4 + direction, from 0 to width * height * 4 - 1."""
    half: bool


@dataclass(frozen=True)
class Codec:
    """Translates the actions of one board size into one of the encodings and back."""

    width: int
    height: int
    directions: tuple[int, ...] = ENGINE
    """Our direction for each of theirs."""

    def __post_init__(self) -> None:
        if self.width < 1 or self.height < 1:
            raise PlaymillError(f"a board has at least one square, got {self.width} x {self.height}")
        if sorted(self.directions) != [UP, DOWN, LEFT, RIGHT]:
            raise PlaymillError(f"directions must be each of 0 to 3 once, got {self.directions}")

    @property
    def passing(self) -> int:
        """Our action of doing nothing."""
        return self.width * self.height * 8

    def encode(self, action: int) -> Order | None:
        """Their order for our action; None for a pass."""
        if action == self.passing:
            return None
        if action > self.passing:
            raise PlaymillError(f"action {action} builds, which the other system cannot; play with build=no")
        if action < 0:
            raise PlaymillError(f"actions are 0 to {self.passing}, got {action}")
        square, rest = divmod(action, 8)
        half, direction = divmod(rest, 4)
        return Order(square * 4 + self.directions.index(direction), half == 1)

    def decode(self, order: Order | None) -> int:
        """Our action for their order."""
        if order is None:
            return self.passing
        if not 0 <= order.index < self.width * self.height * 4:
            raise PlaymillError(
                f"orders on {self.width} x {self.height} are 0 to {self.width * self.height * 4 - 1},"
                f" got {order.index}; is the board's size right?"
            )
        square, direction = divmod(order.index, 4)
        return square * 8 + 4 * order.half + self.directions[direction]
