"""A real redis-server with a password, on a free port of this host, for as long as a test needs it."""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest


class RedisServer:
    """Can be killed and started again at the same address; it keeps nothing on the disk."""

    def __init__(self, folder):
        self.password = secrets.token_hex(16)
        self.port = free_port()
        self._folder = folder
        self._process = None

    @property
    def url(self):
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    @property
    def bare_url(self):
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self, *options):
        settings = f"port {self.port}\nbind 127.0.0.1\nrequirepass {self.password}\nsave ''\nappendonly no\n"
        command = ["redis-server", "-", "--dir", self._folder, *options]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, text=True, **pipes)
        self._process.stdin.write(settings)  # not in the arguments, which every user of the host can read
        self._process.stdin.close()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.02)
        raise AssertionError("redis-server did not start")

    def kill(self):
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None


@contextlib.contextmanager
def running_redis(*options):
    if shutil.which("redis-server") is None:
        if os.environ.get("CI"):
            pytest.fail("redis-server is missing; .ci/packages installs it")
        pytest.skip("redis-server is not installed")
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(folder)
        try:
            server.start(*options)
            yield server
        finally:
            server.kill()


@pytest.fixture
def redis_server():
    with running_redis() as server:
        yield server


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
