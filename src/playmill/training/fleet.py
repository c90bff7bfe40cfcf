"""A fleet: several runs in one process, one update each in turn. On the CPU they share its threads; on
CUDA an update is only queued, so the runs' work overlaps on the card.

No run knows of the others: its weights are those it would have alone, bit for bit."""

from __future__ import annotations

import contextlib
import logging
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from playmill.telemetry.metrics import MetricsLog
from playmill.training.fleet_folder import Ended, FleetFolder
from playmill.training.runs import RunFolder
from playmill.training.status import Status
from playmill.training.throughput import Throughput, measure
from playmill.training.trainer import Trainer

State = Literal["waiting", "training", "done", "plateau", "stopped", "failed"]

FAILURE = "failure.txt"
"""In a member's folder: where it failed, in full."""
_LOG_S = 1.0
_LOG = logging.getLogger(__name__)


class Watcher(Protocol):
    """Who watches a fleet."""

    def update(self, name: str, status: Status) -> None: ...
    def state(self, name: str, state: State) -> None: ...
    def throughput(self, found: Throughput) -> None: ...
    def note(self, text: str) -> None: ...


@dataclass
class Member:
    """A run of the fleet. `trainer` is there while it trains."""

    name: str
    state: State = "waiting"
    trainer: Trainer | None = None
    run: RunFolder | None = None
    begun: bool = False
    turns: int = 0


class Fleet:
    """Turns all members of a folder that have not come to their end, until all have, or `stop()`."""

    def __init__(self, folder: FleetFolder, watcher: Watcher) -> None:
        self.folder, self.watcher = folder, _Harmless(watcher)
        self.members = [Member(name) for name in folder.record.members]
        self._stopping: str | None = None
        self._logged_at = self._logged_turns = 0.0
        self._metrics: MetricsLog | None = None

    def stop(self, reason: str) -> None:
        """Ends every run after the update in hand."""
        self._stopping = reason
        for member in self._running():
            if member.trainer is not None:
                member.trainer.stop(reason)

    def run(self) -> dict[str, State]:
        """Trains; returns how each member ended. Whatever was trained is saved."""
        try:
            for member in self.members:
                self._open(member)
            self._metrics = MetricsLog(self.folder.path, self._turns() if self._turns() else None)
            if self.folder.record.throughput is None and len(self.members) > 1:
                self._compare()
            self._logged_at, self._logged_turns = time.perf_counter(), self._turns()
            while running := self._running():
                for member in running:
                    self._turn(member)
                self._log()
        finally:
            self._close()
        return {member.name: member.state for member in self.members}

    def _running(self) -> list[Member]:
        return [member for member in self.members if member.state == "training"]

    def _turns(self) -> int:
        return sum(member.trainer.turns if member.trainer else member.turns for member in self.members)

    # One member

    def _open(self, member: Member) -> None:
        with self._guarded(member):
            if self.folder.over(member.name):
                member.turns = self.folder.record.ended[member.name].turns
                self._enter(member, _STATES[self.folder.record.ended[member.name].reason])
                return
            member.run = self.folder.open(member.name)
            (member.run.path / FAILURE).unlink(missing_ok=True)
            member.trainer = Trainer(member.run, _Ear(member.name, self.watcher))
            if self._stopping is not None:
                member.trainer.stop(self._stopping)
            self._enter(member, "training")

    def _turn(self, member: Member) -> bool:
        """One update, or the end where it has come; whether the member goes on."""
        trainer = member.trainer
        assert trainer is not None
        with self._guarded(member):
            if not member.begun:
                # Not before its first update: waiting for the others to be made is not training time.
                trainer.begin()
                member.begun = True
            reason = trainer.finished() or trainer.advance()
            if reason is not None:
                trainer.finish(reason)
                self._end(member, trainer, reason)
        return member.state == "training"

    def _end(self, member: Member, trainer: Trainer, reason: str) -> None:
        self._leave(member, trainer)
        self._enter(member, _STATES.get(reason, "stopped"))
        try:
            self.folder.end(member.name, Ended(reason, trainer.turns, trainer.seconds))
        except OSError as error:
            self.watcher.note(f"{member.name}: its end could not be written to fleet.json ({error})")

    @contextlib.contextmanager
    def _guarded(self, member: Member) -> Iterator[None]:
        """A member that fails is told of by name and leaves; the others go on."""
        try:
            yield
        except Exception as error:
            words = " ".join(f"{type(error).__name__}: {error}".split())
            trace, trainer = traceback.format_exc(), member.trainer
            where = self.folder.path / member.name / FAILURE
            with contextlib.suppress(OSError):
                where.write_text(trace)
            if trainer is not None:
                for close in (trainer.writer.close, trainer.metrics.close, trainer.lane.close):
                    _quietly(close)
                self._leave(member, trainer)
            elif member.run is not None:
                member.run.release()
            self._enter(member, "failed")
            self.watcher.note(f"{member.name} failed ({words}); the others go on, {where} says where")

    def _leave(self, member: Member, trainer: Trainer) -> None:
        """Lets go of what a run holds: with dozens of them, memory of the ended is needed by the others."""
        member.turns, member.trainer = trainer.turns, None
        trainer.run_folder.release()

    def _enter(self, member: Member, state: State) -> None:
        member.state = state
        self.watcher.state(member.name, state)

    # All of them

    def _compare(self) -> None:
        """K together against K after one another; the updates it takes are part of the training."""
        owners = {id(member.trainer): member for member in self._running()}
        trainers = [member.trainer for member in self._running() if member.trainer is not None]
        found = measure(trainers, lambda trainer: self._turn(owners[id(trainer)]))
        if found is None:
            return
        self.watcher.throughput(found)
        try:
            self.folder.measured(found)
        except OSError as error:
            self.watcher.note(f"the throughput could not be written to fleet.json ({error})")
        values = {"runs": found.runs, "alone": found.alone, "together": found.together, "gain": found.gain}
        self._write({f"throughput/{name}": float(value) for name, value in values.items()})

    def _log(self) -> None:
        """How fast all of them are, evaluations and saving included, about once a second."""
        now, turns = time.perf_counter(), self._turns()
        if now - self._logged_at < _LOG_S and self._running():
            return
        speed = (turns - self._logged_turns) / max(now - self._logged_at, 1e-9)
        self._logged_at, self._logged_turns = now, turns
        self._write({"speed/turns_per_s": speed, "fleet/running": float(len(self._running()))})

    def _write(self, values: dict[str, float]) -> None:
        if self._metrics is not None:
            self._metrics.write(self._turns(), values)

    def _close(self) -> None:
        if self._metrics is not None:
            self._metrics.close()
        for member in self.members:
            if member.trainer is not None:
                member.trainer.run_folder.release()


class _Harmless:
    """A watcher that may fail: it must not take a run with it."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def update(self, name: str, status: Status) -> None:
        self._try(lambda: self._watcher.update(name, status))

    def state(self, name: str, state: State) -> None:
        self._try(lambda: self._watcher.state(name, state))

    def throughput(self, found: Throughput) -> None:
        self._try(lambda: self._watcher.throughput(found))

    def note(self, text: str) -> None:
        self._try(lambda: self._watcher.note(text))

    def _try(self, tell: Callable[[], None]) -> None:
        try:
            tell()
        except Exception as error:
            _LOG.warning("the fleet's watcher failed: %s", error)


class _Ear:
    """Passes on what a member's trainer tells, with the member's name."""

    def __init__(self, name: str, watcher: Watcher) -> None:
        self._name, self._watcher = name, watcher

    def update(self, status: Status) -> None:
        self._watcher.update(self._name, status)

    def note(self, text: str) -> None:
        self._watcher.note(f"{self._name}: {text}")


_STATES: dict[str, State] = {"budget": "done", "plateau": "plateau"}


def _quietly(action: Callable[[], object]) -> None:
    """After a failure even closing may fail; the failure itself has been told."""
    with contextlib.suppress(Exception):
        action()
