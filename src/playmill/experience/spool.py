"""Messages on disk while the broker is away: a file each, in a folder of one actor, up to a bound."""

from __future__ import annotations

import fcntl
import os
import re
import time
from pathlib import Path

from playmill.experience.segment import Identity
from playmill.games import PlaymillError

PATIENCE = 15.0
"""Seconds for the actor's process before this one, if it is about to end."""
NAME = re.compile(r"(\d{20})-(\d{20})\.segment", re.ASCII)


class Spool:
    """What it holds outlives the process; the actor's next one finds it. A file has its name when it is whole
    and on disk."""

    def __init__(self, folder: Path, run: str, actor: int, most_bytes: int) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder = folder
        self._of = (run, actor)
        self._most_bytes = most_bytes
        self._lock = (folder / "lock").open("w")
        until = time.monotonic() + PATIENCE
        while not self._locked():
            if time.monotonic() > until:
                self._lock.close()
                raise PlaymillError(f"{folder} is in use: every actor needs a spool of its own")
            time.sleep(0.05)
        for half in folder.glob("*.tmp"):
            half.unlink()
        self.bytes = sum(path.stat().st_size for _, path in self.found())

    def _locked(self) -> bool:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def found(self) -> list[tuple[Identity, Path]]:
        """What is there, oldest first."""
        out = []
        for path in sorted(self.folder.iterdir()):
            match = NAME.fullmatch(path.name)
            if match is not None:
                out.append((Identity(*self._of, int(match[1]), int(match[2])), path))
        return out

    def room(self, size: int) -> bool:
        return self.bytes + size <= self._most_bytes

    def put(self, identity: Identity, message: bytes, *, more: bool = False) -> Path:
        """Raises OSError where the disk is full, and leaves nothing behind. With `more` to come the name
        is not yet safe from a loss of power."""
        path = self.folder / f"{identity.epoch:020}-{identity.sequence:020}.segment"
        half = path.with_suffix(".tmp")
        try:
            with half.open("wb") as file:
                file.write(message)
                file.flush()
                os.fsync(file.fileno())
            half.replace(path)
        except OSError:
            half.unlink(missing_ok=True)
            raise
        self.bytes += len(message)
        if not more:
            self.sync()
        return path

    def sync(self) -> None:
        """The names are on disk."""
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def remove(self, path: Path) -> None:
        self.bytes -= path.stat().st_size
        path.unlink()

    def close(self) -> None:
        self._lock.close()
