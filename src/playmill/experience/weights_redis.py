"""Weights between hosts through Redis.

    playmill:{RUN}:weights          {"version", "sha256", "key", "size"} of the newest, and the channel's name
    playmill:{RUN}:weights:VERSION  the blob
    playmill:{RUN}:weights:stored   versions that may have a blob, so that none is left behind by a kill

Pub/sub carries the pointer alone: Redis drops a subscriber that has more than some MB waiting. Who was not
listening finds the pointer in its key. Nothing here needs scripts, which a careful broker denies.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import time
from typing import Any, NamedTuple

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
)
from playmill.experience.weights_broker import Told, connect

KEEP = 3
"""Versions whose blobs stay, for followers that are reading them."""
LOOK = 1.0
"""Seconds between two looks at the pointer, in case an announcement was lost."""
TRIES = 5


class _Names(NamedTuple):
    pointer: str
    stored: str

    def blob(self, version: int) -> str:
        return f"{self.pointer}:{version}"


class _Pointer(NamedTuple):
    version: int
    sha256: bytes
    key: str
    size: int


def names(run: str) -> _Names:
    """The keys of a run; in a cluster, braces keep them in one place."""
    pointer = f"playmill:{{{check_run(run)}}}:weights"
    return _Names(pointer, f"{pointer}:stored")


class RedisPublisher(Publisher):
    """Puts blobs under keys with their version, then moves the pointer and announces it."""

    def __init__(
        self,
        url: str,
        run: str,
        *,
        password: str | None = None,
        keep: int = KEEP,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        if keep < 1:
            raise WeightsError(f"at least one version is kept, got {keep}")
        self._names = names(run)
        self._keep = keep
        self._most = most_bytes
        self._client = connect(url, password)
        self._redis = importlib.import_module("redis")

    def newest(self) -> int:
        with Told(self._redis):
            found = self._client.get(self._names.pointer)
        return 0 if found is None else _read(found, self._names).version

    def put(self, blob: Blob) -> None:
        fits(len(blob.data), self._most)
        grows(blob.version, self.newest())
        key = self._names.blob(blob.version)
        pointer = {"version": blob.version, "sha256": blob.sha256.hex(), "key": key, "size": len(blob.data)}
        with Told(self._redis):
            # Noted before it is there: what a kill leaves behind is found and deleted by the next version.
            self._client.sadd(self._names.stored, blob.version)
            self._client.set(key, blob.data)
            self._announce(blob.version, json.dumps(pointer))
            self._clear(blob.version)

    def close(self) -> None:
        self._client.close()

    def _announce(self, version: int, pointer: str) -> None:
        """Moves the pointer, unless another publisher moved it further meanwhile."""
        with self._client.pipeline(transaction=True) as line:
            while True:
                line.watch(self._names.pointer)
                found = line.get(self._names.pointer)
                if found == pointer.encode():
                    return  # the answer to an earlier try was lost
                grows(version, 0 if found is None else _read(found, self._names).version)
                line.multi()
                line.set(self._names.pointer, pointer)
                line.publish(self._names.pointer, pointer)
                try:
                    line.execute()
                except self._redis.WatchError:
                    continue
                return

    def _clear(self, newest: int) -> None:
        stored = sorted(int(version) for version in self._client.smembers(self._names.stored))
        keep = [version for version in stored if version <= newest][-self._keep :]
        if old := [version for version in stored if version not in keep and version < newest]:
            self._client.delete(*map(self._names.blob, old))
            self._client.srem(self._names.stored, *old)


class RedisFollower(Follower):
    """Hears announcements; looks at the pointer now and then besides."""

    def __init__(
        self,
        url: str,
        run: str,
        *,
        password: str | None = None,
        look: float = LOOK,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._names = names(run)
        self._look = look
        self._most = most_bytes
        self._client = connect(url, password)
        self._redis = importlib.import_module("redis")
        self._listener: Any = None
        self._version = 0
        self._next_look = 0.0

    def newest(self) -> int:
        """Does not wait: a broker that is away is asked again with every look at the pointer."""
        if self._listener is not None:
            self._hear()
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + self._look
            with Told(self._redis):
                if self._listener is None:
                    listener = self._client.pubsub(ignore_subscribe_messages=True)
                    listener.subscribe(self._names.pointer)
                    self._listener = listener
                with contextlib.suppress(NoWeights):
                    self._heard(self._pointer())
        return self._version

    def fetch_blob(self) -> Blob:
        for _ in range(TRIES):
            with Told(self._redis):
                pointer = self._pointer()
                fits(pointer.size, self._most)
                size = self._client.strlen(pointer.key)
                # Checked before it is fetched: whatever lies there, memory stays capped.
                data = self._client.get(pointer.key) if size == pointer.size else None
            if data is not None:
                blob = checked(pointer.version, pointer.sha256, data)
                self._heard(pointer)
                return blob
            if size:
                raise BadWeights(f"{pointer.key} has {size:,} bytes, announced were {pointer.size:,}")
        raise WeightsError(f"the blob of {self._names.pointer} is not there; publish again")

    def close(self) -> None:
        self._hang_up()
        self._client.close()

    def _pointer(self) -> _Pointer:
        found = self._client.get(self._names.pointer)
        if found is None:
            raise NoWeights(f"nothing was published at {self._names.pointer} yet")
        return _read(found, self._names)

    def _heard(self, pointer: _Pointer) -> None:
        self._version = max(self._version, pointer.version)

    def _hear(self) -> None:
        try:
            while (message := self._listener.get_message(timeout=0)) is not None:
                self._heard(_read(message["data"], self._names))
        except self._redis.RedisError:
            # Made again with the next look, which also finds what was announced meanwhile.
            self._hang_up()

    def _hang_up(self) -> None:
        if self._listener is not None:
            with contextlib.suppress(self._redis.RedisError):
                self._listener.close()
            self._listener = None


def _read(found: bytes, names: _Names) -> _Pointer:
    """A pointer of ours, or BadWeights: keys from elsewhere are not followed."""
    try:
        raw = json.loads(found)
        version, size = raw["version"], raw["size"]
        pointer = _Pointer(version, bytes.fromhex(raw["sha256"]), raw["key"], size)
        if type(version) is not int or type(size) is not int or size < 0 or version < 1:
            raise ValueError("numbers out of range")
        if pointer.key != names.blob(version) or len(pointer.sha256) != 32:
            raise ValueError("a key or hash that is not ours")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadWeights(f"{names.pointer} was not written by Playmill ({error}); delete that key") from error
    return pointer
