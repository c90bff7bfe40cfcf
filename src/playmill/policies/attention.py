"""Self-attention over the columns of a field: for a card game, over its cards.

A card's features lie all over an observation: in the hand, among the cards played by each seat, in
the trick. Here they come together as one token a card, and what is not about cards as one token
more, the summary. Which feature goes where is read from the schema; no game is known by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from playmill.games import Encoding, Field, GameSpec, PlaymillError, unknown

FEED_FORWARD = 2
"""Width of a block's hidden layer, in widths of a token."""
ACTIVE = 64
"""How many features of a row are about not zero; sets the size of the summary's first weights."""


@dataclass(frozen=True)
class TokenFeatures:
    """Where every feature of an expanded row goes: T tokens of C channels, and the rest."""

    tokens: tuple[tuple[int, ...], ...]  # [T][C] features of each token, channels in the schema's order
    rest: tuple[int, ...]  # features of the summary, in the schema's order

    @property
    def count(self) -> int:
        return len(self.tokens)

    @property
    def channels(self) -> int:
        return len(self.tokens[0])


def token_features(spec: GameSpec, name: str = "") -> TokenFeatures:
    """Tokens for the columns of the bits field `name` (empty: of the first bits field).

    Each row of a bits field with as many columns is a channel, and so is each value of a category
    field with as many categories, or one more; that one more, and all else, is the rest."""
    field = _token_field(spec, name)
    channels: list[range] = []
    rest: list[int] = []
    for f in spec.schema.fields:
        step = _feature_step(f, field.columns)
        if not step:
            rest.extend(range(f.feature, f.feature + f.features))
            continue
        for start in range(f.feature, f.feature + f.features, step):
            channels.append(range(start, start + field.columns))
            rest.extend(range(start + field.columns, start + step))
    return TokenFeatures(tuple(zip(*channels, strict=True)), tuple(rest))


def _feature_step(field: Field, columns: int) -> int:
    """Features from one channel of this field to the next; 0: it has none."""
    if field.encoding is Encoding.BITS and field.columns == columns:
        return columns
    if field.encoding is Encoding.CATEGORY and field.size in (columns, columns + 1):
        return field.size
    return 0


def _token_field(spec: GameSpec, name: str) -> Field:
    bits = {f.name: f for f in spec.schema.fields if f.encoding is Encoding.BITS}
    if not bits:
        raise PlaymillError(
            f"network.attention needs a field of bits whose columns become tokens; {spec.name} has none"
        )
    if name and name not in bits:
        raise unknown(f"field of bits of {spec.name}", name, bits)
    field = bits[name or next(iter(bits))]
    if not 2 <= field.columns <= spec.actions:
        raise PlaymillError(
            f"network.tokens: column c of '{field.name}' should be what action c takes, "
            f"but {spec.name} has {field.columns} columns there and {spec.actions} actions"
        )
    return field


class Attended(NamedTuple):
    """N turns, T tokens, W the width of a token."""

    summary: Tensor  # [N, W]
    tokens: Tensor  # [N, T, W]


class Tower(nn.Module):
    """Features of a row [N, features] in, tokens that have looked at each other out.

    All shapes follow from the schema and the number of rows, so that it can be captured."""

    wanted: Tensor
    rest: Tensor

    def __init__(
        self, features: TokenFeatures, width: int, heads: int, blocks: int, act: Callable[[Tensor], Tensor]
    ) -> None:
        super().__init__()
        self.features = features
        wanted = torch.tensor(features.tokens).flatten()
        self.register_buffer("wanted", wanted, persistent=False)
        self.register_buffer("rest", torch.tensor(features.rest, dtype=torch.long), persistent=False)
        # A token has a channel or two that are not zero beside its embedding: sums of about unit size.
        self.channels = nn.Parameter(torch.empty(features.channels, width).normal_(std=0.5))
        self.embedding = nn.Parameter(torch.empty(features.count, width).normal_(std=0.5))
        size = 1.0 / math.sqrt(max(1, min(ACTIVE, len(features.rest))))
        self.others = nn.Parameter(torch.empty(len(features.rest), width).normal_(std=size))
        self.start = nn.Parameter(torch.empty(width).normal_(std=0.5))
        self.blocks = nn.ModuleList(Block(width, heads, act, 2 * blocks) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)

    def forward(self, floats: Tensor) -> Attended:
        shape = (len(floats), self.features.count, self.features.channels)
        tokens = floats.index_select(1, self.wanted).view(shape) @ self.channels + self.embedding
        summary = floats.index_select(1, self.rest) @ self.others + self.start
        stream = torch.cat((summary.unsqueeze(1), tokens), dim=1)
        for block in self.blocks:
            stream = block(stream)
        stream = self.norm(stream)
        return Attended(stream[:, 0], stream[:, 1:])


class Block(nn.Module):
    """Attention among the tokens, then a layer for each on its own; both add to the stream."""

    def __init__(self, width: int, heads: int, act: Callable[[Tensor], Tensor], branches: int) -> None:
        """`branches`: how many such sums the stream goes through, two a block."""
        super().__init__()
        self.heads = heads
        self.act = act
        self.attention_norm = nn.LayerNorm(width)
        # No bias: the norm before it has one, and that of the keys would cancel in the softmax.
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width)
        self.layer_norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, FEED_FORWARD * width)
        self.down = nn.Linear(FEED_FORWARD * width, width)
        for layer in (self.out, self.up, self.down):
            nn.init.zeros_(layer.bias)
        # What the branches add shall not outgrow the stream at the start.
        for layer in (self.out, self.down):
            nn.init.normal_(layer.weight, std=1.0 / math.sqrt(branches * layer.in_features))

    def forward(self, stream: Tensor) -> Tensor:
        qkv = self.qkv(self.attention_norm(stream)).unflatten(-1, (3, self.heads, -1))
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value)
        stream = stream + self.out(mixed.transpose(1, 2).flatten(2))
        hidden = self.act(self.up(self.layer_norm(stream)))
        return stream + cast(Tensor, self.down(hidden))


def multiply_adds(features: TokenFeatures, width: int, blocks: int) -> int:
    """Of the matrix products of one row in a Tower."""
    stream = features.count + 1
    enter = (features.count * features.channels + len(features.rest)) * width
    layers = stream * width * width * (3 + 1 + 2 * FEED_FORWARD)
    mixing = 2 * stream * stream * width
    return enter + blocks * (layers + mixing)
