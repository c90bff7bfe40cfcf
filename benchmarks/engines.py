"""What a pool of slow engines costs: 64 games of Skull King on 16 processes that take 5 ms a decision."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.bars import Bar, Result
from playmill.pools.remote import RemotePool

GAME, SLOTS, ENGINES, DELAY_MS = "skull_king", 64, 16, 5.0
MOST_MICROSECONDS = 40.0


def measure(say: Callable[[str], None], quick: bool) -> Result:
    command = [sys.executable, "-m", "playmill.engines.host", f"native:{GAME}", "--delay-ms", str(DELAY_MS)]
    details: dict[str, Any] = {}
    with RemotePool(GAME, SLOTS, engines=ENGINES, command=command) as pool:
        while any(engine.state != "ready" for engine in pool.health()):
            _step(pool, 1)
        for at_least in (1, 16):
            found = _measured(pool, at_least, 2.0 if quick else 10.0)
            say(
                f"at least {at_least} rows: "
                + ", ".join(f"{key} {value:,.1f}" for key, value in found.items())
            )
            details[f"at_least_{at_least}"] = found
    cost = details["at_least_16"]["pool_us"]
    return Result([Bar("pool_us", cost, "us/decision", MOST_MICROSECONDS, at_most=True)], details)


def _measured(pool: RemotePool, at_least: int, seconds: float) -> dict[str, float]:
    """Decisions a second, and microseconds of CPU time a decision here and in the engines."""
    before, engines, choosing = _decisions(pool), _engine_seconds(pool), 0.0
    begun, here = time.perf_counter(), time.process_time()
    while time.perf_counter() - begun < seconds:
        choosing += _step(pool, at_least)
    decisions = _decisions(pool) - before
    own = time.process_time() - here - choosing
    return {
        "decisions_a_second": decisions / (time.perf_counter() - begun),
        "pool_us": 1e6 * own / decisions,
        "host_us": 1e6 * (_engine_seconds(pool) - engines) / decisions,
    }


def _step(pool: RemotePool, at_least: int) -> float:
    """Answers the rows that are ready; CPU seconds that choosing took, which are not the pool's."""
    rows = pool.turns(at_least, 1.0)
    begun = time.process_time()
    bits = np.unpackbits(rows.legal, axis=1, bitorder="little")
    actions: npt.NDArray[np.int64] = bits.argmax(axis=1)
    took = time.process_time() - begun
    pool.act(rows.slot, actions)
    return took


def _decisions(pool: RemotePool) -> int:
    return sum(engine.decisions for engine in pool.health())


def _engine_seconds(pool: RemotePool) -> float:
    """CPU time of all engines so far."""
    ticks = 0
    for engine in pool.health():
        fields = Path(f"/proc/{engine.pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / 100
