"""Segments that are learnt from more than once: a buffer beside the channel."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from playmill.experience import Replay, Rollout, columns_like
from playmill.training.engine_settings import Replaying

SMALLEST = 1e-3
"""Added to every priority: what surprised nobody may still be drawn."""


class Reused:
    """The newest segments that were learnt from, drawn again, evenly or by how much they surprised.

    It is memory alone: after a resume it begins empty, since all it held was trained."""

    def __init__(self, settings: Replaying, rollout: Rollout, fresh: int, seed: int) -> None:
        """The first `fresh` segments of the rollout are new ones, the rest are drawn from here."""
        self.settings, self.fresh, self.seed = settings, fresh, seed
        self._columns = {name: column.numpy() for name, column in vars(rollout).items()}
        kinds = columns_like({name: _by_segment(column) for name, column in self._columns.items()})
        self.replay = Replay(kinds, settings.mb << 20, settings.alpha)
        self._drawn: npt.NDArray[np.int64] | None = None

    def draw(self, number: int) -> Tensor | None:
        """Fills the rest of the rollout; how much each of its segments is to count, or None before there is
        anything to draw from."""
        count = next(iter(self._columns.values())).shape[1] - self.fresh
        if not len(self.replay):
            return None
        drawn = self.replay.sample(count, self.seed, number, beta=self.settings.beta)
        for name, column in self._columns.items():
            _by_segment(column)[self.fresh :] = drawn.columns[name]
        self._drawn = drawn.number
        weights = np.ones(self.fresh + count, np.float32)
        weights[self.fresh :] = drawn.importance
        return torch.from_numpy(weights)

    def learnt(self, surprise: Tensor, version: int) -> None:
        """Keeps the new segments; `surprise` is that of every segment learnt from, drawn ones behind."""
        fresh = {name: _by_segment(column)[: self.fresh] for name, column in self._columns.items()}
        if not self.settings.alpha:
            self.replay.add(fresh, version)
            return
        priority = surprise.numpy().astype(np.float64) + SMALLEST
        if self._drawn is not None:
            self.replay.update(self._drawn, priority[self.fresh :])
            self._drawn = None
        self.replay.add(fresh, version, priority[: self.fresh])


def _by_segment(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """[T, N, ...] as [N, T, ...]."""
    return column.swapaxes(0, 1)
