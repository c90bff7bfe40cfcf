"""What the processes of a run tell their meters. What happens in every batch is told by the batch; the rest
is looked up once a second, so that being watched costs next to nothing."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from playmill.experience.channel import Receiver, Sender
from playmill.experience.weights_watch import WeightsWatch
from playmill.league.evaluate import Evaluation
from playmill.pools.remote import RemotePool
from playmill.pools.remote_settings import EngineHealth
from playmill.telemetry.meters import Meters, Totals
from playmill.training.config import Train

EVERY_S = 1.0
RECENT_S = 10.0
"""Seconds that count in what an engine was busy lately."""
STATES = ("starting", "ready", "waiting", "out")
DROPPED = ("bad", "late", "old")
"""Reasons for which the learner drops segments."""


def introduce(meters: Meters, run: str, game: str, role: str, number: int = 0) -> None:
    """Says which process this is."""
    meters.set("process_info", 1, run=run, game=game, role=role, number=str(number))


class Clock:
    """Whether it is time again."""

    def __init__(self, every_s: float = EVERY_S) -> None:
        self._every_s, self._next = every_s, 0.0
        self.since = EVERY_S
        """Seconds between the last two times."""
        self._last = time.monotonic()

    def due(self) -> bool:
        now = time.monotonic()
        if now < self._next:
            return False
        self.since, self._last, self._next = now - self._last, now, now + self._every_s
        return True


class Played(Protocol):
    """What an actor has done so far."""

    turns: int
    games: int
    lost_games: int
    segments: int
    held_up_s: float


class ActorMeters:
    """Of an actor: its games, its engines, what it sends."""

    def __init__(self, meters: Meters, pool: RemotePool, sender: Sender, decides: bool) -> None:
        """`decides`: the policy runs in this process."""
        self._meters, self._pool, self._sender, self._decides = meters, pool, sender, decides
        self._totals, self._clock = Totals(meters), Clock()
        self._busy: dict[int, float] = {}
        self._recently: dict[int, float] = {}
        self._turns = 0
        for name in ("game_duration_seconds", "decision_seconds"):
            meters.observe_all(name, ())

    def answered(self, slots: npt.NDArray[np.int32], computed_s: float) -> None:
        """A batch; the policy took so long for it."""
        self._meters.observe_all("decision_seconds", self._pool.waited(slots))
        if self._decides:
            self._meters.observe("inference_seconds", computed_s, len(slots))
            self._meters.observe("inference_batch_fill", len(slots) / self._pool.slots)

    def look(self, done: Played, unsent: int, *, now: bool = False) -> None:
        """Once a second, or `now`. `unsent`: bytes that wait here for a full channel."""
        if not self._clock.due() and not now:
            return
        totals, meters = self._totals, self._meters
        totals.count("turns", done.turns)
        totals.count("games", done.games)
        totals.count("games_lost", done.lost_games)
        totals.count("segments_produced", done.segments)
        totals.count("held_up_seconds", done.held_up_s)
        meters.observe("game_state_bytes", self._pool.spec.schema.bytes, done.turns - self._turns)
        self._turns = done.turns
        meters.observe_all("game_duration_seconds", self._pool.durations())
        meters.set("buffer_size_bytes", unsent, buffer="unsent")
        meters.set("buffer_size_bytes", self._sender.spooled, buffer="spool")
        self._look_at_engines(self._pool.health())

    def _look_at_engines(self, engines: list[EngineHealth]) -> None:
        meters = self._meters
        meters.set("games_active", sum(engine.games for engine in engines))
        states = Counter(engine.state for engine in engines)
        for state in STATES:
            meters.set("engines", states[state], state=state)
        part = min(1.0, self._clock.since / RECENT_S)
        for engine in engines:
            name = str(engine.number)
            share = (engine.busy - self._busy.get(engine.number, 0.0)) / max(self._clock.since, 1e-9)
            before = self._recently.get(engine.number, share)
            recently = before + part * (min(1.0, share) - before)
            self._busy[engine.number], self._recently[engine.number] = engine.busy, recently
            meters.set("engine_utilisation", recently, engine=name)
            for why, count in engine.again.items():
                self._totals.count("engine_restarts", count, engine=name, reason=why)
            self._totals.count("engine_quarantines", engine.quarantines, engine=name)


class WeightsMeters:
    """Of whoever follows the learner's weights."""

    def __init__(self, meters: Meters, weights: WeightsWatch, past: WeightsWatch) -> None:
        self._meters, self._totals = meters, Totals(meters)
        self._weights, self._past = weights, past
        meters.follow("weight_age_seconds", lambda: weights.stats().age)
        meters.follow("weight_version", lambda: weights.stats().version)
        meters.observe_all("weight_sync_seconds", ())

    def taken(self) -> None:
        """A version was put into use."""
        self._meters.observe("weight_sync_seconds", self._weights.stats().sync)

    def look(self) -> None:
        self._totals.count("weights_refused", self._weights.refused + self._past.refused)


class LaneMeters:
    """Of the learner, what its lane knows: segments, the channel, the processes it started."""

    def __init__(self, meters: Meters) -> None:
        self._meters, self._totals, self._clock = meters, Totals(meters), Clock()
        meters.count("segments_trained", 0)
        for reason in DROPPED:
            meters.count("segments_dropped", 0, reason=reason)

    def trained(self, segments: int, version: int) -> None:
        self._meters.count("segments_trained", segments)
        self._meters.set("weight_version", version)

    def dropped(self, reason: str) -> None:
        self._meters.count("segments_dropped", reason=reason)

    def look(self, receiver: Receiver, replay_bytes: int, restarts: Mapping[str, int]) -> None:
        """Once a second."""
        if not self._meters.on or not self._clock.due():
            return
        backlog = receiver.backlog()
        self._meters.set("queue_depth", backlog.messages - backlog.unacknowledged, queue="experience")
        self._meters.set("queue_depth", backlog.unacknowledged, queue="checkpoint")
        self._meters.set("buffer_size_bytes", backlog.bytes, buffer="experience")
        self._meters.set("buffer_size_bytes", replay_bytes, buffer="replay")
        self._totals.count("dead_letters", receiver.buried)
        for name, count in restarts.items():
            self._totals.count("process_restarts", count, process=name)


class TrainerMeters:
    """Of the learner, what is the same in all lanes."""

    def __init__(self, meters: Meters, config: Train, run: str) -> None:
        self._meters = meters
        self._turns, self._resident = config.turns_an_update, not config.by_engines
        self._state_bytes = config.spec.schema.bytes
        introduce(meters, run, config.game, "learner")
        for name in ("turns", "games"):
            meters.count(name, 0)
        if self._resident:
            meters.set("games_active", config.games)

    def updated(self, games: int, seconds: float, phases: Mapping[str, float]) -> None:
        if not self._meters.on:
            return
        self._meters.count("turns", self._turns)
        self._meters.count("games", games)
        self._meters.observe("update_seconds", seconds)
        for phase, spent in phases.items():
            self._meters.count("phase_seconds", spent, phase=phase)
        if self._resident:
            self._meters.observe("game_state_bytes", self._state_bytes, self._turns)

    def judged(self, results: Mapping[str, Evaluation]) -> None:
        tell_wins(self._meters, results)


def tell_wins(meters: Meters, results: Mapping[str, Evaluation]) -> None:
    for opponent, result in results.items():
        meters.set("win_rate", result.win_share, opponent=opponent)
