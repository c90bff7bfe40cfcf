"""A batch of segments in the words that Redis reads, without a copy of large messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from playmill.experience.segment import Identity

JOINED = 16 << 10
"""Messages up to that size are copied behind their head; larger ones are sent from where they are."""
NAME, MESSAGE = b"i", b"m"
"""Fields of an entry: whose and which it is, as ACTOR:EPOCH:SEQUENCE, and the segment."""
BESIDES = 5
"""Replies to a batch beside one for each entry; the last is that of the transaction."""


class Keys(NamedTuple):
    """The keys of a run that a batch writes to."""

    experience: bytes
    waiting: bytes
    produced: bytes


def transaction(keys: Keys, batch: list[tuple[Identity, bytes]]) -> Iterator[bytes]:
    """Entries, their names and the marks of how many were produced, all or none; the stream's new length."""
    marks: dict[bytes, bytes] = {}
    names = []
    head = _command(b"MULTI")
    for (_, actor, epoch, sequence), message in batch:
        name = b"%d:%d:%d" % (actor, epoch, sequence)
        head += b"*7\r\n" + _bulks(b"XADD", keys.experience, b"*", NAME, name, MESSAGE)
        head += b"$%d\r\n" % len(message)
        if len(message) <= JOINED:
            head += message
        else:
            yield head
            yield message
            head = b""
        head += b"\r\n"
        marks[b"%d:%d" % (actor, epoch)] = b"%d" % (sequence + 1)
        names.append(name)
    head += _command(b"SADD", keys.waiting, *names)
    head += _command(b"HSET", keys.produced, *(part for mark in marks.items() for part in mark))
    yield head + _command(b"XLEN", keys.experience) + _command(b"EXEC")


def _bulks(*parts: bytes) -> bytes:
    return b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


def _command(*parts: bytes) -> bytes:
    return b"*%d\r\n" % len(parts) + _bulks(*parts)
