"""Plays the games in flight with the policy and its opponents, into rollout columns."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from playmill import _native
from playmill.experience import Rollout
from playmill.games import GameSpec
from playmill.policies import Policy
from playmill.pools import FIRST_BOT, NativePool, Outcome, Turns
from playmill.training.config import Opponents
from playmill.training.ranks import ALONE, Ranks
from playmill.training.shards import Shards
from playmill.training.teacher import write_answers


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

    def add(self, others: Sequence[Stopwatch]) -> None:
        """Takes in what watches side by side have measured, as their mean."""
        for other in others:
            for phase, seconds in other.seconds.items():
                self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds / len(others)
        self.lap(None)


class Collector:
    """Games in flight, a pool for each shard, and columns that are filled again and again."""

    def __init__(
        self,
        spec: GameSpec,
        games: int,
        steps: int,
        seed: int,
        shards: Shards,
        symmetries: bool = False,
        ranks: Ranks = ALONE,
    ) -> None:
        """`games`: those of this rank. `symmetries`: every seat of every game sees the board in a view of its
        own."""
        self.spec = spec
        self.rollout = Rollout.empty(spec, steps, games)
        self.shards = shards
        self.parts = shards.slices(games)
        # Games and shards are numbered over all ranks: who plays them makes no difference.
        self.first_game, self.first_shard = ranks.rank * games, ranks.rank * shards.count
        seeds = np.random.SeedSequence(seed).generate_state(ranks.count * shards.count, np.uint64)
        self.seeds = [int(s) for s in seeds[self.first_shard :][: shards.count]]
        self.pools = [
            NativePool(spec, part.stop - part.start, seed=named)
            for part, named in zip(self.parts, self.seeds, strict=True)
        ]
        self.kernels = _native.Kernels(1)
        self.symmetries = symmetries

    def collect(
        self,
        policy: Policy,
        past: Sequence[Policy],
        number: int,
        watch: Stopwatch,
        bfloat16: bool = False,
        teacher: str = "",
    ) -> Rollout:
        """Fills the rollout number `number`, every shard its own games; in a lesson with the answers of the
        bot `teacher`."""
        watch.add(self.shards.map(lambda shard: self._play(shard, policy, past, number, bfloat16, teacher)))
        return self.rollout

    def _play(
        self, shard: int, policy: Policy, past: Sequence[Policy], number: int, bfloat16: bool, teacher: str
    ) -> Stopwatch:
        rollout, pool, part, seed = self.rollout, self.pools[shard], self.parts[shard], self.seeds[shard]
        watch = Stopwatch()
        numbers = torch.arange(self.first_game + part.start, self.first_game + part.stop)
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            for step in range(rollout.steps):
                rows = rollout.at(step, part)
                asked = (rows.observation, rows.legal, rows.seat, rows.role, rows.driver)
                turns = Turns(*(column.numpy() for column in asked))
                pool.turns(turns)
                answers = torch.from_numpy(pool.bot_actions(teacher)) if teacher else None
                watch.lap("engine")
                first = policy.first(rows.observation)
                watch.lap("expansion")
                view = policy.views.of(numbers, rows.seat) if self.symmetries else None
                logits, value = policy.after_first(first, view)
                answer_for_past(rows.observation, rows.driver, logits, past, view)
                rows.value.copy_(value)
                action = rows.action.numpy()
                draw = number * rollout.steps + step
                logs = rows.log_probability.numpy()
                self.kernels.sample(logits.numpy(), turns.legal, seed, draw, False, action, logs)
                watch.lap("network")
                pool.act(action, Outcome(rows.rewards.numpy(), rows.over.numpy()))
                watch.lap("engine")
                if answers is not None:
                    write_answers(rows, logits, answers)
                    watch.lap("network")
        return watch

    def set_drivers(self, drivers: npt.NDArray[np.uint8]) -> None:
        """Who answers for which seat, [games, seats]."""
        for pool, part in zip(self.pools, self.parts, strict=True):
            pool.set_drivers(drivers[part])

    def learner_stats(self) -> Tensor:
        """Sums and counts of the game's statistics where the learner sat, since the last call: [stats, 2]
        float64, in the order of the spec."""
        sums = torch.zeros(len(self.spec.stats), 2, dtype=torch.float64)
        for pool in self.pools:
            found = pool.stats().get(0, {})
            for i, name in enumerate(self.spec.stats):
                mean, count = found.get(name, (0.0, 0))
                sums[i] += torch.tensor([mean * count, count], dtype=torch.float64)
            pool.clear_stats()
        return sums

    def snapshot(self) -> dict[str, bytes]:
        """Everything in flight, as blobs by name."""
        return {f"pool-{i}.bin": pool.snapshot() for i, pool in enumerate(self.pools, self.first_shard)}

    def restore(self, blobs: dict[str, bytes]) -> None:
        for i, pool in enumerate(self.pools, self.first_shard):
            pool.restore(blobs[f"pool-{i}.bin"])


def answer_for_past(
    observation: Tensor,
    driver: Tensor,
    logits: Tensor,
    past: Sequence[Policy],
    view: Tensor | None = None,
) -> None:
    """Puts the logits of past policies where they are asked (driver 1 is the first of them)."""
    for i, policy in enumerate(past, start=1):
        rows = (driver == i).nonzero().squeeze(1)
        if len(rows):
            logits[rows] = policy(observation[rows], None if view is None else view[rows]).logits


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
