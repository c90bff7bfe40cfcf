"""Weights in the shared memory of one host.

    file     head (one page) | buffer | buffer | ...
    head     magic, format, buffers, bytes of a buffer; then two words of 8 bytes:
             newest (version << 8 | number of its buffer), moved (this file has a successor)
    buffer   version, size, sha256 (64 bytes) | the blob

The publisher fills a buffer that `newest` does not name, and then stores that one word. So whoever is killed
at whatever byte, `newest` names a whole version. A reader copies, sees that the buffer still holds the same
version, and checks the hash of its copy: being overtaken, or another order of stores, is found out and tried
again. A file is made under another name and renamed, so that nobody sees half of one.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import mmap
import os
import stat
import struct
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from playmill.experience.segment import check_run
from playmill.experience.weights import (
    MOST_BYTES,
    BadWeights,
    Blob,
    Follower,
    NoWeights,
    Publisher,
    WeightsError,
    checked,
    fits,
    grows,
    prepare,
)
from playmill.experience.weights_format import Array

MAGIC = b"playwght"
FORMAT = 1
BUFFERS = 4
HEAD = struct.Struct("<8sIIQ")
BUFFER = struct.Struct("<QQ32s")
BUFFER_HEAD = 64
NEWEST, MOVED = 8, 9
"""Which words of the head, counted in 8 bytes. Words are stored through a cast view, in one instruction."""
TRIES = 200
SURE = 3
"""So often a wrong hash of one and the same version means that it is damaged."""


class WeightsInUse(WeightsError):
    """Another process publishes there."""


def shared_path(run: str, folder: Path = Path("/dev/shm")) -> Path:
    """Where a run's weights lie on this host, by default."""
    return folder / f"playmill-{os.geteuid()}-{check_run(run)}.weights"


def remove_shared(path: Path) -> None:
    """Removes a run's weights, once it is over; nobody may publish there."""
    for place in (path, path.with_name(f"{path.name}.lock")):
        with contextlib.suppress(OSError):
            place.unlink(missing_ok=True)


class _Memory:
    """A mapped file of weights; the views are let go before the map."""

    def __init__(self, descriptor: int, path: Path, writable: bool) -> None:
        found = os.fstat(descriptor)
        head = os.pread(descriptor, HEAD.size, 0)
        if len(head) < HEAD.size or head[:8] != MAGIC:
            raise BadWeights(f"{path} is not a file of weights; remove it or name another path")
        self.buffers: int
        self.stride: int
        _, version, self.buffers, self.stride = HEAD.unpack(head)
        if version != FORMAT:
            raise BadWeights(f"{path} is of another version of Playmill (format {version}); remove it")
        whole = 2 <= self.buffers <= 256 and self.stride % mmap.PAGESIZE == 0 and self.stride > 0
        if not whole or found.st_size != mmap.PAGESIZE + self.buffers * self.stride:
            raise BadWeights(f"{path} is damaged: its size does not fit its head; remove it")
        self.file = (found.st_dev, found.st_ino)
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        self._map = mmap.mmap(descriptor, found.st_size, access=access)
        self.bytes = memoryview(self._map)
        self.words = self.bytes[: mmap.PAGESIZE].cast("Q")

    @property
    def room(self) -> int:
        return self.stride - BUFFER_HEAD

    def start(self, index: int) -> int:
        return mmap.PAGESIZE + index * self.stride

    def store(self, version: int, size: int, fill: Callable[[memoryview], bytes]) -> None:
        """Has the next buffer filled, then names it the newest. `fill` returns the sha256."""
        word = self.words[NEWEST]
        index = ((word & 0xFF) + 1) % self.buffers if word else 0
        start = self.start(index)
        BUFFER.pack_into(self.bytes, start, 0, 0, b"")
        with self.bytes[start + BUFFER_HEAD : start + BUFFER_HEAD + size] as room:
            sha256 = fill(room)
        BUFFER.pack_into(self.bytes, start, version, size, sha256)
        self.words[NEWEST] = version << 8 | index

    def close(self) -> None:
        self.words.release()
        self.bytes.release()
        self._map.close()


def _open(path: Path, writable: bool) -> _Memory:
    # Shared folders are everybody's: a link or another user's file is not followed.
    flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        raise NoWeights(f"nothing was published at {path} yet") from None
    except OSError as error:
        raise WeightsError(f"{path} cannot be opened: {error.strerror}") from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid not in (os.geteuid(), 0):
            raise BadWeights(f"{path} is not a file of this user's; remove it or name another path")
        return _Memory(descriptor, path, writable)
    finally:
        os.close(descriptor)


class SharedPublisher(Publisher):
    """Publishes to every process of this host. The file is made, and made larger, as it is needed."""

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        self.path = Path(path)
        self._most = most_bytes
        self._lock = self._hold()
        self._memory: _Memory | None = None
        try:
            with contextlib.suppress(NoWeights):
                self._memory = _open(self.path, writable=True)
        except WeightsError:
            os.close(self._lock)
            raise

    def newest(self) -> int:
        return 0 if self._memory is None else self._memory.words[NEWEST] >> 8

    def publish(self, version: int, tensors: Mapping[str, Array]) -> None:
        _, draft = prepare(version, tensors)

        def fill(room: memoryview) -> bytes:
            draft.write(room)
            return hashlib.sha256(room).digest()

        self._store(version, draft.size, fill)

    def put(self, blob: Blob) -> None:
        def fill(room: memoryview) -> bytes:
            room[:] = blob.data
            return blob.sha256

        self._store(blob.version, len(blob.data), fill)

    def close(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _store(self, version: int, size: int, fill: Callable[[memoryview], bytes]) -> None:
        fits(size, self._most)
        grows(version, self.newest())
        old = self._memory
        if old is not None and size <= old.room and not old.words[MOVED] and not self._removed(old):
            old.store(version, size, fill)
            return
        beside, memory = self._make(size)
        memory.store(version, size, fill)
        if old is not None:
            # Readers of the old file look for another from now on, and keep to it until there is one.
            old.words[MOVED] = 1
        beside.replace(self.path)
        self._memory = memory
        if old is not None:
            old.close()

    def _hold(self) -> int:
        """One publisher at a time, until it is closed or dies."""
        lock = self.path.with_name(f"{self.path.name}.lock")
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise WeightsError(f"{lock} cannot be made: {error.strerror}; name another path") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise WeightsInUse(f"another process publishes weights at {self.path}") from None
        return descriptor

    def _removed(self, memory: _Memory) -> bool:
        try:
            found = self.path.stat(follow_symlinks=False)
        except OSError:
            return True
        return (found.st_dev, found.st_ino) != memory.file

    def _make(self, size: int) -> tuple[Path, _Memory]:
        """A new file for weights of that size, beside the place it will have."""
        beside = self.path.with_name(f".{self.path.name}.new")
        descriptor = -1
        try:
            beside.unlink(missing_ok=True)
            descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            wanted = size + size // 8 + BUFFER_HEAD
            stride = wanted + -wanted % mmap.PAGESIZE
            # Taken now: where shared memory is short this is an error, and a write later would be SIGBUS.
            os.posix_fallocate(descriptor, 0, mmap.PAGESIZE + BUFFERS * stride)
            os.pwrite(descriptor, HEAD.pack(MAGIC, FORMAT, BUFFERS, stride), 0)
            return beside, _Memory(descriptor, beside, writable=True)
        except OSError as error:
            if descriptor >= 0:
                beside.unlink(missing_ok=True)
            raise WeightsError(f"no room for the weights at {self.path}: {error.strerror}") from error
        finally:
            if descriptor >= 0:
                os.close(descriptor)


class SharedFollower(Follower):
    """Reads what this host's publisher or relay wrote. The file may come later."""

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        self.path = Path(path)
        self._most = most_bytes
        self._memory: _Memory | None = None

    def newest(self) -> int:
        return self._word() >> 8

    def fetch_blob(self) -> Blob:
        wrong = (0, 0)
        for _ in range(TRIES):
            word = self._word()
            if not word:
                raise NoWeights(f"nothing was published at {self.path} yet")
            found = self._copy(word)
            if found is not None:
                try:
                    return checked(word >> 8, *found)
                except BadWeights:
                    wrong = (word, wrong[1] + 1 if wrong[0] == word else 1)
                    if wrong[1] >= SURE:
                        raise
            time.sleep(0.001)
        raise WeightsError(f"{self.path} changes faster than it can be read; publish less often")

    def close(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def _word(self) -> int:
        if self._memory is None or self._memory.words[MOVED]:
            self._look()
        return self._memory.words[NEWEST] if self._memory is not None else 0

    def _look(self) -> None:
        """Opens the file, or its successor if there is one."""
        try:
            memory = _open(self.path, writable=False)
        except NoWeights:
            return
        if self._memory is not None:
            self._memory.close()
        self._memory = memory

    def _copy(self, word: int) -> tuple[bytes, memoryview] | None:
        """Hash and bytes of the version, unless it was overwritten meanwhile."""
        memory, version, index = self._memory, word >> 8, word & 0xFF
        if memory is None or index >= memory.buffers:
            raise BadWeights(f"{self.path} is damaged: there is no buffer {index}; remove it")
        start = memory.start(index)
        held, size, sha256 = BUFFER.unpack_from(memory.bytes, start)
        if held != version or size > memory.room:
            return None
        fits(size, self._most)
        data = np.empty(size, np.uint8)
        data[:] = memory.bytes[start + BUFFER_HEAD : start + BUFFER_HEAD + size]
        held, _, _ = BUFFER.unpack_from(memory.bytes, start)
        return (sha256, data.data) if held == version else None
