"""Experience through shared memory, on one host: a ring an actor in a folder of the run, and a receiver that
empties all of them. Messages are copied once, into the ring; what is delivered are views of it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import stat
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from playmill.experience.channel import Backlog, Delivery, Message, Pause
from playmill.experience.dead_letters import DeadLetters
from playmill.experience.ring_file import ACKED, READ, RECORD, SKIP, BadRing, RingFile, fence, padded
from playmill.experience.segment import Identity, check_identity, check_run
from playmill.games import PlaymillError

CAPACITY = 64 << 20
LEFT_BEHIND = 64
"""Rings of an actor's earlier processes that may wait for the learner; more of them, and none is added."""
NAME = re.compile(r"\d{1,19}-\d{1,19}\.ring", re.ASCII)
FINISHED = "finished"
LOOK = 0.05
"""Seconds between two looks for new rings."""


def rings_root(root: Path = Path("/dev/shm")) -> Path:
    """Where the runs of this user have their rings: in memory, in a folder each."""
    return root / f"playmill-{os.getuid()}"


def ring_folder(run: str, root: Path = Path("/dev/shm")) -> Path:
    """The folder of a run, made where there is none; it is this user's alone."""
    return _private(_private(rings_root(root)) / check_run(run))


def _private(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PlaymillError(f"{folder} is not yours alone: remove it, or name another folder")
    return folder


class RingSender:
    """The actor's end."""

    spooled = 0

    def __init__(self, folder: Path, run: str, actor: int, epoch: int, capacity: int = CAPACITY) -> None:
        check_identity(Identity(run, actor, epoch, 0))
        _private(folder)
        left = [path for path in folder.glob(f"{actor}-*.ring") if NAME.fullmatch(path.name)]
        if len(left) >= LEFT_BEHIND:
            raise PlaymillError(
                f"{len(left)} rings of actor {actor} wait in {folder}: start the learner first"
            )
        self._of = (run, actor, epoch)
        self._ring = RingFile.create(folder / f"{actor}-{epoch}.ring", run, actor, epoch, capacity)
        self._produced, self._head = self._ring.committed()

    def send(self, identity: Identity, message: Message, within: float) -> bool:
        if identity[:3] != self._of:
            raise PlaymillError(f"{identity} cannot go through the ring of {self._of}")
        if identity.sequence < self._produced:
            return True
        if identity.sequence > self._produced:
            raise PlaymillError(
                f"sequence {identity.sequence} cannot follow {self._produced - 1}: send in order"
            )
        size = memoryview(message).nbytes
        need = RECORD.size + padded(size)
        if 2 * need > self._ring.capacity:
            text = f"{size:,} bytes are more than half a ring of {self._ring.capacity:,}: make it larger"
            raise PlaymillError(text)
        left = self._ring.capacity - self._head % self._ring.capacity
        skip = left if need > left else 0
        if not self._wait(skip + need, within):
            return False
        self._write(identity.sequence, message, size, skip)
        return True

    def _wait(self, need: int, within: float) -> bool:
        """For so much room."""
        if self._room() >= need:
            return True
        pause, end = Pause(), time.monotonic() + within
        while (left := end - time.monotonic()) > 0:
            time.sleep(pause.length(left))
            if self._room() >= need:
                return True
        return False

    def _room(self) -> int:
        used = self._head - self._ring.words[ACKED]
        fence()
        if not 0 <= used <= self._ring.capacity:
            raise BadRing(f"{self._ring.path} was written to by a stranger: start the actor anew")
        return self._ring.capacity - used

    def _write(self, sequence: int, message: Message, size: int, skip: int) -> None:
        ring, at = self._ring, self._head % self._ring.capacity
        if skip:
            RECORD.pack_into(ring.bytes, at, SKIP, 0)
            at = 0
        RECORD.pack_into(ring.bytes, at, size, sequence)
        begin = at + RECORD.size
        ring.bytes[begin : begin + size] = memoryview(message).cast("B")
        self._head += skip + RECORD.size + padded(size)
        self._produced += 1
        fence()
        ring.commit(self._produced, self._head)

    def backlog(self) -> Backlog:
        sequence, acked, produced, head = self._ring.acknowledged()
        read = max(self._ring.words[READ], sequence)
        used = head - acked
        return Backlog(produced - sequence, used, min(read, produced) - sequence, used / self._ring.capacity)

    def close(self) -> None:
        """The learner reads what is left, and removes the ring."""
        self._ring.close()


class _Reading:
    """A ring as its reader sees it."""

    def __init__(self, ring: RingFile, run: str) -> None:
        self.ring = ring
        self.run = run
        self.sequence, self.position, _, _ = ring.acknowledged()
        self._first = self.sequence
        """The oldest that is not acknowledged."""
        self._ends: deque[int] = deque()
        self._done: set[int] = set()

    def take(self, at_most: int) -> list[Delivery]:
        produced, head = self.ring.committed()
        fence()
        out: list[Delivery] = []
        while len(out) < at_most and self.sequence < produced:
            begin, length, sequence = self.ring.record(self.position, head)
            if sequence != self.sequence:
                raise BadRing(f"{self.ring.path} has {sequence} where {self.sequence} belongs")
            at = begin % self.ring.capacity
            identity = Identity(self.run, self.ring.actor, self.ring.epoch, sequence)
            out.append(Delivery(identity[1:], self.ring.bytes[at : at + length].toreadonly(), identity))
            self.position = begin + padded(length)
            self._ends.append(self.position)
            self.sequence += 1
        if out:
            self.ring.words[READ] = self.sequence
        return out

    def acknowledge(self, sequence: int) -> None:
        """Room is free up to the first that is not acknowledged."""
        if self._first <= sequence < self.sequence:
            self._done.add(sequence)
        freed = None
        while self._first in self._done:
            self._done.discard(self._first)
            self._first += 1
            freed = self._ends.popleft()
        if freed is not None:
            fence()
            self.ring.words[ACKED] = freed

    def waiting(self) -> Iterator[Identity]:
        first, _, produced, _ = self.ring.acknowledged()
        for sequence in range(first, produced):
            if sequence not in self._done:
                yield Identity(self.run, self.ring.actor, self.ring.epoch, sequence)

    def exhausted(self) -> bool:
        """Its writer is dead, and all it wrote is acknowledged."""
        return (
            self.ring.committed()[1] == self.ring.words[ACKED]
            and not self.ring.writer_lives()
            and self.ring.committed()[1] == self.ring.words[ACKED]
        )


class RingReceiver:
    """The learner's end. Actors come and go: every ring in the folder is read, and removed when its writer
    is dead and everything in it acknowledged. With `look` it changes nothing, not even where there is no
    folder, and cannot receive."""

    def __init__(self, folder: Path, run: str, *, look: bool = False) -> None:
        self.folder = folder if look else _private(folder)
        self.run = check_run(run)
        self.dead_letters = DeadLetters(folder / "dead")
        self.buried = 0
        self.broken: dict[str, str] = {}
        """Files that are left alone, and why."""
        self._lock = None if look else self._alone()
        self._rings: dict[str, _Reading] = {}
        self._lost: dict[tuple[int, int], int] = {}
        self._next_look = 0.0
        self._turn = 0
        self._finished = self._read_finished()
        self._find()

    def receive(self, at_most: int, within: float) -> list[Delivery]:
        if self._lock is None:
            raise PlaymillError("this receiver only looks: make one without `look`")
        pause, end = Pause(), time.monotonic() + within
        while True:
            self._find()
            out = self._take(at_most)
            left = end - time.monotonic()
            if out or left <= 0:
                return out
            time.sleep(pause.length(left))

    def _take(self, at_most: int) -> list[Delivery]:
        """From every ring its share, beginning with another one each time."""
        out: list[Delivery] = []
        names = list(self._rings)
        self._turn += 1
        for i in range(len(names)):
            name = names[(i + self._turn) % len(names)]
            share = -(-(at_most - len(out)) // (len(names) - i))
            try:
                out += self._rings[name].take(share)
            except BadRing as error:
                self._set_aside(name, str(error))
        return out

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            actor, epoch, sequence = delivery.key
            reading = self._rings.get(f"{actor}-{epoch}.ring")
            if reading is not None:
                reading.acknowledge(sequence)

    def refuse(self, delivery: Delivery, reason: str) -> None:
        self.buried += 1
        # Dead letters are for a look; where there is no room for one, no experience is lost by it.
        with contextlib.suppress(OSError):
            self.dead_letters.put(delivery.identity, delivery.message, reason)

    def produced(self) -> dict[tuple[int, int], int]:
        self._find(now=True)
        out = {**self._finished, **self._lost}
        for reading in self._rings.values():
            out[reading.ring.actor, reading.ring.epoch] = reading.ring.committed()[0]
        return out

    def waiting(self) -> Iterator[Identity]:
        self._find(now=True)
        for reading in list(self._rings.values()):
            yield from reading.waiting()

    def backlog(self) -> Backlog:
        messages = used = delivered = 0
        share = 0.0
        for reading in self._rings.values():
            sequence, acked, produced, head = reading.ring.acknowledged()
            messages += produced - sequence
            delivered += max(reading.ring.words[READ], sequence) - sequence
            used += head - acked
            share = max(share, (head - acked) / reading.ring.capacity)
        return Backlog(messages, used, delivered, share)

    def remove(self) -> None:
        """Removes the folder, unless something in it waits to be read, or to be looked at by a person."""
        self._find(now=True)
        if not self._rings and not self.broken and not self.dead_letters.count:
            shutil.rmtree(self.folder, ignore_errors=True)

    def close(self) -> None:
        for reading in self._rings.values():
            reading.ring.close()
        self._rings.clear()
        if self._lock is not None:
            self._lock.close()

    def _alone(self) -> IO[str]:
        """Two learners would train the same segments twice."""
        file = (self.folder / "receiver.lock").open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise PlaymillError(f"another process receives from {self.folder}; wait for it to end") from None
        return file

    # ---- Rings that come and go ----

    def _find(self, *, now: bool = False) -> None:
        if not now and time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + LOOK
        if self._lock is not None:
            self._remove_exhausted()
        for name in sorted(path.name for path in self.folder.glob("*.ring")):
            if NAME.fullmatch(name) is None or name in self._rings or name in self.broken:
                continue
            try:
                ring = RingFile.open(self.folder / name, self.run)
                if name != f"{ring.actor}-{ring.epoch}.ring":
                    ring.close()
                    raise BadRing(f"{name} is not the ring of actor {ring.actor}, epoch {ring.epoch}")
                self._rings[name] = _Reading(ring, self.run)
            except FileNotFoundError:
                continue
            except (BadRing, OSError) as error:
                self.broken[name] = str(error)
        if self._lock is None:
            self._finished = self._read_finished()

    def _remove_exhausted(self) -> None:
        for name, reading in list(self._rings.items()):
            if not reading.exhausted():
                continue
            ring = reading.ring
            count = ring.committed()[0]
            # The count goes to the book first: a crash in between writes it twice, which is the same.
            with (self.folder / FINISHED).open("a") as book:
                book.write(f"{ring.actor} {ring.epoch} {count}\n")
            self._finished[ring.actor, ring.epoch] = count
            ring.path.unlink(missing_ok=True)
            ring.close()
            del self._rings[name]

    def _read_finished(self) -> dict[tuple[int, int], int]:
        path = self.folder / FINISHED
        out: dict[tuple[int, int], int] = {}
        for line in path.read_text().splitlines() if path.exists() else []:
            parts = line.split()
            if len(parts) == 3 and all(part.isdigit() for part in parts):
                actor, epoch, count = map(int, parts)
                out[actor, epoch] = max(count, out.get((actor, epoch), 0))
        return out

    def _set_aside(self, name: str, reason: str) -> None:
        """A ring with what no writer writes is read no further; the ledger shows what was lost with it."""
        ring = self._rings.pop(name).ring
        self.broken[name] = reason
        self._lost[ring.actor, ring.epoch] = ring.committed()[0]
        ring.close()
