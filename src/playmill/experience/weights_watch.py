"""Weights come in behind the player's back: a thread fetches them, play takes them between two batches."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from playmill.experience.weights import (
    MOST_BYTES,
    BadWeights,
    Blob,
    Follower,
    WeightsError,
    unpack,
)
from playmill.experience.weights_format import Tensors
from playmill.experience.weights_shared import SharedPublisher, WeightsInUse

EVERY = 0.002
"""Seconds between two looks for a newer version."""
PAUSE = 0.5
"""Seconds until what failed is tried again."""
STOPPED_S = 0.1
"""Seconds between two looks whether to stop waiting."""

_LOG = logging.getLogger(__name__)


class WatchStats(NamedTuple):
    """How an actor stands to the learner. Seconds, by the clocks of both hosts."""

    version: int = 0
    """In use; 0: none yet."""
    newest: int = 0
    """The newest there is."""
    age: float = 0.0
    """Since the version in use was published."""
    sync: float = 0.0
    """From publishing to taking, of the version in use."""
    taken: int = 0
    """Versions taken into use."""
    bad: int = 0
    """Versions that were refused for their hash or content."""
    failed: int = 0
    """Looks or fetches that failed otherwise."""
    problem: str = ""
    """The last of both."""


class _Loop:
    """A thread that looks again and again, and goes on after what went wrong."""

    def __init__(self, name: str, every: float, on_problem: Callable[[str], None]) -> None:
        self.bad = 0
        self.failed = 0
        self.problem = ""
        self._every = every
        self._on_problem = on_problem
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _look(self) -> None:
        raise NotImplementedError

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            try:
                self._look()
            except Exception as error:
                # Whatever it was: an actor whose thread died would play with old weights for ever.
                self._tell(error)
                self._stop.wait(PAUSE)

    def _tell(self, error: Exception) -> None:
        text = str(error) if isinstance(error, WeightsError) else f"{type(error).__name__}: {error}"
        new = text != self.problem
        self.problem = text
        if isinstance(error, BadWeights):
            self.bad += new  # a version that stays damaged counts once
        else:
            self.failed += 1
        if new:
            self._on_problem(text)

    def _end(self) -> None:
        self._stop.set()
        self._thread.join()


class _Ready(NamedTuple):
    blob: Blob
    tensors: Tensors


class WeightsWatch(_Loop):
    """Follows the newest weights in a thread of its own.

    `take` costs nothing when there is no news. What it gives is already checked and decoded, and the
    caller's own, so that putting it into use is one assignment (torch: `load_state_dict(assign=True)`).
    What is damaged or cannot be fetched is counted and told to `on_problem`; play goes on with what it has.
    """

    def __init__(
        self,
        follower: Follower,
        every: float = EVERY,
        on_problem: Callable[[str], None] = _LOG.warning,
        relay: Relay | None = None,
    ) -> None:
        """`relay`: what brings the weights to where this follows them; what it refuses counts here."""
        super().__init__("weights", every, on_problem)
        self._relay = relay
        self._follower = follower
        self._ready: _Ready | None = None
        self._used: Blob | None = None
        self._sync = 0.0
        self._taken = 0
        self._newest = 0
        self._lock = threading.Lock()
        self._came = threading.Event()
        self._thread.start()

    def take(self) -> tuple[int, Tensors] | None:
        """The newest version if it was not taken yet. Called by one thread, between two batches."""
        ready = self._ready
        if ready is None:
            return None
        with self._lock:
            ready, self._ready = self._ready or ready, None
        self._used = ready.blob._replace(data=b"")
        self._sync = max(0.0, time.time() - ready.blob.published)
        self._taken += 1
        return ready.blob.version, ready.tensors

    def first(self, within: float, stopped: Callable[[], bool] = lambda: False) -> tuple[int, Tensors]:
        """Waits for the first version, unless it is told to stop."""
        deadline = time.monotonic() + within
        while (found := self.take()) is None:
            left = deadline - time.monotonic()
            if left <= 0 or stopped():
                text = self.problem or "is the learner running?"
                raise WeightsError(f"no weights came within {within:g} s: {text}")
            self._came.wait(min(left, STOPPED_S))
        return found

    @property
    def refused(self) -> int:
        """Versions that were refused for their hash or content, here or on the way."""
        return self.bad + (self._relay.bad if self._relay is not None else 0)

    def stats(self) -> WatchStats:
        used = self._used
        return WatchStats(
            version=used.version if used else 0,
            newest=self._newest,
            age=max(0.0, time.time() - used.published) if used else 0.0,
            sync=self._sync,
            taken=self._taken,
            bad=self.bad,
            failed=self.failed,
            problem=self.problem,
        )

    def close(self) -> None:
        """Ends the thread and closes the follower."""
        self._end()
        self._follower.close()

    def _look(self) -> None:
        newest = self._follower.newest()
        if newest <= self._newest:
            return
        blob = self._follower.fetch_blob()
        if blob.version > self._newest:
            tensors = unpack(blob)
            self._newest = blob.version
            with self._lock:
                self._ready = _Ready(blob, tensors)
            self._came.set()


class Relay(_Loop):
    """Brings weights from Redis or a store into the shared memory of this host, once for all its actors.

    Every actor of a host may have one: the first to come publishes, the others wait to take its place.
    """

    def __init__(
        self,
        follower: Follower,
        path: Path,
        every: float = EVERY,
        most_bytes: int = MOST_BYTES,
        on_problem: Callable[[str], None] = _LOG.warning,
    ) -> None:
        super().__init__("weights relay", every, on_problem)
        self.carried = 0
        """Versions brought to this host."""
        self._follower = follower
        self._path = Path(path)
        self._most = most_bytes
        self._publisher: SharedPublisher | None = None
        self._thread.start()

    @property
    def leads(self) -> bool:
        """Whether this relay is the one that publishes."""
        return self._publisher is not None

    def close(self) -> None:
        """Ends the thread, closes the follower, and lets another relay take over."""
        self._end()
        self._follower.close()
        if self._publisher is not None:
            self._publisher.close()
            self._publisher = None

    def _look(self) -> None:
        if self._publisher is None:
            try:
                self._publisher = SharedPublisher(self._path, self._most)
            except WeightsInUse:
                self._stop.wait(PAUSE)
                return
        if self._follower.newest() <= self._publisher.newest():
            return
        blob = self._follower.fetch_blob()
        if blob.version > self._publisher.newest():
            self._publisher.put(blob)
            self.carried += 1
