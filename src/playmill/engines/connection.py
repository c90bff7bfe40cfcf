"""One engine process, or one socket of one: bytes to it, bytes from it, its last words, its end."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time

from playmill.engines.names import Launch
from playmill.engines.protocol import printable
from playmill.games import PlaymillError

CHUNK = 1 << 16
TAIL = 4096
"""Bytes of an engine's standard error that are kept."""

# The engine dies with whoever started it, even where it never looks at its input again. It asks for that
# itself, before it becomes the engine: code between fork and exec is not safe in a program with threads.
_LEASH = (
    "import ctypes,os,sys;ctypes.CDLL(None).prctl(1,9);"
    "os.getppid()==int(sys.argv[1]) or os._exit(1);os.execv(sys.argv[2],sys.argv[2:])"
)


class EngineGone(PlaymillError):
    """The engine ended, or closed its end."""


class Connection:
    """Bytes between a pool and one engine. Nothing here waits, but for `close`."""

    def __init__(self, launch: Launch, number: int = 0) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.errors = -1
        self._tail = b""
        self._unsent = bytearray()
        self._room = memoryview(
            bytearray(CHUNK)
        )  # reading into it is far cheaper than into a new one each time
        if launch.sockets:
            self.socket = _connected(launch.sockets[number % len(launch.sockets)])
        else:
            self.socket, theirs = socket.socketpair()
            with theirs:
                self._start(launch, theirs)
        self.socket.setblocking(False)

    def _start(self, launch: Launch, theirs: socket.socket) -> None:
        command = launch.command
        if sys.platform == "linux":
            command = (sys.executable, "-I", "-S", "-c", _LEASH, str(os.getpid()), *command)
        # Engines are many and play one game at a time; threads of their libraries would only get in the way.
        threads = {name: os.environ.get(name, "1") for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        try:
            self.process = subprocess.Popen(
                command,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.PIPE,
                cwd=launch.folder,
                env={**os.environ, **threads},
                start_new_session=True,  # so that what it started can be ended with it
            )
        except OSError as error:
            self.socket.close()
            raise EngineGone(f"{launch.command[0]} could not be started: {error.strerror}") from None
        assert self.process.stderr is not None
        self.errors = self.process.stderr.fileno()
        os.set_blocking(self.errors, False)

    @property
    def pid(self) -> int:
        """The process's id; 0 where somebody else runs it."""
        return 0 if self.process is None else self.process.pid

    def read(self) -> bytes:
        """What has arrived; nothing yet is empty. EngineGone at its end."""
        try:
            size = self.socket.recv_into(self._room)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise EngineGone(f"it ended ({error.strerror})") from None
        if not size:
            raise EngineGone("it ended")
        return self._room[:size].tobytes()

    def send(self, data: bytes) -> bool:
        """Sends, or keeps what does not go now; says whether all has gone."""
        if self._unsent:
            self._unsent += data
            return self.flush()
        try:
            sent = self.socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            raise EngineGone(f"it ended ({error.strerror})") from None
        if sent == len(data):
            return True
        self._unsent += data[sent:]
        return False

    def flush(self) -> bool:
        """Sends what was kept; says whether all has gone."""
        try:
            while self._unsent:
                del self._unsent[: self.socket.send(self._unsent)]
        except BlockingIOError:
            return False
        except OSError as error:
            raise EngineGone(f"it ended ({error.strerror})") from None
        return True

    def read_errors(self) -> bool:
        """Takes in what it wrote to standard error; False once that is closed."""
        try:
            for _ in range(16):  # one that never stops must not keep the others waiting
                data = os.read(self.errors, TAIL)
                if not data:
                    return False
                self._tail = (self._tail + data)[-TAIL:]
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    @property
    def last_words(self) -> str:
        """The end of its standard error, in printable characters, and how it ended by itself."""
        code = None if self.process is None else self.process.poll()
        ending = "" if code in (None, 0, -signal.SIGKILL) else f"\n(exit status {code})"
        return (printable(self._tail).strip() + ending).strip()

    def kill(self) -> None:
        """Ends the process and what it started, and the connection. `reaped` says when it is gone."""
        if self.process is not None:
            if self.process.returncode is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.process.pid, signal.SIGKILL)
            if self.errors >= 0:
                self.read_errors()
        self.socket.close()

    def reaped(self) -> bool:
        """Whether nothing is left of the process."""
        if self.process is None:
            return True
        if self.process.poll() is None:
            return False
        if self.process.stderr is not None and not self.process.stderr.closed:
            self.read_errors()
            self.process.stderr.close()
        return True

    def close(self, within: float = 5.0) -> None:
        """Kills it and waits for its end."""
        self.kill()
        until = time.monotonic() + within
        while not self.reaped() and time.monotonic() < until:
            time.sleep(0.002)


def _connected(path: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.connect(path)
    except OSError as error:
        made.close()
        why = error.strerror or error
        raise EngineGone(f"no engine listens at {path}: {why}; start it with --socket {path}") from None
    return made
