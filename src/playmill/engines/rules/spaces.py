"""Gymnasium's spaces as fields of a schema, and values of them as packed bytes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from playmill.games import Encoding, PlaymillError

_MOST_HALF = 65504.0
_UNFIT = re.compile(r"[^A-Za-z0-9_.\-]")


class Packed(NamedTuple):
    """One field, and how a value of its space becomes its bytes."""

    field: tuple[Any, ...]  # as Schema.from_native takes it
    pack: Callable[[Any], bytes]


def packed_fields(space: spaces.Space[Any], name: str) -> list[Packed]:
    """The fields of a space, in order. What has no fixed size is refused."""
    name = _UNFIT.sub("_", name)[:64]
    if isinstance(space, spaces.Dict):
        return [
            Packed(part.field, _at(key, part.pack))
            for key, inner in space.spaces.items()
            for part in packed_fields(inner, f"{name}.{key}")
        ]
    if isinstance(space, spaces.Tuple):
        return [
            Packed(part.field, _at(i, part.pack))
            for i, inner in enumerate(space.spaces)
            for part in packed_fields(inner, f"{name}.{i}")
        ]
    if isinstance(space, spaces.MultiBinary):
        return [_bits(name, space.shape)]
    if isinstance(space, spaces.Discrete):
        return [_category(name, (1, 1), int(space.n), int(space.start))]
    if isinstance(space, spaces.MultiDiscrete):
        return [_category(name, _table(space.shape), int(space.nvec.max()), 0)]
    if isinstance(space, spaces.Box):
        return [_box(name, space)]
    raise PlaymillError(
        f"{name} is a {type(space).__name__} space; Box, Discrete, MultiDiscrete, MultiBinary, "
        "and Dict and Tuple of them can be packed"
    )


def _at(key: Any, pack: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    return lambda value: pack(value[key])


def _table(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns: the first axis of what has several, and all the rest."""
    size = int(np.prod(shape))
    if size < 1:
        raise PlaymillError(f"a space of shape {shape} holds nothing")
    rows = shape[0] if len(shape) > 1 else 1
    return rows, size // rows


def _bits(name: str, shape: tuple[int, ...]) -> Packed:
    rows, columns = _table(shape)

    def pack(value: Any) -> bytes:
        return np.packbits(np.reshape(value, (rows, columns)) != 0, axis=1, bitorder="little").tobytes()

    return Packed((name, int(Encoding.BITS), rows, columns, 0, 1.0, ""), pack)


def _category(name: str, table: tuple[int, int], size: int, start: int) -> Packed:
    if size > 255:  # too many to be told apart one by one: the number itself
        if size > 65536:
            raise PlaymillError(f"{name} has {size:,} values; at most 65,536 can be packed")
        return _numbers(name, table, Encoding.U16, "<u2", 1 / (size - 1), start)
    rows, columns = table

    def pack(value: Any) -> bytes:
        return (np.asarray(value, np.int64) - start).astype(np.uint8).tobytes()

    return Packed((name, int(Encoding.CATEGORY), rows, columns, size, 1.0, ""), pack)


def _numbers(
    name: str, table: tuple[int, int], encoding: Encoding, kind: str, scale: float, start: int = 0
) -> Packed:
    scale = float(np.float32(scale))

    def pack(value: Any) -> bytes:
        return (np.asarray(value, np.int64) - start).astype(kind).tobytes()

    return Packed((name, int(encoding), *table, 0, scale, ""), pack)


def _box(name: str, space: spaces.Box) -> Packed:
    table = _table(space.shape)
    low, high = float(space.low.min()), float(space.high.max())
    if space.dtype.kind in "biu":
        if low >= 0 and high <= 1:
            return _bits(name, space.shape)
        if low >= 0 and high <= 255:
            return _numbers(name, table, Encoding.U8, "u1", 1 / high)
        if low >= -32768 and high <= 32767:
            return _numbers(name, table, Encoding.I16, "<i2", 1 / max(-low, high))

    def pack(value: Any) -> bytes:
        floats = np.asarray(value, np.float64)
        if not np.isfinite(floats).all():
            raise PlaymillError(f"{name} holds a number that is not finite")
        return np.clip(floats, -_MOST_HALF, _MOST_HALF).astype("<f2").tobytes()

    return Packed((name, int(Encoding.F16), *table, 0, 1.0, ""), pack)
