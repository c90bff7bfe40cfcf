"""What fifteen minutes on one card are worth in Generals: one network for maps from 10 x 10 to 15 x 15,
judged on new maps of both sizes, from both seats."""

from __future__ import annotations

from typing import Any

from benchmarks.bars import Bar, Result
from benchmarks.gpu import Say
from benchmarks.trained import trained
from playmill.games import registry
from playmill.league.evaluate import evaluate

RECIPE = "generals/strong"
MAPS = 2000
SEED = 77
SIZES = (10, 15)
WANTED = {"expander": 0.95, "hunter": 0.85}


def measure(say: Say, quick: bool) -> Result:
    config, trainer = trained(RECIPE, say, quick)
    bars: list[Bar] = []
    details: dict[str, Any] = {
        "turns": trainer.turns,
        "training_seconds": trainer.seconds,
        "win_share_by_turns": trainer.judge.history,
    }
    for side in SIZES:
        # The same board and so the same network; maps of that size in its corner, none of those trained on.
        spec = registry.spec(
            config.game, {**config.options, "smallest": str(side), "largest": str(side), "maps": "0"}
        )
        for bot, wanted in WANTED.items():
            for sample in (False, True):
                found = evaluate(
                    spec, trainer.policy, bot, deals=200 if quick else MAPS, seed=SEED, sample=sample
                )
                told = {
                    "win_share": round(found.win_share, 4),
                    "interval_95": [round(found.low, 4), round(found.high, 4)],
                    "games": found.games,
                    "won": round(found.stats["win"], 4),
                    "drawn": round(found.stats["draw"], 4),
                    "mean_ticks": round(found.stats["turns"], 1),
                }
                how = "drawn" if sample else "likeliest"
                details[f"against_{bot}_{side}_{how}"] = told
                say(f"{side} x {side}, {bot}, {how} actions: {told}")
                if sample == config.evaluation.sample:
                    bars.append(Bar(f"{bot}_{side}", found.win_share, "share", wanted))
    return Result(bars, details)
