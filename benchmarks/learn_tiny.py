"""Exact exploitability of what self-play learns in the tiny games: median of 5 seeds, at most 10 M turns."""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.bars import Bar, Result
from playmill.training.config import load_recipe
from playmill.training.runs import create_run
from playmill.training.status import Status
from playmill.training.trainer import Trainer

SEEDS = range(5)
MOST_TURNS = 10_000_000
BARS = {"kuhn": 0.03, "leduc": 0.30}


class Silent:
    """Nobody watches."""

    def update(self, status: Status) -> None: ...

    def note(self, text: str) -> None: ...


def train(game: str, seed: int, quick: bool) -> tuple[float, int]:
    """Exploitability of the last weights, and the turns they took."""
    config = load_recipe(f"{game}/quick")
    turns = 200_000 if quick else min(config.turns, MOST_TURNS)
    config = dataclasses.replace(config, seed=seed, turns=turns, threads=1)
    with tempfile.TemporaryDirectory() as folder:
        run = create_run(Path(folder) / "run", config)
        trainer = Trainer(run, Silent())
        trainer.run()
        run.release()
    return trainer.judge.extras["exploitability"], trainer.turns


def measure(say: Callable[[str], None], quick: bool) -> Result:
    bars: list[Bar] = []
    details: dict[str, Any] = {}
    with ProcessPoolExecutor(max_workers=2) as processes:
        for game, bar in BARS.items():
            jobs = [processes.submit(train, game, seed, quick) for seed in SEEDS]
            found = [job.result() for job in jobs]
            values = [value for value, _ in found]
            say(f"{game}: {', '.join(f'{v:.4f}' for v in values)} after {max(t for _, t in found):,} turns")
            bars.append(Bar(game, statistics.median(values), "exploitability", bar, at_most=True))
            details[f"{game}_seeds"] = values
            details[f"{game}_turns"] = max(t for _, t in found)
    return Result(bars, details)
