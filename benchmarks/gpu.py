"""The GPU lane on one card: random play, rollouts, training end to end, a plain torch loop beside it, time
to strength, and where the time of the card goes. Networks are separate nets [512, 512, 256]."""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from benchmarks.bars import Bar, Result
from benchmarks.plain_torch import PlainPPO, measure_plain
from benchmarks.sameness import compare_pools
from playmill.algorithms import PPO
from playmill.games import PlaymillError, registry
from playmill.league.evaluate import evaluate
from playmill.policies import Network
from playmill.pools.cuda import CudaPool
from playmill.pools.lanes import cuda_lane
from playmill.training.config import Checkpoints, Evaluation, Train, load_recipe
from playmill.training.cuda.lane import CudaLane, ceilings
from playmill.training.runs import create_run
from playmill.training.status import Status
from playmill.training.throughput import measure as measure_together
from playmill.training.trainer import Trainer
from playmill.training.utilisation import utilisation_lines

Say = Callable[[str], None]

SEED_NET = (512, 512, 256)
GAMES, STEPS, MINIBATCH = 65_536, 128, 131_072
PLAIN_MINIBATCHES = (32_768, 131_072)
"""The first is judged. In large ones a plain loop no longer waits for its own launches."""
SEEDS = (0, 1, 2)
HARD, GREEDY = 0.55, 0.35
DEALS = 2500
DEAL_SEED = 77
"""Of the deals judged on; training evaluates on others."""


def measure(say: Say, quick: bool) -> Result:
    lane = cuda_lane()
    if not lane.available or lane.card is None:
        raise PlaymillError(f"this benchmark needs an NVIDIA card: {lane.reason}")
    say(f"{lane.reason}; ceilings {ceilings()}")
    sizes = [4096] if quick else [16_384, 131_072, 1_048_576]
    random = {games: random_rate(games) for games in sizes}
    say(f"random play {_millions(random)}")
    games, steps, minibatch = (4096, 16, 8192) if quick else (GAMES, STEPS, MINIBATCH)
    rollout = rollout_rate(config(games, steps, minibatch))
    say(f"rollout {rollout / 1e6:.1f} M turns/s")
    trained: dict[str, float] = {}
    lines: list[str] = []
    for epochs, updates in ((1, 8), (4, 4), (15, 2)):
        rate, used = train_rate(config(games, steps, minibatch, epochs=epochs), 2 if quick else updates)
        trained[f"train_{epochs}_epoch{'s' if epochs > 1 else ''}"] = rate
        lines += [f"{epochs} epochs: {line}" for line in used]
        say(f"train, {epochs} epochs: {rate / 1e6:.2f} M turns/s; {used[-1]}")
    small = config(2 * games, steps // 2, 2 * minibatch, hidden=(128,))
    trained["train_small"] = train_rate(small, 2 if quick else 12)[0]
    say(f"train, two [128] networks: {trained['train_small'] / 1e6:.1f} M turns/s")
    torch.cuda.empty_cache()
    beside = beside_plain_torch(say, games, steps, quick)
    strength = [seconds_to_strength(seed, say, quick) for seed in SEEDS[: 1 if quick else 3]]
    bars = [
        Bar("random_turns_per_s", max(random.values()), "turns/s", 1.5e9),
        Bar("rollout_turns_per_s", rollout, "turns/s", 110e6),
        Bar("train_1_epoch", trained["train_1_epoch"], "turns/s", 32e6),
        Bar("train_4_epochs", trained["train_4_epochs"], "turns/s", 11e6),
        Bar("train_15_epochs", trained["train_15_epochs"], "turns/s", 3e6),
        Bar("train_small", trained["train_small"], "turns/s", 100e6),
        Bar("vs_plain_torch", beside[0]["ratio"], "x", 8),
        Bar("seconds_to_strength", statistics.median(s["seconds"] for s in strength), "s", 60, at_most=True),
    ]
    details: dict[str, Any] = {
        "card": lane.card.name,
        "torch": torch.__version__,
        "ceilings": dataclasses.asdict(ceilings()),
        "random_by_games": random,
        "plain_torch": beside,
        "strength": strength,
        "utilisation": lines,
        "sameness": sameness(say, quick),
        **curves(say, quick),
        "together": together(say, quick),
    }
    return Result(bars, details)


def config(
    games: int,
    steps: int,
    minibatch: int,
    *,
    epochs: int = 1,
    hidden: tuple[int, ...] = SEED_NET,
    seed: int = 0,
    network: Network | None = None,
) -> Train:
    """A training of Skull King without evaluations or checkpoints."""
    return Train(
        game="skull_king",
        device="cuda",
        seed=seed,
        games=games,
        steps=steps,
        network=network or Network(hidden=hidden),
        ppo=PPO(epochs=epochs, minibatch=minibatch),
        evaluation=Evaluation(every=0, final_deals=1),
        checkpoints=Checkpoints(every_s=1e9),
    )


def random_rate(
    games: int,
    steps: int = 16,
    game: str = "skull_king",
    options: dict[str, int] | None = None,
    repeats: int | None = None,
) -> float:
    """Turns a second of random play, packed observation and legal bits written every turn."""
    pool = CudaPool(game, games, options=options, seed=1)
    turns, outcome = pool.empty_turns(), pool.empty_outcome()

    def address(array: Any) -> int:
        return int(array.__cuda_array_interface__["data"][0])

    next_rows = [address(column) for column in turns]
    stream = int(torch.cuda.current_stream().cuda_stream)

    def play(count: int) -> None:
        for _ in range(count):
            pool.native.step_random(
                0, games, address(outcome.rewards), address(outcome.over), next_rows, stream
            )

    play(2 * steps)
    repeats = repeats or max(1, (1 << 24) // games)
    return timed(lambda: play(steps * repeats), games * steps * repeats)


def timed(work: Callable[[], None], turns: int) -> float:
    """Turns a second, the card's whole work waited for."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return turns / (time.perf_counter() - start)


def rollout_rate(settings: Train, rollouts: int = 5) -> float:
    """Turns a second of rollouts with both networks, returns and the list of usable rows included."""
    lane = CudaLane(settings, settings.spec, None)
    with torch.cuda.stream(lane.stream):
        lane.collector.collect()

        def play() -> None:
            for _ in range(rollouts):
                lane.collector.collect()

        return timed(play, rollouts * settings.games * settings.steps)


@contextmanager
def trainer_of(settings: Train, listener: Any = None) -> Iterator[Trainer]:
    with tempfile.TemporaryDirectory() as folder:
        run = create_run(Path(folder) / "run", settings)
        trainer = Trainer(run, listener or Silent())
        trainer.begin()
        yield trainer
        trainer.lane.close()
        trainer.writer.close()
        trainer.metrics.close()
        run.release()


def train_rate(settings: Train, updates: int) -> tuple[float, list[str]]:
    """Turns a second of the whole trainer: rollout, returns, gather, update, metrics written."""
    with trainer_of(settings) as trainer:
        for _ in range(2):
            trainer.advance()

        def train() -> None:
            for _ in range(updates):
                trainer.advance()
            trainer.lane.wait()

        rate = timed(train, updates * settings.games * settings.steps)
        lines = utilisation_lines(trainer.utilisation) if trainer.utilisation is not None else []
    return rate, lines


class Silent:
    def update(self, status: Status) -> None: ...
    def note(self, text: str) -> None: ...


class UntilStrong:
    """Stops a training once an evaluation's whole interval is above both bars."""

    def __init__(self) -> None:
        self.trainer: Trainer | None = None

    def update(self, status: Status) -> None:
        found = status.evaluation
        if self.trainer is not None and found and found["hard"].low >= HARD and found["greedy"].low >= GREEDY:
            self.trainer.stop("strong")

    def note(self, text: str) -> None: ...


def seconds_to_strength(seed: int, say: Say, quick: bool) -> dict[str, Any]:
    """Wall time from nothing to an evaluation above both bars, building and evaluating counted; then judged
    again on other deals."""
    settings = dataclasses.replace(load_recipe("skull_king/gpu"), seed=seed)
    # The interval of 256 deals is about 0.03 wide to either side: the true shares are above the bars.
    settings = dataclasses.replace(
        settings, evaluation=dataclasses.replace(settings.evaluation, every=8_000_000)
    )
    listener = UntilStrong()
    start = time.perf_counter()
    with trainer_of(settings, listener) as trainer:
        listener.trainer = trainer
        reason = None
        while reason is None:
            reason = trainer.advance()
        seconds = time.perf_counter() - start
        trainer.lane.wait()
        judged = {
            bot: evaluate(settings.spec, trainer.policy, bot, deals=100 if quick else DEALS, seed=DEAL_SEED)
            for bot in ("hard", "greedy")
        }
        turns = trainer.turns
    out: dict[str, Any] = {"seed": seed, "seconds": seconds, "turns": turns, "reason": reason}
    for bot, result in judged.items():
        out[bot] = [round(result.win_share, 4), round(result.low, 4), round(result.high, 4)]
    say(f"strength, seed {seed}: {seconds:.1f} s, {turns / 1e6:.0f} M turns; {out['hard']} {out['greedy']}")
    return out


def beside_plain_torch(say: Say, games: int, steps: int, quick: bool) -> list[dict[str, Any]]:
    """A plain torch loop and ours with the same games, steps and minibatches."""
    found = []
    for minibatch in PLAIN_MINIBATCHES[: 1 if quick else None]:
        ours, _ = train_rate(config(games, steps, minibatch), 2 if quick else 6)
        torch.cuda.empty_cache()
        loop = PlainPPO("cuda", games=games, steps=steps, minibatch=minibatch)
        plain = measure_plain(loop=loop, updates=1 if quick else 3)
        del loop
        torch.cuda.empty_cache()
        ratio = ours / plain["turns_per_s"]
        found.append({"minibatch": minibatch, "ratio": ratio, "turns_per_s": ours, "plain": plain})
        rates = f"{ours / 1e6:.2f} M turns/s, a plain torch loop {plain['turns_per_s'] / 1e6:.2f}"
        say(f"minibatches of {minibatch:,}: {rates}, {ratio:.2f}x")
    return found


def sameness(say: Say, quick: bool) -> dict[str, Any]:
    """Whole games compared bit for bit between the CPU's pool and the card's."""
    out = {
        name: compare_pools(registry.spec(name), 500 if quick else 100_000, 8192, seed=11)
        for name in registry.names()
    }
    say(f"sameness {out}")
    return out


def curves(say: Say, quick: bool) -> dict[str, Any]:
    """What a turn costs: by games in flight, rows of a minibatch, width, kind of network."""
    by_games: dict[str, Any] = {}
    for games in (1024,) if quick else (1024, 4096, 16_384, 65_536, 262_144, 1_048_576):
        steps = 32 if games <= 262_144 else 16
        settings = config(games, steps, min(MINIBATCH, games * steps // 2))
        by_games[str(games)] = {
            "random": random_rate(games),
            "rollout": rollout_rate(settings, 3),
            "train_1_epoch": train_rate(settings, 3 if games > 16_384 else 20)[0],
        }
        say(f"{games:,} games: {_millions(by_games[str(games)])}")
    by_minibatch = {
        str(rows): train_rate(config(65_536, 32, rows), 3)[0]
        for rows in ((8192,) if quick else (8192, 32_768, 131_072))
    }
    say(f"by minibatch {_millions(by_minibatch)}")
    by_width: dict[str, float] = {}
    widths = ((128,), (256, 128), SEED_NET, (1024, 1024, 512), (2048, 2048, 1024))
    for hidden in widths[:1] if quick else widths:
        settings = config(32_768, 64, 65_536, hidden=hidden)
        by_width["-".join(map(str, hidden))] = train_rate(settings, 3)[0]
    say(f"by width {_millions(by_width)}")
    by_recipe: dict[str, float] = {}
    for name in () if quick else ("wide", "deep", "attention"):
        recipe = load_recipe(f"skull_king/{name}")
        settings = config(recipe.games, recipe.steps, recipe.ppo.minibatch, network=recipe.network)
        by_recipe[name] = train_rate(settings, 3)[0]
    say(f"by recipe {_millions(by_recipe)}")
    return {
        "by_games": by_games,
        "by_minibatch": by_minibatch,
        "by_width": by_width,
        "by_recipe": by_recipe,
    }


def together(say: Say, quick: bool) -> dict[str, Any]:
    """Four runs at once against one after another, small and large."""
    out: dict[str, Any] = {}
    for name, games, minibatch, hidden in (
        ("small", 2048, 8192, (128, 128)),
        ("seed_net", 16_384, 32_768, SEED_NET),
    ):
        settings = [config(games, 32, minibatch, hidden=hidden, seed=seed) for seed in range(4)]
        with tempfile.TemporaryDirectory() as folder:
            runs = [create_run(Path(folder) / f"{i}", one) for i, one in enumerate(settings)]
            trainers = [Trainer(run, Silent()) for run in runs]
            for trainer in trainers:
                trainer.begin()
            found = measure_together(trainers, lambda trainer: trainer.advance() is None)
            for trainer, run in zip(trainers, runs, strict=True):
                trainer.lane.close()
                trainer.writer.close()
                trainer.metrics.close()
                run.release()
        if found is not None:
            out[name] = {"alone": found.alone, "together": found.together, "gain": found.gain}
            say(f"{name}: {found.words}")
        if quick:
            break
    return out


def _millions(rates: dict[Any, float]) -> str:
    return ", ".join(f"{name} {rate / 1e6:.1f} M/s" for name, rate in rates.items())
