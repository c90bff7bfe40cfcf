"""Open segments of many slots, filled row by row as games go on, and sealed when they are full."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from playmill.experience.segment import Identity, SegmentShape, check_identity, layout, seal
from playmill.games import PlaymillError

Array = npt.NDArray[Any]


class Sealed(NamedTuple):
    """A full segment, ready to be sent."""

    identity: Identity
    message: bytearray


class SegmentWriter:
    """One open segment a slot, each already laid out as its message. A row is complete when its outcome is
    known, which comes with the slot's next row: first `decided`, then `outcome` or `take_back`.

    With `stagger` the first rows of each slot are not kept, of another slot another number: segments then are
    full one after the other for ever, and not all at the same moment."""

    def __init__(
        self, shape: SegmentShape, slots: int, run: str, actor: int, epoch: int, *, stagger: bool = False
    ) -> None:
        check_identity(Identity(run, actor, epoch, 0))
        if slots < 1:
            raise PlaymillError(f"a writer needs at least 1 slot, got {slots}")
        self.shape = shape
        self.slots = slots
        self.sequence = 0
        """Of the next segment that is sealed."""
        self._name = (run, actor, epoch)
        columns, size = layout(shape)
        self._memory = np.zeros((slots, size), np.uint8)
        self._columns = {
            name: np.ndarray(
                (slots, *sizes), dtype, self._memory, offset, (size, *np.zeros(sizes, dtype).strides)
            )
            for name, dtype, sizes, offset in columns
        }
        self._filled = np.zeros(slots, np.int64)
        self._game = np.zeros(slots, np.int64)
        """The first row of the current game in the open segment."""
        self._pending = np.zeros(slots, bool)
        self._to_skip = np.arange(slots) * shape.steps // slots * stagger

    def decided(
        self,
        slots: Array,
        observation: Array,
        legal: Array,
        seat: Array,
        role: Array,
        driver: Array,
        action: Array,
        log_probability: Array,
        value: Array,
        version: Array | int,
    ) -> None:
        """The n rows of one `turns` call and their answers; every slot at most once."""
        if self._pending[slots].any():
            raise PlaymillError("a slot got a second decision before the outcome of its first")
        rows = self._filled[slots]
        columns = self._columns
        columns["observation"][slots, rows] = observation
        columns["legal"][slots, rows] = legal
        columns["seat"][slots, rows] = seat
        columns["role"][slots, rows] = role
        columns["driver"][slots, rows] = driver
        columns["action"][slots, rows] = action
        columns["log_probability"][slots, rows] = log_probability
        columns["value"][slots, rows] = value
        columns["version"][slots, rows] = version
        self._pending[slots] = True

    def outcome(self, slots: Array, rewards: Array, over: Array) -> list[Sealed]:
        """What the last answers of those slots brought; the segments that are full with it.

        Slots without an answer, as at the very first `turns`, are passed over."""
        answered = self._pending[slots]
        slots, rewards, over = slots[answered], rewards[answered], over[answered]
        rows = self._filled[slots]
        self._columns["rewards"][slots, rows] = rewards
        self._columns["over"][slots, rows] = over
        self._pending[slots] = False
        kept = self._to_skip[slots] == 0
        self._to_skip[slots] -= ~kept
        self._filled[slots] = rows + kept
        ended = slots[over != 0]
        self._game[ended] = self._filled[ended]
        return [self._seal(int(slot)) for slot in slots[self._filled[slots] == self.shape.steps]]

    def take_back(self, slots: Array) -> int:
        """Forgets the rows of the game under way in each of those slots (it was lost with its engine), as far
        as they are in open segments: they never were produced. How many those were."""
        taken = int((self._filled[slots] - self._game[slots] + self._pending[slots]).sum())
        self._filled[slots] = self._game[slots]
        self._pending[slots] = False
        return taken

    @property
    def rows_open(self) -> int:
        """Rows in segments that are not full yet."""
        return int(self._filled.sum() + self._pending.sum())

    def _seal(self, slot: int) -> Sealed:
        identity = Identity(*self._name, self.sequence)
        message = bytearray(memoryview(self._memory[slot]))
        seal(message, identity, self.shape)
        self.sequence += 1
        self._filled[slot] = self._game[slot] = 0
        return Sealed(identity, message)
