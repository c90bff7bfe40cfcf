"""How fast runs are together against one after another: measured on their own updates, so that it costs
no work. Every run is a function of its settings alone, whoever else takes turns with it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from playmill.training.trainer import Trainer
from playmill.training.units import short

WARM_UP = 2
"""Updates of each run that are not timed: caches, allocations, captured graphs."""
_FEWEST, _MOST, _PARTS = 2, 100, 4
_SECONDS_A_RUN, _SECONDS = 0.5, 10.0
_PART_OF_BUDGET = 0.25


@dataclass(frozen=True)
class Throughput:
    """Turns a second of several runs, evaluations left out."""

    runs: int
    updates: int
    """Of each run, in either part."""
    alone: float
    """One run at a time: the turns of all over the time of all."""
    together: float

    @property
    def gain(self) -> float:
        return self.together / self.alone

    @property
    def words(self) -> str:
        return (
            f"{self.runs} together {short(self.together)} turns/s, "
            f"one at a time {short(self.alone)} turns/s: {self.gain:.2f}x"
        )


Advance = Callable[[Trainer], bool]
"""Turns a trainer once; False when its run has ended."""


def measure(trainers: Sequence[Trainer], advance: Advance) -> Throughput | None:
    """Each run alone for some updates, then all together for as many; None where the budget is too
    short for it, or a run ended meanwhile."""
    if len(trainers) < 2:
        return None
    alone, together = _Stretch(advance), _Stretch(advance)
    for _ in range(WARM_UP):
        warm = _Stretch(advance)
        if not _play(warm, trainers, 1, side_by_side=False):
            return None
    updates = _updates(trainers, warm.read()[1])
    if updates < _FEWEST:
        return None
    parts = min(_PARTS, updates)
    updates //= parts
    for part in range(parts):
        # Back and forth: a machine that others use gets slower or faster, and neither may profit from it.
        for stretch in (alone, together) if part % 2 == 0 else (together, alone):
            if not _play(stretch, trainers, updates, side_by_side=stretch is together):
                return None
    (alone_turns, alone_s), (together_turns, together_s) = alone.read(), together.read()
    if not (alone_turns and together_turns):
        return None  # every update was an evaluation as well
    return Throughput(len(trainers), parts * updates, alone_turns / alone_s, together_turns / together_s)


def _play(stretch: _Stretch, trainers: Sequence[Trainer], updates: int, side_by_side: bool) -> bool:
    """Some updates of every run; False when a run ended."""
    stretch.resume()
    if side_by_side:
        if not all(stretch.turn(trainer) for _ in range(updates) for trainer in trainers):
            return False
    else:
        for trainer in trainers:
            if not all(stretch.turn(trainer) for _ in range(updates)):
                return False
            stretch.pause()
            stretch.resume()
    stretch.pause()
    return True


class _Stretch:
    """Turns and the seconds they took. Updates with an evaluation are not counted."""

    def __init__(self, advance: Advance) -> None:
        self._advance = advance
        self._turns, self._seconds, self._started = 0, 0.0, 0.0

    def resume(self) -> None:
        """Starts the clock, once no work is left over from before."""
        _wait_for_device()
        self._started = time.perf_counter()

    def pause(self) -> None:
        _wait_for_device()
        self._seconds += time.perf_counter() - self._started

    def turn(self, trainer: Trainer) -> bool:
        turns = _turns(trainer)
        if not trainer.judge.due(trainer.turns + turns):
            self._turns += turns
            return self._advance(trainer)
        self.pause()
        goes_on = self._advance(trainer)
        self.resume()
        return goes_on

    def read(self) -> tuple[int, float]:
        """Turns and seconds so far."""
        return self._turns, max(self._seconds, 1e-9)


def _updates(trainers: Sequence[Trainer], seconds: float) -> int:
    """Updates of each run that either part takes: about half a second's worth, and never more than a
    fourth of what a run has left. `seconds`: of one update of every run, one run at a time."""
    target = min(_SECONDS_A_RUN * len(trainers), _SECONDS)
    minutes = [60.0 * t.config.minutes - t.seconds for t in trainers if t.config.minutes]
    if minutes:
        target = min(target, _PART_OF_BUDGET / 2 * max(0.0, min(minutes)))
    wanted = min(_MOST, max(_FEWEST + 1, math.ceil(target / seconds)))
    left = [(t.config.turns - t.turns) / _turns(t) for t in trainers if t.config.turns]
    return min(wanted, int(_PART_OF_BUDGET * min(left))) if left else wanted


def _turns(trainer: Trainer) -> int:
    return trainer.config.games * trainer.config.steps


def _wait_for_device() -> None:
    """On CUDA an update is only queued when its call returns; on the CPU it is done."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
