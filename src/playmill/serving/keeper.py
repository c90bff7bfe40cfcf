"""Checkpoints of all running games: every so many turns and at the end, and the last whole one at the start.

A checkpoint is written beside its place and renamed, with a manifest of hashes; it is whole or absent. What
was played after the last one is lost with a crash: games stand at an earlier turn, and turn numbers tell
clients which."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from playmill.checkpoints import CheckpointError, Store, lock_folder, read
from playmill.games import PlaymillError
from playmill.serving.house import House

KEEP = 2
FORMAT = 1
LOOK = 0.05
"""Seconds between two looks at how much was played: whoever plays is never held up to count."""
_LOG = logging.getLogger(__name__)


class Keeper:
    """Keeps the games of a house in a folder, from a thread of its own."""

    def __init__(self, house: House, folder: Path, turns: int = 10_000, seconds: float = 10.0) -> None:
        """Saves when `turns` turns were played, or anything was and `seconds` have gone by."""
        if turns < 1 or seconds <= 0:
            raise PlaymillError("a checkpoint every 0 turns or seconds is none: both must be more")
        self._house = house
        self._turns = turns
        self._seconds = seconds
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)  # checkpoints hold every seat's key
        self._claim = lock_folder(folder, "lock")
        self._store = Store(folder, keep=KEEP, on_warning=_LOG.warning)
        self._step = max(self._store.steps(), default=0)
        self._saved = house.changes
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)

    def load(self) -> int:
        """Puts the games of the last whole checkpoint into the house; how many."""
        latest = self._store.latest()
        if latest is None:
            return 0
        try:
            saved = read(latest)
            if saved.meta["format"] != FORMAT:
                raise PlaymillError("saved by another version")
            self._house.restore(saved.meta, saved.blobs)
        except (PlaymillError, CheckpointError, KeyError) as error:
            raise PlaymillError(
                f"{latest} cannot be taken up: {error}; move the folder away to begin anew"
            ) from None
        return self._house.games

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Saves a last time; nothing may change any more."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self.save()
        self._claim.close()

    def save(self) -> None:
        """Writes a checkpoint, unless nothing has changed since the last."""
        with self._lock:
            changes = self._house.changes
            if changes == self._saved:
                return
            meta, blobs = self._house.snapshot()
            self._step += 1
            self._store.save(self._step, {}, {"format": FORMAT, **meta}, blobs)
            self._saved = changes

    def _run(self) -> None:
        last = time.monotonic()
        while not self._ended.wait(min(LOOK, self._seconds)):
            played, now = self._house.changes - self._saved, time.monotonic()
            if played < self._turns and (played == 0 or now - last < self._seconds):
                continue
            last = now
            try:
                self.save()
            except (OSError, CheckpointError):
                _LOG.exception("no checkpoint could be written; the games go on without")
                self._ended.wait(self._seconds)
