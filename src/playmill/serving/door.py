"""A unix socket whose clients are on this host and have a thread each."""

from __future__ import annotations

import contextlib
import logging
import socket
import stat
import threading
import time
from pathlib import Path
from typing import ClassVar

from playmill.games import PlaymillError
from playmill.serving.desk import Desk
from playmill.serving.house import House

PATIENCE = 1.0
"""Seconds that clients have to take their last reply when the server stops."""
_LOG = logging.getLogger(__name__)


class Door:
    """Listens, and gives every client a desk of its own."""

    scheme: ClassVar[str]
    """What addresses begin with, without the colon."""
    desk: ClassVar[type[Desk]]

    def __init__(self, house: House, path: Path) -> None:
        self._house = house
        self.path = path
        self._threads: dict[threading.Thread, socket.socket] = {}
        self._lock = threading.Lock()
        self._stopping = False
        _clear(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(str(path))
        except OSError as error:
            raise PlaymillError(f"cannot listen on {path}: {error.strerror or error}") from None
        path.chmod(0o600)
        self._socket.listen(64)
        self._door = threading.Thread(target=self._accept, name=f"{self.scheme}-door", daemon=True)

    @property
    def place(self) -> str:
        """Its address for clients."""
        return f"{self.scheme}:{self.path}"

    def start(self) -> None:
        self._door.start()

    def stop(self) -> None:
        """Hangs up on everybody, after the calls that run."""
        self._stopping = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._door.join()
        with self._lock:
            clients = list(self._threads.items())
        for _, connection in clients:
            _shut(connection, socket.SHUT_RD)
        deadline = time.monotonic() + PATIENCE
        for thread, connection in clients:
            thread.join(max(0.0, deadline - time.monotonic()))
            _shut(connection, socket.SHUT_RDWR)  # of one that does not read
            thread.join()
        self.path.unlink(missing_ok=True)

    def _accept(self) -> None:
        number = 0
        while not self._stopping:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            number += 1
            with self._lock:
                full = len(self._threads) >= self._house.limits.clients
                if not full:
                    peer = f"{self.scheme}:{number}"
                    thread = threading.Thread(
                        target=self._run, args=(connection, peer), name=peer, daemon=True
                    )
                    self._threads[thread] = connection
            if full:
                connection.close()
            else:
                thread.start()

    def _run(self, connection: socket.socket, peer: str) -> None:
        try:
            self.desk(self._house, connection, peer).serve()
        except OSError:
            _LOG.debug("%s hung up", peer)
        except Exception:
            _LOG.exception("%s was cut off", peer)
        finally:
            with self._lock:
                self._threads.pop(threading.current_thread(), None)
            connection.close()


def _shut(connection: socket.socket, how: int) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(how)


def _clear(path: Path) -> None:
    """Removes what a dead server left; a living one keeps its place."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise PlaymillError(f"{path} exists and is no socket: name another place")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)
            return
    raise PlaymillError(f"another server listens on {path}")
