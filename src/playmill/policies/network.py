"""Networks over packed observations: logits for every action and a value for the seat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor, nn

from playmill.games import GameSpec, PlaymillError
from playmill.policies.attention import Attended, TokenFeatures, Tower, token_features
from playmill.policies.boards import BoardActions, UNet, Views, board_of, patch_features, plane_features
from playmill.policies.expansion import Expand, PackedLinear

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
    residual: bool = False
    """Layers behind the first add to what they read, so that many can be stacked; equal widths only."""
    body: Literal["layers", "unet", "vit"] = "layers"
    """What stands before the hidden layers, for games on a board: unet, convolutions at several sizes; vit,
    self-attention between squares. layers: nothing, or attention between cards."""
    channels: int = 32
    """Channels of the unet at its full size; each halving of the board doubles them."""
    halvings: int = 2
    """How often the unet halves the board."""
    blocks: int = 1
    """Residual blocks of the unet at each size."""
    patch: int = 0
    """Side of the square patches of the board that the unet convolves, or that are the tokens of the vit;
    0: 1 for the unet and 2 for the vit."""
    attention: int = 0
    """Blocks of self-attention between cards, or between the patches of the vit; 0: none."""
    heads: int = 4
    """Heads of an attention block."""
    token_width: int = 64
    """Width of a token in attention; a multiple of `heads`."""
    tokens: str = ""
    """The observation's bits field whose columns are the tokens; empty: the first one."""

    def __post_init__(self) -> None:
        if not self.hidden or min(self.hidden) < 1:
            raise PlaymillError(f"network.hidden needs one or more positive widths, got {self.hidden}")
        if self.residual and (len(self.hidden) < 2 or len(set(self.hidden)) > 1):
            raise PlaymillError(f"network.residual needs two or more equal widths, got {self.hidden}")
        if self.attention < 0:
            raise PlaymillError(f"network.attention must not be negative, got {self.attention}")
        for name, low in (("channels", 1), ("halvings", 0), ("blocks", 1), ("patch", 0)):
            if not low <= getattr(self, name):
                raise PlaymillError(f"network.{name} must be at least {low}, got {getattr(self, name)}")
        if (self.body == "vit" and not self.attention) or (self.body == "unet" and self.attention):
            wanted = "1 or more" if self.body == "vit" else "0"
            raise PlaymillError(
                f"with network.body {self.body} network.attention must be {wanted}, got {self.attention}"
            )
        if self.heads < 1 or self.token_width < 1 or self.token_width % self.heads:
            raise PlaymillError(
                f"network.token_width must be a multiple of network.heads, "
                f"got {self.token_width} and {self.heads}"
            )

    @property
    def plain(self) -> bool:
        """Whether it is linear layers with relu between them and nothing else."""
        return not self.residual and not self.towers and self.activation == "relu"

    @property
    def towers(self) -> bool:
        """Whether something stands between the observation and the hidden layers."""
        return self.body != "layers" or self.attention > 0

    @property
    def patch_side(self) -> int:
        return self.patch or (2 if self.body == "vit" else 1)

    @property
    def trunks(self) -> int:
        """Stacks of layers: one each for policy and value, or one for both."""
        return 2 if self.separate else 1

    def check(self, spec: GameSpec) -> None:
        """Raises where this network cannot be built for the game."""
        if self.body == "unet":
            plane_features(spec)
        if self.attention:
            self.token_features(spec)

    def token_features(self, spec: GameSpec) -> TokenFeatures:
        """What the tokens of attention are made of."""
        if self.body == "vit":
            return patch_features(spec, self.patch_side)
        return token_features(spec, self.tokens)


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
        self.first = _first(spec, network)
        widths = list(zip(network.hidden, network.hidden[1:], strict=False))
        self.trunks = nn.ModuleList(
            nn.ModuleList(nn.Linear(a, b) for a, b in widths) for _ in range(network.trunks)
        )
        self.board_actions: BoardActions | None = None
        if network.body != "layers":
            self.board_actions = BoardActions(board_of(spec), network.patch_side)
            self.views = Views(spec)
        outputs = spec.actions if self.board_actions is None else self.board_actions.of_board
        self.action_head = nn.Linear(network.hidden[-1], outputs)
        self.value_head = nn.Linear(network.hidden[-1], 1)
        # In a residual trunk the layers add up: together they begin as large as one.
        gain = len(widths) ** -0.5 if network.residual else 2.0**0.5
        for trunk in self.trunks:
            for layer in trunk:  # type: ignore[attr-defined]
                _orthogonal(layer, gain)
        # Near zero, so that play begins uniform over the legal actions.
        _orthogonal(self.action_head, 0.01)
        _orthogonal(self.value_head, 0.1)
        if network.residual:
            # One norm before each layer, and one before the heads.
            norms = len(network.hidden)
            self.norms = nn.ModuleList(
                nn.ModuleList(nn.LayerNorm(network.hidden[0]) for _ in range(norms)) for _ in self.trunks
            )
        if network.towers:
            self._build_towers(spec, network)

    def _build_towers(self, spec: GameSpec, network: Network) -> None:
        self.towers = nn.ModuleList(self._tower(spec, network, i) for i in range(network.trunks))
        unet = network.body == "unet"
        summary = network.channels << network.halvings if unet else network.token_width
        self.entries = nn.ModuleList(nn.Linear(summary, network.hidden[0]) for _ in self.trunks)
        logits = 1 if self.board_actions is None else self.board_actions.of_token
        self.token_head = nn.Linear(network.channels if unet else network.token_width, logits, bias=False)
        for entry in self.entries:
            _orthogonal(cast(nn.Linear, entry), 2.0**0.5)
        _orthogonal(self.token_head, 0.01)

    def _tower(self, spec: GameSpec, network: Network, number: int) -> nn.Module:
        if network.body == "unet":
            # A value of its own needs no way up to the squares.
            shape = (network.channels, network.halvings, network.blocks, self.activation, number == 0)
            return UNet(spec, *shape, network.patch_side)
        blocks = (network.token_width, network.heads, network.attention, self.activation)
        return Tower(network.token_features(spec), *blocks)

    def forward(self, packed: Tensor, view: Tensor | None = None) -> PolicyOutput:
        """`view`: for games on a board, the symmetry each row is seen through, [N] int64."""
        return self.after_first(self.first(packed), view)

    def after_first(self, first: Tensor, view: Tensor | None = None) -> PolicyOutput:
        """Everything behind the first layer's product [N, first.width]."""
        if view is not None:
            first = self.views.seen(first, view)
        attended: list[Attended] = []
        parts: Sequence[Tensor]
        if self.network.towers:
            attended = [tower(first) for tower in self.towers]
            parts = [self._enter(e(a.summary)) for e, a in zip(self.entries, attended, strict=True)]
        else:
            parts = self._enter(first).chunk(len(self.trunks), dim=1)
        hidden = [self._trunk(i, part) for i, part in enumerate(parts)]
        logits = self.action_head(hidden[0]).float()
        if attended:
            logits = self._with_tokens(logits, self.token_head(attended[0].tokens))
        value = self.value_head(hidden[-1]).float().squeeze(-1)
        return PolicyOutput(logits if view is None else self.views.told(logits, view), value)

    def _with_tokens(self, logits: Tensor, tokens: Tensor) -> Tensor:
        """The logits with what each token adds to those of its own actions."""
        if self.board_actions is not None:
            return self.board_actions.join(tokens, logits)
        own = tokens.float().squeeze(-1)  # card c adds to playing card c
        return logits + nn.functional.pad(own, (0, logits.shape[1] - own.shape[1]))

    def _enter(self, product: Tensor) -> Tensor:
        """What the trunks begin with; residual layers activate what they read themselves."""
        return product if self.network.residual else self.activation(product)

    def _trunk(self, number: int, hidden: Tensor) -> Tensor:
        """The layers of one trunk."""
        layers = cast("list[nn.Linear]", self.trunks[number])
        if not self.network.residual:
            for layer in layers:
                hidden = self.activation(layer(hidden))
            return hidden
        norms = cast("list[nn.LayerNorm]", self.norms[number])
        for norm, layer in zip(norms, layers, strict=False):
            hidden = hidden + layer(self.activation(norm(hidden)))
        return self.activation(norms[-1](hidden))


def _first(spec: GameSpec, network: Network) -> PackedLinear | Expand:
    """What reads the packed rows."""
    if network.towers:
        return Expand(spec.schema)
    # All trunks read the same rows: one product of the sum of their widths serves them.
    return PackedLinear(spec.schema, network.trunks * network.hidden[0])


def _orthogonal(layer: nn.Linear, gain: float) -> None:
    nn.init.orthogonal_(layer.weight, gain=gain)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


def masked_log_softmax(logits: Tensor, legal: Tensor) -> Tensor:
    """Log-probabilities [N, A] over the legal actions (bool [N, A]); -inf elsewhere. float32."""
    return torch.log_softmax(logits.float().masked_fill(~legal, -torch.inf), dim=-1)
