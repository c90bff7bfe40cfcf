"""What ten minutes on one card are worth: Skull King, four players, from scratch, on deals of its own."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.bars import Bar, Result
from benchmarks.learn_skull_king import details_of
from benchmarks.trained import trained
from playmill.league.evaluate import evaluate

RECIPE = "skull_king/strong"
DEALS = 10_000
SEED = 77
"""Of the deals judged on; training evaluates on others."""


def measure(say: Callable[[str], None], quick: bool) -> Result:
    config, trainer = trained(RECIPE, say, quick)
    found = {
        bot: evaluate(config.spec, trainer.policy, bot, deals=200 if quick else DEALS, seed=SEED)
        for bot in ("random", "easy", "medium", "hard", "greedy")
    }
    bars = [
        Bar("win_share_hard", found["hard"].win_share, "share", 0.55),
        Bar("win_share_greedy", found["greedy"].win_share, "share", 0.35),
    ]
    return Result(bars, {**details_of(found), "turns": trainer.turns, "training_seconds": trainer.seconds})
