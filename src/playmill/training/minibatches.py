"""Which rows make up a gradient step. Every shard takes its own rows in an order of its own, and a minibatch
is a part from each shard: rows stay where they were played, and it makes no difference which rank that is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from playmill.algorithms import PPO, Returns, rows_by_advantage
from playmill.training.ranks import Ranks
from playmill.training.shards import Shards


class Minibatch(NamedTuple):
    """The rows of one gradient step that are here, by shard."""

    rows: list[Tensor]  # numbers, [N] int64 each
    advantage: list[Tensor]  # [N] each
    whole: int  # rows of all shards of all ranks


class Minibatches:
    """The order of rows: a function of seed, update, epoch and shard. Nothing to save, nothing to lose."""

    def __init__(self, seed: int, shards: Shards, ranks: Ranks) -> None:
        self.seed, self.shards, self.ranks = seed, shards, ranks
        self._first = ranks.rank * shards.count  # shards are numbered over all ranks

    def of(self, returns: Returns, number: int, epoch: int, cfg: PPO) -> Iterator[Minibatch]:
        """The minibatches of one pass over a rollout."""
        rows = self._rows(returns, cfg)
        sizes = self._sizes(rows)
        count = max(1, round(int(sizes.sum()) / cfg.minibatch))
        parts = [
            self._shuffled(mine, number, epoch, shard).tensor_split(count)
            for shard, mine in enumerate(rows, self._first)
        ]
        gained = returns.advantage.flatten()
        advantages = [[gained[part] for part in mine] for mine in parts]
        if cfg.normalise and returns.weight is not None:
            weight = returns.weight.flatten()
            self._normalise_weighted(advantages, [[weight[part] for part in mine] for mine in parts])
        elif cfg.normalise:
            self._normalise(advantages)
        for i in range(count):
            # As `tensor_split` shares out: the first parts of a shard have a row more.
            whole = int((sizes // count + (i < sizes % count)).sum())
            if whole:
                yield Minibatch([mine[i] for mine in parts], [mine[i] for mine in advantages], whole)

    def _sizes(self, rows: list[Tensor]) -> Tensor:
        """How many rows each shard of each rank has, [shards] int64."""
        sizes = torch.zeros(self.ranks.count * self.shards.count, dtype=torch.int64)
        sizes[self._first :][: len(rows)] = torch.tensor([len(mine) for mine in rows])
        self.ranks.sum(sizes)
        return sizes

    def _shuffled(self, rows: Tensor, number: int, epoch: int, shard: int) -> Tensor:
        name = (self.seed, number, epoch, shard) if shard else (self.seed, number, epoch)
        generator = torch.Generator().manual_seed(int(np.random.SeedSequence(name).generate_state(1)[0]))
        return rows[torch.randperm(len(rows), generator=generator)]

    def _normalise(self, advantages: list[list[Tensor]]) -> None:
        """To mean 0 and deviation 1 over all ranks: advantages by shard and minibatch, in place."""
        sums = torch.zeros(len(advantages[0]), 3, dtype=torch.float64)
        for mine in advantages:
            for i, part in enumerate(mine):
                wide = part.double()
                sums[i] += torch.stack([wide.sum(), wide.square().sum(), wide.new_tensor(len(wide))])
        self.ranks.sum(sums)
        total, squares, rows = sums.unbind(1)
        mean = total / rows
        deviation = (squares / rows - mean.square()).clamp(min=0.0).sqrt().float() + 1e-8
        for mine in advantages:
            mine[:] = [(part - m) / d for part, m, d in zip(mine, mean.float(), deviation, strict=True)]

    def _normalise_weighted(self, advantages: list[list[Tensor]], weights: list[list[Tensor]]) -> None:
        """The same for rows that count by weights, which their advantages hold.

        A row gives up its weight's share of the mean. So what counts for nothing stays at 0, and the mean is
        a baseline under the policy that the weights lead to, not under those that played the rows."""
        sums = torch.zeros(len(advantages[0]), 5, dtype=torch.float64)
        for mine, theirs in zip(advantages, weights, strict=True):
            for i, (part, weight) in enumerate(zip(mine, theirs, strict=True)):
                a, w = part.double(), weight.double()
                sums[i] += torch.stack([a.sum(), w.sum(), (a * a).sum(), (a * w).sum(), (w * w).sum()])
        self.ranks.sum(sums)
        total, weight, aa, aw, ww = sums.unbind(1)
        mean = total / weight.clamp(min=1e-8)
        variance = (aa - 2.0 * mean * aw + mean.square() * ww) / ww.clamp(min=1e-16)
        deviation = variance.clamp(min=0.0).sqrt().float() + 1e-8
        for mine, theirs in zip(advantages, weights, strict=True):
            columns = zip(mine, theirs, mean.float(), deviation, strict=True)
            mine[:] = [(part - w * m) / d for part, w, m, d in columns]

    def _rows(self, returns: Returns, cfg: PPO) -> list[Tensor]:
        """The rows to learn from, ascending, of each shard here."""
        kept = returns.usable if cfg.top_advantages == 1.0 else self._largest(returns, cfg)
        numbers = torch.arange(kept.numel()).view(kept.shape)
        return [numbers[:, part][kept[:, part]] for part in self.shards.slices(kept.shape[1])]

    def _largest(self, returns: Returns, cfg: PPO) -> Tensor:
        """Which rows here are among the largest advantages of all ranks: [T, N] bool."""
        steps, games = returns.usable.shape
        mine = slice(self.ranks.rank * games, (self.ranks.rank + 1) * games)
        advantage = torch.zeros(steps, games * self.ranks.count)
        usable = torch.zeros_like(advantage)
        advantage[:, mine], usable[:, mine] = returns.advantage, returns.usable.float()
        self.ranks.sum(advantage, usable)
        order, count = rows_by_advantage(advantage, usable, cfg.top_advantages, cfg.normalise)
        kept = torch.zeros(advantage.numel(), dtype=torch.bool)
        kept[order[: int(count)]] = True
        return kept.view(advantage.shape)[:, mine]
