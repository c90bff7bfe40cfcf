"""The columns of what happened: T steps of N games, packed, written in place by the pool."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from playmill.games import GameSpec


@dataclass(frozen=True)
class Rollout:
    """T steps, N games, S seats. Every turn is a row; its weights version is the rollout's."""

    observation: Tensor  # [T, N, bytes] uint8, packed
    legal: Tensor  # [T, N, legal_bytes] uint8, bits
    seat: Tensor  # [T, N] uint8
    role: Tensor  # [T, N] uint8
    driver: Tensor  # [T, N] uint8, 0 where the learner decided
    action: Tensor  # [T, N] int32
    log_probability: Tensor  # [T, N] float32
    value: Tensor  # [T, N] float32
    rewards: Tensor  # [T, N, S] float32, of all seats, after the action
    over: Tensor  # [T, N] uint8, the game ended after the action

    @classmethod
    def empty(cls, spec: GameSpec, steps: int, games: int, device: str = "cpu") -> Rollout:
        def column(*shape: int, dtype: torch.dtype = torch.uint8) -> Tensor:
            return torch.zeros(steps, games, *shape, dtype=dtype, device=device)

        return cls(
            observation=column(spec.schema.bytes),
            legal=column(spec.legal_bytes),
            seat=column(),
            role=column(),
            driver=column(),
            action=column(dtype=torch.int32),
            log_probability=column(dtype=torch.float32),
            value=column(dtype=torch.float32),
            rewards=column(spec.seats, dtype=torch.float32),
            over=column(),
        )

    @property
    def steps(self) -> int:
        return self.action.shape[0]

    @property
    def games(self) -> int:
        return self.action.shape[1]

    def at(self, step: int, games: slice) -> Rollout:
        """The columns of one step of some games, without the time axis: views, written in place."""
        return Rollout(*(column[step, games] for column in self.all()))

    def all(self) -> list[Tensor]:
        """Every column."""
        return [getattr(self, f.name) for f in fields(self)]

    def turns(self) -> list[Tensor]:
        """The columns that `Pool.turns` writes, in its order."""
        return [self.observation, self.legal, self.seat, self.role, self.driver]

    def first(self, steps: int) -> Rollout:
        """The columns of the first steps: views."""
        return Rollout(*(column[:steps] for column in self.all()))

    def first_games(self, games: int) -> Rollout:
        """The columns of the first games: copies."""
        return Rollout(*(column[:, :games].contiguous() for column in self.all()))

    def flat(self, column: Tensor) -> Tensor:
        """A column as rows [T * N, ...]."""
        return column.reshape(self.steps * self.games, *column.shape[2:])
