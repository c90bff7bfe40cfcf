"""Generals on one card: random play on 20 x 20 with both players' packed observations and legal bits written
every tick, and training end to end on 10 x 10 with a small U-Net."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from benchmarks.bars import Bar, Result
from benchmarks.gpu import Say, random_rate, train_rate
from benchmarks.sameness import compare_pools
from playmill.games import PlaymillError, registry
from playmill.pools.lanes import cuda_lane
from playmill.training.config import Checkpoints, Evaluation, Train, load_recipe

MAPS = {"maps": 10_000}
SAME: list[dict[str, Any]] = [
    {"max_ticks": 400},
    {"preset": "source", "width": 10, "height": 10, "max_ticks": 400},
    {"preset": "competition", "width": 15, "height": 15, "max_ticks": 400},
    {"width": 24, "height": 18, "players": 5, "order": "smaller", "max_ticks": 200},
]


def measure(say: Say, quick: bool) -> Result:
    lane = cuda_lane()
    if not lane.available or lane.card is None:
        raise PlaymillError(f"this benchmark needs an NVIDIA card: {lane.reason}")
    rates: dict[int, float] = {}
    for games in [4096] if quick else [16_384, 65_536, 262_144]:
        rates[games] = random_rate(games, game="generals", options=MAPS, repeats=1 if quick else 4) / 2
        say(f"{games:,} games: {rates[games] / 1e6:.1f} M ticks/s")
    trained, used = train_rate(training(quick), 2 if quick else 6)
    say(f"training with a U-Net: {trained / 1e6:.2f} M turns/s; {used[-1] if used else ''}")
    bars = [
        Bar("card_ticks_per_s", max(rates.values()), "ticks/s", 110e6),
        Bar("card_train_turns_per_s", trained, "turns/s", 1e6),
    ]
    details: dict[str, Any] = {
        "card": lane.card.name,
        "torch": torch.__version__,
        "ticks_by_games": rates,
        "utilisation": used,
        "sameness": [same(say, options, quick) for options in SAME],
    }
    return Result(bars, details)


def training(quick: bool) -> Train:
    """The recipe's training without evaluations or checkpoints."""
    settings = load_recipe("generals/gpu")
    return dataclasses.replace(
        settings,
        minutes=0.0,
        games=1024 if quick else settings.games,
        steps=16 if quick else settings.steps,
        evaluation=Evaluation(every=0, final_deals=1),
        checkpoints=Checkpoints(every_s=1e9),
    )


def same(say: Say, options: dict[str, Any], quick: bool) -> dict[str, Any]:
    """Whole games compared bit for bit between the CPU's pool and the card's, bots in some seats."""
    found = compare_pools(registry.spec("generals", options), 200 if quick else 10_000)
    say(f"{options}: {found['games']:,} games on both, difference: {found['difference']}")
    return found
