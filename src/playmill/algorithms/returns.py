"""Advantages along each seat's own sequence of turns. The native kernel does the work; the
plain version is what it must equal, and says what is meant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from playmill import _native
from playmill.experience import Rollout


@dataclass(frozen=True)
class Returns:
    """T steps, N games."""

    advantage: Tensor  # [T, N] float32
    target: Tensor  # [T, N] float32, what the value should have been
    usable: Tensor  # [T, N] bool, the learner decided and the seat's next turn or end is known
    weight: Tensor | None = None  # [T, N] float32, what a row counts, as its advantage holds it; None: 1


def seat_returns(rollout: Rollout, gamma: float, lam: float, kernels: _native.Kernels) -> Returns:
    """Generalised advantage estimation per seat.

    A seat's reward for a turn is all that came to it until its next turn; the value that follows
    is that of its own next turn. The last turn of a seat whose game goes on closes the turns
    before it with its value, and is itself left out."""
    advantage = torch.empty_like(rollout.value)
    usable = torch.empty_like(rollout.over)
    kernels.returns(
        rollout.rewards.numpy(),
        rollout.over.numpy(),
        rollout.seat.numpy(),
        rollout.value.numpy(),
        gamma,
        lam,
        advantage.numpy(),
        usable.numpy(),
    )
    return Returns(advantage, advantage + rollout.value, usable.bool() & (rollout.driver == 0))


def rows_by_advantage(
    advantage: Tensor, usable: Tensor, share: float, centred: bool
) -> tuple[Tensor, Tensor]:
    """Row numbers [T * N], the usable ones with the largest advantages first, and how many of them are
    the `share` to learn from (rounded up; a scalar tensor).

    Large is the distance to the mean of the usable rows, or to 0 if not `centred`; of equals the earlier row
    comes first. Shapes are fixed and nothing waits: it can be captured in a graph."""
    good, gained = usable.flatten().bool(), advantage.flatten()
    count = good.sum()
    mean = (gained.double() * good).sum() / count.clamp(min=1)
    distance = (gained - mean.float() if centred else gained).abs()
    order = torch.where(good, distance, -1.0).argsort(descending=True, stable=True)
    return order, (count.double() * share).ceil().int()


def seat_returns_plain(rollout: Rollout, gamma: float, lam: float) -> Returns:
    """The same, game by game and seat by seat, as one would explain it."""
    steps, games, seats = rollout.rewards.shape
    rewards, value = rollout.rewards.double().numpy(), rollout.value.double().numpy()
    over, seat = rollout.over.numpy(), rollout.seat.numpy()
    advantage = np.zeros((steps, games))
    usable = np.zeros((steps, games), bool)
    for g in range(games):
        for s in range(seats):
            mine = [t for t in range(steps) if seat[t, g] == s]
            later = 0.0  # the advantage of this seat's next turn
            for i in reversed(range(len(mine))):
                t = mine[i]
                until = mine[i + 1] if i + 1 < len(mine) else steps
                ends = [u for u in range(t, until) if over[u, g]]
                if ends:
                    gained, following, later = rewards[t : ends[0] + 1, g, s].sum(), 0.0, 0.0
                elif until < steps:
                    gained, following = rewards[t:until, g, s].sum(), value[until, g]
                else:
                    later = 0.0
                    continue
                later = gained + gamma * following - value[t, g] + gamma * lam * later
                advantage[t, g], usable[t, g] = later, True
    out = torch.from_numpy(advantage).float()
    return Returns(out, out + rollout.value, torch.from_numpy(usable) & (rollout.driver == 0))
