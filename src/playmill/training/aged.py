"""Learns from rollouts that older policies played: ratios, V-trace, a target network."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping

import torch
from torch import Tensor

from playmill.algorithms import PPO, Age, Returns, seat_returns, vtrace_returns
from playmill.experience import Rollout
from playmill.policies import Policy, masked_log_softmax, unpack_bits
from playmill.training.learner import Learner

UNCUT = 1e6
"""A clip that no ratio reaches."""
ROWS = 16_384
"""Rows of one forward pass."""


def loss_settings(ppo: PPO, age: Age) -> PPO:
    """The settings of the update: for the plain policy gradient one pass, and no clip."""
    return ppo if age.loss == "ppo" else dataclasses.replace(ppo, epochs=1, clip=UNCUT)


class AgedLearner:
    """A learner whose rows may be some versions old.

    With V-trace every row is seen once more, by the policy as it is now (or by the target network, which
    follows it from time to time): what it thinks of the positions, and how likely it finds the actions.
    Returns are weighed by the ratio to the probability they were played with; the update's own ratios start
    at 1 from there. So the age of a row is corrected once, and PPO's clip is about this update alone."""

    def __init__(self, learner: Learner, age: Age) -> None:
        self.learner, self.age = learner, age
        self.target: Policy | None = None
        if age.target_every:
            self.target = copy.deepcopy(learner.policy).requires_grad_(False)
        self.surprise = torch.zeros(0)
        """Of the segments of the last rollout: the mean size of their advantages."""

    def update(
        self, rollout: Rollout, number: int, progress: float, weights: Tensor | None = None
    ) -> dict[str, float]:
        """One update on a rollout; the mean loss terms, and how far from it the policy was before. `weights`
        [N]: how much the policy learns from each segment."""
        ppo, age = self.learner.cfg, self.age
        log_now, value_now = self._seen(rollout)
        # Past opponents and bots have not moved.
        log_now = torch.where(rollout.driver == 0, log_now, rollout.log_probability)
        ratio = (log_now - rollout.log_probability).exp()
        if age.correction == "vtrace":
            weighed = (age.rho, age.c, age.others)
            returns = vtrace_returns(
                rollout, value_now, log_now, ppo.gamma, ppo.lam, *weighed, self.learner.kernels
            )
        else:
            returns = seat_returns(rollout, ppo.gamma, ppo.lam, self.learner.kernels)
        if age.correction == "vtrace" or age.loss == "actor_critic":
            rollout = dataclasses.replace(rollout, log_probability=log_now)
        self.surprise = _surprise(returns)
        if weights is not None:
            returns = dataclasses.replace(returns, advantage=returns.advantage * weights)
        losses = self.learner.update(rollout, returns, number, progress)
        if self.target is not None and (number + 1) % age.target_every == 0:
            self.target.load_state_dict(self.learner.policy.state_dict())
        return {**losses, **_distance(ratio, returns, age.rho)}

    def tensors(self) -> dict[str, Tensor]:
        """Everything learnt, by name."""
        state = self.learner.state()
        if self.target is not None:
            state |= {f"target/{name}": p.detach().clone() for name, p in self.target.named_parameters()}
        return state

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        self.learner.load_state(dict(tensors))
        if self.target is not None:
            self.target.load_state_dict({name: tensors[f"target/{name}"] for name, _ in self._names()})

    def _names(self) -> list[tuple[str, Tensor]]:
        return list(self.learner.policy.named_parameters())

    @torch.no_grad()
    def _seen(self, rollout: Rollout) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the actions, and values, of all rows: [T, N] each."""
        policy = self.target or self.learner.policy
        logs, values = [], []
        columns = (rollout.observation, rollout.legal, rollout.action)
        parts = [torch.split(rollout.flat(column), ROWS) for column in columns]
        home = self.learner.device
        for rows in zip(*parts, strict=True):
            observation, legal, action = (column.to(home) for column in rows)
            first = policy.first(observation)
            with torch.autocast(home.type, torch.bfloat16, enabled=self.learner.bfloat16):
                out = policy.after_first(first)
            known = masked_log_softmax(out.logits, unpack_bits(legal, out.logits.shape[1]))
            logs.append(known.gather(1, action.long()[:, None]).squeeze(1).cpu())
            values.append(out.value.float().cpu())
        shape = rollout.action.shape
        return torch.cat(logs).view(shape), torch.cat(values).view(shape)


def _surprise(returns: Returns) -> Tensor:
    sizes = torch.where(returns.usable, returns.advantage.abs(), 0.0).sum(0)
    return sizes / returns.usable.sum(0).clamp(min=1)


def _distance(ratio: Tensor, returns: Returns, rho: float) -> dict[str, float]:
    """How far the policy had moved since the rows were played."""
    mine = ratio[returns.usable]
    if not len(mine):
        return {"ratio": 1.0, "ratio_cut": 0.0}
    return {"ratio": float(mine.mean()), "ratio_cut": float((mine > rho).float().mean())}
