"""How much of what slow engines can do reaches the learner: 64 games of Skull King on 16 processes that take
5 ms a decision, one actor, one learner."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bars import Bar, Result
from playmill.algorithms import PPO
from playmill.policies import Network
from playmill.pools.remote import RemotePool
from playmill.telemetry.metrics import read_metrics
from playmill.training.config import Checkpoints, Evaluation, Train
from playmill.training.engine_lane import EngineLane
from playmill.training.engine_settings import Actors
from playmill.training.runs import create_run
from playmill.training.status import Status
from playmill.training.trainer import Trainer

GAME, ENGINES, GAMES, DELAY_MS = "skull_king", 16, 4, 5.0
CEILING = ENGINES * 1000.0 / DELAY_MS
"""Decisions a second that so many engines can make, if nothing else took any time."""
COMMAND = (sys.executable, "-m", "playmill.engines.host", f"native:{GAME}", "--delay-ms", str(DELAY_MS))
STEPS, SEGMENTS = 16, 32
BATCH_S = STEPS * SEGMENTS / CEILING
"""How long the engines need for a batch."""


def measure(say: Callable[[str], None], quick: bool) -> Result:
    details: dict[str, Any] = {"nominal": CEILING, "batch_s": BATCH_S}
    before = _alone(3.0 if quick else 10.0)
    kinds = [("actor", "actor", False), ("process", "process", False), ("evaluated", "actor", True)]
    for name, inference, evaluated in kinds[:1] if quick else kinds:
        found = _trained(inference, 6.0 if quick else 30.0, evaluated)
        beside = ", an evaluator beside" if evaluated else ""
        told = ", ".join(f"{key} {value:,.3g}" for key, value in found.items())
        say(f"decisions in the {inference}{beside}: {told}")
        details[name] = found
    ceiling = details["engines_alone"] = (before + _alone(3.0 if quick else 10.0)) / 2
    say(f"engines alone: {ceiling:,.0f} decisions a second of {CEILING:,.0f}")
    best = details["actor"]
    return Result(
        [
            Bar("share_of_ceiling", best["turns_per_s"] / ceiling, "share", 0.95),
            Bar("learner_wait", best["longest_wait_s"] / BATCH_S, "batches", 2.0, at_most=True),
            Bar("actor_wait", best["actor_held_up_s"] / BATCH_S, "batches", 1.0, at_most=True),
        ],
        details,
    )


class _Watch:
    """Notes how long the learner waited for each batch."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def update(self, status: Status) -> None:
        seconds = status.turns_per_s and STEPS * SEGMENTS / status.turns_per_s
        self.waits.append(status.shares["waiting"] * seconds)

    def note(self, text: str) -> None:
        print(text, file=sys.stderr)


def _trained(inference: str, seconds: float, evaluated: bool) -> dict[str, float]:
    """`evaluated`: a process beside it judges every checkpoint, as soon as it has done the one before."""
    actors = Actors(
        engines=ENGINES,
        games=GAMES,
        command=COMMAND,
        segments=SEGMENTS,
        inference=inference,  # type: ignore[arg-type]
    )
    config = Train(
        game=GAME,
        lane="engines",
        steps=STEPS,
        threads=1,
        precision="float32",
        network=Network(hidden=(64,)),
        ppo=PPO(epochs=1, minibatch=STEPS * SEGMENTS),
        actors=actors,
        evaluation=Evaluation(every=int(evaluated), deals=2000),
        checkpoints=Checkpoints(every_s=5.0),
    )
    with tempfile.TemporaryDirectory() as folder:
        run = create_run(Path(folder) / "run", config)
        watch = _Watch()
        trainer = Trainer(run, watch)
        trainer.begin()
        _advance(trainer, 8.0)  # engines and actor start
        watch.waits.clear()
        begun, turns, cpu = time.perf_counter(), trainer.turns, time.process_time()
        _advance(trainer, seconds)
        took = time.perf_counter() - begun
        turns, cpu = trainer.turns - turns, time.process_time() - cpu
        trainer.stop("measured")
        trainer.finish("measured")
        lane = trainer.lane
        assert isinstance(lane, EngineLane)
        run.release()
        told = json.loads((run.path / "logs" / "actor-0.log").read_text().splitlines()[-1])
        judged = sum("eval/random/win_share" in row for row in read_metrics(run.path))
    waits = np.array(watch.waits)
    return {
        "turns_per_s": turns / took,
        "mean_wait_s": float(waits.mean()),
        "longest_wait_s": float(waits.max()),
        "learner_us": 1e6 * cpu / turns,
        "actor_us": 1e6 * told["cpu_s"] / told["turns"],
        "actor_held_up_s": told["held_up_s"],
        "rows_a_batch": told["turns"] / told["batches"],
        "judged": float(judged),
        "dropped": float(sum(lane.ledger.dropped.values())),
    }


def _advance(trainer: Trainer, seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        trainer.advance()


def _alone(seconds: float) -> float:
    """Decisions a second of the same engines, answered at once without a thought."""
    with RemotePool(GAME, ENGINES * GAMES, engines=ENGINES, command=list(COMMAND)) as pool:
        while any(engine.state != "ready" for engine in pool.health()):
            _answer(pool)
        begun, decided = time.perf_counter(), 0
        while time.perf_counter() - begun < seconds:
            decided += _answer(pool)
        return decided / (time.perf_counter() - begun)


def _answer(pool: RemotePool) -> int:
    rows = pool.turns(8, 0.1)
    bits = np.unpackbits(rows.legal, axis=1, bitorder="little")
    if len(rows.slot):
        pool.act(rows.slot, bits.argmax(axis=1))
    return len(rows.slot)
