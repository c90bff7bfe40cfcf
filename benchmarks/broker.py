"""A real redis-server with a password, on a free port of this host, for benchmarks and tests."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator

from playmill.games import PlaymillError


class Broker:
    """Can be killed and started again at the same address; it keeps on the disk what its options say."""

    def __init__(self, folder: str, host: str = "127.0.0.1", prefix: tuple[str, ...] = ()) -> None:
        """`prefix`: put before the command, to start it elsewhere."""
        self.password = secrets.token_hex(16)
        self.host, self.port = host, free_port()
        self._folder, self._prefix = folder, prefix
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@{self.host}:{self.port}/0"

    @property
    def bare_url(self) -> str:
        return f"redis://{self.host}:{self.port}/0"

    def start(self, *options: str) -> None:
        settings = (
            f"port {self.port}\nbind {self.host}\nrequirepass {self.password}\nsave ''\nappendonly no\n"
        )
        self._process = subprocess.Popen(
            [*self._prefix, "redis-server", "-", "--dir", self._folder, *options],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdin is not None
        # Not as arguments, which every user of the host can read.
        self._process.stdin.write(settings)
        self._process.stdin.close()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection((self.host, self.port), 1):
                return
            time.sleep(0.02)
        raise PlaymillError("redis-server did not start")

    def send_signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextlib.contextmanager
def running_broker(*options: str) -> Iterator[Broker]:
    """A broker for as long as it is needed."""
    if shutil.which("redis-server") is None:
        raise PlaymillError("redis-server is missing; install it (Debian: apt-get install redis-server)")
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(folder)
        try:
            broker.start(*options)
            yield broker
        finally:
            broker.kill()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
