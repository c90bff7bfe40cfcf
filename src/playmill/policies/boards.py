"""Networks over boards: planes from a packed observation, a U-Net over them, and logits by square.

Which fields are planes and which actions belong to squares is said by the game's `Board` and its schema;
no game is known by name. All shapes follow from them and the number of rows, so that everything here
can be captured in a graph."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from playmill.games import Board, Field, GameSpec, PlaymillError
from playmill.policies.attention import Attended, TokenFeatures

CHANNELS = 8
"""Planes come in multiples of this: the matrix units of a card take channels in eights."""


@dataclass(frozen=True)
class PlaneFeatures:
    """Where every feature of an expanded row goes: C planes over S squares, and the rest."""

    planes: tuple[tuple[int, ...], ...]  # [C][S] features, in the schema's order
    rest: tuple[int, ...]  # features that belong to no square


def board_of(spec: GameSpec) -> Board:
    if spec.board is None:
        raise PlaymillError(
            f"network.body unet and vit are for games on a board, and {spec.name} has none; take layers"
        )
    return spec.board


def plane_features(spec: GameSpec) -> PlaneFeatures:
    """Planes of the game's observation: each row of a field with a column for every square, and each
    field that is a table of the board's height and width."""
    board = board_of(spec)
    planes: list[tuple[int, ...]] = []
    rest: list[int] = []
    for f in spec.schema.fields:
        whole = range(f.feature, f.feature + f.features)
        if f.counted or not _covers(f, board):
            rest.extend(whole)
            continue
        # Categories of one square lie side by side: each is a plane.
        kinds = max(1, f.size)
        for start in range(0, f.features, board.squares * kinds):
            part = whole[start : start + board.squares * kinds]
            planes.extend(tuple(part[kind::kinds]) for kind in range(kinds))
    if not planes:
        raise PlaymillError(f"{spec.name} has a board, but no field of its observation lies over it")
    return PlaneFeatures(tuple(planes), tuple(rest))


def _covers(field: Field, board: Board) -> bool:
    return field.columns == board.squares or (field.rows, field.columns) == (board.height, board.width)


def patch_features(spec: GameSpec, patch: int) -> TokenFeatures:
    """A token for every patch x patch squares. Beyond the edge the last square is repeated."""
    board, features = board_of(spec), plane_features(spec)
    tokens: list[tuple[int, ...]] = []
    for top in range(0, board.height, patch):
        for left in range(0, board.width, patch):
            squares = [
                min(top + y, board.height - 1) * board.width + min(left + x, board.width - 1)
                for y in range(patch)
                for x in range(patch)
            ]
            tokens.append(tuple(plane[square] for plane in features.planes for square in squares))
    return TokenFeatures(tuple(tokens), features.rest)


class UNet(nn.Module):
    """Features of a row [N, features] in; a summary of the board and a vector for every patch out.

    Convolutions at full size, at half of it, a quarter, ..., with twice the channels each time; then up
    again, adding what each size had on the way down. There are no norms: sums over a batch would couple rows,
    others cost more passes over memory than the convolutions themselves, and so few blocks do without. A bias
    is such a pass too, and so is making each square four before a convolution: there is neither."""

    table: Tensor

    def __init__(
        self,
        spec: GameSpec,
        channels: int,
        halvings: int,
        blocks: int,
        act: Callable[[Tensor], Tensor],
        squares: bool,
        patch: int = 1,
    ) -> None:
        """`squares`: with the way up. Without it the vectors are those of the smallest size. `patch`: what is
        convolved are patches of so many by so many squares."""
        super().__init__()
        board, self.act = board_of(spec), act
        self.height, self.width = tokens_of(board, patch)
        features = patch_features(spec, patch)
        planes = features.channels + len(features.rest)
        self.planes = padded(planes)
        self.spare = self.planes - planes
        self.register_buffer("table", plane_table(features), persistent=False)
        self.widths = [channels << level for level in range(halvings + 1)]
        steps = list(zip(self.widths, self.widths[1:], strict=False))
        self.stem = _conv(planes, channels)
        self.levels = nn.ModuleList(
            nn.ModuleList(Residual(width, act, blocks * (halvings + 1)) for _ in range(blocks))
            for width in self.widths
        )
        self.down = nn.ModuleList(_conv(a, b, stride=2) for a, b in steps)
        self.up = nn.ModuleList(_up(b, a) for a, b in steps if squares)
        self.join = nn.ModuleList(_conv(a, a) for a, _ in steps if squares)

    def forward(self, floats: Tensor) -> Attended:
        x = self._level(0, self.act(self._stem(self._planes(floats))))
        seen: list[Tensor] = []
        for level, down in enumerate(self.down, start=1):
            seen.append(x)
            x = self._level(level, self.act(down(x)))
        summary = x.mean((2, 3))
        for level in reversed(range(len(self.up))):
            before = seen[level]
            larger = cast(nn.ConvTranspose2d, self.up[level])(x, output_size=before.shape[2:])
            x = self.act(self.join[level](before + larger))
        return Attended(summary, x.permute(0, 2, 3, 1).flatten(1, 2))

    def _planes(self, floats: Tensor) -> Tensor:
        """[N, planes, height, width], the planes of a patch side by side in memory."""
        patches = floats.index_select(1, self.table)
        return patches.view(-1, self.height, self.width, self.planes).permute(0, 3, 1, 2)

    def _stem(self, planes: Tensor) -> Tensor:
        weight = nn.functional.pad(self.stem.weight, (0, 0, 0, 0, 0, self.spare))
        return nn.functional.conv2d(planes, weight, padding=1)

    def _level(self, level: int, x: Tensor) -> Tensor:
        for block in cast(nn.ModuleList, self.levels[level]):
            x = block(x)
        return x


class Residual(nn.Module):
    """Two convolutions that add to what they read."""

    def __init__(self, width: int, act: Callable[[Tensor], Tensor], branches: int) -> None:
        """`branches`: how many of these the board goes through; together they begin as large as one."""
        super().__init__()
        self.act = act
        self.enter = _conv(width, width)
        self.leave = _conv(width, width, gain=branches**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.act(x + self.leave(self.act(self.enter(x))))


def _conv(inside: int, outside: int, stride: int = 1, gain: float = 2.0**0.5) -> nn.Conv2d:
    """Of a board as large as it was, or with stride 2 half as large, rounded up."""
    layer = nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False)
    nn.init.normal_(layer.weight, std=gain / math.sqrt(9 * inside))
    return layer


def _up(inside: int, outside: int) -> nn.ConvTranspose2d:
    """The way back from half the size."""
    layer = nn.ConvTranspose2d(inside, outside, 3, 2, padding=1, bias=False)
    nn.init.normal_(layer.weight, std=math.sqrt(2.0 / (9 / 4 * inside)))  # a square is reached from 9 / 4
    return layer


def tokens_of(board: Board, patch: int) -> tuple[int, int]:
    """Rows and columns of patches."""
    return -(-board.height // patch), -(-board.width // patch)


def padded(planes: int) -> int:
    return -(-planes // CHANNELS) * CHANNELS


def plane_table(features: TokenFeatures) -> Tensor:
    """[T * padded] the feature of every plane of every token; those of the rest are everywhere the same. What
    pads is any feature, and weighs 0."""
    planes = torch.tensor(features.tokens)
    rest = torch.tensor(features.rest, dtype=torch.long).expand(features.count, -1)
    count = planes.shape[1] + rest.shape[1]
    spare = torch.zeros(features.count, padded(count) - count, dtype=torch.long)
    return torch.cat((planes, rest, spare), dim=1).flatten()


class BoardActions:
    """How logits by square and logits of the whole board become one row in the order of the actions."""

    def __init__(self, board: Board, patch: int) -> None:
        self.board, self.patch = board, patch
        self.of_token = patch * patch * board.square_actions
        self.of_board = board.square_actions + board.single_actions

    def join(self, tokens: Tensor, whole: Tensor) -> Tensor:
        """[N, actions] from [N, T, of_token] and [N, of_board]: the first numbers of `whole` are added to
        every square's, the others are the logits of actions without a square."""
        kinds = self.board.square_actions
        squares = self._squares(tokens) + whole[:, None, :kinds]  # in the wider type of the two
        parts: list[Tensor] = []
        kind = single = 0
        for group in self.board.groups:
            size = len(group.headings)
            if group.each_square:
                parts.append(squares[:, :, kind : kind + size].flatten(1))
                kind += size
            else:
                parts.append(whole[:, kinds + single : kinds + single + size])
                single += size
        return torch.cat(parts, dim=1)

    def _squares(self, tokens: Tensor) -> Tensor:
        """[N, S, kinds] from what the tokens say of their squares."""
        patch, height, width = self.patch, self.board.height, self.board.width
        if patch == 1:
            return tokens
        high, wide = tokens_of(self.board, patch)
        squares = tokens.view(-1, high, wide, patch, patch, self.board.square_actions)
        squares = squares.transpose(2, 3).flatten(3, 4).flatten(1, 2)
        return squares[:, :height, :width].flatten(1, 2)


class Views(nn.Module):
    """The board's symmetries as tables: observations into a view, logits of a view back."""

    features: Tensor
    actions: Tensor

    def __init__(self, spec: GameSpec) -> None:
        super().__init__()
        board, planes = board_of(spec), plane_features(spec).planes
        squares = torch.from_numpy(board.square_views())
        features = torch.arange(spec.schema.features).repeat(board.symmetries, 1)
        for plane in torch.tensor(planes):
            features[:, plane] = plane[squares]
        self.register_buffer("features", features, persistent=False)
        self.register_buffer("actions", torch.from_numpy(board.action_views()), persistent=False)

    def of(self, game: Tensor, seat: Tensor) -> Tensor:
        """The view [N] of seats [N] of games [N] in flight, always the same: neighbouring games and the seats
        of one game have different ones, and all views are met equally often."""
        return (game + seat) % len(self.features)

    def seen(self, floats: Tensor, view: Tensor) -> Tensor:
        """Rows [N, features] as they look in their views [N]."""
        return floats.gather(1, self.features[view])

    def told(self, logits: Tensor, view: Tensor) -> Tensor:
        """Logits [N, actions] of rows in their views, in the game's own numbers."""
        return logits.gather(1, self.actions[view])


@dataclass(frozen=True)
class UNetCost:
    """Of one row."""

    multiply_adds: int
    first: int
    """Those of the first layer."""
    activations: int
    """Numbers between the layers."""


def unet_cost(
    spec: GameSpec, channels: int, halvings: int, blocks: int, squares: bool, patch: int = 1
) -> UNetCost:
    """Multiply-adds of the convolutions; padded planes are multiplied too."""
    height, width = tokens_of(board_of(spec), patch)
    features = patch_features(spec, patch)
    first = 9 * padded(features.channels + len(features.rest)) * channels * height * width
    sums, activations = first, channels * height * width
    for level in range(halvings + 1):
        wide, area = channels << level, height * width
        sums += blocks * 2 * 9 * wide * wide * area
        # A block: two convolutions, one activated, the sum.
        activations += blocks * 4 * wide * area
        if level == halvings:
            break
        height, width = -(-height // 2), -(-width // 2)
        half = height * width
        sums += 9 * wide * 2 * wide * half
        activations += 2 * 2 * wide * half
        if squares:
            sums += 9 * 2 * wide * wide * half + 9 * wide * wide * area
            activations += 4 * wide * area
    return UNetCost(sums, first, activations)
