"""The packed layout of an observation, as Python values. The native core owns the meaning
of every byte; this module describes it, takes rows apart for people and tests, and is the
slow reference that the fast expansions must equal."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt


class Encoding(IntEnum):
    """How a field's values lie in the packed row; the numbers are the native core's."""

    BITS = 0
    U8 = 1
    U16 = 2
    I16 = 3
    LOG16 = 4
    CATEGORY = 5
    F16 = 6


@dataclass(frozen=True)
class Field:
    """A named table of `rows` x `columns` values in one encoding."""

    name: str
    encoding: Encoding
    rows: int
    columns: int
    size: int
    """Categories, for CATEGORY; otherwise 0."""
    scale: float
    """What a number is multiplied by when it is expanded."""
    counted: str
    """The field that says how many rows are live; empty: all are."""
    offset: int
    """First byte in the packed row."""
    feature: int
    """First float in the expanded row."""

    @property
    def row_bytes(self) -> int:
        if self.encoding is Encoding.BITS:
            return (self.columns + 7) // 8
        return self.columns * (1 if self.encoding in (Encoding.U8, Encoding.CATEGORY) else 2)

    @property
    def features(self) -> int:
        return self.rows * self.columns * (self.size if self.encoding is Encoding.CATEGORY else 1)


@dataclass(frozen=True)
class Schema:
    """All fields of a game's observation, in order."""

    fields: tuple[Field, ...]
    hash: int

    @classmethod
    def from_native(cls, fields: list[tuple[Any, ...]], schema_hash: int) -> Schema:
        out: list[Field] = []
        offset = feature = 0
        for name, encoding, rows, columns, size, scale, counted in fields:
            field = Field(name, Encoding(encoding), rows, columns, size, scale, counted, offset, feature)
            offset += rows * field.row_bytes
            feature += field.features
            out.append(field)
        return cls(tuple(out), schema_hash)

    def to_native(self) -> list[tuple[Any, ...]]:
        """The fields as the native Expander takes them."""
        return [(f.name, int(f.encoding), f.rows, f.columns, f.size, f.scale, f.counted) for f in self.fields]

    @cached_property
    def bytes(self) -> int:
        """Length of a packed row."""
        return sum(f.rows * f.row_bytes for f in self.fields)

    @cached_property
    def features(self) -> int:
        """Length of an expanded row."""
        return sum(f.features for f in self.fields)

    def unpack(self, packed: npt.NDArray[np.uint8]) -> dict[str, npt.NDArray[np.int64]]:
        """Raw integers by field: [..., rows, columns] from packed [..., bytes]. Half floats as their bits."""
        return {f.name: _unpack(f, packed) for f in self.fields}

    def expand(self, packed: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """Floats [n, features] from packed [n, bytes]; slow and plain, the reference."""
        raw = self.unpack(packed)
        out = np.zeros((len(packed), self.features), np.float32)
        for f in self.fields:
            values = raw[f.name]
            if f.encoding is Encoding.CATEGORY:
                floats = (values[..., None] == np.arange(f.size)).astype(np.float32)
            elif f.encoding is Encoding.LOG16:
                floats = np.log2(1.0 + values.astype(np.float32)) * np.float32(f.scale)
            elif f.encoding is Encoding.F16:
                floats = half_values(values) * np.float32(f.scale)
            else:
                floats = values.astype(np.float32) * np.float32(f.scale)
            if f.counted:
                live = np.arange(f.rows) < raw[f.counted].reshape(-1, 1)
                floats = floats * live.reshape(live.shape + (1,) * (floats.ndim - 2))
            out[:, f.feature : f.feature + f.features] = floats.reshape(len(packed), -1)
        return out


def half_values(bits: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """Half floats from their bits. The exponent of infinity and NaN counts on (65536 and more): every row
    expands to finite numbers, whoever wrote it."""
    magnitude = ((bits & 0x7FFF) << 13).astype(np.uint32).view(np.float32) * np.float32(2.0**112)
    return np.where(bits & 0x8000, -magnitude, magnitude)


def _unpack(field: Field, packed: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    lead = packed.shape[:-1]
    part = packed[..., field.offset : field.offset + field.rows * field.row_bytes]
    part = np.ascontiguousarray(part).reshape(*lead, field.rows, field.row_bytes)
    if field.encoding is Encoding.BITS:
        part = np.unpackbits(part, axis=-1, count=field.columns, bitorder="little")
    elif field.encoding in (Encoding.U16, Encoding.LOG16, Encoding.F16):
        part = part.view("<u2")
    elif field.encoding is Encoding.I16:
        part = part.view("<i2")
    return part.astype(np.int64)
