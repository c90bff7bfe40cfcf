"""Every part of a real run of the engine lane is killed again and again, the network is cut, the broker's
memory and the disk are filled: nothing may be lost, nothing trained twice, and training must go on by itself.

Games are the native ones behind engine processes; once on shared memory, where there is no broker, and once
on Redis, with a broker that logs every second."""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.bars import Bar, Result
from benchmarks.broker import running_broker
from benchmarks.chaos_run import LOGGED, Trial
from benchmarks.chaos_troubles import NOT_RUN, Trouble, disk_troubles, network_troubles, small_disk

SEED = 5
KILLS = 100
"""Of each kind."""
AGAIN = 0.3
"""Share of kills that do not wait until the one before has been got over."""
WITHIN = 120.0
"""Seconds until a part that is not back counts as not recovered."""
LOOKS = 10
"""Kills between two looks at the ledger of the running run."""


class Kill(NamedTuple):
    kind: str
    seconds: float
    """Until the part worked again."""
    recovered: bool


def measure(say: Callable[[str], None], quick: bool) -> Result:
    kills = 2 if quick else KILLS
    half = kills - kills // 2
    kinds = {"actor": half, "engine": half, "learner": half}
    ends: dict[str, dict[str, Any]] = {}
    done: list[Kill] = []
    looks: list[bool] = []
    troubles: list[Trouble] = []
    with _place(on_small_disk=True) as folder, _trial(folder, 1 if quick else 2) as trial:
        done += _storm(trial, kinds, say, looks)
        troubles += [] if quick else disk_troubles(trial, say)
        ends["shared"] = trial.finish()
    with _place() as folder, running_broker(*LOGGED) as broker, _trial(folder, 1, broker) as trial:
        done += _storm(trial, {**kinds, "broker": kills}, say, looks)
        ends["redis"] = trial.finish()
    if not quick:
        with _place(on_small_disk=True) as folder:
            more, ends["troubles"] = network_troubles(folder, say)
            troubles += more
    return _result(kills, done, troubles, ends, looks)


@contextmanager
def _place(*, on_small_disk: bool = False) -> Iterator[Path]:
    """A folder for a run; on a small disk, where such a one can be made."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if on_small_disk:
            stack.enter_context(small_disk(folder))
        yield folder


@contextmanager
def _trial(*arguments: Any) -> Iterator[Trial]:
    with closing(Trial(*arguments)) as trial:
        yield trial


def _storm(trial: Trial, kinds: dict[str, int], say: Callable[[str], None], looks: list[bool]) -> list[Kill]:
    """The kills, in an order and at moments that the seed names."""
    rng = random.Random(SEED)
    order = [kind for kind, count in kinds.items() for _ in range(count)]
    rng.shuffle(order)
    done: list[Kill] = []
    waiting: list[tuple[str, float, Callable[[], bool]]] = []
    for number, kind in enumerate(order, 1):
        time.sleep(rng.uniform(0.0, 0.3))
        began = time.monotonic()
        waiting.append((kind, began, trial.kill(kind, rng)))
        if rng.random() < AGAIN and number < len(order):
            continue
        done += _recovered(waiting)
        if number % LOOKS == 0 and (proof := trial.proof()) is not None:
            looks.append(proof.holds)
        seconds = " ".join(f"{kill.kind} {kill.seconds:.1f}" for kill in done[-len(waiting) :])
        say(f"{number} of {len(order)} kills: {seconds} s; {trial.saved():,} turns")
        waiting.clear()
    return done


def _recovered(waiting: list[tuple[str, float, Callable[[], bool]]]) -> list[Kill]:
    """Waits until all parts are back."""
    left = list(waiting)
    done: list[Kill] = []
    while left:
        for entry in list(left):
            kind, began, works = entry
            back = works()
            seconds = time.monotonic() - began
            if back or seconds > WITHIN:
                done.append(Kill(kind, seconds, back))
                left.remove(entry)
        time.sleep(0.02)
    return done


def _result(
    kills: int,
    done: list[Kill],
    troubles: list[Trouble],
    ends: dict[str, dict[str, Any]],
    looks: list[bool],
) -> Result:
    ledgers = [end[when] for end in ends.values() for when in ("stopped", "drained")]
    kinds = sorted({kill.kind for kill in done})
    bars = [Bar(f"kills_{k}", sum(kill.kind == k for kill in done), "kills", kills) for k in kinds]
    failed = [kill.recovered for kill in done].count(False)
    failed += [trouble.recovered for trouble in troubles].count(False)
    bars += [
        Bar("lost", _most(ledgers, "lost"), "segments", 0, at_most=True),
        Bar("trained_twice", _most(ledgers, "twice") + _over(ends), "segments", 0, at_most=True),
        Bar("not_recovered", failed, "times", 0, at_most=True),
        Bar("in_flight_at_the_end", _in_flight(ends), "segments", 0, at_most=True),
        Bar("left_behind", sum(end["left_behind"] for end in ends.values()), "processes", 0, at_most=True),
        Bar("looks_that_did_not_hold", looks.count(False), "looks", 0, at_most=True),
    ]
    details = {
        "recovery_s": {kind: _times([k.seconds for k in done if k.kind == kind]) for kind in kinds},
        "troubles": {one.name: round(one.seconds, 2) for one in troubles},
        "not_run": NOT_RUN,
        "looks": len(looks),
        "ledgers": ends,
    }
    return Result(bars, details)


def _most(ledgers: list[dict[str, Any]], name: str) -> int:
    """Over all ledgers; one that could not be read counts."""
    return sum(int(ledger.get(name, 1)) for ledger in ledgers)


def _over(ends: dict[str, dict[str, Any]]) -> int:
    return sum(abs(end["over"]) for end in ends.values())


def _in_flight(ends: dict[str, dict[str, Any]]) -> int:
    return sum(int(end["drained"].get("in_flight", 1)) for end in ends.values())


def _times(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    p95 = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return {"p50": round(statistics.median(ordered), 2), "p95": round(p95, 2), "most": round(ordered[-1], 2)}
