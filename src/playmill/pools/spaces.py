"""What the adapters for Gymnasium and PettingZoo share: spaces, masks and words."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from playmill import _native
from playmill.games import Encoding, Field, GameSpec, PlaymillError, Schema, unknown

ObservationKind = Literal["expanded", "packed"]
Mask = npt.NDArray[np.int8]
Observation = npt.NDArray[Any]

_RANGE = {
    Encoding.BITS: (0, 1),
    Encoding.U8: (0, 255),
    Encoding.U16: (0, 65535),
    Encoding.I16: (-32768, 32767),
    Encoding.LOG16: (0, 16),  # log2(1 + 65535)
    Encoding.CATEGORY: (0, 1),
    Encoding.F16: (-131008, 131008),
}
_MARKUP = re.compile(r"\[/?[a-z0-9_ #]*\]")


def field_bounds(field: Field) -> tuple[np.float32, np.float32]:
    """The least and the greatest float that a field can expand to."""
    low, high = (np.float32(v) * np.float32(field.scale) for v in _RANGE[field.encoding])
    if field.encoding is Encoding.LOG16:  # the fast logarithm may be off in its last bit
        high = np.nextafter(high, high * 2)
    return min(low, high), max(low, high)


def observation_box(schema: Schema, kind: ObservationKind) -> spaces.Box:
    """The space of one seat's observation: floats [features], or the packed row [bytes]."""
    if kind == "packed":
        return spaces.Box(0, 255, (schema.bytes,), np.uint8)
    low, high = np.zeros((2, schema.features), np.float32)
    for field in schema.fields:
        part = slice(field.feature, field.feature + field.features)
        low[part], high[part] = field_bounds(field)
    return spaces.Box(low, high, dtype=np.float32)


class View:
    """Observations in the form the caller asked for, always in fresh arrays."""

    def __init__(self, spec: GameSpec, kind: ObservationKind, threads: int = 1) -> None:
        if kind not in get_args(ObservationKind):
            raise unknown("kind of observation", kind, get_args(ObservationKind))
        self.space = observation_box(spec.schema, kind)
        self._features = spec.schema.features if kind == "expanded" else 0
        self._expand = _native.Expander(spec.schema.to_native(), threads).expand
        self._buffer = bytearray(spec.schema.bytes)
        self._row = np.frombuffer(self._buffer, np.uint8).reshape(1, -1)

    def one(self, packed: bytes) -> Observation:
        """[features] or [bytes] of one packed row."""
        self._buffer[:] = packed
        if not self._features:
            return self._row.reshape(-1).copy()
        out = np.empty((1, self._features), np.float32)
        self._expand(self._row, out)
        return out.reshape(-1)

    def many(self, packed: npt.NDArray[np.uint8]) -> Observation:
        """[n, features] or [n, bytes] of packed rows [n, bytes]."""
        if not self._features:
            return packed.copy()
        out = np.empty((len(packed), self._features), np.float32)
        self._expand(packed, out)
        return out


class LegalMask:
    """Legal bits of one game as a fresh int8 row."""

    def __init__(self, spec: GameSpec) -> None:
        self._actions = spec.actions
        self._buffer = bytearray(spec.legal_bytes)
        self._bits = np.frombuffer(self._buffer, np.uint8)

    def __call__(self, legal_bits: bytes) -> Mask:
        self._buffer[:] = legal_bits
        return np.unpackbits(self._bits, count=self._actions, bitorder="little").view(np.int8)


def mask_rows(spec: GameSpec, legal: npt.NDArray[np.uint8]) -> Mask:
    """Legal bits [n, legal_bytes] as ones [n, actions]."""
    return np.unpackbits(legal, axis=1, count=spec.actions, bitorder="little").view(np.int8)


class LegalActions(spaces.Discrete):
    """All actions of a game, as a space whose plain `sample()` draws one that is legal now.

    Gymnasium's checker seeds the space, samples, and only then resets the environment with the
    same seed: so from `seed(s)` to the next reset, samples are first moves of the game that
    `reset(seed=s)` deals. Copies (pickles, batches) have no game behind them and are plain
    `Discrete` spaces."""

    def __init__(self, actions: int, legal: Callable[[], Mask], opening: Callable[[int], Mask]) -> None:
        super().__init__(actions)
        self._legal, self._opening = legal, opening
        self._ahead: Mask | None = None

    def began(self) -> None:
        """A new game has been dealt."""
        self._ahead = None

    def seed(self, seed: int | None = None) -> Any:
        result = super().seed(seed)
        self._ahead = None if seed is None else self._opening(seed)
        return result

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        if mask is None and probability is None:
            mask = self._legal() if self._ahead is None else self._ahead
        return super().sample(mask, probability)

    def __reduce__(self) -> tuple[Any, ...]:
        return spaces.Discrete, (int(self.n),)


def opponent_numbers(spec: GameSpec, opponents: str | Sequence[str]) -> list[int]:
    """Bot numbers for the seats after the player's own, in order of play."""
    named = [opponents] * (spec.seats - 1) if isinstance(opponents, str) else list(opponents)
    if len(named) != spec.seats - 1:
        raise PlaymillError(
            f"{spec.name} has {spec.seats - 1} other seats, got {len(named)} opponents; "
            "name one for all of them, or one for each"
        )
    return [spec.bot(name) for name in named]


def check_seat(spec: GameSpec, seat: int | None) -> None:
    """Raises unless `seat` is at the table (or left open)."""
    if seat is not None and not 0 <= seat < spec.seats:
        raise PlaymillError(f"{spec.name} has seats 0 to {spec.seats - 1}, got {seat}")


def plain(markup: str) -> str:
    """Text without rich's markup."""
    return _MARKUP.sub("", markup)
