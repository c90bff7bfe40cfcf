"""Answers for rows of many games in one pass: the policy in training and those that play against it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch

from playmill import _native
from playmill.games import GameSpec, PlaymillError
from playmill.policies import Network, Policy

Tensors = Mapping[str, npt.NDArray[np.generic]]


class Answered(NamedTuple):
    """Decisions for n rows."""

    action: npt.NDArray[np.int32]  # [n]
    log_probability: npt.NDArray[np.float32]  # [n] of the action
    value: npt.NDArray[np.float32]  # [n] what the seat still expects to gain
    version: int  # of the learner's weights


class Answers(Protocol):
    """Whoever decides for waiting rows of a run."""

    @property
    def past(self) -> int:
        """Past policies that can be asked."""

    @property
    def opponents(self) -> int:
        """Which set of them there is; another number, another set."""

    def renew(self) -> None:
        """Puts into use what is new; between two batches."""

    def answer(
        self,
        observation: npt.NDArray[np.uint8],  # [n, bytes]
        legal: npt.NDArray[np.uint8],  # [n, legal_bytes]
        driver: npt.NDArray[np.uint8],  # [n] 0: the policy in training, i: the i-th of the past ones
    ) -> Answered: ...

    def close(self) -> None: ...


class PolicyTable:
    """The policies of a run on one device, by driver. New weights are loaded between two batches."""

    def __init__(
        self, spec: GameSpec, network: Network, seed: int, device: str = "cpu", bfloat16: bool = False
    ) -> None:
        """`seed` names the draws."""
        self.spec, self.network = spec, network
        self.seed, self.device, self.bfloat16 = seed, torch.device(device), bfloat16
        self.version = 0
        """Of the policy in training; 0 before the first weights came."""
        self._policy = self._empty()
        self._past: list[Policy] = []
        self._kernels = _native.Kernels(1)
        self._draws = 0

    @property
    def past(self) -> int:
        """Past policies that can be asked."""
        return len(self._past)

    def load(self, version: int, tensors: Tensors) -> None:
        """New weights of the policy in training."""
        _fill(self._policy, tensors)
        self.version = version

    def load_past(self, tensors: Tensors) -> None:
        """The past policies anew: tensors called number/name."""
        numbers = sorted({int(name.split("/", 1)[0]) for name in tensors})
        if numbers != list(range(len(numbers))):
            raise PlaymillError(f"past policies must be numbered from 0 without gaps, got {numbers}")
        past = []
        for number in numbers:
            prefix = f"{number}/"
            policy = self._empty()
            _fill(policy, {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)})
            past.append(policy)
        self._past = past

    @torch.inference_mode()
    def answer(
        self,
        observation: npt.NDArray[np.uint8],
        legal: npt.NDArray[np.uint8],
        driver: npt.NDArray[np.uint8],
    ) -> Answered:
        n = len(observation)
        logits = np.empty((n, self.spec.actions), np.float32)
        value = np.empty(n, np.float32)
        if driver.any():
            for number in np.unique(driver):
                rows = np.flatnonzero(driver == number)
                logits[rows], value[rows] = self._ask(self._driver(int(number)), observation[rows])
        else:
            logits, value = self._ask(self._policy, observation)
        action, logs = np.empty(n, np.int32), np.empty(n, np.float32)
        self._kernels.sample(logits, np.ascontiguousarray(legal), self.seed, self._draws, False, action, logs)
        self._draws += 1
        return Answered(action, logs, value, self.version)

    def close(self) -> None:
        self._past = []

    def _ask(
        self, policy: Policy, observation: npt.NDArray[np.uint8]
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        rows = torch.from_numpy(np.ascontiguousarray(observation)).to(self.device)
        first = policy.first(rows)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16):
            out = policy.after_first(first)
        return out.logits.float().cpu().numpy(), out.value.float().cpu().numpy()

    def _driver(self, number: int) -> Policy:
        if number > len(self._past):
            raise PlaymillError(f"driver {number} is asked, but there are {len(self._past)} past policies")
        return self._past[number - 1] if number else self._policy

    def _empty(self) -> Policy:
        return Policy(self.spec, self.network).requires_grad_(False).to(self.device)


@torch.no_grad()
def _fill(policy: Policy, tensors: Tensors) -> None:
    """Copies weights in; nothing is changed when they do not fit."""
    mine = dict(policy.named_parameters())
    if set(mine) != set(tensors):
        odd = sorted(set(mine) ^ set(tensors))
        raise PlaymillError(f"these weights are not of this network: {', '.join(odd[:3])}")
    for name, parameter in mine.items():
        if parameter.shape != tensors[name].shape:
            shapes = f"{name} has {tensors[name].shape}, not {tuple(parameter.shape)}"
            raise PlaymillError(f"these weights are not of this network: {shapes}")
    for name, parameter in mine.items():
        parameter.copy_(torch.from_numpy(tensors[name]))
