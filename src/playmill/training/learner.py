"""Turns rollouts into new weights: minibatches, the loss, the optimiser, the guards."""

from __future__ import annotations

import copy
import dataclasses
import math

import torch
from torch import Tensor

from playmill import _native
from playmill.algorithms import PPO, Batch, Loss, Returns, fused_ppo_loss, ppo_loss
from playmill.experience import Rollout
from playmill.policies import Policy, PolicyOutput
from playmill.training.minibatches import Minibatch, Minibatches
from playmill.training.ranks import ALONE, Ranks
from playmill.training.shards import Shards
from playmill.training.teacher import lesson

LOSS_TERMS = ("policy", "value", "entropy", "kl", "magnet", "clip_share")


def scheduled(cfg: PPO, progress: float) -> tuple[float, float]:
    """Learning rate and entropy weight at `progress` from 0 to 1."""
    left = 1.0 - min(max(progress, 0.0), 1.0)
    if cfg.lr_schedule == "cosine":
        shape = 0.5 * (1.0 + math.cos(math.pi * (1.0 - left)))
    else:
        shape = 1.0 if cfg.lr_schedule == "constant" else left
    lr = cfg.lr * (cfg.lr_end + (1.0 - cfg.lr_end) * shape)
    entropy = cfg.entropy * (cfg.entropy_end + (1.0 - cfg.entropy_end) * left)
    return lr, entropy


def kept_of_average(cfg: PPO, number: int) -> float:
    """Of the averaged weights at update `number`: less at first, to forget the first weights soon."""
    return min(cfg.weight_average, (number + 1) / (number + 10))


class Learner:
    """A policy, its optimiser, its average, and the policy that holds it back."""

    def __init__(
        self, policy: Policy, cfg: PPO, seed: int, bfloat16: bool, shards: Shards, ranks: Ranks = ALONE
    ) -> None:
        self.policy = policy
        self.device = next(policy.parameters()).device
        self.fused = self.device.type == "cpu"
        """Whether the policy's loss is the native one; elsewhere it is torch's."""
        self.cfg = cfg
        self.bfloat16 = bfloat16
        self.shards, self.ranks = shards, ranks
        self.minibatches = Minibatches(seed, shards, ranks)
        self.parameters = list(policy.parameters())
        self.optimiser = torch.optim.Adam(policy.parameters(), lr=cfg.lr, eps=1e-5, fused=True)
        self.magnet: Policy | None = None
        if cfg.regulariser != "none":
            self.magnet = copy.deepcopy(policy).requires_grad_(False)
        self.average = copy.deepcopy(policy).requires_grad_(False) if cfg.weight_average else None
        self.kernels = _native.Kernels(1)
        self.skipped = 0
        """Gradient steps left out because something was not a finite number."""
        self.restored = 0
        """Updates undone because weights were not finite."""

    @property
    def judged(self) -> Policy:
        """What the learning has come to: the average where there is one."""
        return self.policy if self.average is None else self.average

    def update(
        self, rollout: Rollout, returns: Returns, number: int, progress: float, taught: bool = False
    ) -> dict[str, float]:
        """One update on a rollout: `epochs` passes. Returns the mean loss terms. `taught`: its actions are
        a teacher's, all of them good."""
        cfg = lesson(self.cfg) if taught else self.cfg
        if taught:
            returns = dataclasses.replace(returns, advantage=torch.ones_like(returns.advantage))
        lr, entropy_weight = scheduled(cfg, progress)
        cfg = dataclasses.replace(cfg, entropy=entropy_weight)
        for group in self.optimiser.param_groups:
            group["lr"] = lr
        before = self.state()
        sums = torch.zeros(len(LOSS_TERMS))
        steps = passes = 0
        for epoch in range(cfg.epochs):
            kl_before, steps_before = float(sums[3]), steps
            for minibatch in self.minibatches.of(returns, number, epoch, cfg):
                terms = self._step(rollout, returns, minibatch, cfg)
                if terms is None:
                    self.skipped += 1
                    continue
                sums += terms
                steps += 1
            passes += 1
            kl = (float(sums[3]) - kl_before) / max(steps - steps_before, 1)
            if cfg.target_kl and kl > cfg.target_kl:
                break
        if not all(bool(p.isfinite().all()) for p in self.policy.parameters()):
            self.load_state(before)
            self.restored += 1
        self._follow(number)
        means = (sums / max(steps, 1)).tolist()
        out = dict(zip(LOSS_TERMS, means, strict=True))
        return {**out, "lr": lr, "entropy_weight": entropy_weight, "epochs": float(passes)}

    def forward(self, policy: Policy, batch: Batch) -> PolicyOutput:
        """A policy, in the precision of the training."""
        first = policy.first(batch.observation)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16):
            return policy.after_first(first, batch.view)

    def state(self) -> dict[str, Tensor]:
        """Everything that changes, as named tensors."""
        out = {f"policy/{name}": p.detach().clone() for name, p in self.judged.named_parameters()}
        for name, parameter in self.policy.named_parameters():
            if self.average is not None:
                out[f"learning/{name}"] = parameter.detach().clone()
            for key, value in self.optimiser.state.get(parameter, {}).items():
                out[f"adam/{name}/{key}"] = value.detach().clone()
        if self.magnet is not None:
            out |= {f"magnet/{name}": p.clone() for name, p in self.magnet.named_parameters()}
        return out

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Back to what `state` returned."""
        with torch.no_grad():
            for name, parameter in self.average.named_parameters() if self.average is not None else ():
                parameter.copy_(state[f"policy/{name}"])
            mine = "policy" if self.average is None else "learning"
            for name, parameter in self.policy.named_parameters():
                parameter.copy_(state[f"{mine}/{name}"])
                slots = {
                    key: state[f"adam/{name}/{key}"].to(parameter.device, copy=True)
                    for key in ("step", "exp_avg", "exp_avg_sq")
                    if f"adam/{name}/{key}" in state
                }
                self.optimiser.state[parameter] = slots
            for name, parameter in self.magnet.named_parameters() if self.magnet is not None else ():
                parameter.copy_(state[f"magnet/{name}"])

    def _step(self, rollout: Rollout, returns: Returns, minibatch: Minibatch, cfg: PPO) -> Tensor | None:
        """One gradient step; None if it was left out because it was not finite. `cfg.entropy` is the weight
        at this moment."""

        def share(shard: int) -> tuple[list[Tensor], Tensor] | None:
            rows, advantage = minibatch.rows[shard], minibatch.advantage[shard]
            if len(rows) == 0:
                return None
            return self._gradient(rollout, returns, rows, advantage, cfg, minibatch.whole)

        found = [part for part in self.shards.map(share) if part is not None]
        nothing = ([torch.zeros_like(p) for p in self.parameters], torch.zeros(len(LOSS_TERMS)))
        gradients, terms = found[0] if found else nothing
        for others, added in found[1:]:
            terms = terms + added
            for gradient, other in zip(gradients, others, strict=True):
                gradient.add_(other)
        # After this every rank has the same numbers, and comes to the same ends below.
        self.ranks.sum(*gradients, terms)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            # Convolutions give theirs with channels last; the fused optimiser reads arrays from end to end.
            parameter.grad = gradient.contiguous()
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, cfg.max_grad_norm)
        if not (bool(norm.isfinite()) and bool(terms.isfinite().all())):
            return None
        self.optimiser.step()
        return terms

    def _gradient(
        self,
        rollout: Rollout,
        returns: Returns,
        rows: Tensor,
        advantage: Tensor,
        cfg: PPO,
        whole: int,
    ) -> tuple[list[Tensor], Tensor]:
        """What some rows of a minibatch of `whole` add to its gradient and its terms."""
        sums: list[Tensor] = []
        terms = torch.zeros(len(LOSS_TERMS))
        parts = min(cfg.accumulate, len(rows))
        for index, gained in zip(rows.tensor_split(parts), advantage.tensor_split(parts), strict=True):
            batch = Batch(
                observation=rollout.flat(rollout.observation)[index],
                legal=rollout.flat(rollout.legal)[index],
                action=rollout.flat(rollout.action)[index].long(),
                log_probability=rollout.flat(rollout.log_probability)[index],
                advantage=gained,
                target=returns.target.flatten()[index],
                view=self._views(rollout, index),
            )
            share = len(index) / whole
            loss = self._loss(self._here(batch), cfg)
            gradients = torch.autograd.grad(loss.total * share, self.parameters)
            sums = list(gradients) if not sums else [a.add_(b) for a, b in zip(sums, gradients, strict=True)]
            terms += share * torch.stack([getattr(loss, term) for term in LOSS_TERMS]).cpu()
        return sums, terms

    def _loss(self, batch: Batch, cfg: PPO) -> Loss:
        magnet_logits: Tensor | None = None
        if self.magnet is not None:
            with torch.no_grad():
                magnet_logits = self.forward(self.magnet, batch).logits
        out = self.forward(self.policy, batch)
        if not self.fused:
            return ppo_loss(batch, out, cfg, cfg.entropy, magnet_logits)
        return fused_ppo_loss(batch, out, cfg, cfg.entropy, magnet_logits, self.kernels)

    def _here(self, batch: Batch) -> Batch:
        """The batch on the policy's device."""
        if self.device.type == "cpu":
            return batch
        return Batch(*(None if column is None else column.to(self.device) for column in batch))  # type: ignore[arg-type]

    def _views(self, rollout: Rollout, rows: Tensor) -> Tensor | None:
        if not self.cfg.symmetries:
            return None
        games = self.ranks.rank * rollout.games + rows % rollout.games
        return self.policy.views.of(games, rollout.flat(rollout.seat)[rows])

    @torch.no_grad()
    def _follow(self, number: int) -> None:
        """Moves the averages, or refreshes the magnet."""
        if self.average is not None:
            moved = 1.0 - kept_of_average(self.cfg, number)
            for mine, newest in zip(self.average.parameters(), self.parameters, strict=True):
                mine.lerp_(newest, moved)
        if self.magnet is not None:
            for mine, newest in zip(self.magnet.parameters(), self.parameters, strict=True):
                if self.cfg.regulariser == "average":
                    mine.lerp_(newest, 1.0 - self.cfg.average_decay)
                elif (number + 1) % self.cfg.magnet_every == 0:
                    mine.copy_(newest)
