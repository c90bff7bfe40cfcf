"""Threads that each do the whole of their share, and meet once a batch.

Splitting every operation over threads means a barrier for every operation; on a machine that is
shared with others each barrier waits for the slowest. A shard instead plays its own games, or
takes its own rows through forward and backward, on one thread; results are joined in a fixed
order, so they depend on the number of shards and not on who was first."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

import torch

T = TypeVar("T")


class Shards:
    """`count` threads. torch itself is held to one thread from here on."""

    def __init__(self, count: int) -> None:
        self.count = count
        torch.set_num_threads(1)
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="shard") if count > 1 else None

    def map(self, work: Callable[[int], T]) -> list[T]:
        """work(0), work(1), ... side by side; results in that order."""
        if self._threads is None:
            return [work(0)]
        return list(self._threads.map(work, range(self.count)))

    def slices(self, rows: int) -> list[slice]:
        """The share of each shard in `rows` rows."""
        edges = [rows * i // self.count for i in range(self.count + 1)]
        return [slice(a, b) for a, b in pairwise(edges)]

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()
