"""An actor: engines, a policy that answers their rows, and segments on their way to the learner.

It never waits for training: weights come in behind its back, and are put into use between two batches. It
waits for the learner only when the channel is full."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from playmill.experience.assignments import Leave
from playmill.experience.channel import Sender
from playmill.experience.segment_writer import Sealed, SegmentWriter
from playmill.pools.remote import RemotePool
from playmill.pools.remote_slots import Waiting
from playmill.serving.answers import Answered, Answers
from playmill.serving.batching import Batching, Pace
from playmill.telemetry.traces import OFF, Tracer
from playmill.training.collector import seating
from playmill.training.config import Opponents
from playmill.training.lane import seating_seed
from playmill.training.meters import ActorMeters

SEND_WITHIN = 0.02
"""Seconds that a full channel is waited for before the actor looks around again."""
LEAVE_WITHIN = 0.1
"""The same for an assignment."""


@dataclass
class Counts:
    """What an actor has done so far."""

    turns: int = 0
    batches: int = 0
    """In which they were answered."""
    games: int = 0
    lost_games: int = 0
    """With their engines, or cut short at the start so that games are at different turns."""
    taken_back: int = 0
    """Turns of lost games that were never produced."""
    segments: int = 0
    """Handed over to the channel."""
    held_up_s: float = 0.0
    """Time in which the channel was full."""
    unasked_s: float = 0.0
    """Time in which the learner wanted nothing."""


class Actor:
    """Plays until it is told to stop."""

    def __init__(
        self,
        pool: RemotePool,
        answers: Answers,
        writer: SegmentWriter,
        sender: Sender,
        batching: Batching,
        opponents: Opponents,
        seed: int,
        leave: Leave | None = None,
        meters: ActorMeters | None = None,
        tracer: Tracer = OFF,
    ) -> None:
        """`leave`: to play, where that needs one."""
        self.pool, self.answers, self.writer, self.sender = pool, answers, writer, sender
        self.opponents, self.seed, self.leave = opponents, seed, leave
        self.pace = Pace(batching, pool.slots)
        self.counts = Counts()
        self._meters, self._tracer = meters, tracer
        self._unsent: deque[Sealed] = deque()
        self._seated = 0
        if opponents.bots:
            self._seat()

    def run(self, stopped: Callable[[], bool]) -> None:
        while not stopped():
            self.step()
            if self._meters is not None:
                self._meters.look(self.counts, self._unsent_bytes)
        self.drain(time.monotonic() + 5.0)
        if self._meters is not None:
            self._meters.look(self.counts, self._unsent_bytes, now=True)

    def step(self) -> int:
        """One batch: what is ready is taken in, answered and sent on its way; its rows."""
        if not self._has_room() or not self._may_play():
            return 0
        self._renew()
        began = time.perf_counter()
        rows = self.pool.turns(self.pace.size, self.pace.wait_s)
        self._take_in(rows)
        self._hand_over(0.0)
        if not len(rows.slot):
            return 0
        ready = time.perf_counter()
        found = self.answers.answer(rows.observation, rows.legal, rows.driver)
        computed = time.perf_counter() - ready
        self.pool.act(rows.slot, found.action)
        if self._meters is not None:
            self._meters.answered(rows.slot, computed)
        self._note(rows, found)
        self.pace.answered(len(rows.slot), ready - began, time.perf_counter() - ready)
        self.counts.turns += len(rows.slot)
        self.counts.batches += 1
        return len(rows.slot)

    def drain(self, until: float) -> bool:
        """Hands over what is sealed; whether all of it went."""
        while self._unsent and time.monotonic() < until:
            self._hand_over(SEND_WITHIN)
        return not self._unsent

    def _take_in(self, rows: Waiting) -> None:
        lost = rows.lost != 0
        if lost.any():
            self.counts.taken_back += self.writer.take_back(rows.slot[lost])
            self.counts.lost_games += int(lost.sum())
        sealed = self.writer.outcome(rows.slot[~lost], rows.rewards[~lost], rows.over[~lost])
        self.counts.games += int(rows.over[~lost].sum())
        self._unsent.extend(sealed)

    def _note(self, rows: Waiting, found: Answered) -> None:
        columns = (rows.slot, rows.observation, rows.legal, rows.seat, rows.role, rows.driver)
        self.writer.decided(*columns, found.action, found.log_probability, found.value, found.version)

    def _hand_over(self, within: float) -> bool:
        while self._unsent:
            sealed = self._unsent[0]
            if not self.sender.send(sealed.identity, sealed.message, within):
                return False
            self._unsent.popleft()
            self.counts.segments += 1
            if self.leave is not None:
                self.leave.used(1)
            if sealed.traceparent:
                size = len(sealed.message)
                self._tracer.record("channel.send", sealed.sealed_ns, sealed.traceparent, bytes=size)
        return True

    @property
    def _unsent_bytes(self) -> int:
        return len(self._unsent) * len(self._unsent[0].message) if self._unsent else 0

    def _has_room(self) -> bool:
        """As long as few segments wait here for a full channel play goes on; then it pauses, however long."""
        if len(self._unsent) <= self.pool.slots:
            return True
        began = time.perf_counter()
        self._hand_over(SEND_WITHIN)
        self.counts.held_up_s += time.perf_counter() - began
        return len(self._unsent) <= self.pool.slots

    def _may_play(self) -> bool:
        """Without leave games wait, as long as need be: engines' clocks stand still meanwhile."""
        if self.leave is None:
            return True
        began = time.perf_counter()
        if not self.leave.held:
            self._hand_over(0.0)
            self.sender.backlog()  # what it has taken goes on its way
        given = self.leave.given(LEAVE_WITHIN)
        self.counts.unasked_s += time.perf_counter() - began
        return given

    def _renew(self) -> None:
        """New weights, and new opponents, between two batches."""
        self.answers.renew()
        if self.answers.opponents != self._seated:
            self._seat()

    def _seat(self) -> None:
        self._seated = self.answers.opponents
        name = seating_seed(self.seed, self._seated)
        past = self.answers.past
        self.pool.set_drivers(seating(self.pool.spec, self.opponents, self.pool.slots, past, name))
