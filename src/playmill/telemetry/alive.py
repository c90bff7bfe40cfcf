"""Signs of life for those who restart what hangs: a file whose time says that a process goes on."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

EVERY_S = 1.0


class Alive:
    """The file of one process; without a path nothing is written."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._next = 0.0

    def sign(self) -> None:
        """The process goes on. To be called again and again; the file is touched once a second."""
        now = time.monotonic()
        if self.path is not None and now >= self._next:
            self._next = now + EVERY_S
            self._touch(time.time())

    def expect(self, seconds: float) -> None:
        """What begins now may take so long before there is another sign: the file's time lies ahead."""
        self._next = 0.0
        self._touch(time.time() + seconds)

    def _touch(self, when: float) -> None:
        if self.path is None:
            return
        with contextlib.suppress(OSError):  # a full disk is no reason to end
            self.path.touch()
            os.utime(self.path, (when, when))
