"""The layout of safetensors, written into and read from memory in place.

    8 bytes: size of the header | header (JSON, padded to 8 bytes) | the tensors, one after another

The library makes two copies each way, in fresh memory whose pages cost more than the copies do, and weights
go to every actor again and again. What is written here the library reads, and the other way round.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
Tensors = dict[str, Array]

DTYPES = {
    name: np.dtype(code)
    for name, code in {
        "F64": "<f8",
        "F32": "<f4",
        "F16": "<f2",
        "I64": "<i8",
        "I32": "<i4",
        "I16": "<i2",
        "I8": "|i1",
        "U64": "<u8",
        "U32": "<u4",
        "U16": "<u2",
        "U8": "|u1",
        "BOOL": "|b1",
    }.items()
}
NOTES = "__metadata__"
MOST_HEADER = 16 << 20

_NAMES = {dtype: name for name, dtype in DTYPES.items()}


class Draft(NamedTuple):
    """Tensors that are about to be written."""

    header: bytes
    arrays: list[Array]
    size: int
    """Bytes of header and tensors together."""

    def write(self, out: memoryview) -> None:
        """Fills `out`, which has `size` bytes."""
        out[: len(self.header)] = self.header
        at = len(self.header)
        for array in self.arrays:
            there = np.frombuffer(out, array.dtype, array.size, at).reshape(array.shape)
            np.copyto(there, array)
            at += array.nbytes


def draft(tensors: Mapping[str, Array], notes: Mapping[str, str]) -> Draft:
    """Plans the layout; a ValueError says which tensor has no place in it."""
    entries: dict[str, Any] = {NOTES: dict(notes)}
    arrays: list[Array] = []
    at = 0
    # Wide numbers first, so that all are aligned.
    for name, array in sorted(
        tensors.items(), key=lambda item: (-np.asarray(item[1]).itemsize, str(item[0]))
    ):
        array = np.asarray(array)
        kind = _NAMES.get(array.dtype)
        if kind is None or not isinstance(name, str) or name == NOTES:
            raise ValueError(f"{name!r} of type {array.dtype}")
        entries[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        arrays.append(array)
        at += array.nbytes
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    header = len(text).to_bytes(8, "little") + text
    return Draft(header, arrays, len(header) + at)


def read_header(data: memoryview) -> tuple[dict[str, Any], int]:
    """The entries, and where the tensors begin; ValueError where the bytes are not of this layout."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > min(len(data) - 8, MOST_HEADER):
        raise ValueError("the header is cut short or too long")
    try:
        entries = json.loads(bytes(data[8 : 8 + size]))
    except RecursionError:
        raise ValueError("the header is nested too deep") from None
    if not isinstance(entries, dict):
        raise ValueError("the header is no table of tensors")
    return entries, 8 + size


def read_notes(data: memoryview) -> dict[str, Any]:
    """What was noted beside the tensors."""
    notes = read_header(data)[0].get(NOTES)
    if not isinstance(notes, dict):
        raise ValueError("there are no notes in the header")
    return notes


def read(data: memoryview) -> Tensors:
    """The tensors, as views of these bytes."""
    entries, begin = read_header(data)
    return {name: _view(entry, data, begin) for name, entry in entries.items() if name != NOTES}


def _view(entry: Any, data: memoryview, begin: int) -> Array:
    """One tensor; nothing is believed that was not checked."""
    try:
        dtype, shape, (start, end) = DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
        if any(type(number) is not int or number < 0 for number in (*shape, start, end)):
            raise ValueError("a shape or place that is none")
        count = math.prod(shape)
        if len(shape) > 32 or end - start != count * dtype.itemsize or end > len(data) - begin:
            raise ValueError("a shape and a place that do not fit each other")
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"a tensor of no known kind ({error})") from None
    return np.frombuffer(data, dtype, count, begin + start).reshape(shape)
