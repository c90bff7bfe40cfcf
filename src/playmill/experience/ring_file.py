"""A ring in a file: one process writes records, one reads them, and either may be killed at any byte.

    file      header (a page) | capacity bytes of records
    record    length, sequence (8 bytes each) | message, padded to 16 bytes
              or a length of all ones: the rest up to the end is skipped

Positions count bytes for ever; a record lies at its position modulo the capacity, in one piece. The ring
holds the sequences from `acked` on without a gap, so that two words say it all:

- `produced`, written by the writer alone: how many records there ever were. Storing it commits a record. The
  position behind it was put beforehand into one of two places, by the count's last bit, so that the one which
  is valid is never written to.
- `acked`, written by the reader alone: the position up to which room is free again.

What is relied on: aligned stores and loads of 8 bytes are whole (x86-64 and AArch64 say so, and memoryviews
copy an item of 8 bytes by one move), the kernel keeps shared pages when a process dies, and `fence` keeps
stores and loads in order on machines that reorder them."""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import struct
import threading
from pathlib import Path

from playmill.games import PlaymillError

MAGIC = b"playrng1"
FACTS = struct.Struct("<8sQ32sQQ")
"""Magic, capacity, hash of the run, actor, epoch."""
HEADER = 4096
RECORD = struct.Struct("<QQ")
SKIP = (1 << 64) - 1
ALIGN = 16
# Words of the header, each on a cache line of its own.
PRODUCED, HEADS, ACKED, READ = 16, (24, 25), 32, 40


class BadRing(PlaymillError):
    """A file that is no ring of this run, or holds what no writer writes."""


_turnstile = threading.Lock()


def fence() -> None:
    """No store or load moves across: a lock let go and taken again is a barrier on every machine."""
    with _turnstile:
        pass
    with _turnstile:
        pass


def run_hash(run: str) -> bytes:
    return hashlib.sha256(run.encode()).digest()


def padded(size: int) -> int:
    return size + -size % ALIGN


class RingFile:
    """A mapped ring. The file stays locked as long as its writer, or a fork of it, lives."""

    def __init__(self, path: Path, descriptor: int, capacity: int, actor: int, epoch: int) -> None:
        self.path = path
        self.descriptor = descriptor
        self.capacity = capacity
        self.actor = actor
        self.epoch = epoch
        flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
        memory = memoryview(mmap.mmap(descriptor, HEADER + capacity, flags))
        self.words = memory[:HEADER].cast("Q")
        self.bytes = memory[HEADER:]

    @classmethod
    def create(cls, path: Path, run: str, actor: int, epoch: int, capacity: int) -> RingFile:
        """A new ring, locked by this process. It gets its name when it is whole."""
        capacity = max(padded(capacity), mmap.PAGESIZE)
        half = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(half, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # All of it now: memory that runs out later would be a bus error, not an exception.
            os.posix_fallocate(descriptor, 0, HEADER + capacity)
            os.pwrite(descriptor, FACTS.pack(MAGIC, capacity, run_hash(run), actor, epoch), 0)
            os.link(half, path)
        except FileExistsError:
            os.close(descriptor)
            raise PlaymillError(
                f"{path} exists: every process of an actor needs an epoch of its own"
            ) from None
        except OSError as error:
            os.close(descriptor)
            raise PlaymillError(
                f"no room for a ring of {capacity >> 20} MB at {path}: {error.strerror}"
            ) from error
        finally:
            half.unlink()
        return cls(path, descriptor, capacity, actor, epoch)

    @classmethod
    def open(cls, path: Path, run: str) -> RingFile:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            facts = os.pread(descriptor, FACTS.size, 0)
            if len(facts) < FACTS.size:
                raise BadRing(f"{path} is too short for a ring")
            magic, capacity, found, actor, epoch = FACTS.unpack(facts)
            if magic != MAGIC:
                raise BadRing(f"{path} is no ring, or one of another version")
            if found != run_hash(run):
                raise BadRing(f"{path} is a ring of another run")
            if os.fstat(descriptor).st_size != HEADER + capacity or capacity % ALIGN or capacity == 0:
                raise BadRing(f"{path} has not the size it says")
            return cls(path, descriptor, capacity, actor, epoch)
        except Exception:
            os.close(descriptor)
            raise

    def committed(self) -> tuple[int, int]:
        """How many records there are, and the position behind them: read as one."""
        while True:
            produced = self.words[PRODUCED]
            fence()
            head = self.words[HEADS[produced & 1]]
            fence()
            if self.words[PRODUCED] == produced:
                return produced, head

    def commit(self, produced: int, head: int) -> None:
        self.words[HEADS[produced & 1]] = head
        fence()
        self.words[PRODUCED] = produced

    def record(self, position: int, head: int) -> tuple[int, int, int]:
        """The record at a position below `head`: where its message begins, its length, its sequence."""
        at = position % self.capacity
        length, sequence = RECORD.unpack_from(self.bytes, at)
        if length == SKIP:
            position += self.capacity - at
            at = 0
            length, sequence = RECORD.unpack_from(self.bytes, 0)
        end = position + RECORD.size + padded(length)
        if position >= head or end > head or at + RECORD.size + length > self.capacity:
            raise BadRing(f"{self.path} holds a record that runs over its end")
        return position + RECORD.size, length, sequence

    def acknowledged(self) -> tuple[int, int, int, int]:
        """How many records were acknowledged, up to which position, and what is committed: a view in passing,
        also for those who neither read nor write."""
        while True:
            acked = self.words[ACKED]
            fence()
            produced, head = self.committed()
            if acked >= head:
                return produced, head, produced, head
            try:
                sequence = self.record(acked, head)[2]
            except BadRing:
                sequence = -1
            fence()
            if self.words[ACKED] == acked:
                if not 0 <= sequence < produced:
                    raise BadRing(f"{self.path} holds what no writer writes")
                return sequence, acked, produced, head

    def writer_lives(self) -> bool:
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        return False

    def close(self) -> None:
        """Lets go of the file; the memory lives as long as views of it."""
        if self.descriptor >= 0:
            # The mapping has a descriptor of its own, which would keep the lock.
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)
            os.close(self.descriptor)
            self.descriptor = -1
