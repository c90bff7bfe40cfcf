"""Training steps a second, beside sb3-contrib's MaskablePPO on the same game in the same run.

Both train two [128, 128] networks (policy and value) on Skull King with four players, minibatches of
2,048 rows, one epoch. MaskablePPO plays one seat through the Gymnasium adapter (64 environments in a
DummyVecEnv) against scripted bots; Playmill plays all seats. A step is a decision of the network."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.bars import Bar, Result
from playmill.algorithms import PPO, seat_returns
from playmill.games import PlaymillError, registry
from playmill.policies import Network, Policy
from playmill.training.collector import Collector, Stopwatch
from playmill.training.learner import Learner
from playmill.training.precision import faster_in_bfloat16
from playmill.training.shards import Shards

THREADS = 2
HIDDEN = (128, 128)
MINIBATCH = 2048
ENVS = 64


def measure(say: Callable[[str], None], quick: bool) -> Result:
    ours = Ours()
    theirs = Theirs()
    ours.update()
    theirs.update()
    rounds = 1 if quick else 5
    mine: list[dict[str, float]] = []
    other: list[dict[str, float]] = []
    for i in range(rounds):
        mine.append(ours.update(updates=1 if quick else 4))
        other.append(theirs.update())
        say(
            f"round {i + 1}: {mine[-1]['steps_per_s']:,.0f} against {other[-1]['steps_per_s']:,.0f} steps/s; "
            f"collecting {mine[-1]['collect_per_s']:,.0f} against {other[-1]['collect_per_s']:,.0f}"
        )

    def median(rows: list[dict[str, float]], key: str) -> float:
        return statistics.median(row[key] for row in rows)

    steps = statistics.median(m["steps_per_s"] / o["steps_per_s"] for m, o in zip(mine, other, strict=True))
    collect = statistics.median(
        m["collect_per_s"] / o["collect_per_s"] for m, o in zip(mine, other, strict=True)
    )
    shares = {phase: median(mine, f"share_{phase}") for phase in ours.phases}
    details: dict[str, Any] = {
        "steps_per_s": median(mine, "steps_per_s"),
        "collect_per_s": median(mine, "collect_per_s"),
        "maskable_ppo_steps_per_s": median(other, "steps_per_s"),
        "maskable_ppo_collect_per_s": median(other, "collect_per_s"),
        "share_of_time": {k: round(v, 4) for k, v in shares.items()},
        "bfloat16": ours.bfloat16,
        "threads": THREADS,
    }
    bars = [
        Bar("vs_maskable_ppo", steps, "x", 4),
        Bar("collect_vs_maskable_ppo", collect, "x", 20),
    ]
    return Result(bars, details)


class Ours:
    """Playmill's collector and learner, as the trainer drives them."""

    phases = ("engine", "expansion", "network", "returns", "update")

    def __init__(self) -> None:
        spec = registry.spec("skull_king")
        network = Network(hidden=HIDDEN)
        self.shards = Shards(THREADS)
        self.ppo = PPO(epochs=1, minibatch=MINIBATCH)
        self.bfloat16 = faster_in_bfloat16(spec, network, MINIBATCH)
        torch.manual_seed(0)
        self.learner = Learner(Policy(spec, network), self.ppo, 0, self.bfloat16, self.shards)
        self.collector = Collector(spec, 1024, 64, 0, self.shards)
        self.number = 0

    def update(self, updates: int = 1) -> dict[str, float]:
        torch.set_num_threads(1)
        watch = Stopwatch()
        collecting = 0.0
        start = time.perf_counter()
        for _ in range(updates):
            begun = time.perf_counter()
            rollout = self.collector.collect(self.learner.policy, [], self.number, watch, self.bfloat16)
            collecting += time.perf_counter() - begun
            returns = seat_returns(rollout, self.ppo.gamma, self.ppo.lam, self.collector.kernels)
            watch.lap("returns")
            self.learner.update(rollout, returns, self.number, 0.0)
            watch.lap("update")
            self.number += 1
        spent = time.perf_counter() - start
        turns = updates * rollout.steps * rollout.games
        shares = {f"share_{phase}": watch.seconds[phase] / spent for phase in self.phases}
        return {"steps_per_s": turns / spent, "collect_per_s": turns / collecting, **shares}


class Theirs:
    """sb3-contrib's MaskablePPO over the Gymnasium adapter."""

    def __init__(self) -> None:
        try:
            from sb3_contrib import MaskablePPO
            from stable_baselines3.common.callbacks import BaseCallback
            from stable_baselines3.common.vec_env import DummyVecEnv
        except ImportError:
            raise PlaymillError("this benchmark needs sb3-contrib: `pip install 'playmill[bench]'`") from None
        from playmill.pools.gymnasium import SeatEnv

        class Laps(BaseCallback):
            """Seconds spent collecting."""

            collecting = 0.0

            def _on_rollout_start(self) -> None:
                self.begun = time.perf_counter()

            def _on_rollout_end(self) -> None:
                self.collecting += time.perf_counter() - self.begun

            def _on_step(self) -> bool:
                return True

        self.laps = Laps()
        envs = DummyVecEnv([lambda: SeatEnv("skull_king", opponents="random") for _ in range(ENVS)])
        self.rollout = 128 * ENVS
        self.model = MaskablePPO(
            "MlpPolicy",
            envs,
            n_steps=128,
            batch_size=MINIBATCH,
            n_epochs=1,
            policy_kwargs={"net_arch": {"pi": list(HIDDEN), "vf": list(HIDDEN)}},
            seed=0,
            device="cpu",
        )

    def update(self) -> dict[str, float]:
        torch.set_num_threads(THREADS)
        self.laps.collecting = 0.0
        turns = 2 * self.rollout
        start = time.perf_counter()
        self.model.learn(turns, callback=self.laps, reset_num_timesteps=True)
        spent = time.perf_counter() - start
        return {"steps_per_s": turns / spent, "collect_per_s": turns / self.laps.collecting}
