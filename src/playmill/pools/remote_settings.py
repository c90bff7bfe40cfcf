"""How engine processes are supervised: what they are allowed, and when they are started anew."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from playmill.games import PlaymillError


@dataclass(frozen=True)
class Supervision:
    """Times are in seconds."""

    decision_timeout: float = 30.0
    """The most that an answer may take; then the engine is killed and its games are lost."""
    game_timeout: float = 600.0
    """The most of an engine's time that one game may take; then the game is dropped."""
    start_timeout: float = 60.0
    """The most from the start of an engine to its WELCOME."""
    ping_every: float = 10.0
    """An engine that has nothing to do is asked for a sign of life this often."""
    restart_delay: float = 0.1
    """Before the first restart; doubled for each that follows, with a random part."""
    restart_delay_most: float = 30.0
    healthy_after: float = 30.0
    """An engine that ran so long starts again with the first delay."""
    lies_most: int = 3
    """An engine that lied so often is left out for good."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 < value <= 86_400:
                raise PlaymillError(f"{name} must be above 0 and at most 86400, got {value}")
        if self.restart_delay_most < self.restart_delay:
            raise PlaymillError("restart_delay_most must be at least restart_delay")


class Backoff:
    """Delays before restarts: each up to twice the one before, half of it random, up to a most."""

    def __init__(self, settings: Supervision, seed: int) -> None:
        self._first, self._most = settings.restart_delay, settings.restart_delay_most
        self._random = random.Random(seed)
        self._failures = 0

    def next(self) -> float:
        """Seconds to wait now."""
        full = min(self._most, self._first * 2.0 ** min(self._failures, 64))
        self._failures += 1
        return full * self._random.uniform(0.5, 1.0)

    def reset(self) -> None:
        self._failures = 0


End = Literal["died", "late", "lied", "unfit"]
"""Why an engine ended: by itself, for a time-out, caught at a lie, or because it plays another game."""
CURABLE: tuple[End, ...] = ("died", "late", "lied")
"""After these it is started again."""


class EngineHealth(NamedTuple):
    """One engine of a pool, now. Times are in seconds."""

    number: int
    pid: int
    """0: none runs, or somebody else runs it."""
    state: str
    """starting, ready, waiting (for its restart) or out (for good)."""
    games: int
    """In flight."""
    decisions: int
    restarts: int
    again: Mapping[End, int]
    """How often it was to be started again, by why it had ended."""
    quarantines: int
    """Lies it was caught at."""
    lost: int
    """Games that were lost with it, or that it gave up."""
    waited: float
    """Answers were waited for so long, all games together."""
    seconds_a_decision: float
    """Mean time it was at work for a decision."""
    busy: float
    """It was at work so long."""
    utilisation: float
    """Share of its time that it was at work, since it was ready."""
    reason: str
    """Why it last failed."""
