"""A learner publishes and goes on: a thread takes the weights to wherever they go."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from playmill.experience.weights import MOST_BYTES, Blob, Publisher, WeightsError, fits, grows, prepare
from playmill.experience.weights_format import Array

PAUSE = 0.5
"""Seconds until what failed is tried again."""

_LOG = logging.getLogger(__name__)


class LaterStats(NamedTuple):
    published: int = 0
    """Versions that arrived."""
    skipped: int = 0
    """Versions that a newer one overtook while they waited."""
    failed: int = 0
    """Tries that failed."""
    problem: str = ""
    """Why the last one did."""


class LaterPublisher(Publisher):
    """Copies the tensors, and hashes and sends them in a thread; of versions that wait, the newest stays.

    A broker that is away costs no training: it is told to `on_problem`, and the newest version is tried
    again until it arrives. What is wrong with a version itself is raised at once.
    """

    def __init__(self, publisher: Publisher, on_problem: Callable[[str], None] = _LOG.warning) -> None:
        self._publisher = publisher
        self._on_problem = on_problem
        self._newest = publisher.newest()
        self._waiting: Blob | None = None
        self._busy = False
        self._closing = False
        self._stats = LaterStats()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="weights publisher", daemon=True)
        self._thread.start()

    def newest(self) -> int:
        """The newest version handed over, or found when this began."""
        return self._newest

    def publish(self, version: int, tensors: Mapping[str, Array]) -> None:
        published, draft = prepare(version, tensors)
        fits(draft.size, MOST_BYTES)
        data = np.empty(draft.size, np.uint8).data
        draft.write(data)
        self.put(Blob(version, published, b"", data))

    def put(self, blob: Blob) -> None:
        """Takes over a blob; one without a hash gets it on the way."""
        grows(blob.version, self._newest)
        with self._changed:
            if self._waiting is not None:
                self._count(skipped=1)
            self._newest = blob.version
            self._waiting = blob
            self._changed.notify_all()

    def stats(self) -> LaterStats:
        return self._stats

    def flush(self, within: float) -> bool:
        """Waits until everything arrived; False where it did not in that time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._waiting is None and not self._busy, within)

    def close(self, within: float = 5.0) -> None:
        """Gives what waits so many seconds to arrive, then ends."""
        self.flush(within)
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        self._publisher.close()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting is not None or self._closing)
                blob, self._waiting = self._waiting, None
                if self._closing or blob is None:
                    return
                self._busy = True
            sent = self._send(blob)
            with self._changed:
                self._busy = False
                if not sent and self._waiting is None:
                    self._waiting = blob
                self._changed.notify_all()
                if not sent:
                    self._rest()

    def _send(self, blob: Blob) -> bool:
        try:
            if not blob.sha256:
                blob = blob._replace(sha256=hashlib.sha256(blob.data).digest())
            self._publisher.put(blob)
        except Exception as error:
            # Whatever it was: a thread that died would leave all actors with old weights for ever.
            text = str(error) if isinstance(error, WeightsError) else f"{type(error).__name__}: {error}"
            new = text != self._stats.problem
            self._count(failed=1, problem=text)
            if new:
                self._on_problem(text)
            return False
        self._count(published=1)
        return True

    def _rest(self) -> None:
        """Between two tries; a close does not wait for it."""
        until = time.monotonic() + PAUSE
        self._changed.wait_for(lambda: self._closing or time.monotonic() >= until, PAUSE)

    def _count(self, published: int = 0, skipped: int = 0, failed: int = 0, problem: str = "") -> None:
        with self._changed:
            old = self._stats
            self._stats = LaterStats(
                old.published + published, old.skipped + skipped, old.failed + failed, problem or old.problem
            )
