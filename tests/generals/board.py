"""A board of Generals and its text form."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

MOST = 65_535  # the largest army of a square
UP, DOWN, LEFT, RIGHT = range(4)
STEPS = {UP: (0, -1), DOWN: (0, 1), LEFT: (-1, 0), RIGHT: (1, 0)}
MARKUP = re.compile(r"\[[^\]]*\]")


@dataclass
class Square:
    kind: str  # ground, mountain, city, general
    owner: int | None = None
    army: int = 0

    def text(self) -> str:
        """`^`, `.`, `*40`, `a7`, `a*7` or `A7`."""
        if self.kind == "mountain":
            return "^"
        if self.owner is None:
            # A square remembered as nobody's has an army in memory, but the text form of ground
            # without owner shows none.
            return f"*{self.army}" if self.kind == "city" else "."
        letter = chr(ord("A" if self.kind == "general" else "a") + self.owner)
        return f"{letter}{'*' if self.kind == 'city' else ''}{self.army}"


@dataclass
class Board:
    """Squares row by row from the top left, and how many ticks were played."""

    width: int
    height: int
    squares: list[Square]
    tick: int = 0

    @property
    def passing(self) -> int:
        """The action of doing nothing."""
        return len(self.squares) * 8

    def neighbour(self, square: int, direction: int) -> int | None:
        x, y = square % self.width + STEPS[direction][0], square // self.width + STEPS[direction][1]
        return y * self.width + x if 0 <= x < self.width and 0 <= y < self.height else None

    def around(self, square: int) -> Iterator[int]:
        """The square itself and those of the eight around it that are on the board."""
        x, y = square % self.width, square // self.width
        for row in range(max(0, y - 1), min(self.height, y + 2)):
            for column in range(max(0, x - 1), min(self.width, x + 2)):
                yield row * self.width + column

    def steps(self, one: int, other: int) -> int:
        """The distance of two squares without regard to mountains."""
        across = abs(one % self.width - other % self.width)
        return across + abs(one // self.width - other // self.width)

    def owned(self, seat: int) -> list[int]:
        return [number for number, square in enumerate(self.squares) if square.owner == seat]

    def land(self, seat: int) -> int:
        return len(self.owned(seat))

    def armies(self, seat: int) -> int:
        return sum(self.squares[number].army for number in self.owned(seat))

    def rows(self, words: list[str]) -> list[str]:
        """A word for each square as lines, a line for each row."""
        return [" ".join(words[y * self.width : (y + 1) * self.width]) for y in range(self.height)]


def plain(markup: str) -> str:
    """The text without rich's markup and without the blanks that keep columns in line."""
    return "\n".join(" ".join(line.split()) for line in MARKUP.sub("", markup).splitlines())


def parse_board(text: str) -> Board:
    """The board of a text; the line with the tick may be missing."""
    lines = [line.split() for line in plain(text).strip().splitlines()]
    tick = 0
    if lines[0][0] == "tick":
        tick = int(lines.pop(0)[1])
    squares = [parse_square(word) for line in lines for word in line]
    width = len(lines[0])
    if any(len(line) != width for line in lines):
        raise ValueError(f"rows of different length:\n{text}")
    return Board(width, len(lines), squares, tick)


def parse_square(word: str) -> Square:
    if word == "^":
        return Square("mountain")
    if word == ".":
        return Square("ground")
    parts = re.fullmatch(r"([a-h]?)(\*?)(\d+)|([A-H])(\d+)", word)
    if not parts or word.isdigit():
        raise ValueError(f"no square is written '{word}'")
    letter, star, army, capital, guard = parts.groups()
    if capital:
        return Square("general", ord(capital) - ord("A"), int(guard))
    return Square("city" if star else "ground", ord(letter) - ord("a") if letter else None, int(army))
