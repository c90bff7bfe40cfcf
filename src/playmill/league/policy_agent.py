"""A trained policy as an agent at a table."""

from __future__ import annotations

import numpy as np
import torch

from playmill.games import Game
from playmill.league.agents import Decision
from playmill.policies import Policy, masked_log_softmax


class PolicyAgent:
    """Takes the likeliest legal action, or draws one with `sample`."""

    def __init__(self, policy: Policy, name: str, sample: bool = False, seed: int = 0) -> None:
        self.policy, self._name, self.sample = policy, name, sample
        self._rng = np.random.default_rng(seed)

    @property
    def name(self) -> str:
        return self._name

    def choose(self, game: Game) -> Decision:
        observation = torch.from_numpy(game.observe(game.seat).copy())[None]
        legal = torch.from_numpy(game.mask().astype(bool))[None]
        with torch.inference_mode():
            out = self.policy(observation)
            probabilities = masked_log_softmax(out.logits, legal).exp()[0].numpy()
        if self.sample:
            exact = probabilities.astype(np.float64)
            action = int(self._rng.choice(len(exact), p=exact / exact.sum()))
        else:
            action = int(probabilities.argmax())
        return Decision(action, probabilities, float(out.value[0]))
