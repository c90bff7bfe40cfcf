"""The memory a client and a server on one host share: a ring of slots, each with a header and room for one
request and its reply.

    slot    header (64 bytes) | columns of the request | columns of the reply
            or                  a message              | a message in its place

The client fills a slot, raises `seq` and sends the slot's number, one byte, over their socket; the server
answers in place, sets `ack` to the `seq` it answered and sends the byte back. The socket is doorbell and
life-line in one: who dies hangs up."""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
import struct
from enum import IntEnum
from typing import NamedTuple

from playmill.games import PlaymillError
from playmill.serving.columns import Answers, C, Columns, Layout, Moves, Seats, States

MAGIC = b"playring"
VERSION = 1
GREETING = struct.Struct("<8sIII")
"""Magic, version, slots, bytes of a slot; the memory comes with it as a file descriptor."""
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
    """Bytes of a message, or of what went wrong."""
    code: int = 0
    """0, or the Code of an error."""


class Ring:
    """Slots in shared memory, seen from either side."""

    def __init__(self, descriptor: int, slots: int, slot_bytes: int) -> None:
        self.slots = slots
        self.slot_bytes = slot_bytes
        self._map = mmap.mmap(descriptor, slots * slot_bytes)
        self.memory = memoryview(self._map)

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

    def columns(
        self, slot: int, layout: Layout, asked: type[C], replied: type[Columns], rows: int
    ) -> tuple[C, Columns] | None:
        """Views of a slot's request and reply, or nothing where they do not fit."""
        begin = slot * self.slot_bytes + HEADER_BYTES
        middle = layout.end(asked, rows, begin)
        if layout.end(replied, rows, middle) > (slot + 1) * self.slot_bytes:
            return None
        return (
            layout.views(asked, rows, self.memory, begin),
            layout.views(replied, rows, self.memory, middle),
        )


def make_memory(slots: int, slot_bytes: int) -> int:
    """Memory without a name, that vanishes with its last user and that nobody can cut short."""
    descriptor = os.memfd_create("playmill", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, slots * slot_bytes)
    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor


def greet(connection: socket.socket, descriptor: int, slots: int, slot_bytes: int) -> None:
    """Hands the memory to a new client."""
    socket.send_fds(connection, [GREETING.pack(MAGIC, VERSION, slots, slot_bytes)], [descriptor])


def join(connection: socket.socket) -> Ring:
    """Takes the memory a server hands over."""
    greeting, descriptors, _, _ = socket.recv_fds(connection, GREETING.size, 1)
    try:
        if len(greeting) != GREETING.size or not descriptors:
            raise PlaymillError("the server hung up: it has too many clients, or is shutting down")
        magic, version, slots, slot_bytes = GREETING.unpack(greeting)
        if magic != MAGIC or version != VERSION:
            raise PlaymillError("that socket is not one of `playmill serve`, or of another version")
        return Ring(descriptors[0], slots, slot_bytes)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
