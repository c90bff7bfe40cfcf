"""A lane is the circle on one device: games in flight, policy, rollout, returns, update. The trainer
turns it and keeps the budget, the folder and the judge; a lane knows none of them."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from playmill.algorithms import seat_returns
from playmill.games import GameSpec
from playmill.policies import Policy
from playmill.training.collector import Collector, Stopwatch, seating
from playmill.training.config import Train
from playmill.training.learner import Learner
from playmill.training.precision import faster_in_bfloat16
from playmill.training.ranks import ALONE, Ranks
from playmill.training.shards import Shards
from playmill.training.teacher import teacher_logs
from playmill.training.utilisation import Utilisation


@dataclass(frozen=True)
class Done:
    """What one update brought, once its numbers are known."""

    number: int
    seconds: float
    phases: Mapping[str, float]
    """Seconds by phase."""
    losses: Mapping[str, float]
    stats: Mapping[str, float]
    """Means of the game's named statistics where the learner sat."""
    games: int
    """That ended."""
    skipped: int
    """Gradient steps left out so far because something was not a finite number."""
    restored: int
    """Updates undone so far because weights were not finite."""
    utilisation: Utilisation | None = None
    """What the card did, where one was used."""
    asked_to_end: bool = False
    """A rank other than the first got a signal."""


class Lane(Protocol):
    """Games, policy and learner on one device."""

    precision: str
    """Of the layers, as it was chosen."""
    tell_every_s: float
    """Seconds at least between two updates that are told of and written down; 0: every one."""

    @property
    def policy(self) -> Policy:
        """What is judged, saved and remembered; on the lane's device, up to date after `wait`."""

    @property
    def past(self) -> list[Policy]:
        """Earlier versions that play as opponents."""

    @property
    def urgent(self) -> bool:
        """Whether a checkpoint is due, whenever the last one was."""

    @property
    def trail(self) -> Sequence[str]:
        """Spans of what the next update learns from, as far as they are recorded."""

    def ready(self, within: float) -> bool:
        """Whether there is something to learn from, or will be in so many seconds; false: ask again."""

    def update(self, number: int, progress: float) -> Done | None:
        """Plays and learns from one rollout. A lane may work ahead: then this is the update before."""

    def wait(self) -> Done | None:
        """Until all work is done; the update not yet told of, if there is one."""

    def remember(self, keep: int) -> None:
        """Takes the policy as it is now among the past ones."""

    def seat(self, seed: int) -> None:
        """Seats the opponents anew."""

    def tensors(self) -> dict[str, Tensor]:
        """Everything learnt, by name."""

    def blobs(self) -> dict[str, bytes]:
        """Everything in flight, by name."""

    def saved(self, number: int) -> None:
        """The checkpoint with what call `number` of `blobs` gave, counted from 1, is whole: what it holds
        will not be needed again. 0: none is yet."""

    def wind_up(self) -> None:
        """The run is at its end: there will be no more updates. A checkpoint follows."""

    def load(
        self, tensors: Mapping[str, Tensor], blobs: Mapping[str, bytes], meta: Mapping[str, Any]
    ) -> None:
        """Back to what `tensors` and `blobs` returned."""

    def close(self) -> None: ...


class Resident:
    """Games and learner are in one process: there is always something to learn from."""

    urgent = False
    trail: Sequence[str] = ()

    def ready(self, _within: float) -> bool:
        return True

    def saved(self, number: int) -> None:
        pass

    def wind_up(self) -> None:
        pass


class CpuLane(Resident):
    """Shards of games and rows, one for each thread; of several ranks, this one's."""

    tell_every_s = 0.0

    def __init__(self, config: Train, spec: GameSpec, precision: str | None, ranks: Ranks = ALONE) -> None:
        """`precision`: as a checkpoint has it, or None to choose."""
        self.config, self.spec, self.ranks = config, spec, ranks
        self.games = config.games // ranks.count
        self.shards = Shards(min(config.threads // ranks.count, self.games))
        self.precision = precision or choose_precision(config, spec)
        bfloat16 = self.precision == "bfloat16"
        seed, policy = config.seed, new_policy(config, spec)
        self.learner = Learner(policy, config.ppo, seed, bfloat16, self.shards, ranks)
        symmetries = config.ppo.symmetries
        self.collector = Collector(spec, self.games, config.steps, seed, self.shards, symmetries, ranks)
        self.asked_to_end = False
        self._past: list[Policy] = []
        self.watch = Stopwatch()

    @property
    def policy(self) -> Policy:
        return self.learner.judged

    @property
    def past(self) -> list[Policy]:
        return self._past

    def update(self, number: int, progress: float) -> Done:
        learner, ppo, watch = self.learner, self.config.ppo, self.watch
        taught = number < self.config.lessons
        teacher = self.config.teacher.bot if taught else ""
        watch.seconds.clear()
        watch.lap(None)
        started = time.perf_counter()
        rollout = self.collector.collect(learner.policy, self.past, number, watch, learner.bfloat16, teacher)
        returns = seat_returns(rollout, ppo.gamma, ppo.lam, self.collector.kernels)
        watch.lap("returns")
        losses = learner.update(rollout, returns, number, progress, taught)
        stats = self.collector.learner_stats()
        counts = torch.tensor([float(rollout.over.sum()), float(self.asked_to_end)], dtype=torch.float64)
        answers = torch.stack(teacher_logs(rollout)) if taught else torch.zeros(2, dtype=torch.float64)
        self.ranks.sum(stats, counts, answers)
        if taught:
            losses["teacher_likelihood"] = float((answers[0] / answers[1]).exp())
        watch.lap("update")
        return Done(
            number=number,
            seconds=time.perf_counter() - started,
            phases=dict(watch.seconds),
            losses=losses,
            stats=_means(self.spec, stats),
            games=int(counts[0]),
            skipped=learner.skipped,
            restored=learner.restored,
            asked_to_end=bool(counts[1]),
        )

    def wait(self) -> None:
        return None

    def remember(self, keep: int) -> None:
        self._past.append(copy.deepcopy(self.policy).requires_grad_(False))
        del self._past[:-keep]

    def seat(self, seed: int) -> None:
        games, opponents = self.config.games, self.config.opponents
        drivers = seating(self.spec, opponents, games, len(self.past), seed)
        self.collector.set_drivers(drivers[self.collector.first_game :][: self.games])

    def tensors(self) -> dict[str, Tensor]:
        return {**self.learner.state(), **past_tensors(self.past)}

    def blobs(self) -> dict[str, bytes]:
        return self.collector.snapshot()

    def load(
        self, tensors: Mapping[str, Tensor], blobs: Mapping[str, bytes], meta: Mapping[str, Any]
    ) -> None:
        self.learner.load_state(dict(tensors))
        self.learner.skipped, self.learner.restored = meta["skipped"], meta["restored"]
        self._past = [past_policy(self.config, self.spec, tensors, i) for i in range(meta["past"])]
        self.collector.restore(dict(blobs))

    def close(self) -> None:
        self.shards.close()


def _means(spec: GameSpec, sums: Tensor) -> dict[str, float]:
    """Means by name, of those that were counted."""
    named = zip(spec.stats, sums.tolist(), strict=True)
    return {name: total / count for name, (total, count) in named if count}


def choose_precision(config: Train, spec: GameSpec) -> str:
    """Of the layers: as set, or whichever is faster here."""
    if config.precision != "auto":
        return config.precision
    if config.device == "cuda":
        return "bfloat16"
    return "bfloat16" if faster_in_bfloat16(spec, config.network, config.ppo.minibatch) else "float32"


def new_policy(config: Train, spec: GameSpec) -> Policy:
    """The policy a run begins with: a function of its seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        return Policy(spec, config.network)


def past_tensors(past: list[Policy]) -> dict[str, Tensor]:
    return {
        f"past/{i}/{name}": tensor.detach().clone()
        for i, policy in enumerate(past)
        for name, tensor in policy.state_dict().items()
    }


def past_policy(config: Train, spec: GameSpec, tensors: Mapping[str, Tensor], number: int) -> Policy:
    """A past policy out of a checkpoint's tensors."""
    prefix = f"past/{number}/"
    policy = Policy(spec, config.network).requires_grad_(False)
    policy.load_state_dict({k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)})
    return policy


def seating_seed(seed: int, version: int) -> int:
    """Names who sits where."""
    return int(np.random.SeedSequence((seed, version)).generate_state(1)[0])
