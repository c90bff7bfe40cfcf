"""The actor's end of Redis Streams.

A batch is one transaction: its entries, their names in the set of what waits, and the mark of how many the
actor has produced are stored together or not at all. While one batch is on its way the next is collected; its
replies are read when they are there: the actor goes on meanwhile. Batches do not overtake each other."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

from playmill.experience.channel import Backlog, Message, Pause
from playmill.experience.redis_link import CONNECT, Link, key
from playmill.experience.redis_wire import BESIDES, Keys, transaction
from playmill.experience.segment import Identity, check_identity, traceparent_of
from playmill.experience.spool import Spool
from playmill.games import PlaymillError
from playmill.telemetry.traces import OFF, Tracer

MESSAGES, BYTES = 32, 2 << 20
"""Of one batch; a single message may be larger."""
AGAIN, AT_LAST = 0.05, 2.0
"""Seconds before a broker that is away or full is tried again: first, and after many tries."""
REMEMBERED, REMEMBERED_BYTES = 3.0, 64 << 20
"""Seconds and bytes for which messages are kept that the broker has taken: one that writes its log every
second may forget the last of them when it dies."""
LOOK = 0.005
"""Seconds between two looks whether a crowded stream has room."""


class Limits(NamedTuple):
    """When senders hold back."""

    messages: int = 16_384
    """In the stream, acknowledged ones not counted."""
    bytes: int = 1 << 30
    """Likewise; the broker's `maxmemory` should be larger by a quarter."""
    spool: int = 256 << 20
    """Bytes of one actor on its disk while the broker is away."""


class _Item(NamedTuple):
    identity: Identity
    size: int
    message: bytes | None
    path: Path | None
    """On disk, when it is in the spool."""


class RedisSender:
    """Hands segments to the broker; to the disk while that is away."""

    def __init__(
        self,
        url: str,
        run: str,
        actor: int,
        epoch: int,
        spool: Path,
        *,
        password: str | None = None,
        limits: Limits | None = None,
        tracer: Tracer = OFF,
    ) -> None:
        """`tracer` records transactions with segments whose way is traced."""
        check_identity(Identity(run, actor, epoch, 0))
        self._of = (run, actor, epoch)
        self._limits = limits or Limits()
        self._link, self._tracer = Link(url, password), tracer
        self._keys = Keys(*(key(run, name).encode() for name in Keys._fields))
        self._connection: Any = None
        # A broker that hangs holds up whoever dials: a thread, so that the actor plays on.
        self._dialer = ThreadPoolExecutor(1, "playmill-dial")
        self._dialing: Future[tuple[Any, int]] | None = None
        self._spool = Spool(spool, run, actor, self._limits.spool)
        found = self._spool.found()
        self._queue = deque(_Item(identity, path.stat().st_size, None, path) for identity, path in found)
        own = [identity.sequence for identity, _ in found if identity.epoch == epoch]
        self._next = max(own, default=-1) + 1
        self._flying = 0
        """How many of the queue are on their way."""
        self._launched = 0.0
        self._collected = 0
        """Bytes of the queue that are neither on their way nor on disk."""
        self._taken: deque[tuple[float, _Item]] = deque()
        self._taken_bytes = 0
        self._length, self._mean = 0, 0.0
        self._try_at, self._patience, self._look_at = 0.0, AGAIN, 0.0
        self.away = False
        """Whether the broker could not be reached when it was last tried."""
        self._begin()

    # ---- Sending ----

    def send(self, identity: Identity, message: Message, within: float) -> bool:
        if identity[:3] != self._of:
            raise PlaymillError(f"{identity} cannot be sent by {self._of}")
        if identity.sequence < self._next:
            return True
        if identity.sequence > self._next:
            raise PlaymillError(f"sequence {identity.sequence} cannot follow {self._next - 1}: send in order")
        size = memoryview(message).nbytes
        pause, end = Pause(), time.monotonic() + within
        while True:
            self._advance()
            if self._takes(size) and self._accept(identity, bytes(message), size):
                self._next += 1
                self._advance()
                return True
            left = end - time.monotonic()
            if left <= 0:
                return False
            self._wait(pause.length(left), left)

    def flush(self, within: float) -> bool:
        """Whether the broker has everything that was handed over."""
        pause, end = Pause(), time.monotonic() + within
        while True:
            self._advance()
            left = end - time.monotonic()
            if not self._queue or left <= 0:
                return not self._queue
            self._wait(pause.length(left), left)

    @property
    def spooled(self) -> int:
        return self._spool.bytes

    def backlog(self) -> Backlog:
        """What waits at the broker, as last heard, and what is still here."""
        self._advance()
        messages = self._length + len(self._queue)
        share = max(self._share(), self._spool.bytes / max(1, self._limits.spool))
        return Backlog(messages, int(messages * self._mean), self._length, share)

    def close(self) -> None:
        """What the broker does not take within a moment stays on disk for the actor's next process."""
        self.flush(1.0)
        self._keep()
        for _, item in self._taken:
            self._forget(item)
        self._hang_up()
        self._dialer.shutdown(wait=False, cancel_futures=True)
        self._spool.close()
        self._link.close()

    def _takes(self, size: int) -> bool:
        """Whether there is room for one more."""
        if self.away:
            return self._spool.room(size)
        waiting = len(self._queue) - self._flying
        if waiting and (waiting >= MESSAGES or self._collected + size > BYTES):
            return False
        return not self._crowded()

    def _accept(self, identity: Identity, message: bytes, size: int) -> bool:
        path = None
        if self.away:
            if self._collected and not self._keep():
                return (
                    False  # on disk before those that precede it, it would leave a gap if this process died
                )
            try:
                path = self._spool.put(identity, message)
            except OSError:
                return False
        self._queue.append(_Item(identity, size, None if path else message, path))
        self._collected += 0 if path else size
        self._mean = size if self._mean == 0 else 0.9 * self._mean + 0.1 * size
        return True

    def _wait(self, pause: float, left: float) -> None:
        """For a reply, where one is due; else for a while."""
        if self._flying == 0:
            time.sleep(pause)
            return
        try:
            self._connection.can_read(timeout=min(left, 0.05))
        except self._link.away:
            self._lost()

    # ---- The broker ----

    def _begin(self) -> None:
        """A broker that must not be used is an error at once; one that is away is not."""
        self._dialing = self._dialer.submit(self._dial)
        wait([self._dialing], CONNECT)
        try:
            self._connected()
        except self._link.away:
            self._lost()
        except PlaymillError:
            self._dialer.shutdown()
            self._spool.close()
            raise

    def _advance(self) -> None:
        """Whatever can be done without waiting."""
        now = time.monotonic()
        if self._flying == 0 and (not self._queue or now < self._try_at):
            return
        try:
            if self._flying and not self._landed():
                return
            if self._queue and now >= self._try_at and not self._crowded():
                self._launch()
        except self._link.redis.AuthenticationError as error:
            raise PlaymillError(f"the broker turned this actor away: {error}") from error
        except self._link.away:
            self._lost()

    def _launch(self) -> None:
        if self._connection is None and not self._connected():
            return
        batch: list[tuple[Identity, bytes]] = []
        size = 0
        for item in self._queue:
            if batch and (len(batch) == MESSAGES or size + item.size > BYTES):
                break
            message = item.message if item.path is None else item.path.read_bytes()
            assert message is not None
            batch.append((item.identity, message))
            size += item.size
            self._collected -= item.size if item.path is None else 0
        self._flying, self._launched = len(batch), time.monotonic()
        self._connection.send_packed_command(transaction(self._keys, batch), check_health=False)

    def _connected(self) -> bool:
        """Whether the broker answered; dials where nobody does."""
        if self._dialing is None:
            self._dialing = self._dialer.submit(self._dial)
        if not self._dialing.done():
            return False
        answered, self._dialing = self._dialing, None
        self._connection, mark = answered.result()
        self._remind(mark)
        return True

    def _dial(self) -> tuple[Any, int]:
        """A connection, and how many of ours the broker knows."""
        connection = self._link.connection()
        _, actor, epoch = self._of
        return connection, int(self._link.client().hget(self._keys.produced, f"{actor}:{epoch}") or 0)

    def _landed(self) -> bool:
        """Reads the replies to a batch, when they are there."""
        if not self._connection.can_read(timeout=0):
            if time.monotonic() - self._launched > self._link.answer:
                self._lost()
            return False
        redis, wrong, reply = self._link.redis, None, None
        for _ in range(self._flying + BESIDES):
            try:
                reply = self._connection.read_response()
            except redis.ResponseError as error:
                wrong = wrong or error
        if wrong is None and isinstance(reply, list):
            wrong = next((part for part in reply if isinstance(part, Exception)), None)
        if wrong is not None:
            self._refused(wrong)
            return True
        if self._tracer.on:
            self._record()
        for _ in range(self._flying):
            self._remember(self._queue.popleft())
        self._flying = 0
        self._length = int(reply[-1]) if isinstance(reply, list) else 0
        self.away, self._patience = False, AGAIN
        return True

    def _record(self) -> None:
        """The transaction that was taken. What came from the disk is not linked to."""
        flying = [self._queue[i].message for i in range(self._flying)]
        links = [link for message in flying if message and (link := traceparent_of(message))]
        if links:
            began = time.time_ns() - int(1e9 * (time.monotonic() - self._launched))
            self._tracer.record("broker.append", began, links=links, messages=self._flying)

    def _remember(self, item: _Item) -> None:
        now = time.monotonic()
        self._taken.append((now, item))
        self._taken_bytes += item.size if item.path is None else 0
        while self._taken and (self._taken[0][0] < now - REMEMBERED or self._taken_bytes > REMEMBERED_BYTES):
            self._forget(self._taken.popleft()[1])

    def _forget(self, item: _Item) -> None:
        if item.path is None:
            self._taken_bytes -= item.size
        else:
            self._spool.remove(item.path)

    def _remind(self, mark: int) -> None:
        """Whatever a broker forgot that came back goes first, so that no mark ever stands above a gap."""
        epoch = self._of[2]
        forgotten = []
        while self._taken:
            item = self._taken.popleft()[1]
            # Of earlier processes no mark was asked for: what they left is sent again, and known by its name.
            if item.identity.epoch != epoch or item.identity.sequence >= mark:
                forgotten.append(item)
            else:
                self._forget(item)
        self._queue.extendleft(reversed(forgotten))
        self._collected += sum(item.size for item in forgotten if item.path is None)
        self._taken_bytes = 0

    def _refused(self, error: Exception) -> None:
        """A broker without memory or disk takes nothing for a while: that is back-pressure."""
        self._forget_flight()
        full = isinstance(error, self._link.redis.OutOfMemoryError) or str(error).startswith("MISCONF")
        if not full:
            raise PlaymillError(f"the broker refuses experience: {error}") from error
        self._later()

    def _crowded(self) -> bool:
        """Whether the stream is as long as it may be; looks again now and then, if so."""
        if self._share() < 1 or self.away:
            return False
        if self._flying == 0 and time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + LOOK
            try:
                self._length = int(self._link.client().xlen(self._keys.experience))
            except self._link.away:
                self._lost()
        return self._share() >= 1

    def _share(self) -> float:
        return max(self._length / self._limits.messages, self._length * self._mean / self._limits.bytes)

    def _lost(self) -> None:
        """The broker is away. What was on its way may have arrived or not: it is sent again, and the ledger
        knows it by its name if it comes twice."""
        self.away = True
        self._hang_up()
        self._forget_flight()
        self._keep()
        self._later()

    def _keep(self) -> bool:
        """To disk with all that is not there yet, in order; False where it is full: the rest stays here."""
        try:
            for i, item in enumerate(self._queue):
                if item.message is not None:
                    path = self._spool.put(item.identity, item.message, more=True)
                    self._queue[i] = item._replace(message=None, path=path)
                    self._collected -= item.size
            self._spool.sync()
        except OSError:
            return False
        return True

    def _forget_flight(self) -> None:
        flying = [self._queue[i] for i in range(self._flying)]
        self._collected += sum(item.size for item in flying if item.path is None)
        self._flying = 0

    def _later(self) -> None:
        self._try_at = time.monotonic() + self._patience
        self._patience = min(2 * self._patience, AT_LAST)

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.disconnect()
            self._connection = None
