"""Games recorded elsewhere, as text that can be read and replayed.

A file has a line of words about the game, a line of options, then the boards and the ticks:

    A1 . *43
    . . B1
    3 - 9e107d9d

A board stands before the ticks that follow it. A tick is the action of each seat by our numbers
(`-`: pass) and a checksum of the position after it: the board, what each seat may do and what it
sees. `won` in the first line says that the game ended; nobody could do or see anything after that,
so the last position is the board alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

FOLDER = Path(__file__).parent / "recorded"
BOARD_EVERY = 25


@dataclass
class Tick:
    actions: tuple[int | None, ...]
    """Of each seat; None is a pass."""
    checksum: str
    board: str = ""
    """After the tick, where it was written down."""

    def line(self) -> str:
        return " ".join(["-" if a is None else str(a) for a in self.actions] + [self.checksum])


@dataclass
class Recording:
    title: str
    options: dict[str, int | str]
    start: str
    ticks: list[Tick] = field(default_factory=list)

    @property
    def won(self) -> bool:
        return self.title.endswith(" won")

    def text(self) -> str:
        lines = [self.title, " ".join(f"{name}={value}" for name, value in self.options.items()), self.start]
        for tick in self.ticks:
            lines += [tick.line(), tick.board] if tick.board else [tick.line()]
        return "\n".join(lines) + "\n"


def checksum(board: str, legal: Sequence[set[int]] = (), sight: Sequence[set[int]] = ()) -> str:
    """Eight digits for a position: its rows, and a set of moves and of squares for each seat."""
    sets = [" ".join(str(number) for number in sorted(numbers)) for numbers in (*legal, *sight)]
    return f"{crc32('|'.join([board, *sets]).encode()):08x}"


def read(path: Path) -> Recording:
    title, options, *lines = path.read_text(encoding="utf-8").splitlines()
    pairs = (word.split("=") for word in options.split())
    named = {name: int(value) if value.isdigit() else value for name, value in pairs}
    recording = Recording(title, named, "")
    boards: list[list[str]] = [[]]
    for line in lines:
        *words, last = line.split()
        if len(last) == 8 and all(word == "-" or word.isdigit() for word in words):
            actions = tuple(None if word == "-" else int(word) for word in words)
            recording.ticks.append(Tick(actions, last))
            boards.append([])
        else:
            boards[-1].append(line)
    recording.start = "\n".join(boards[0])
    for tick, board in zip(recording.ticks, boards[1:], strict=True):
        tick.board = "\n".join(board)
    return recording
