"""Plays the pool's games with the policy and its opponents, into rollout columns."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch

from playmill import _native
from playmill.experience import Rollout
from playmill.games import GameSpec
from playmill.policies import Policy, PolicyOutput
from playmill.pools import FIRST_BOT, NativePool
from playmill.training.config import Opponents


class Stopwatch:
    """Seconds by phase; `lap` charges the time since the last lap to a phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, phase: str | None) -> None:
        now = time.perf_counter()
        if phase is not None:
            self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._last
        self._last = now


class Collector:
    """A pool, and columns that are filled again and again."""

    def __init__(self, spec: GameSpec, games: int, steps: int, seed: int, threads: int) -> None:
        self.pool = NativePool(spec, games, seed=seed, threads=threads)
        self.rollout = Rollout.empty(spec, steps, games)
        self.kernels = _native.Kernels(threads)
        self.seed = seed

    def collect(
        self,
        forward: Callable[[torch.Tensor], PolicyOutput],
        past: Sequence[Policy],
        number: int,
        watch: Stopwatch,
        first: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> Rollout:
        """Fills the rollout number `number`. `first` and `forward` are the policy's two halves when
        the time of the first layer is to be told apart."""
        rollout, pool = self.rollout, self.pool
        watch.lap(None)
        with torch.inference_mode():
            for step in range(rollout.steps):
                pool.turns(rollout.turns(step))
                watch.lap("engine")
                observation = rollout.observation[step]
                if first is not None:
                    observation = first(observation)
                    watch.lap("expansion")
                logits, value = forward(observation)
                if past:
                    self._answer_for_past(rollout, step, logits, past)
                rollout.value[step] = value
                self.kernels.sample(
                    logits.numpy(),
                    rollout.legal[step].numpy(),
                    self.seed,
                    number * rollout.steps + step,
                    False,
                    rollout.action[step].numpy(),
                    rollout.log_probability[step].numpy(),
                )
                watch.lap("network")
                pool.act(rollout.action[step].numpy(), rollout.outcome(step))
                watch.lap("engine")
        return rollout

    @staticmethod
    def _answer_for_past(rollout: Rollout, step: int, logits: torch.Tensor, past: Sequence[Policy]) -> None:
        driver = rollout.driver[step]
        for i, policy in enumerate(past, start=1):
            rows = (driver == i).nonzero().squeeze(1)
            if len(rows):
                logits[rows] = policy(rollout.observation[step][rows]).logits


def seating(spec: GameSpec, opponents: Opponents, games: int, past: int, seed: int) -> npt.NDArray[np.uint8]:
    """Who drives which seat, [games, seats]: the learner everywhere but for the opponents' shares."""
    rng = np.random.default_rng(seed)
    drivers = np.zeros((games, spec.seats), np.uint8)
    kind = rng.random(games)
    bots = [FIRST_BOT + spec.bot(name) for name in (opponents.bot_names or spec.bots)]
    for g in range(games):
        mine = rng.integers(spec.seats)
        others = [s for s in range(spec.seats) if s != mine]
        if kind[g] < opponents.bots:
            drivers[g, others] = rng.choice(bots, len(others))
        elif kind[g] < opponents.bots + opponents.past and past:
            taken = [s for s in others if rng.random() < 0.5] or [int(rng.choice(others))]
            drivers[g, taken] = rng.integers(1, past + 1, len(taken))
    return drivers
