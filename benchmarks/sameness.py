"""Whether the games on the card are the games on the CPU: both pools are given the same seed, drivers and
actions, and everything they show is compared, byte for byte, step after step."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from playmill.games import GameSpec
from playmill.pools import FIRST_BOT, NativePool, Outcome, Turns
from playmill.pools.cuda import CudaOutcome, CudaPool, CudaTurns, DeviceArray

POLICIES = 6
"""Drivers whose turns surface, besides the bots played inside."""
SLOT_BYTES = slice(40, 44)
"""Where a snapshot says how many bytes a game takes."""
SEATED_FOR = 40
"""Steps between two new seatings."""


def compare_pools(
    spec: GameSpec, games_wanted: int, pool_size: int = 4096, seed: int = 1, threads: int | None = None
) -> dict[str, Any]:
    """Plays until `games_wanted` games were seen from beginning to end, or something differs.

    games        whole games compared
    turns        turns compared
    difference   the first thing that differed, in words, or None
    games_equal  whether the games in flight at the end are the same bytes
    stats_equal  whether the named statistics are the same"""
    pair = Pair(spec, pool_size, seed, threads)
    difference: str | None = None
    while difference is None and pair.games < games_wanted:
        difference = pair.step()
    return {
        "game": spec.name,
        "options": dict(spec.options),
        "games": pair.games,
        "turns": pair.turns,
        "difference": difference,
        "games_equal": pair.games_equal(),
        "stats_equal": pair.stats_equal(),
    }


class Pair:
    """A pool on the CPU and one on the card that are played alike."""

    def __init__(self, spec: GameSpec, games: int, seed: int, threads: int | None = None) -> None:
        threads = threads or max(1, len(os.sched_getaffinity(0)))
        self.spec, self.size = spec, games
        self.cpu = NativePool(spec, games, seed=seed, threads=threads)
        self.card = CudaPool(spec, games, seed=seed)
        self.games = self.turns = self.steps = 0
        self._rng = np.random.default_rng(seed)
        self._kinds, self._actions = DeviceArray((games,), "uint8"), DeviceArray((games,), "int32")
        self._begun = np.zeros(games, bool)  # games that began in sight: starts are staggered
        self._choices = _seatings(spec)

    def step(self) -> str | None:
        """One turn of every game; what differed, if something did."""
        if self.steps % SEATED_FOR == 0 and self.steps:
            self._seat()
        self.steps += 1
        if found := self._columns_differ(self.cpu.turns(), self.card.turns()):
            return found
        kinds = self._rng.integers(len(self.spec.bots), size=self.size, dtype=np.uint8)
        self._kinds.fill(kinds)
        actions = self.cpu.bot_actions(kinds)
        if found := self._differ("bot actions", actions, self.card.bot_actions(self._kinds)):
            return found
        self._actions.fill(actions)
        result = self.cpu.act(actions)
        if found := self._columns_differ(result, self.card.act(self._actions)):
            return found
        over = result.over.astype(bool)
        self.games += int((over & self._begun).sum())
        self._begun |= over
        self.turns += self.size
        return None

    def games_equal(self) -> bool:
        """Whether the games in flight and their drivers are the same bytes in both snapshots."""
        here, there = self.cpu.snapshot(), self.card.snapshot()
        header = len(there) - self.card.memory
        size = self.size * (int.from_bytes(there[SLOT_BYTES], "little") + self.spec.seats)
        return here[header : header + size] == there[header : header + size]

    def stats_equal(self) -> bool:
        """The same counts, and means that differ at most by the order in which they were added up."""
        here, there = (
            {(driver, name): cell for driver, cells in pool.stats().items() for name, cell in cells.items()}
            for pool in (self.cpu, self.card)
        )
        return here.keys() == there.keys() and all(
            here[key][1] == there[key][1]
            and abs(here[key][0] - there[key][0]) <= 1e-9 * (1 + abs(here[key][0]))
            for key in here
        )

    def _seat(self) -> None:
        drivers = self._choices[self._rng.integers(len(self._choices), size=self.size)]
        policies = self._rng.integers(POLICIES, size=drivers.shape, dtype=np.uint8)
        drivers = np.where(drivers == 0, policies, drivers)
        self.cpu.set_drivers(drivers)
        self.card.set_drivers(drivers)

    def _columns_differ(self, mine: Turns | Outcome, others: CudaTurns | CudaOutcome) -> str | None:
        columns: zip[tuple[str, Any, Any]] = zip(mine._fields, mine, others, strict=True)
        return next((found for column in columns if (found := self._differ(*column))), None)

    def _differ(self, name: str, mine: npt.NDArray[Any], others: DeviceArray) -> str | None:
        theirs = np.asarray(others)
        if mine.tobytes() == theirs.tobytes():
            return None
        row = int(np.flatnonzero((mine != theirs).reshape(self.size, -1).any(axis=1))[0])
        both = f"{mine[row].tolist()}, on the card {theirs[row].tolist()}"
        return f"step {self.steps}, game {row}: {name} is {both}"


def _seatings(spec: GameSpec) -> npt.NDArray[np.uint8]:
    """Rows of drivers to choose from: no bots, bots in some seats, bots in all but one. 0: a policy."""
    rng = np.random.default_rng(0)
    bots = rng.integers(FIRST_BOT, FIRST_BOT + len(spec.bots), size=(64, spec.seats), dtype=np.uint8)
    seated = rng.random(bots.shape) < np.linspace(0.0, 1.0, len(bots))[:, None]
    seated[np.arange(len(bots)), rng.integers(spec.seats, size=len(bots))] = False
    return np.where(seated, bots, 0).astype(np.uint8)
