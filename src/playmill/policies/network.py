"""Networks over packed observations: logits for every action and a value for the seat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from playmill.games import GameSpec, PlaymillError
from playmill.policies.expansion import PackedLinear

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "gelu": nn.functional.gelu,
    "silu": nn.functional.silu,
}


@dataclass(frozen=True)
class Network:
    """The shape of the policy and value networks."""

    hidden: tuple[int, ...] = (256, 128)
    """Widths of the hidden layers; the first one reads the packed observation."""
    separate: bool = True
    """Policy and value each have layers of their own (otherwise they share all but the heads)."""
    activation: Literal["relu", "tanh", "gelu", "silu"] = "relu"
    """What stands between the layers."""

    def __post_init__(self) -> None:
        if not self.hidden or min(self.hidden) < 1:
            raise PlaymillError(f"network.hidden needs one or more positive widths, got {self.hidden}")


class PolicyOutput(NamedTuple):
    """N turns, A actions."""

    logits: Tensor  # [N, A] float32, illegal actions not yet masked
    value: Tensor  # [N] float32, what this seat still expects to gain


class Policy(nn.Module):
    """Packed observation in, logits and value out."""

    def __init__(self, spec: GameSpec, network: Network) -> None:
        super().__init__()
        self.network = network
        self.activation = ACTIVATIONS[network.activation]
        trunks = 2 if network.separate else 1
        # Both trunks read the same rows: one product of twice the width serves them.
        self.first = PackedLinear(spec.schema, trunks * network.hidden[0])
        widths = list(zip(network.hidden, network.hidden[1:], strict=False))
        self.trunks = nn.ModuleList(nn.ModuleList(nn.Linear(a, b) for a, b in widths) for _ in range(trunks))
        self.action_head = nn.Linear(network.hidden[-1], spec.actions)
        self.value_head = nn.Linear(network.hidden[-1], 1)
        for trunk in self.trunks:
            for layer in trunk:  # type: ignore[attr-defined]
                nn.init.orthogonal_(layer.weight, gain=2.0**0.5)
                nn.init.zeros_(layer.bias)
        # Near zero, so that play begins uniform over the legal actions.
        nn.init.orthogonal_(self.action_head.weight, gain=0.01)
        nn.init.zeros_(self.action_head.bias)
        nn.init.orthogonal_(self.value_head.weight, gain=0.1)
        nn.init.zeros_(self.value_head.bias)

    def forward(self, packed: Tensor) -> PolicyOutput:
        return self.after_first(self.first(packed))

    def after_first(self, first: Tensor) -> PolicyOutput:
        """Everything behind the first layer's product."""
        hidden = list(self.activation(first).chunk(len(self.trunks), dim=1))
        for i, trunk in enumerate(self.trunks):
            for layer in trunk:  # type: ignore[attr-defined]
                hidden[i] = self.activation(layer(hidden[i]))
        logits = self.action_head(hidden[0]).float()
        value = self.value_head(hidden[-1]).float().squeeze(-1)
        return PolicyOutput(logits, value)


def masked_log_softmax(logits: Tensor, legal: Tensor) -> Tensor:
    """Log-probabilities [N, A] over the legal actions (bool [N, A]); -inf elsewhere. float32."""
    return torch.log_softmax(logits.float().masked_fill(~legal, -torch.inf), dim=-1)
