"""The learner's end of Redis Streams: a consumer group with one consumer, the learner that runs now."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from playmill.experience.channel import Backlog, Delivery
from playmill.experience.redis_link import Link, key
from playmill.experience.redis_sender import AGAIN, AT_LAST, Limits
from playmill.experience.redis_wire import MESSAGE, NAME
from playmill.experience.segment import LIMIT, Identity, check_run
from playmill.games import PlaymillError

GROUP = CONSUMER = "learner"
"""One name for all processes that take the learner's place, so that the group does not grow with them."""
CLAIM = 30.0
"""Seconds between two looks for deliveries that nobody holds; younger ones may still be on their way."""
BLOCK = 1.0
"""Seconds that one call waits at the broker at most."""
READ = 256 << 10
"""Bytes that are read at once: segments are long."""
AT_ONCE = 500
"""Names in one command."""
LETTERS, LETTER = 100, 64 << 10
"""Dead letters that are kept, and bytes of each."""


class RedisReceiver:
    """Takes segments from the broker. Until the first `receive` it only looks."""

    def __init__(
        self,
        url: str,
        run: str,
        *,
        password: str | None = None,
        limits: Limits | None = None,
        reply_bytes: int = 64 << 20,
    ) -> None:
        """A reply of the broker has about `reply_bytes` at most, or one message."""
        self.run = check_run(run)
        self._limits = limits or Limits()
        self._link = Link(url, password, read_bytes=READ)
        self._stream, self._names = key(run, "experience"), key(run, "waiting")
        self._marks, self._dead, self._refusals = key(run, "produced"), key(run, "dead"), key(run, "refused")
        self._held: dict[bytes, Identity] = {}
        """Delivered and not acknowledged."""
        self._freed: dict[bytes, Identity | None] = {}
        """Acknowledged, and the broker does not know it yet."""
        self._found: deque[bytes] = deque()
        """Delivered to nobody who still lives."""
        self._claim_at, self._idle = 0.0, 0.0
        self.buried = 0
        self._length = 0
        self._patience = AGAIN
        self._reply_bytes, self._largest, self._mean = reply_bytes, reply_bytes, 0.0
        # A broker that must not be used is an error at once; one that is away is not.
        with contextlib.suppress(*self._link.away):
            self._link.client()

    def receive(self, at_most: int, within: float) -> list[Delivery]:
        end = time.monotonic() + within
        while True:
            left = max(0.0, end - time.monotonic())
            try:
                out = self._receive(at_most, left)
                self._patience = AGAIN
            except self._link.redis.AuthenticationError as error:
                raise PlaymillError(f"the broker turned the learner away: {error}") from error
            except self._link.away:
                out = []
                # What the broker gave and the wire lost is ours by its books: look for it at once.
                self._claim_at, self._idle = 0.0, 0.0
                self._rest(left)
            except self._link.redis.ResponseError as error:
                if not str(error).startswith("MISCONF"):
                    raise
                out = []  # a broker whose disk is full takes no command that changes anything
                self._rest(left)
            if out or time.monotonic() >= end:
                return out

    def _rest(self, left: float) -> None:
        time.sleep(min(left, self._patience))
        self._patience = min(2 * self._patience, AT_LAST)

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Where the broker is away or its disk full, it hears of it later."""
        found = {d.key: self._held.pop(d.key) for d in deliveries if d.key in self._held}
        if found:
            held = set(self._held.values())
            # A name stays where it came twice and the other is still held here.
            self._freed |= {key: None if name in held else name for key, name in found.items()}
        with contextlib.suppress(*self._link.away, self._link.redis.ResponseError):
            self._settle()

    def refuse(self, delivery: Delivery, reason: str) -> None:
        self._bury(reason, delivery.message, delivery.identity)

    def produced(self) -> dict[tuple[int, int], int]:
        out = {}
        for name, count in self._ask().hgetall(self._marks).items():
            identity = self._identity(*name.split(b":"), count)
            if identity is not None:
                out[identity.actor, identity.epoch] = int(count)
        return out

    def waiting(self) -> Iterator[Identity]:
        for name in self._ask().sscan_iter(self._names, count=AT_ONCE):
            identity = self._identity(*name.split(b":"))
            if identity is not None:
                yield identity

    def refused(self) -> dict[str, int]:
        """How many went to the dead letters, by reason."""
        return {str(k, "utf-8", "replace"): int(v) for k, v in self._ask().hgetall(self._refusals).items()}

    def backlog(self) -> Backlog:
        """As last heard, while the broker is away."""
        with contextlib.suppress(*self._link.away):
            self._length = int(self._link.client().xlen(self._stream))
        messages = self._length
        size = int(messages * self._mean)
        share = max(messages / self._limits.messages, size / self._limits.bytes)
        return Backlog(messages, size, len(self._held), share)

    def close(self) -> None:
        """What is not acknowledged comes to the next learner."""
        with contextlib.suppress(*self._link.away, self._link.redis.ResponseError):
            self._settle()
        self._link.close()

    def _ask(self) -> Any:
        """The client, for questions that have no answer while the broker is away."""
        try:
            client = self._link.client()
            client.ping()
        except self._link.away as error:
            raise PlaymillError(f"the broker cannot be reached; start it and ask again ({error})") from error
        return client

    # ---- Deliveries ----

    def _receive(self, at_most: int, within: float) -> list[Delivery]:
        self._settle()
        if time.monotonic() >= self._claim_at:
            self._claim()
        count = max(1, min(at_most, self._reply_bytes // max(1, self._largest)))
        client = self._link.client()
        if self._found:
            ids = [self._found.popleft() for _ in range(min(count, len(self._found)))]
            return self._deliver(client.xclaim(self._stream, GROUP, CONSUMER, 0, ids))
        block = int(1000 * min(within, BLOCK)) or None
        try:
            reply = client.xreadgroup(GROUP, CONSUMER, {self._stream: ">"}, count=count, block=block)
        except self._link.redis.ResponseError as error:
            if "NOGROUP" not in str(error):
                raise
            self._claim_at = 0.0
            return []
        return self._deliver(reply[0][1]) if reply else []

    def _deliver(self, entries: list[tuple[bytes, dict[bytes, bytes] | None]]) -> list[Delivery]:
        out, sizes = [], [1]
        for entry, fields in entries:
            if not fields or entry in self._held:
                continue
            message, name = fields.get(MESSAGE, b""), fields.get(NAME, b"")
            sizes.append(sum(map(len, fields.values())))
            identity = self._identity(*name.split(b":")) if len(fields) == 2 else None
            if identity is None:
                self._bury("stranger", memoryview(message), None)
                self._freed[entry] = None
                continue
            self._held[entry] = identity
            out.append(Delivery(entry, memoryview(message), identity))
            self._mean = len(message) if self._mean == 0 else 0.9 * self._mean + 0.1 * len(message)
        # Sizes are forgotten slowly, so that one large message does not make all replies short for ever.
        self._largest = max(*sizes, self._largest // 2)
        return out

    def _identity(self, *parts: bytes) -> Identity | None:
        if len(parts) != 3 or not all(part.isdigit() and len(part) < 20 for part in parts):
            return None
        actor, epoch, sequence = map(int, parts)
        return Identity(self.run, actor, epoch, sequence) if max(actor, epoch, sequence) < LIMIT else None

    def _claim(self) -> None:
        """Finds what was delivered to a learner that died, or was lost on its way to this one."""
        client = self._link.client()
        try:
            client.xgroup_create(self._stream, GROUP, "0", mkstream=True)
        except self._link.redis.ResponseError as error:
            # A full broker says nothing about the group; that it is missing shows when it is read.
            if "BUSYGROUP" not in str(error) and not isinstance(error, self._link.redis.OutOfMemoryError):
                raise
        idle, after = int(1000 * self._idle), "-"
        known = {*self._held, *self._freed, *self._found}
        # Not XAUTOCLAIM, which would bring the messages of all that are held here as well.
        while pending := client.xpending_range(self._stream, GROUP, after, "+", AT_ONCE, idle=idle or None):
            ids = [entry["message_id"] for entry in pending]
            self._found.extend(entry for entry in ids if entry not in known)
            after = f"({ids[-1].decode()}"
        self._claim_at, self._idle = time.monotonic() + CLAIM, CLAIM

    def _settle(self) -> None:
        """Tells the broker what is acknowledged; each part at once or not at all."""
        while self._freed:
            some = dict(list(self._freed.items())[:AT_ONCE])
            names = [b"%d:%d:%d" % identity[1:] for identity in some.values() if identity is not None]
            try:
                self._free(some, names, at_once=True)
            except self._link.redis.OutOfMemoryError:
                self._free(some, names, at_once=False)
            for entry in some:
                del self._freed[entry]

    def _free(self, entries: Iterable[bytes], names: list[bytes], *, at_once: bool) -> None:
        """A broker without memory takes no transaction, even one that frees some; single commands it takes.
        Deleted first: an entry that is gone and not acknowledged is found by the next claim and forgotten."""
        pipeline = self._link.client().pipeline(transaction=at_once)
        pipeline.xdel(self._stream, *entries).xack(self._stream, GROUP, *entries)
        if names:
            pipeline.srem(self._names, *names)
        pipeline.execute()

    def _bury(self, reason: str, message: memoryview, identity: Identity | None) -> None:
        """Dead letters are for a look; a broker that cannot take one loses no experience by it."""
        self.buried += 1
        letter: dict[str, Any] = {
            "reason": reason[:1000],
            "bytes": len(message),
            "m": bytes(message[:LETTER]),
        }
        if identity is not None:
            letter |= {"a": identity.actor, "e": identity.epoch, "s": identity.sequence}
        try:
            pipeline = self._link.client().pipeline(transaction=True)
            pipeline.xadd(self._dead, letter, maxlen=LETTERS, approximate=False)
            pipeline.hincrby(self._refusals, reason[:1000], 1).execute()
        except (*self._link.away, self._link.redis.ResponseError):
            return
