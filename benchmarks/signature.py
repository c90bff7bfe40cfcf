"""One number a game that changes when its behaviour does: a hash over thousands of games of bots."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from benchmarks.bars import Result
from playmill.games import registry
from playmill.pools import NativePool


def measure(say: Callable[[str], None], quick: bool) -> Result:  # noqa: ARG001
    signatures = {name: signature(name) for name in registry.names()}
    for name, number in signatures.items():
        say(f"{name} {number}")
    return Result([], {"signatures": signatures})


def signature(name: str, games: int = 256, turns: int = 300) -> int:
    """Of observations, legal bits, seats, rewards and ends under random and scripted play."""
    pool = NativePool(name, games, seed=1)
    bots = len(pool.spec.bots)
    crc = 0
    for step in range(turns):
        rows = pool.turns()
        for column in rows:
            crc = zlib.crc32(column.tobytes(), crc)
        kinds = ((np.arange(games) + step) % bots).astype(np.uint8)
        outcome = pool.act(pool.bot_actions(kinds))
        crc = zlib.crc32(outcome.over.tobytes(), zlib.crc32(outcome.rewards.tobytes(), crc))
    return crc
