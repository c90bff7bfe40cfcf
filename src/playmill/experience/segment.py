"""Segments: T successive turns of one slot as packed columns, with an identity. The unit of experience:
what is sent, acknowledged, deduplicated, counted and dropped.

    message    header (160 bytes) | observation | legal | seat | role | driver | action | log_probability |
               value | rewards | over | version, each column padded to 8 bytes

All numbers are little-endian. The sum in the header covers everything behind it, identity included."""

from __future__ import annotations

import functools
import re
import struct
import zlib
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from playmill.games import PlaymillError

MAGIC = b"playsegm"
FORMAT = 1
HEADER = struct.Struct("<8sII64sQQQQIIIIQ16s8s")
"""Magic, sum, format, run, schema hash, actor, epoch, sequence, steps, seats, bytes of an observation, of
legal bits, of the message; trace and span in which it was played, zeros where nobody recorded it."""
SUMMED = 12
"""Where that which the sum covers begins."""
RUN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", re.ASCII)
LIMIT = 1 << 63
"""Numbers of actors, epochs and sequences stay below."""


class BadSegment(PlaymillError):
    """Bytes that are no segment of this run; says why."""


class Identity(NamedTuple):
    """Which segment this is, among all there ever will be."""

    run: str
    actor: int
    epoch: int
    """A new one for each process that takes the place of an actor."""
    sequence: int
    """0, 1, 2 ... without gaps within (actor, epoch)."""


class SegmentShape(NamedTuple):
    """What is the same in all segments of a run."""

    steps: int
    seats: int
    observation_bytes: int
    legal_bytes: int
    schema_hash: int


class Segment(NamedTuple):
    """T turns of one slot; columns are views of the message where it was decoded. S seats."""

    identity: Identity
    observation: npt.NDArray[np.uint8]  # [T, bytes], packed
    legal: npt.NDArray[np.uint8]  # [T, legal_bytes], bits
    seat: npt.NDArray[np.uint8]  # [T]
    role: npt.NDArray[np.uint8]  # [T]
    driver: npt.NDArray[np.uint8]  # [T], 0 where the learner decided
    action: npt.NDArray[np.int32]  # [T]
    log_probability: npt.NDArray[np.float32]  # [T]
    value: npt.NDArray[np.float32]  # [T]
    rewards: npt.NDArray[np.float32]  # [T, S], of all seats, after the action
    over: npt.NDArray[np.uint8]  # [T], the game ended after the action
    version: npt.NDArray[np.uint32]  # [T], of the weights that decided
    traceparent: str = ""
    """Of the span in which it was played, by the W3C's format; empty where nobody recorded it."""


class Column(NamedTuple):
    """Where a column lies in a message."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int


def check_run(run: str) -> str:
    """The name of a run, if it is one: it becomes part of keys and paths."""
    if not isinstance(run, str) or RUN.fullmatch(run) is None:
        raise PlaymillError(
            f"{run!r} cannot name a run: use 1 to 64 letters, digits, _ . and -, not beginning with . or -"
        )
    return run


def check_identity(identity: Identity) -> Identity:
    """An identity whose parts are what they must be."""
    check_run(identity.run)
    for name, number in zip(("actor", "epoch", "sequence"), identity[1:], strict=True):
        if not isinstance(number, int) or not 0 <= number < LIMIT:
            raise PlaymillError(f"{name} must be a whole number from 0 on, got {number!r}")
    return identity


@functools.lru_cache(maxsize=64)
def layout(shape: SegmentShape) -> tuple[tuple[Column, ...], int]:
    """The columns of a message, and its bytes."""
    if min(shape.steps, shape.seats, shape.observation_bytes, shape.legal_bytes) < 1:
        raise PlaymillError(f"a segment needs steps, seats, observation and legal bits, got {shape}")
    steps, seats, observation_bytes, legal_bytes, _ = shape
    kinds: tuple[tuple[str, str, tuple[int, ...]], ...] = (
        ("observation", "u1", (steps, observation_bytes)),
        ("legal", "u1", (steps, legal_bytes)),
        ("seat", "u1", (steps,)),
        ("role", "u1", (steps,)),
        ("driver", "u1", (steps,)),
        ("action", "<i4", (steps,)),
        ("log_probability", "<f4", (steps,)),
        ("value", "<f4", (steps,)),
        ("rewards", "<f4", (steps, seats)),
        ("over", "u1", (steps,)),
        ("version", "<u4", (steps,)),
    )
    columns, offset = [], HEADER.size
    for name, kind, sizes in kinds:
        dtype = np.dtype(kind)
        columns.append(Column(name, dtype, sizes, offset))
        size = dtype.itemsize * int(np.prod(sizes, dtype=np.int64))
        offset += size + -size % 8
    return tuple(columns), offset


def message_bytes(shape: SegmentShape) -> int:
    """Bytes of every message of that shape."""
    return layout(shape)[1]


def encode(segment: Segment, shape: SegmentShape) -> bytearray:
    """The message of a segment."""
    columns, size = layout(shape)
    message = bytearray(size)
    for name, dtype, sizes, offset in columns:
        column = getattr(segment, name)
        if column.shape != sizes or column.dtype != dtype:
            raise PlaymillError(
                f"{name} must be {dtype}{list(sizes)}, got {column.dtype}{list(column.shape)}"
            )
        np.ndarray(sizes, dtype, message, offset)[...] = column
    seal(message, segment.identity, shape, segment.traceparent)
    return message


def seal(message: bytearray, identity: Identity, shape: SegmentShape, traceparent: str = "") -> None:
    """Writes the header of a message whose columns are filled."""
    check_identity(identity)
    run, actor, epoch, sequence = identity
    steps, seats, observation_bytes, legal_bytes, schema_hash = shape
    sizes = (steps, seats, observation_bytes, legal_bytes, len(message))
    name, trace = run.encode("ascii"), bytes.fromhex(traceparent[3:35] + traceparent[36:52])
    head = (MAGIC, 0, FORMAT, name, schema_hash, actor, epoch, sequence, *sizes)
    HEADER.pack_into(message, 0, *head, trace[:16], trace[16:])
    total = zlib.crc32(memoryview(message)[SUMMED:])
    struct.pack_into("<I", message, len(MAGIC), total)


def decode(message: memoryview | bytes | bytearray, shape: SegmentShape, run: str) -> Segment:
    """The segment in a message: views of it, made once every length and sum is known to be right."""
    view = memoryview(message).cast("B")
    columns, size = layout(shape)
    identity, traceparent = _read_header(view, shape, run, size)
    arrays = [np.ndarray(sizes, dtype, view, offset) for _, dtype, sizes, offset in columns]
    segment = Segment._make((identity, *arrays, traceparent))
    _check_rows(segment, shape)
    return segment


def _read_header(view: memoryview, shape: SegmentShape, run: str, size: int) -> tuple[Identity, str]:
    if len(view) < HEADER.size:
        raise BadSegment(f"{len(view)} bytes are too few for a segment")
    found = HEADER.unpack_from(view)
    magic, total, number, name, schema_hash, actor, epoch, sequence = found[:8]
    if magic != MAGIC:
        raise BadSegment("these bytes do not begin as a segment does")
    if number != FORMAT:
        raise BadSegment(f"format {number} is not {FORMAT}: actors and learner must be of one version")
    if len(view) != size or found[12] != size:
        raise BadSegment(f"{len(view):,} bytes, said to be {found[12]:,}; segments of this run have {size:,}")
    if zlib.crc32(view[SUMMED:]) != total:
        raise BadSegment("the sum is wrong: some bytes changed on the way")
    if schema_hash != shape.schema_hash:
        raise BadSegment(
            f"schema {schema_hash:#x} is not {shape.schema_hash:#x}: another game, or other rules"
        )
    if found[8:12] != shape[:4]:
        raise BadSegment(f"{found[8:12]} steps, seats and bytes are not {shape[:4]}")
    if name.rstrip(b"\0") != run.encode("ascii", "replace"):
        raise BadSegment(f"a segment of the run {name.rstrip(bytes(1))!r}, not of {run!r}")
    if max(actor, epoch, sequence) >= LIMIT:
        raise BadSegment("a number of the identity is out of range")
    return Identity(run, actor, epoch, sequence), _traceparent(*found[13:])


def traceparent_of(message: bytes) -> str:
    """The name in the header of a message that this process has sealed."""
    return _traceparent(*HEADER.unpack_from(message)[13:])


def _traceparent(trace: bytes, span: bytes) -> str:
    """Only what was recorded is named, so the flags are always 01."""
    if any(trace) != any(span):
        raise BadSegment("half a name of a span")
    return f"00-{trace.hex()}-{span.hex()}-01" if any(trace) else ""


def _check_rows(segment: Segment, shape: SegmentShape) -> None:
    """What a learner takes for granted: seats that exist, actions that were legal, finite numbers."""
    if int(segment.seat.max()) >= shape.seats:
        raise BadSegment(f"seat {segment.seat.max()} in a game of {shape.seats}")
    if int(segment.over.max()) > 1:
        raise BadSegment("over is neither 0 nor 1")
    if int(segment.action.min()) < 0 or int(segment.action.max()) >= 8 * shape.legal_bytes:
        raise BadSegment("an action that does not exist")
    rows = np.arange(shape.steps)
    bits = segment.legal[rows, segment.action >> 3] >> (segment.action & 7).astype(np.uint8) & 1
    if not bits.all():
        raise BadSegment("an action that was not legal")
    for name in ("log_probability", "value", "rewards"):
        if not np.isfinite(getattr(segment, name)).all():
            raise BadSegment(f"{name} holds what is no number")
