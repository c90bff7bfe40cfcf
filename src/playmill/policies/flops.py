"""What a network costs: the arithmetic of one turn, counted from its shape."""

from __future__ import annotations

import math
from dataclasses import dataclass

from playmill.games import GameSpec
from playmill.policies.attention import FEED_FORWARD, multiply_adds
from playmill.policies.boards import BoardActions, board_of, tokens_of, unet_cost
from playmill.policies.network import Network


@dataclass(frozen=True)
class Cost:
    """Of one turn forwards."""

    flops: int
    """Of matrix products and convolutions, a multiply-add being two."""
    first: int
    """Those of the layers that read the observation: nobody needs the gradient of their input."""
    activations: int
    """Numbers between the layers."""


def forward_flops(spec: GameSpec, network: Network) -> int:
    """Floating-point operations of one turn forwards: matrix products, a multiply-add being two.

    The first layer is counted as the dense product it stands for. Forward and backward together
    are about three times as many."""
    return network_cost(spec, network).flops


def network_cost(spec: GameSpec, network: Network) -> Cost:
    """Counted with the first layer as the dense product it stands for."""
    behind = sum(a * b for a, b in zip(network.hidden, network.hidden[1:], strict=False))
    hidden = network.trunks * sum(network.hidden)
    heads = network.hidden[-1] * (spec.actions + 1)
    if network.body == "unet":
        return _unet(spec, network, network.trunks * behind, hidden)
    if not network.attention:
        first = network.trunks * spec.schema.features * network.hidden[0]
        return Cost(2 * (first + network.trunks * behind + heads), 2 * first, hidden)
    features = network.token_features(spec)
    width, blocks = network.token_width, network.attention
    first = network.trunks * (features.count * features.channels + len(features.rest)) * width
    tower = multiply_adds(features, width, blocks) + width * network.hidden[0]
    heads += width * features.count
    if network.body == "vit":
        heads = _board_heads(spec, network, width, features.count)
    # A block: two norms, query, key and value, what they mix, its hidden layer, two sums.
    stream = (features.count + 1) * width * (1 + blocks * (2 + 3 + 1 + FEED_FORWARD + 2))
    return Cost(2 * (network.trunks * (tower + behind) + heads), 2 * first, hidden + network.trunks * stream)


def _unet(spec: GameSpec, network: Network, behind: int, hidden: int) -> Cost:
    shape = (network.channels, network.halvings, network.blocks)
    # With a trunk of its own the value has the way down alone.
    patch = network.patch_side
    towers = [unet_cost(spec, *shape, squares=i == 0, patch=patch) for i in range(network.trunks)]
    entries = network.trunks * (network.channels << network.halvings) * network.hidden[0]
    heads = _board_heads(spec, network, network.channels, math.prod(tokens_of(board_of(spec), patch)))
    sums = sum(tower.multiply_adds for tower in towers) + entries + behind + heads
    return Cost(
        2 * sums,
        2 * sum(tower.first for tower in towers),
        hidden + sum(tower.activations for tower in towers),
    )


def _board_heads(spec: GameSpec, network: Network, width: int, tokens: int) -> int:
    actions = BoardActions(board_of(spec), network.patch_side)
    return network.hidden[-1] * (actions.of_board + 1) + tokens * width * actions.of_token
