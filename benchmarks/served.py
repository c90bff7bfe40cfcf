"""A real `playmill serve` in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

PATIENCE = 60.0


class Served:
    """The server, its addresses, and ways to end it. What it says goes into `folder / "log"`."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.log = folder / "log"
        self._said = len(self.log.read_text()) if self.log.exists() else 0
        command = [sys.executable, "-m", "playmill", "serve", *arguments]
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=folder)

    @classmethod
    def everywhere(cls, folder: Path, *arguments: str) -> Self:
        """On TCP, a unix socket, frames and shared memory; ready."""
        places = ("--listen", "127.0.0.1:0", f"unix:{folder / 'grpc.sock'}")
        doors = ("--frames", str(folder / "frames.sock"), "--shared", str(folder / "shared.sock"))
        served = cls(folder, *places, *doors, *arguments)
        served.ready()
        return served

    def said(self) -> str:
        """What this process has printed."""
        return self.log.read_text()[self._said :]

    @property
    def places(self) -> list[str]:
        """Where it listens, in the order TCP, unix socket, frames, shared memory."""
        lines = self.said().splitlines()
        return [line.removeprefix("listening on ") for line in lines if line.startswith("listening on ")]

    def ready(self) -> None:
        """Waits until it listens on shared memory, which comes last."""
        deadline = time.monotonic() + PATIENCE
        while "listening on shared:" not in self.said():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start:\n{self.said()}")
            time.sleep(0.01)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def drain(self) -> int:
        """SIGTERM; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
