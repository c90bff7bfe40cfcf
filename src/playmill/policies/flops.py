"""What a network costs: the arithmetic of one turn, counted from its shape."""

from __future__ import annotations

from playmill.games import GameSpec
from playmill.policies.attention import multiply_adds, token_features
from playmill.policies.network import Network


def forward_flops(spec: GameSpec, network: Network) -> int:
    """Floating-point operations of one turn forwards: matrix products, a multiply-add being two.

    The first layer is counted as the dense product it stands for. Forward and backward together
    are about three times as many."""
    first = spec.schema.features * network.hidden[0]
    heads = network.hidden[-1] * (spec.actions + 1)
    if network.attention:
        features = token_features(spec, network.tokens)
        first = multiply_adds(features, network.token_width, network.attention)
        first += network.token_width * network.hidden[0]
        heads += network.token_width * features.count
    behind = sum(a * b for a, b in zip(network.hidden, network.hidden[1:], strict=False))
    return 2 * (network.trunks * (first + behind) + heads)
