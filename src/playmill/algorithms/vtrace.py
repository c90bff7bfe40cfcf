"""Experience of older policies: V-trace per seat, and the settings for old rows. The native kernel does the
work; the plain version is what it must equal, and says what is meant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from playmill import _native
from playmill.algorithms.returns import Returns
from playmill.experience import Rollout
from playmill.games import PlaymillError


@dataclass(frozen=True)
class Age:
    """What is done with rows that an older policy played."""

    correction: Literal["vtrace", "none"] = "vtrace"
    """Returns of old rows: weighed by probability ratios (V-trace), or as if they were new."""
    rho: float = 1.0
    """V-trace: the largest ratio by which a step counts."""
    c: float = 1.0
    """V-trace: the largest ratio that is handed on to the steps before."""
    others: bool = True
    """V-trace: a step's ratio is also that of what the other seats played until the seat's next turn, so that
    one learns against them as they are now."""
    most: int = 8
    """Versions that a segment may be older than the learner; older ones are dropped and counted."""
    target_every: int = 0
    """Updates between two refreshes of a target network, whose ratios and values are used; 0: none."""
    loss: Literal["ppo", "actor_critic"] = "ppo"
    """The policy's loss: PPO's clipped surrogate, or the plain policy gradient."""

    def __post_init__(self) -> None:
        for name, known in (("correction", ("vtrace", "none")), ("loss", ("ppo", "actor_critic"))):
            if getattr(self, name) not in known:
                raise PlaymillError(f"age.{name} must be {' or '.join(known)}, got {getattr(self, name)!r}")
        for name in ("rho", "c"):
            value = getattr(self, name)
            if not 0.0 < value < float("inf"):
                raise PlaymillError(f"age.{name} must be positive and finite, got {value}")
        if self.c > self.rho:
            raise PlaymillError(f"age.c must be at most age.rho, got {self.c} and {self.rho}")
        for name in ("most", "target_every"):
            if getattr(self, name) < 0:
                raise PlaymillError(f"age.{name} must not be negative, got {getattr(self, name)}")


def vtrace_returns(
    rollout: Rollout,
    value: Tensor,
    log_probability: Tensor,
    gamma: float,
    lam: float,
    rho_bar: float,
    c_bar: float,
    others: bool,
    kernels: _native.Kernels,
) -> Returns:
    """V-trace per seat, for rows that an older policy played.

    `value` and `log_probability` [T, N] are the present policy's: of every row, and of the action taken
    there; on rows that are not the learner's both log-probabilities must be the same. Sequences, rewards and
    the last turn of a seat are those of `seat_returns`, and with all ratios 1 so are the advantages. The
    advantage holds the ratio already, cut off at `rho_bar`: it is what a policy gradient is multiplied with.
    With `others`, the ratio of a turn is also that of all turns of other seats until the seat's next."""
    advantage = torch.empty_like(rollout.value)
    target = torch.empty_like(rollout.value)
    weight = torch.empty_like(rollout.value)
    usable = torch.empty_like(rollout.over)
    kernels.vtrace(
        rollout.rewards.numpy(),
        rollout.over.numpy(),
        rollout.seat.numpy(),
        value.detach().numpy(),
        rollout.log_probability.numpy(),
        log_probability.detach().numpy(),
        gamma,
        lam,
        rho_bar,
        c_bar,
        others,
        advantage.numpy(),
        target.numpy(),
        weight.numpy(),
        usable.numpy(),
    )
    return Returns(advantage, target, usable.bool() & (rollout.driver == 0), weight)


def vtrace_returns_plain(
    rollout: Rollout,
    value: Tensor,
    log_probability: Tensor,
    gamma: float,
    lam: float,
    rho_bar: float,
    c_bar: float,
    others: bool,
) -> Returns:
    """The same, game by game and seat by seat, as one would explain it."""
    steps, games, seats = rollout.rewards.shape
    rewards, values = rollout.rewards.double().numpy(), value.detach().double().numpy()
    over, seat = rollout.over.numpy(), rollout.seat.numpy()
    moved = (log_probability.detach() - rollout.log_probability).double().numpy()
    advantage, target, weight = np.zeros((steps, games)), values.copy(), np.zeros((steps, games))
    usable = np.zeros((steps, games), bool)
    for g in range(games):
        for s in range(seats):
            mine = [t for t in range(steps) if seat[t, g] == s]
            for i in reversed(range(len(mine))):
                t = mine[i]
                until = mine[i + 1] if i + 1 < len(mine) else steps
                ends = [u for u in range(t, until) if over[u, g]]
                last = ends[0] + 1 if ends else until
                if ends:
                    following, aim = 0.0, 0.0
                elif until < steps:
                    following, aim = values[until, g], target[until, g]
                else:
                    continue
                gained = rewards[t:last, g, s].sum()
                ratio = np.exp(moved[t:last, g].sum() if others else moved[t, g])
                rho, c = min(rho_bar, ratio), lam * min(c_bar, ratio)
                surprise = gained + gamma * following - values[t, g]
                target[t, g] += rho * surprise + gamma * c * (aim - following)
                advantage[t, g] = rho * (surprise + gamma * lam * (aim - following))
                weight[t, g], usable[t, g] = rho, True
    return Returns(
        torch.from_numpy(advantage).float(),
        torch.from_numpy(target).float(),
        torch.from_numpy(usable) & (rollout.driver == 0),
        torch.from_numpy(weight).float(),
    )
