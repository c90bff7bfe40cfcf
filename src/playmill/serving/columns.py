"""The one column schema of the batch game service. Every transport carries these columns, in this order
and in these types: as arrays in one process, as views of shared memory, as bytes fields of messages."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from playmill import _native
from playmill.games import GameSpec

KEY_BYTES: int = _native.KEY_BYTES
NOBODY = 255
"""`to_act` once a game is over."""
_ALIGN = 64

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I32 = npt.NDArray[np.int32]
F32 = npt.NDArray[np.float32]


class Standing(IntEnum):
    """How a row of a batch fared; the numbers are the native core's."""

    OK = 0
    REPEATED = 1
    """The same answer was given before: it counts once."""
    NOT_YOUR_TURN = 2
    ILLEGAL = 3
    OVER = 4
    STALE = 5
    """That turn was answered otherwise, or too long ago to tell."""
    AHEAD = 6
    """The game has not come to that turn."""
    NO_GAME = 7
    WRONG_KEY = 8


@dataclass(frozen=True)
class Column:
    """One column: its type, and what stands in a row: a number, or so many values."""

    name: str
    dtype: str
    width: str = ""
    """Empty, or which fact of the game says how many values a row has: key, seats, legal or observation."""

    def shape(self, rows: int, widths: Mapping[str, int]) -> tuple[int, ...]:
        return (rows, widths[self.width]) if self.width else (rows,)


@dataclass(frozen=True)
class Columns:
    """Rows of a batch as arrays. N rows, S seats."""

    schema: ClassVar[tuple[Column, ...]]

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        return iter(self.__dict__.values())

    def __len__(self) -> int:
        return len(self.__dict__[self.schema[0].name])


@dataclass(frozen=True)
class Seats(Columns):
    """Which seats are meant: the address of a row."""

    game: U64  # [N] ids
    seat: U8  # [N]
    key: U8  # [N, 16] what opens that seat

    schema = (Column("game", "<u8"), Column("seat", "u1"), Column("key", "u1", "key"))


@dataclass(frozen=True)
class Moves(Columns):
    """Answers to turns."""

    game: U64  # [N]
    seat: U8  # [N]
    key: U8  # [N, 16]
    turn: U32  # [N] the turn answered: that of the state
    action: I32  # [N]

    schema = (*Seats.schema, Column("turn", "<u4"), Column("action", "<i4"))


@dataclass(frozen=True)
class Resets(Columns):
    """Games to begin anew, by their hosts."""

    game: U64  # [N]
    key: U8  # [N, 16] the host's
    turn: U32  # [N] the turn it is reset at
    seed: U64  # [N]

    schema = (
        *(Column("game", "<u8"), Column("key", "u1", "key")),
        *(Column("turn", "<u4"), Column("seed", "<u8")),
    )


@dataclass(frozen=True)
class Hosts(Columns):
    """Games to delete, by their hosts."""

    game: U64  # [N]
    key: U8  # [N, 16] the host's

    schema = (Column("game", "<u8"), Column("key", "u1", "key"))


@dataclass(frozen=True)
class States(Columns):
    """What seats may know. Rows whose standing is not OK are zeros."""

    standing: U8  # [N] Standing
    turn: U32  # [N] decisions so far; never goes back, through resets too
    to_act: U8  # [N] whose turn; NOBODY once over
    role: U8  # [N] index into spec.roles
    over: U8  # [N]
    rewards: F32  # [N, S] of all seats since the game began
    legal: U8  # [N, legal_bytes] bits; zeros unless it is that seat's turn
    observation: U8  # [N, schema.bytes] packed

    schema = (
        *(Column("standing", "u1"), Column("turn", "<u4"), Column("to_act", "u1")),
        *(Column("role", "u1"), Column("over", "u1"), Column("rewards", "<f4", "seats")),
        *(Column("legal", "u1", "legal"), Column("observation", "u1", "observation")),
    )


@dataclass(frozen=True)
class Answers(Columns):
    """How submissions, resets and deletions fared, and where the games stand now."""

    standing: U8  # [N] Standing
    turn: U32  # [N]
    over: U8  # [N]

    schema = (Column("standing", "u1"), Column("turn", "<u4"), Column("over", "u1"))


C = TypeVar("C", bound=Columns)


@dataclass(frozen=True)
class Layout:
    """How wide the columns of one game are, and where they lie in memory."""

    seats: int
    legal: int
    observation: int
    hash: int
    """Of the columns and of the game's own observation schema: who has the same reads the same bytes."""

    @classmethod
    def of(cls, spec: GameSpec) -> Layout:
        known = [
            [kind.__name__, [[c.name, c.dtype, c.width] for c in kind.schema]]
            for kind in (Seats, Moves, Resets, Hosts, States, Answers)
        ]
        text = json.dumps([known, spec.name, spec.seats, spec.legal_bytes, f"{spec.schema.hash:016x}"])
        number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
        return cls(spec.seats, spec.legal_bytes, spec.schema.bytes, number)

    @property
    def widths(self) -> dict[str, int]:
        return {"key": KEY_BYTES, **{n: getattr(self, n) for n in ("seats", "legal", "observation")}}

    def empty(self, kind: type[C], rows: int) -> C:
        """Zeroed arrays of the right shapes."""
        widths = self.widths
        return kind(*(np.zeros(c.shape(rows, widths), c.dtype) for c in kind.schema))

    def end(self, kind: type[Columns], rows: int, begin: int = 0) -> int:
        """The first byte after `rows` rows that lie from `begin` on."""
        for _, size in places(self, kind, rows):
            begin += -begin % _ALIGN + size
        return begin + -begin % _ALIGN

    def views(self, kind: type[C], rows: int, memory: memoryview, begin: int) -> C:
        """Rows in memory that somebody else holds, columns one after another at multiples of 64 bytes."""
        out = []
        widths = self.widths
        for column, size in places(self, kind, rows):
            begin += -begin % _ALIGN
            flat = np.frombuffer(memory[begin : begin + size], column.dtype)
            out.append(flat.reshape(column.shape(rows, widths)))
            begin += size
        return kind(*out)


def places(layout: Layout, kind: type[Columns], rows: int) -> tuple[tuple[Column, int], ...]:
    """Every column and its bytes."""
    widths = layout.widths
    return tuple((c, math.prod(c.shape(rows, widths)) * np.dtype(c.dtype).itemsize) for c in kind.schema)
