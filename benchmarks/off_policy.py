"""Learning from old experience: Leduc, played by policies up to 8 versions old, against fresh play."""

from __future__ import annotations

import copy
import dataclasses
import statistics
from collections import deque
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from benchmarks.bars import Bar, Result
from playmill.algorithms import PPO, Age, seat_returns
from playmill.experience import Rollout
from playmill.league.exploitability import InformationStates
from playmill.training.aged import AgedLearner, loss_settings
from playmill.training.collector import Collector, Stopwatch
from playmill.training.config import Train, load_recipe
from playmill.training.judge import exact_exploitability
from playmill.training.lane import new_policy
from playmill.training.learner import Learner
from playmill.training.shards import Shards

OLDEST = 8
SEEDS = range(4)
UPDATES = 60


@dataclass(frozen=True)
class Arm:
    """How old the experience is, and what is done about it."""

    age: Age
    oldest: int = OLDEST
    """Versions: each rollout is played by a policy between 0 and so many versions old, drawn evenly."""
    always: bool = False
    """Every rollout is as old as it may be."""
    fresh: bool = False
    """The synchronous trainer: the policy plays, learns, and plays on."""
    against: str = "synchronous"
    """The arm that its exploitability is compared with."""


FRESH_ACTOR_CRITIC = "synchronous_actor_critic"
ARMS = {
    "synchronous": Arm(Age(), 0, fresh=True),
    "vtrace": Arm(Age()),
    "vtrace_always_8": Arm(Age(), always=True),
    "vtrace_own_turns": Arm(Age(others=False)),
    "target_network": Arm(Age(target_every=2)),
    "without": Arm(Age(correction="none")),
    FRESH_ACTOR_CRITIC: Arm(Age(loss="actor_critic"), 0, fresh=True, against=FRESH_ACTOR_CRITIC),
    "vtrace_actor_critic": Arm(Age(loss="actor_critic"), against=FRESH_ACTOR_CRITIC),
    "without_actor_critic": Arm(Age("none", loss="actor_critic"), against=FRESH_ACTOR_CRITIC),
}


@cache
def states() -> InformationStates:
    return InformationStates("leduc")


def fresh_update(learner: Learner, rollout: Rollout, number: int, progress: float) -> None:
    """As the resident lane learns."""
    ppo: PPO = learner.cfg
    returns = seat_returns(rollout, ppo.gamma, ppo.lam, learner.kernels)
    learner.update(rollout, returns, number, progress)


def train(name: str, seed: int, updates: int) -> float:
    """Exploitability after so many updates. One process, one thread: the same bits each time."""
    arm, config = ARMS[name], settings(seed)
    shards = Shards(1)
    ppo = loss_settings(config.ppo, arm.age)
    learner = Learner(new_policy(config, config.spec), ppo, seed, False, shards)
    aged = AgedLearner(learner, arm.age)
    collector = Collector(config.spec, config.games, config.steps, seed, shards)
    draws = np.random.default_rng(seed)
    versions = deque([copy.deepcopy(learner.policy)], maxlen=arm.oldest + 1)
    for number in range(updates):
        back = arm.oldest if arm.always else int(draws.integers(0, arm.oldest + 1))
        player = versions[max(0, len(versions) - 1 - back)]
        rollout = collector.collect(player, [], number, Stopwatch())
        if arm.fresh:
            fresh_update(learner, rollout, number, number / updates)
        else:
            aged.update(rollout, number, number / updates)
        versions.append(copy.deepcopy(learner.policy))
    return exact_exploitability(learner.judged, states())


def settings(seed: int) -> Train:
    return dataclasses.replace(load_recipe("leduc/quick"), seed=seed, threads=1)


def measure(say: Callable[[str], None], quick: bool) -> Result:
    updates, seeds = (4, SEEDS[:1]) if quick else (UPDATES, SEEDS)
    found: dict[str, list[float]] = {}
    with ProcessPoolExecutor(max_workers=2) as processes:
        jobs = {name: [processes.submit(train, name, seed, updates) for seed in seeds] for name in ARMS}
        for name, mine in jobs.items():
            found[name] = [job.result() for job in mine]
            say(f"{name}: {', '.join(f'{v:.3f}' for v in found[name])}")
    means = {name: statistics.mean(values) for name, values in found.items()}
    ratios = {name: means[name] / means[arm.against] for name, arm in ARMS.items()}
    for name, ratio in ratios.items():
        say(f"{name:26} {means[name]:.3f}  {ratio:.2f} x {ARMS[name].against}")
    bars = [
        Bar("vtrace_ratio", ratios["vtrace"], "x", 1.2, at_most=True),
        Bar("without_ratio", ratios["without"], "x", 1.5),
        Bar("vtrace_actor_critic_ratio", ratios["vtrace_actor_critic"], "x", 1.2, at_most=True),
        Bar("without_actor_critic_ratio", ratios["without_actor_critic"], "x", 1.4),
    ]
    details: dict[str, Any] = {
        "turns": updates * settings(0).turns_an_update,
        "oldest": OLDEST,
        "exploitability": means,
        "ratios": ratios,
        "seeds": found,
    }
    return Result(bars, details)
