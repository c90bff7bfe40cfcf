"""How requests and replies lie in memory on one host: in slots, each with a header and room for one request
and its reply.

    slot    header (64 bytes) | columns of the request | columns of the reply
            or                  a message              | a message in its place

Two carriers take slots from a client to its server and back. Through shared memory (shared.py) both have the
same ring of slots: the client fills one, raises `seq` and sends the slot's number, one byte, over their
socket; the server answers in place, sets `ack` to the `seq` it answered and sends the byte back. As frames
(frames.py) each has one slot of its own, and the header and the `size` bytes after it travel over the socket
itself. The socket is life-line too: who dies hangs up."""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
import struct
from enum import IntEnum
from typing import Any, NamedTuple

from playmill.games import PlaymillError
from playmill.serving.columns import Answers, Columns, Layout, Moves, Seats, States
from playmill.serving.errors import Code, ServiceError

SHARED, FRAMES = b"playring", b"playfram"
"""What a server greets its clients with, by carrier."""
VERSION = 2
GREETING = struct.Struct("<8sIII")
"""Carrier, version, slots, bytes of a slot; shared memory comes with it as a file descriptor."""
HEADER = struct.Struct("<QQIIIII")
HEADER_BYTES = 64
SLOTS = 8
BELLS = tuple(bytes((slot,)) for slot in range(256))


class Call(IntEnum):
    """What a slot asks for. From MESSAGE on it holds a message, numbered as METHODS lists them."""

    STATES = 1
    SUBMIT = 2
    MESSAGE = 16


KINDS: dict[int, tuple[type[Columns], type[Columns]]] = {
    Call.STATES: (Seats, States),
    Call.SUBMIT: (Moves, Answers),
}


class Header(NamedTuple):
    """The head of a slot."""

    seq: int = 0
    ack: int = 0
    call: int = 0
    hall: int = 0
    rows: int = 0
    size: int = 0
    """Bytes of the columns or the message that is asked or replied, or of what went wrong."""
    code: int = 0
    """0, or the Code of an error."""


class Places(NamedTuple):
    """The columns of a request and its reply, and where those of the reply begin and end in their slot."""

    asked: Any
    replied: Any
    middle: int
    end: int


class Ring:
    """Slots, seen from either side."""

    VIEWS = 256
    """Sizes of batches whose views are kept."""

    def __init__(self, slots: int, slot_bytes: int, descriptor: int = -1) -> None:
        """In memory of one's own, or in that behind the descriptor."""
        self.slots = slots
        self.slot_bytes = slot_bytes
        self.memory = memoryview(mmap.mmap(descriptor, slots * slot_bytes))
        self._places: dict[tuple[int, int, int, int], Places] = {}

    def read(self, slot: int) -> Header:
        return Header(*HEADER.unpack_from(self.memory, slot * self.slot_bytes))

    def write(self, slot: int, head: Header) -> None:
        HEADER.pack_into(self.memory, slot * self.slot_bytes, *head)

    def payload(self, slot: int, size: int) -> memoryview:
        """The first `size` bytes after the header."""
        begin = slot * self.slot_bytes + HEADER_BYTES
        return self.memory[begin : begin + size]

    def room(self) -> int:
        return self.slot_bytes - HEADER_BYTES

    def places(self, slot: int, call: int, hall: int, rows: int, layout: Layout) -> Places:
        """Views of a slot's request and reply."""
        key = (slot, call, hall, rows)
        found = self._places.get(key)
        if found is None:
            asked, replied = KINDS[call]
            begin = slot * self.slot_bytes
            middle = layout.end(asked, rows, begin + HEADER_BYTES)
            end = layout.end(replied, rows, middle)
            if end > begin + self.slot_bytes:
                raise ServiceError(Code.RESOURCE_EXHAUSTED, f"{rows:,} rows do not fit one request")
            if len(self._places) >= self.VIEWS:
                self._places.clear()
            found = self._places[key] = Places(
                layout.views(asked, rows, self.memory, begin + HEADER_BYTES),
                layout.views(replied, rows, self.memory, middle),
                middle - begin,
                end - begin,
            )
        return found


def slot_size(message: int) -> int:
    """Bytes of a slot for messages up to that size: whole pages."""
    size = message + HEADER_BYTES
    return size + -size % mmap.PAGESIZE


def make_memory(slots: int, slot_bytes: int) -> int:
    """Memory without a name, that vanishes with its last user and that nobody can cut short."""
    descriptor = os.memfd_create("playmill", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, slots * slot_bytes)
    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor


def greet(connection: socket.socket, carrier: bytes, ring: Ring, descriptor: int | None = None) -> None:
    """Tells a new client how the ring is made, and hands over the memory if it is shared."""
    greeting = GREETING.pack(carrier, VERSION, ring.slots, ring.slot_bytes)
    if descriptor is None:
        connection.sendall(greeting)
    else:
        socket.send_fds(connection, [greeting], [descriptor])


def join(connection: socket.socket, carrier: bytes) -> Ring:
    """The client's side of the ring: the memory the server hands over, or its own of the same size."""
    greeting, descriptors, _, _ = socket.recv_fds(connection, GREETING.size, 1)
    try:
        if len(greeting) != GREETING.size:
            raise PlaymillError("the server hung up: it has too many clients, or is shutting down")
        found, version, slots, slot_bytes = GREETING.unpack(greeting)
        if (found, version, bool(descriptors)) != (carrier, VERSION, carrier == SHARED):
            raise PlaymillError("that socket is for something else: mind shared: and frames:, and versions")
        return Ring(slots, slot_bytes, *descriptors)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
