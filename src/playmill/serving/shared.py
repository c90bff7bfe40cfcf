"""The service through shared memory, for clients on this host: a thread each, answers written in place."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import stat
import threading
from pathlib import Path
from typing import Any

from playmill.games import PlaymillError
from playmill.serving.columns import Columns
from playmill.serving.errors import Code, ServiceError
from playmill.serving.house import House
from playmill.serving.messages import METHODS, parse
from playmill.serving.ring import HEADER_BYTES, KINDS, SLOTS, Call, Header, Ring, greet, make_memory

_LOG = logging.getLogger(__name__)
_METHODS = tuple(METHODS.values())


class SharedServer:
    """Listens on a unix socket and gives every client a ring of its own."""

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
        self._door = threading.Thread(target=self._accept, name="shared-door", daemon=True)

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
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RD)
        for thread, _ in clients:
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
                    peer = f"shared:{number}"
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
            _Desk(self._house, connection, peer).serve()
        except OSError:
            _LOG.debug("%s hung up", peer)
        except Exception:
            _LOG.exception("%s was cut off", peer)
        finally:
            connection.close()
            with self._lock:
                self._threads.pop(threading.current_thread(), None)


class _Desk:
    """One client and its ring."""

    VIEWS = 256
    """Sizes of batches whose views are kept."""

    def __init__(self, house: House, connection: socket.socket, peer: str) -> None:
        self._house = house
        self._connection = connection
        self._peer = peer
        slot_bytes = house.limits.message + HEADER_BYTES
        slot_bytes += -slot_bytes % 4096
        descriptor = make_memory(SLOTS, slot_bytes)
        try:
            self._ring = Ring(descriptor, SLOTS, slot_bytes)
            greet(connection, descriptor, SLOTS, slot_bytes)
        finally:
            os.close(descriptor)
        self._views: dict[tuple[int, int, int, int], tuple[Any, Any]] = {}

    def serve(self) -> None:
        """Until the client hangs up, rings for a slot there is not, or no longer takes answers."""
        while bells := self._connection.recv(SLOTS):
            for slot in bells:
                if slot >= SLOTS:
                    return
                self._answer(slot)
            # What was rung for together is answered together: less waking of each other. As many bytes
            # as slots fit any socket; a full one is of a client that stopped reading.
            self._connection.send(bells, socket.MSG_DONTWAIT)

    def _answer(self, slot: int) -> None:
        seq, _, call, hall, rows, size, _ = self._ring.read(slot)
        code = 0
        try:
            if call in KINDS:
                self._in_place(slot, call, hall, rows)
                size = 0
            else:
                size = self._message(slot, call, size)
        except ServiceError as error:
            code, size = error.code, self._say(slot, str(error))
        except Exception:
            _LOG.exception("a request failed")
            code, size = Code.INTERNAL, self._say(slot, "the server failed on this request")
        self._ring.write(slot, Header(seq, seq, call, hall, rows, size, code))

    def _say(self, slot: int, text: str) -> int:
        said = text.encode()[: self._ring.room()]
        self._ring.payload(slot, len(said))[:] = said
        return len(said)

    def _in_place(self, slot: int, call: int, hall: int, rows: int) -> None:
        self._house.meter.admit(self._peer, rows)
        asked, out = self._columns(slot, call, hall, rows)
        if call == Call.STATES:
            self._house.states(hall, asked, out)
        else:
            self._house.submit(hall, asked, out)

    def _columns(self, slot: int, call: int, hall: int, rows: int) -> tuple[Any, Any]:
        key = (slot, call, hall, rows)
        found = self._views.get(key)
        if found is None:
            layout = self._house.hall(hall).layout
            fits: tuple[Columns, Columns] | None = None
            if rows <= self._house.limits.rows:
                fits = self._ring.columns(slot, layout, *KINDS[call], rows)
            if fits is None:
                raise ServiceError(Code.RESOURCE_EXHAUSTED, f"{rows:,} rows do not fit one request")
            if len(self._views) >= self.VIEWS:
                self._views.clear()
            found = self._views[key] = fits
        return found

    def _message(self, slot: int, call: int, size: int) -> int:
        number = call - Call.MESSAGE
        if not 0 <= number < len(_METHODS) or size > self._ring.room():
            raise ServiceError(Code.INVALID_ARGUMENT, "no such call, or one longer than its slot")
        method = _METHODS[number]
        request = parse(method.request, bytes(self._ring.payload(slot, size)))
        said = method.answer(self._house, request, self._peer).SerializeToString()
        if len(said) > self._ring.room():
            raise ServiceError(Code.RESOURCE_EXHAUSTED, "the reply does not fit a slot; ask for fewer rows")
        self._ring.payload(slot, len(said))[:] = said
        return len(said)


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
