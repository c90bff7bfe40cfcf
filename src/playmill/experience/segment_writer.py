"""Open segments of many slots, filled row by row as games go on, and sealed when they are full."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from playmill.experience.segment import Identity, SegmentShape, check_identity, layout, seal
from playmill.games import PlaymillError
from playmill.telemetry.traces import OFF, Tracer

Array = npt.NDArray[Any]


class Sealed(NamedTuple):
    """A full segment, ready to be sent."""

    identity: Identity
    message: bytearray
    traceparent: str = ""
    """Of the span in which it was played; empty where nobody recorded it."""
    sealed_ns: int = 0
    """When, where it was recorded."""


class SegmentWriter:
    """One open segment a slot, each already laid out as its message. A row is complete when its outcome is
    known, which comes with the slot's next row: first `decided`, then `outcome` or `take_back`.

    With `stagger` the first rows of each slot are not kept, of another slot another number: segments then are
    full one after the other for ever, and not all at the same moment. `tracer` records each segment from its
    first row on, and the message names that span."""

    def __init__(
        self,
        shape: SegmentShape,
        slots: int,
        run: str,
        actor: int,
        epoch: int,
        *,
        stagger: bool = False,
        tracer: Tracer = OFF,
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
        self._tracer = tracer
        self._begun_ns = [0] * slots
        """When the first row of the open segment came, where that is recorded."""
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
        if self._tracer.on:
            now = time.time_ns()
            for slot in slots[rows == 0].tolist():
                self._begun_ns[slot] = now
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
        traceparent = self._record(slot, identity) if self._tracer.on else ""
        seal(message, identity, self.shape, traceparent)
        self.sequence += 1
        self._filled[slot] = self._game[slot] = 0
        return Sealed(identity, message, traceparent, time.time_ns() if traceparent else 0)

    def _record(self, slot: int, identity: Identity) -> str:
        began, (run, actor, _, sequence) = self._begun_ns[slot], identity
        return self._tracer.record("actor.segment", began, run=run, actor=actor, sequence=sequence)
