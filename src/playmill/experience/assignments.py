"""Assignments: leave to play, which the learner puts into a stream of Redis and actors take one at a time.

What nobody has taken is the lag of the actors' consumer group, by which a cluster knows how many actors are
wanted. Assignments are leave and no experience: one that is lost, or taken twice, costs a little play."""

from __future__ import annotations

import contextlib
import time
from typing import Any, NamedTuple

from playmill.experience.redis_link import Link, key
from playmill.games import PlaymillError

GROUP = "actors"
SEGMENTS = b"segments"
"""The field of an assignment that says how many may be handed over."""
MOST = 1_000_000
RENEW_S = 5.0
"""Between two signs that an actor is still at its assignment, and two looks for abandoned ones."""
ABANDONED_S = 30.0
"""An assignment without a sign for so long is anybody's."""


def assignments_key(name: str) -> str:
    return key(name, "assignments")


class Posted(NamedTuple):
    """Assignments in the stream."""

    untaken: int
    taken: int


class AssignmentBoard:
    """The learner's side: looks how many there are, and adds some."""

    def __init__(self, url: str, name: str, *, password: str | None = None) -> None:
        self._link = Link(url, password)
        self._stream = assignments_key(name)
        self._done: bytes | None = None
        """All before this entry were done."""

    def look(self) -> Posted | None:
        """How many there are; None while the broker cannot say."""
        try:
            return self._look()
        except self._link.away:
            return None
        except self._link.redis.ResponseError as error:
            _check_passing(self._link, error)
            return None

    def add(self, count: int, segments: int) -> None:
        """Leave for so many segments each. The stream is shortened from its old end and nowhere else: where
        an untaken entry is deleted, Redis does not know the lag any more."""
        pipeline = self._link.client().pipeline(transaction=False)
        for _ in range(count):
            pipeline.xadd(self._stream, {SEGMENTS: segments})
        if self._done is not None:
            pipeline.xtrim(self._stream, minid=self._done, approximate=False)
        try:
            pipeline.execute()
        except self._link.away:
            return
        except self._link.redis.ResponseError as error:
            _check_passing(self._link, error)

    def withdraw(self) -> None:
        """Takes all back. The stream stays, empty: who scales by it must see 0, and not an error."""
        with contextlib.suppress(*self._link.away, self._link.redis.ResponseError):
            self._begin()

    def close(self) -> None:
        self._link.close()

    def _look(self) -> Posted:
        client = self._link.client()
        try:
            groups = client.xinfo_groups(self._stream)
        except self._link.redis.ResponseError as error:
            if "no such key" not in str(error):
                raise
            groups = []
        found = next((group for group in groups if group["name"] == GROUP.encode()), None)
        if found is not None and "lag" not in found:
            raise PlaymillError("actors.assigned needs Redis 7 or newer: older ones count no lag")
        if found is None or found["lag"] is None:
            self._begin()
            return Posted(0, 0)
        self._done = found["last-delivered-id"]
        if found["pending"]:
            self._done = client.xpending(self._stream, GROUP)["min"] or self._done
        return Posted(int(found["lag"]), int(found["pending"]))

    def _begin(self) -> None:
        pipeline = self._link.client().pipeline(transaction=True)
        pipeline.delete(self._stream)
        pipeline.xgroup_create(self._stream, GROUP, "$", mkstream=True)
        pipeline.execute()
        self._done = None


class Leave:
    """An actor's side: the assignment it is at, and the next one."""

    def __init__(self, url: str, name: str, actor: int, *, password: str | None = None) -> None:
        self._link = Link(url, password)
        self._stream, self._me = assignments_key(name), f"actor-{actor}"
        self._entry: bytes | None = None
        self._finished: list[bytes] = []
        """Done, and the broker does not know it yet."""
        self._left = 0
        """Segments; below 0 what was handed over beyond the last assignment."""
        self._renew_at = self._claim_at = 0.0

    @property
    def held(self) -> bool:
        """Whether there is an assignment in hand."""
        return self._entry is not None

    def given(self, within: float) -> bool:
        """Whether there is leave to play; where there is none, an assignment is waited for so long."""
        if self._entry is not None and time.monotonic() >= self._renew_at:
            self._renew()
        if self._entry is None:
            self._take(within)
        return self.held

    def used(self, segments: int) -> None:
        """So many more were handed over."""
        self._left -= segments
        if self._entry is not None and self._left <= 0:
            self._finished.append(self._entry)
            self._entry = None

    def close(self) -> None:
        """An assignment in hand is given up: the learner gives others."""
        if self._entry is not None:
            self._finished.append(self._entry)
            self._entry = None
        with contextlib.suppress(*self._link.away, self._link.redis.ResponseError):
            self._settle(self._link.client())
        self._link.close()

    def _renew(self) -> None:
        """A sign of life. An assignment that the broker does not know any more is none."""
        self._renew_at = time.monotonic() + RENEW_S
        try:
            client = self._link.client()
            if not client.xclaim(self._stream, GROUP, self._me, 0, [self._entry], justid=True):
                self._entry = None
        except self._link.away:
            pass
        except self._link.redis.ResponseError:
            self._entry = None

    def _take(self, within: float) -> None:
        began = time.monotonic()
        try:
            client = self._link.client()
            self._settle(client)
            for entry, fields in self._abandoned(client) or self._next(client, within):
                self._begin(entry, fields)
            return
        except self._link.away:
            pass
        except self._link.redis.ResponseError as error:
            # Where there is no stream yet, the learner will make one.
            if "NOGROUP" not in str(error) and "UNBLOCKED" not in str(error):
                _check_passing(self._link, error)
        time.sleep(max(0.0, began + within - time.monotonic()))

    def _begin(self, entry: bytes, fields: dict[bytes, bytes]) -> None:
        text = fields.get(SEGMENTS, b"")
        self._left = min(0, self._left) + (int(text) if text.isdigit() and int(text) <= MOST else 0)
        self._entry, self._renew_at = entry, time.monotonic() + RENEW_S
        self.used(0)

    def _settle(self, client: Any) -> None:
        if self._finished:
            client.xack(self._stream, GROUP, *self._finished)
            self._finished.clear()

    def _abandoned(self, client: Any) -> list[tuple[bytes, dict[bytes, bytes]]]:
        """What an actor that died had taken, if there is such."""
        if time.monotonic() < self._claim_at:
            return []
        idle = int(1000 * ABANDONED_S)
        found: list[tuple[bytes, dict[bytes, bytes]]] = client.xautoclaim(
            self._stream, GROUP, self._me, idle, count=1
        )[1]
        if not found:
            self._claim_at = time.monotonic() + RENEW_S
        return found

    def _next(self, client: Any, within: float) -> list[tuple[bytes, dict[bytes, bytes]]]:
        block = max(1, int(1000 * within))
        reply = client.xreadgroup(GROUP, self._me, {self._stream: ">"}, count=1, block=block)
        return list(reply[0][1]) if reply else []


def _check_passing(link: Link, error: Exception) -> None:
    """Raises what will not pass by itself: a full broker or disk will."""
    if not isinstance(error, link.redis.OutOfMemoryError) and not str(error).startswith("MISCONF"):
        raise PlaymillError(f"the broker refuses assignments: {error}") from error
