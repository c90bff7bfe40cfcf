"""Answers the turns of a pool on the card: the policies' logits never leave it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.dlpack import from_dlpack

from playmill.policies import Policy, unpack_bits
from playmill.pools import Outcome
from playmill.pools.cuda import CudaPool


class CudaAnswers:
    """Several policies, and bots whose turns surface under drivers from `surfaced` on."""

    def __init__(self, pool: CudaPool, policies: Sequence[Policy], sample: bool, surfaced: int) -> None:
        self.pool, self.policies, self.sample, self.surfaced = pool, policies, sample, surfaced
        pool.stream = int(torch.cuda.current_stream().cuda_stream)
        self._columns = pool.empty_turns()
        self._turns = [from_dlpack(column) for column in self._columns]
        self._logits = torch.zeros(pool.games, pool.spec.actions, device="cuda")
        self._actions = torch.zeros(pool.games, dtype=torch.int32, device="cuda")

    def step(self, number: int) -> Outcome:
        """Answers all waiting turns; the outcome on the host."""
        self.pool.turns(self._columns)
        observation, legal, _, _, driver = self._turns
        with torch.inference_mode():
            for i, policy in enumerate(self.policies):
                logits = policy(observation).logits
                self._logits.copy_(torch.where((driver == i)[:, None], logits, self._logits))
            masked = self._logits.masked_fill(~unpack_bits(legal, self._logits.shape[1]), -torch.inf)
            actions = (self._drawn(masked, number) if self.sample else masked.argmax(1)).int()
        bots = driver >= self.surfaced
        if bool(bots.any()):
            kinds = torch.where(bots, driver - self.surfaced, torch.zeros_like(driver))
            answered = from_dlpack(self.pool.bot_actions(kinds))
            actions = torch.where(bots, answered, actions)
        self._actions = actions.contiguous()
        outcome = self.pool.act(self._actions)
        return Outcome(np.asarray(outcome.rewards), np.asarray(outcome.over))

    def taken(self) -> npt.NDArray[np.int32]:
        """The actions of the last step, one a game, on the host."""
        actions: npt.NDArray[np.int32] = self._actions.cpu().numpy()
        return actions

    def _drawn(self, masked: torch.Tensor, number: int) -> torch.Tensor:
        """An action a row by its probability (the largest of logit plus Gumbel noise)."""
        generator = torch.Generator("cuda").manual_seed(number)
        noise = torch.empty_like(masked).exponential_(generator=generator).log_()
        return (masked - noise).argmax(1)
