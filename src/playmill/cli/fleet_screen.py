"""The live screen of a fleet: a row for each run, and all their learning curves in one chart."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from rich.console import Console

from playmill.cli.fleet_parts import Moment, Row, fleet_picture
from playmill.cli.live import LiveScreen
from playmill.cli.screen import evaluation_key, evaluation_line
from playmill.training.fleet import State
from playmill.training.fleet_folder import Record
from playmill.training.fleet_plan import changed
from playmill.training.status import Status
from playmill.training.throughput import Throughput
from playmill.training.units import clock, short

_REDRAW_S = 0.2
_LINE_S = 5.0
_WINDOW_S = 10.0


@dataclass
class _Seen:
    """What is known of a member."""

    total_turns: int
    total_seconds: float
    state: State = "waiting"
    status: Status | None = None
    shown: object = None
    """The evaluation a line was printed for."""
    past: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=256))
    """(clock, turns) lately, for a speed that counts the time of the others' turns as well."""

    @property
    def done(self) -> float | None:
        """The share that is done: of its turns or its time, whichever ends first."""
        if self.state in ("done", "plateau"):
            return 1.0
        status = self.status or Status()
        shares = [status.turns / self.total_turns] if self.total_turns else []
        shares += [status.seconds / self.total_seconds] if self.total_seconds else []
        return min(1.0, max(shares)) if shares else None

    @property
    def speed(self) -> float:
        if self.state != "training" or len(self.past) < 2:
            return 0.0
        (start, before), (end, after) = self.past[0], self.past[-1]
        return (after - before) / max(end - start, 1e-9)


class FleetScreen(LiveScreen):
    """Shows a fleet. It only watches: whatever fails here, the training goes on.

    On a terminal it keeps one picture up to date; elsewhere, or with `plain`, it prints a line on the
    fleet at most every 5 s, one for each evaluation of a run and one for its end.
    """

    def __init__(
        self, title: str, record: Record, plain: bool | None = None, *, console: Console | None = None
    ) -> None:
        super().__init__(title, plain, console)
        self._bots = record.config.bots
        self._throughput = record.throughput
        self._seen: dict[str, _Seen] = {}
        for name, changes in record.members.items():
            config = changed(record.config, changes)
            self._seen[name] = _Seen(config.turns, 0.0 if config.turns else 60.0 * config.minutes)
        self._began = time.monotonic()
        self._shown_at = -math.inf

    def update(self, name: str, status: Status) -> None:
        """A member's new moment; cheap to call as often as one likes."""
        now, seen = time.monotonic(), self._seen[name]
        seen.status = status
        seen.past.append((now, status.turns))
        while now - seen.past[0][0] > _WINDOW_S:
            seen.past.popleft()
        self._evaluated(name)
        if now - self._shown_at >= (_LINE_S if self.plain else _REDRAW_S):
            self._show()

    def state(self, name: str, state: State) -> None:
        """A member began or ended."""
        seen = self._seen[name]
        seen.state = state
        self._evaluated(name)
        if self.plain and state not in ("training", "failed"):
            turns = short(seen.status.turns) if seen.status else "no"
            self._print(f"{name}: {state} after {turns} turns")
        elif not self.plain:
            self._show()

    def throughput(self, found: Throughput) -> None:
        """K together against K after one another."""
        self._throughput = found
        if self.plain:
            self._print(found.words)

    def _show_last(self) -> None:
        self._show()

    def _evaluated(self, name: str) -> None:
        """In plain mode every evaluation is a line."""
        seen = self._seen[name]
        if seen.status is None or not self.plain:
            return
        key = evaluation_key(seen.status)
        if key != seen.shown and (seen.status.evaluation or seen.status.extras):
            self._print(f"{name}: {evaluation_line(seen.status)}")
        seen.shown = key

    def _show(self) -> None:
        self._shown_at = time.monotonic()
        moment = self._moment()
        if not self._draw(lambda width, height: fleet_picture(self._title, moment, width, height)):
            self._print(fleet_line(moment))

    def _moment(self) -> Moment:
        rows = {name: _row(seen) for name, seen in self._seen.items()}
        etas = [row.status.eta_s for row in rows.values() if row.state == "training" and row.status]
        known = [eta for eta in etas if eta is not None]
        return Moment(
            rows,
            tuple(self._bots),
            time.monotonic() - self._began,
            max(known) if known and len(known) == len(etas) else None,
            None if self._throughput is None else self._throughput.words,
        )


def _row(seen: _Seen) -> Row:
    return Row(seen.state, seen.done, seen.speed, seen.status)


def fleet_line(moment: Moment) -> str:
    """One line on how far the fleet is and how fast it goes."""
    parts = [f"{short(moment.turns)} turns", clock(moment.seconds)]
    if moment.speed:
        parts.append(f"{short(moment.speed)} turns/s")
    if moment.done is not None:
        parts.insert(0, f"{moment.done * 100:.1f} %")
    if moment.eta_s is not None:
        parts.append(f"{clock(moment.eta_s)} left")
    parts.append(counted(moment.states))
    return "  ".join(parts)


def counted(states: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in states.items())
