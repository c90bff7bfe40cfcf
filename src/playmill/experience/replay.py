"""A replay buffer: entries in columns, drawn evenly or by priority (Schaul et al. 2015, arXiv 1511.05952).

An entry is whatever the columns say: a row, or a segment of rows. Entries are numbered as they come.
Entry n lies in place n % capacity, over the oldest; its number tells whether it is still there, and nothing
has to be kept for that.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from playmill import _native
from playmill.games import PlaymillError

FORMAT = 1
_SMALLEST = float(np.finfo(np.float32).tiny)
_AT_ONCE = 1 << 16

Array = npt.NDArray[Any]


class Column(NamedTuple):
    """What one entry has in a column."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()

    @property
    def bytes(self) -> int:
        return int(self.dtype.itemsize * np.prod(self.shape, dtype=np.int64))


def columns_like(batch: Mapping[str, Array]) -> dict[str, Column]:
    """The columns of a buffer for batches like this one; axis 0 is the entries'."""
    return {name: Column(array.dtype, array.shape[1:]) for name, array in batch.items()}


class Sample(NamedTuple):
    """N entries that were drawn, in the order of their places."""

    number: npt.NDArray[np.int64]  # [N], for `update`
    importance: npt.NDArray[np.float32]  # [N], from 0 to 1: how much each is to count
    version: npt.NDArray[np.uint32]  # [N], of the weights that made it
    columns: dict[str, Array]  # [N, ...] each, copies


@dataclass
class Counts:
    """What has happened since the buffer was made."""

    added: int = 0
    overwritten: int = 0
    overwritten_unsampled: int = 0
    """Entries that were overwritten before they were drawn once."""
    samples: int = 0
    """Entries drawn, each time counted."""
    updates: int = 0
    """Priorities set anew."""
    stale_updates: int = 0
    """Priorities for entries that had been overwritten: ignored."""


@dataclass(frozen=True)
class Statistics:
    """A buffer at one moment. Versions and priorities are of the entries it holds; 0 when it is empty."""

    entries: int
    capacity: int
    bytes: int
    capacity_bytes: int
    oldest_version: int
    newest_version: int
    mean_priority: float
    max_priority: float
    mean_times_sampled: float
    max_times_sampled: int
    counts: Counts = field(default_factory=Counts)


class Replay:
    """Entries in columns, one array each, made beforehand; the oldest are overwritten.

    With `alpha` 0 all entries are equally likely. Else an entry is drawn in proportion to its priority to the
    power of alpha; new ones get the largest priority there has been, until they are told theirs.

    Every method takes the buffer's lock: threads may add, sample and update at the same time. What `sample`
    returns are copies of entries as they were at one moment."""

    def __init__(self, columns: Mapping[str, Column], capacity_bytes: int, alpha: float = 0.0) -> None:
        if not columns:
            raise PlaymillError("a replay buffer needs at least one column")
        if not 0.0 <= alpha <= 1.0:
            raise PlaymillError(f"alpha must be from 0 to 1, got {alpha}")
        self.columns = {name: Column(np.dtype(c.dtype), tuple(c.shape)) for name, c in columns.items()}
        for name, column in self.columns.items():
            if column.dtype.hasobject:
                raise PlaymillError(f"column {name}: Python objects cannot be kept, only numbers")
        self.alpha = alpha
        self.capacity_bytes = capacity_bytes
        self.capacity = self._fitting(capacity_bytes)
        if self.capacity < 1:
            raise PlaymillError(
                f"{capacity_bytes:,} bytes do not hold one entry: give at least {self._bytes_of(1):,}"
            )
        own = {"version": Column(np.dtype(np.uint32)), "sampled": Column(np.dtype(np.uint32))}
        if alpha > 0.0:
            own["priority"] = Column(np.dtype(np.float32))
        self._columns = {name: self._empty(c) for name, c in self.columns.items()}
        self._own = {name: self._empty(c) for name, c in own.items()}
        self._tree = _native.SumTree(self.capacity) if alpha > 0.0 else None
        self._largest = 1.0
        self._next = 0
        self._counts = Counts()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return min(self._next, self.capacity)

    @property
    def bytes(self) -> int:
        """Of what it holds now."""
        return self._bytes_of(len(self))

    @property
    def overhead(self) -> float:
        """Bytes an entry takes besides its columns."""
        return self._bytes_of(self.capacity) / self.capacity - sum(c.bytes for c in self.columns.values())

    def add(
        self,
        batch: Mapping[str, Array],
        version: int | npt.NDArray[np.integer[Any]],
        priority: npt.ArrayLike | None = None,
    ) -> npt.NDArray[np.int64]:
        """Adds entries and returns their numbers. `version` is that of the weights that made them."""
        count = self._count_of(batch)
        versions = np.broadcast_to(np.asarray(version), (count,))
        if count and not 0 <= int(versions.min()) <= int(versions.max()) < 2**32:
            raise PlaymillError("a version must be from 0 to 2^32 - 1")
        given = None if priority is None else self._checked(priority, count)
        with self._lock:
            numbers = np.arange(self._next, self._next + count, dtype=np.int64)
            places = numbers % self.capacity
            over = places[numbers >= self.capacity]
            self._counts.overwritten += len(over)
            self._counts.overwritten_unsampled += len(over) - int(
                np.count_nonzero(self._own["sampled"][over])
            )
            self._write(self._columns, batch, places)
            self._write(self._own, {"version": versions, "sampled": np.zeros(count, np.uint32)}, places)
            if self.alpha > 0.0:
                self._set(places, np.full(count, self._largest, np.float32) if given is None else given)
            self._next += count
            self._counts.added += count
        return numbers

    def sample(
        self, count: int, seed: int, counter: int, beta: float = 0.0, columns: Iterable[str] | None = None
    ) -> Sample:
        """Draws `count` entries, one from each of so many equal strata; some may come twice.

        The draws are a function of the buffer, seed and counter. `importance` is (N P)^-beta as a share of
        the largest in the sample: beta 0 corrects nothing, 1 all that drawing by priority distorts.
        `columns`: copy only these."""
        if count < 1:
            raise PlaymillError(f"a sample needs at least one entry, got {count}")
        if not 0.0 <= beta <= 1.0:
            raise PlaymillError(f"beta must be from 0 to 1, got {beta}")
        wanted = list(self.columns if columns is None else columns)
        for name in wanted:
            if name not in self.columns:
                raise PlaymillError(f"there is no column {name}; there are {', '.join(self.columns)}")
        with self._lock:
            held = len(self)
            if held == 0:
                raise PlaymillError("the replay buffer is empty: add something before drawing from it")
            places = np.empty(count, np.int64)
            importance = np.ones(count, np.float32)
            if self._tree is None:
                strata = np.empty(count)
                _native.strata(seed, counter, strata)
                np.minimum(strata * held, held - 1, out=places, casting="unsafe")
            else:
                self._tree.sample(seed, counter, beta, places, importance)
            np.add.at(self._own["sampled"], places, np.uint32(1))
            self._counts.samples += count
            newest = self._next - 1
            numbers = newest - (newest - places) % self.capacity
            drawn = {name: self._columns[name].take(places, axis=0) for name in wanted}
            return Sample(numbers, importance, self._own["version"].take(places), drawn)

    def update(self, numbers: npt.NDArray[np.int64], priority: npt.ArrayLike) -> int:
        """Gives entries new priorities and returns how many were still there. Of two for one entry the later
        holds; those for entries that have been overwritten are ignored and counted."""
        if self.alpha == 0.0:
            raise PlaymillError("this buffer draws evenly and has no priorities; give it an alpha over 0")
        numbers = np.asarray(numbers, np.int64)
        if numbers.ndim != 1:
            raise PlaymillError(f"numbers must have one axis, got the shape {numbers.shape}")
        given = self._checked(priority, len(numbers))
        with self._lock:
            if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < self._next:
                raise PlaymillError(f"numbers must be of entries that were added, from 0 to {self._next - 1}")
            there = numbers >= self._next - len(self)
            alive = int(np.count_nonzero(there))
            self._set(numbers[there] % self.capacity, given[there])
            self._counts.updates += alive
            self._counts.stale_updates += len(numbers) - alive
            return alive

    def statistics(self) -> Statistics:
        """The buffer now. It looks at every entry: 20 to 50 ms with ten million."""
        with self._lock:
            held = len(self)
            version, sampled = (self._own[name][:held] for name in ("version", "sampled"))
            priority = self._own["priority"][:held] if self.alpha > 0.0 else np.ones(held, np.float32)
            return Statistics(
                entries=held,
                capacity=self.capacity,
                bytes=self._bytes_of(held),
                capacity_bytes=self.capacity_bytes,
                oldest_version=int(version.min(initial=2**32 - 1)) if held else 0,
                newest_version=int(version.max(initial=0)),
                mean_priority=float(priority.mean(dtype=np.float64)) if held else 0.0,
                max_priority=float(priority.max(initial=0.0)),
                mean_times_sampled=float(sampled.mean(dtype=np.float64)) if held else 0.0,
                max_times_sampled=int(sampled.max(initial=0)),
                counts=Counts(**asdict(self._counts)),
            )

    def state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Arrays and JSON for a checkpoint: copies, oldest entry first."""
        with self._lock:
            held = len(self)
            order = np.arange(self._next - held, self._next) % self.capacity
            arrays = {f"columns.{name}": array.take(order, axis=0) for name, array in self._columns.items()}
            arrays |= {name: array.take(order) for name, array in self._own.items()}
            meta = {
                "format": FORMAT,
                "alpha": self.alpha,
                "capacity": self.capacity,
                "next": self._next,
                "largest_priority": self._largest,
                "counts": asdict(self._counts),
            }
            return arrays, meta

    def restore(self, arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> None:
        """Takes up a state in the place of what is there. With the same capacity all goes on as it would
        have; with another the newest that fit are kept, and numbered anew."""
        counts, held = self._checked_state(arrays, meta)
        kept = min(held, self.capacity)
        following = int(meta["next"]) if meta["capacity"] == self.capacity else kept
        with self._lock:
            self._counts = counts
            self._next = following
            self._largest = float(meta["largest_priority"])
            places = np.arange(following - kept, following, dtype=np.int64) % self.capacity
            if self._tree is not None:
                self._tree = _native.SumTree(self.capacity)
            for first in range(0, kept, _AT_ONCE):
                part = places[first : first + _AT_ONCE]
                rows = slice(held - kept + first, held - kept + first + len(part))
                self._write(
                    self._columns, {name: arrays[f"columns.{name}"][rows] for name in self.columns}, part
                )
                self._write(self._own, {name: arrays[name][rows] for name in self._own}, part)
                if self.alpha > 0.0:
                    self._set(part, arrays["priority"][rows])

    # What the methods above share; the lock is held where entries are touched.

    def _bytes_of(self, entries: int) -> int:
        each = sum(c.bytes for c in self.columns.values()) + 8 + (4 if self.alpha > 0.0 else 0)
        return entries * each + (_native.SumTree.bytes_for(entries) if self.alpha > 0.0 else 0)

    def _fitting(self, budget: int) -> int:
        return bisect.bisect_right(range(max(0, budget) // 8 + 1), budget, key=self._bytes_of) - 1

    def _empty(self, column: Column) -> Array:
        return np.zeros((self.capacity, *column.shape), column.dtype)

    def _write(
        self, into: dict[str, Array], batch: Mapping[str, Array], places: npt.NDArray[np.int64]
    ) -> None:
        """Places follow one another, and go on from 0 behind the last."""
        if len(places) == 0:
            return
        first = int(places[0])
        straight = min(len(places), self.capacity - first)
        for name, array in batch.items():
            into[name][first : first + straight] = array[:straight]
            into[name][: len(places) - straight] = array[straight:]

    def _set(self, places: npt.NDArray[np.int64], priority: npt.NDArray[np.float32]) -> None:
        assert self._tree is not None
        if len(places) == 0:
            return
        self._own["priority"][places] = priority
        self._tree.set(places, priority ** np.float32(self.alpha))
        self._largest = max(self._largest, float(priority.max()))

    def _count_of(self, batch: Mapping[str, Array]) -> int:
        """How many entries a batch has, if it fits the columns."""
        if batch.keys() != self.columns.keys():
            raise PlaymillError(
                f"a batch must have the columns {', '.join(self.columns)}; got {', '.join(batch)}"
            )
        counts = {len(array) for array in batch.values()}
        if len(counts) != 1:
            raise PlaymillError("all columns of a batch must have the same number of entries")
        for name, array in batch.items():
            if Column(array.dtype, array.shape[1:]) != self.columns[name]:
                column = self.columns[name]
                raise PlaymillError(
                    f"column {name} takes {column.dtype} of shape {column.shape} an entry; "
                    f"got {array.dtype} of shape {array.shape[1:]}"
                )
        count = counts.pop()
        if count > self.capacity:
            raise PlaymillError(
                f"{count} entries at once do not fit into {self.capacity}: add fewer or raise the capacity"
            )
        return count

    def _checked(self, priority: npt.ArrayLike, count: int) -> npt.NDArray[np.float32]:
        if self.alpha == 0.0:
            raise PlaymillError("this buffer draws evenly and has no priorities; give it an alpha over 0")
        with np.errstate(over="ignore"):
            given = np.asarray(priority).astype(np.float32)
        if given.shape != (count,):
            raise PlaymillError(f"there must be {count} priorities, got the shape {given.shape}")
        # Not a number is in no range, so it is refused too.
        bad = np.flatnonzero(~((given >= _SMALLEST) & (given < np.inf)))
        if len(bad):
            raise PlaymillError(
                f"priority {bad[0]} is {given[bad[0]]}: it must be finite and at least {_SMALLEST:.1e}; "
                "add a small constant to what is measured"
            )
        return given

    def _checked_state(self, arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> tuple[Counts, int]:
        """The counts of a state and its number of entries, if it is one of a buffer like this."""
        if meta.get("format") != FORMAT or meta.get("alpha") != self.alpha:
            raise PlaymillError(
                f"this is a state of format {meta.get('format')} with alpha {meta.get('alpha')}; "
                f"the buffer takes {FORMAT} and {self.alpha}"
            )
        known = {f"columns.{name}": column for name, column in self.columns.items()}
        known |= {name: Column(array.dtype) for name, array in self._own.items()}
        if arrays.keys() != known.keys():
            raise PlaymillError(f"the state has {', '.join(arrays)}; the buffer takes {', '.join(known)}")
        counts = Counts(**meta["counts"])
        lengths = {len(array) for array in arrays.values()}
        for name, column in known.items():
            if Column(arrays[name].dtype, arrays[name].shape[1:]) != column:
                raise PlaymillError(f"{name} of the state has another type or shape than the buffer's")
        held = lengths.pop()
        if lengths or held != min(meta["next"], meta["capacity"]):
            raise PlaymillError("the columns of the state do not have the entries that it says")
        if self.alpha > 0.0:
            self._checked(arrays["priority"], held)
            self._checked([meta["largest_priority"]], 1)
        return counts, held
