"""The replay buffer: 4,096 of ten million rows drawn by priority, beside a sum tree in numpy."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.bars import Bar, Result
from playmill.experience import Column, Replay
from playmill.games import registry

ROWS = 10_000_000
BATCH = 4096
ROUNDS = 41
"""Every figure is the median of so many measurements, in turns about, each with cold caches."""


def measure(say: Callable[[str], None], quick: bool) -> Result:
    rows = 200_000 if quick else ROWS
    columns = _row_columns()
    row_bytes = sum(column.bytes for column in columns.values())
    by_priority, evenly = (Replay(columns, (row_bytes + 18) * rows, alpha) for alpha in (0.6, 0.0))
    batch = _batch(columns, 1 << 16)
    rng = np.random.default_rng(0)
    while len(by_priority) < by_priority.capacity:
        by_priority.add(batch, version=1, priority=_priorities(rng, 1 << 16))
    while len(evenly) < evenly.capacity:
        evenly.add(batch, version=1)
    rows = by_priority.capacity
    plain = NumpyTree(_priorities(rng, rows).astype(np.float64) ** 0.6)
    say(f"{rows:,} rows of {row_bytes} bytes and {by_priority.overhead:.1f} besides")

    few = {name: array[:BATCH] for name, array in batch.items()}
    new = _priorities(rng, BATCH)
    counters = itertools.count()

    def draw(replay: Replay, columns: tuple[str, ...] | None) -> npt.NDArray[np.int64]:
        return replay.sample(BATCH, 1, next(counters), beta=0.4, columns=columns).number

    calls: dict[str, Callable[[], Any]] = {
        "sample": lambda: draw(by_priority, ()),
        "sample_and_gather": lambda: draw(by_priority, None),
        "uniform": lambda: draw(evenly, ()),
        "uniform_and_gather": lambda: draw(evenly, None),
        "update": lambda: by_priority.update(drawn, new),
        "add": lambda: by_priority.add(few, version=2),
        "numpy_sample": lambda: plain.sample(BATCH, rng, 0.4),
        "numpy_update": lambda: plain.update(places, new.astype(np.float64) ** 0.6),
    }
    spent: dict[str, list[float]] = {name: [] for name in (*calls, "sample_warm")}
    elsewhere = np.zeros(1 << 26, np.uint8)
    for _ in range(5 if quick else ROUNDS):
        drawn = draw(by_priority, ())
        places = drawn % rows
        for name, call in calls.items():
            elsewhere += 1  # what the caches held is gone, as after an update of the network
            spent[name].append(_milliseconds(call))
        draw(by_priority, ())
        spent["sample_warm"].append(_milliseconds(calls["sample"]))
    ms = {name: statistics.median(times) for name, times in spent.items()}
    for name, value in ms.items():
        say(f"{name}: {value:.3f} ms")
    details = {
        "rows": rows,
        "batch": BATCH,
        "row_bytes": row_bytes,
        "overhead_bytes_per_row": round(by_priority.overhead, 2),
        "ms": {name: round(value, 4) for name, value in ms.items()},
        "gather_ms": round(ms["sample_and_gather"] - ms["sample"], 4),
        "vs_numpy_sample": round(ms["numpy_sample"] / ms["sample"], 2),
        "vs_numpy_update": round(ms["numpy_update"] / ms["update"], 2),
    }
    return Result([Bar("sample_ms", ms["sample"], "ms", 2, at_most=True)], details)


class NumpyTree:
    """A binary tree of sums in one array, gone through level by level with whole batches."""

    def __init__(self, weights: npt.NDArray[np.float64]) -> None:
        self.rows = len(weights)
        self.leaves = 1 << (self.rows - 1).bit_length()
        self.sums = np.zeros(2 * self.leaves)
        self.sums[self.leaves : self.leaves + self.rows] = weights
        level = self.leaves
        while level > 1:
            self.sums[level // 2 : level] = self.sums[level : 2 * level].reshape(-1, 2).sum(axis=1)
            level //= 2

    def sample(
        self, count: int, rng: np.random.Generator, beta: float
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        place = (np.arange(count) + rng.random(count)) / count * self.sums[1]
        node = np.ones(count, np.int64)
        while node[0] < self.leaves:
            node *= 2
            left = self.sums[node]
            right = place >= left
            place -= np.where(right, left, 0.0)
            node += right
        weight = self.sums[node]
        return node - self.leaves, (weight / weight.min()) ** -beta

    def update(self, places: npt.NDArray[np.int64], weights: npt.NDArray[np.float64]) -> None:
        node = places + self.leaves
        self.sums[node] = weights
        while node[0] > 1:
            node = np.unique(node // 2)
            self.sums[node] = self.sums[2 * node] + self.sums[2 * node + 1]


def _row_columns() -> dict[str, Column]:
    """A row of Skull King with what was done and how it went."""
    spec = registry.spec("skull_king")
    byte, number = np.dtype(np.uint8), np.dtype(np.float32)
    return {
        "observation": Column(byte, (spec.schema.bytes,)),
        "legal": Column(byte, (spec.legal_bytes,)),
        "action": Column(np.dtype(np.int32)),
        "log_probability": Column(number),
        "target": Column(number),
    }


def _batch(columns: dict[str, Column], count: int) -> dict[str, npt.NDArray[Any]]:
    rng = np.random.default_rng(1)
    return {name: rng.integers(0, 100, (count, *c.shape)).astype(c.dtype) for name, c in columns.items()}


def _priorities(rng: np.random.Generator, count: int) -> npt.NDArray[np.float32]:
    return rng.exponential(size=count).astype(np.float32) + np.float32(0.01)


def _milliseconds(call: Callable[[], Any]) -> float:
    """By the thread's own clock: others on the machine are not counted."""
    start = time.thread_time()
    call()
    return (time.thread_time() - start) * 1e3
