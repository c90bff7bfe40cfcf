"""Masked proximal policy optimisation: the settings and the loss, a pure function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from playmill import _native
from playmill.games import PlaymillError
from playmill.policies import PolicyOutput, masked_log_softmax, unpack_bits


@dataclass(frozen=True)
class PPO:
    """Masked PPO on all seats at once."""

    gamma: float = 1.0
    """Discount between two turns of one seat."""
    lam: float = 0.95
    """Weight of longer returns against the value's own word (lambda)."""
    clip: float = 0.2
    """How far a probability ratio may move and still be rewarded."""
    epochs: int = 2
    """Passes over each rollout."""
    minibatch: int = 8192
    """Rows in one gradient step."""
    accumulate: int = 1
    """Parts a minibatch is split into, their gradients added up (saves memory)."""
    lr: float = 1e-3
    """Learning rate at the start."""
    lr_end: float = 0.0
    """Learning rate at the end, as a share of the first."""
    lr_schedule: Literal["constant", "linear", "cosine"] = "linear"
    """How the learning rate goes from start to end."""
    entropy: float = 0.01
    """Weight of the entropy bonus at the start."""
    entropy_end: float = 0.1
    """Entropy weight at the end, as a share of the first."""
    value_weight: float = 0.5
    """Weight of the value loss."""
    max_grad_norm: float = 0.5
    """Gradients longer than this are shortened to it."""
    target_kl: float = 0.0
    """Stop the passes over a rollout when the policy has moved this far; 0: never."""
    normalise: bool = True
    """Advantages of a minibatch get mean 0 and deviation 1."""
    top_advantages: float = 1.0
    """Share of a rollout's rows that is learnt from: the largest advantages, whatever their sign."""
    symmetries: bool = False
    """Games on a board: every seat of every game plays and learns in one of the board's symmetries."""
    weight_average: float = 0.0
    """How much of the averaged weights is kept at each update. They are judged, saved as the policy and
    taken among past opponents, while learning goes on with its own; 0: no average."""
    regulariser: Literal["none", "average", "magnet"] = "none"
    """Besides entropy: stay near an average of past weights, or near a copy refreshed now and then."""
    kl_weight: float = 0.05
    """Weight of the distance to the average or magnet."""
    average_decay: float = 0.99
    """How much of the average policy is kept at each update."""
    magnet_every: int = 100
    """Updates between two refreshes of the magnet."""

    def __post_init__(self) -> None:
        for name in ("epochs", "minibatch", "accumulate", "magnet_every"):
            _check(getattr(self, name) >= 1, f"ppo.{name} must be at least 1, got {getattr(self, name)}")
        for name in ("gamma", "lam", "average_decay"):
            value = getattr(self, name)
            _check(0.0 <= value <= 1.0, f"ppo.{name} must be from 0 to 1, got {value}")
        _check(
            0.0 < self.top_advantages <= 1.0,
            f"ppo.top_advantages must be over 0 and at most 1, got {self.top_advantages}",
        )
        _check(
            0.0 <= self.weight_average < 1.0,
            f"ppo.weight_average must be from 0 to below 1, got {self.weight_average}",
        )
        for name in ("clip", "lr", "max_grad_norm"):
            _check(getattr(self, name) > 0.0, f"ppo.{name} must be positive, got {getattr(self, name)}")
        for name in ("entropy", "entropy_end", "lr_end", "value_weight", "target_kl", "kl_weight"):
            value = getattr(self, name)
            _check(value >= 0.0, f"ppo.{name} must not be negative, got {value}")


def _check(good: bool, otherwise: str) -> None:
    if not good:
        raise PlaymillError(otherwise)


class Batch(NamedTuple):
    """A minibatch. N rows."""

    observation: Tensor  # [N, bytes] uint8
    legal: Tensor  # [N, legal_bytes] uint8
    action: Tensor  # [N] int64
    log_probability: Tensor  # [N] of the action when it was chosen
    advantage: Tensor  # [N]
    target: Tensor  # [N] return
    view: Tensor | None = None  # [N] int64, the board's symmetry it was seen in


class Loss(NamedTuple):
    """The loss to descend, and its terms for people (detached scalars)."""

    total: Tensor
    policy: Tensor
    value: Tensor
    entropy: Tensor
    kl: Tensor  # how far the policy has moved since the rollout
    magnet: Tensor  # distance to the average or magnet policy
    clip_share: Tensor


def ppo_loss(
    batch: Batch, out: PolicyOutput, cfg: PPO, entropy_weight: float, magnet_logits: Tensor | None = None
) -> Loss:
    """Clipped surrogate + value error - entropy (+ KL to the magnet), all in float32.

    The plain version: any device, any autograd. `fused_ppo_loss` is the same on the CPU."""
    legal = unpack_bits(batch.legal, out.logits.shape[1])
    logs = masked_log_softmax(out.logits, legal)
    safe = logs.masked_fill(~legal, 0.0)  # 0 * -inf is not a number
    probabilities = logs.exp()
    entropy = -(probabilities * safe).sum(-1).mean()

    log_ratio = logs.gather(1, batch.action[:, None]).squeeze(1) - batch.log_probability
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1.0 - cfg.clip, 1.0 + cfg.clip)
    policy = -torch.minimum(ratio * batch.advantage, clipped * batch.advantage).mean()
    value = _value_loss(batch, out)

    total = policy + cfg.value_weight * value - entropy_weight * entropy
    magnet = torch.zeros((), device=out.logits.device)
    if magnet_logits is not None:
        other = masked_log_softmax(magnet_logits, legal).masked_fill(~legal, 0.0)
        magnet = (probabilities * (safe - other)).sum(-1).mean()
        total = total + cfg.kl_weight * magnet
    with torch.no_grad():
        kl = (ratio - 1.0 - log_ratio).mean()
        clip_share = (clipped != ratio).float().mean()
    parts = (policy, value, entropy, kl, magnet, clip_share)
    return Loss(total, *(part.detach() for part in parts))


def fused_ppo_loss(
    batch: Batch,
    out: PolicyOutput,
    cfg: PPO,
    entropy_weight: float,
    magnet_logits: Tensor | None,
    kernels: _native.Kernels,
) -> Loss:
    """`ppo_loss` on the CPU: the native core computes the policy's terms and their gradient in one pass."""
    magnet = torch.empty(0, out.logits.shape[1]) if magnet_logits is None else magnet_logits.contiguous()
    acted, terms = _PolicyTerms.apply(  # type: ignore[no-untyped-call]
        out.logits, batch, magnet, (cfg.clip, entropy_weight, cfg.kl_weight), kernels
    )
    value = _value_loss(batch, out)
    policy, entropy, kl, distance, clip_share = terms.unbind()
    total = acted + cfg.value_weight * value
    return Loss(total, policy, value.detach(), entropy, kl, distance, clip_share)


def _value_loss(batch: Batch, out: PolicyOutput) -> Tensor:
    return 0.5 * (out.value - batch.target).square().mean()


class _PolicyTerms(torch.autograd.Function):
    """policy - w * entropy + v * magnet as a scalar, and the terms by themselves."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        batch: Batch,
        magnet: Tensor,
        weights: tuple[float, float, float],
        kernels: _native.Kernels,
    ) -> tuple[Tensor, Tensor]:
        gradient = torch.empty_like(logits)
        policy, entropy, kl, distance, clip_share = kernels.policy_loss(
            logits.detach().numpy(),
            batch.legal.numpy(),
            batch.action.numpy(),
            batch.log_probability.numpy(),
            batch.advantage.numpy(),
            magnet.detach().numpy(),
            *weights,
            gradient.numpy(),
        )
        ctx.save_for_backward(gradient)
        terms = torch.tensor([policy, entropy, kl, distance, clip_share])
        ctx.mark_non_differentiable(terms)
        return torch.tensor(policy - weights[1] * entropy + weights[2] * distance), terms

    @staticmethod
    def backward(ctx: Any, upstream: Tensor, _terms: Tensor) -> tuple[Tensor, None, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * upstream, None, None, None, None
