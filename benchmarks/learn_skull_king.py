"""What five minutes of self-play on two cores are worth: Skull King, four players, from scratch."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.bars import Bar, Result
from playmill.league.evaluate import Evaluation, evaluate
from playmill.training.config import load_recipe
from playmill.training.runs import create_run
from playmill.training.status import Status
from playmill.training.trainer import Trainer

MINUTES = 5.0
DEALS = 2500
SEED = 77
"""Of the deals judged on; training evaluates on others."""


class Told:
    """Says now and then how far it is."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say, self.told = say, 0.0

    def update(self, status: Status) -> None:
        if status.seconds - self.told >= 20.0:
            self.told = status.seconds
            shares = ", ".join(f"{n} {e.win_share:.3f}" for n, e in status.evaluation.items())
            self.say(f"{status.seconds:4.0f} s {status.turns:,} turns {status.turns_per_s:,.0f}/s  {shares}")

    def note(self, text: str) -> None:
        self.say(text)


def details_of(found: dict[str, Evaluation]) -> dict[str, Any]:
    """What a player did against each bot, for the JSON."""
    return {
        f"against_{bot}": {
            "win_share": round(r.win_share, 4),
            "interval_95": [round(r.low, 4), round(r.high, 4)],
            "score": r.score,
            "opponent_score": r.opponent_score,
            "bid_made": r.bid_made,
            "games": r.games,
        }
        for bot, r in found.items()
    }


def measure(say: Callable[[str], None], quick: bool) -> Result:
    config = load_recipe("skull_king/quick")
    config = dataclasses.replace(config, minutes=0.3 if quick else MINUTES, turns=0, threads=2)
    config = dataclasses.replace(config, evaluation=dataclasses.replace(config.evaluation, final_deals=100))
    with tempfile.TemporaryDirectory() as folder:
        run = create_run(Path(folder) / "run", config)
        trainer = Trainer(run, Told(say))
        trainer.run()
        run.release()
    deals = 100 if quick else DEALS
    found = {
        bot: evaluate(config.spec, trainer.policy, bot, deals=deals, seed=SEED, threads=2)
        for bot in ("hard", "greedy", "random")
    }
    bars = [
        Bar("win_share_hard", found["hard"].win_share, "share", 0.40),
        Bar("win_share_greedy", found["greedy"].win_share, "share", 0.25),
    ]
    return Result(bars, {**details_of(found), "turns": trainer.turns, "training_seconds": trainer.seconds})
