"""A policy as a process of its own: rows of all actors of a host in one forward pass.

An actor connects to a unix socket and is handed memory to share. It writes its rows there and sends four
bytes, how many; the answers are written beside them, and sixteen bytes come back. The socket wakes, waits and
tells of death; nothing but counts goes through it."""

from __future__ import annotations

import contextlib
import mmap
import os
import selectors
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from playmill.games import GameSpec, PlaymillError
from playmill.serving.answers import PolicyTable
from playmill.serving.batching import Batching, Pace
from playmill.serving.ring import make_memory
from playmill.telemetry.meters import NO_METERS, Meters

ASKED = struct.Struct("<I")  # rows
REPLY = struct.Struct("<QII")  # version, past policies, 0 or why not
GREETING = struct.Struct("<8sQI")  # what is wanted, the schema's hash, rows at once
POLICY = b"PMpolicy"
MOST_ROWS = 65_536
UNKNOWN_DRIVER = 1


class Rows(NamedTuple):
    """The columns an actor and the server share; `most` rows."""

    observation: npt.NDArray[np.uint8]
    legal: npt.NDArray[np.uint8]
    driver: npt.NDArray[np.uint8]
    action: npt.NDArray[np.int32]
    log_probability: npt.NDArray[np.float32]
    value: npt.NDArray[np.float32]

    @classmethod
    def over(cls, memory: mmap.mmap, spec: GameSpec, most: int) -> Rows:
        places = _places(spec, most)

        def column(number: int, kind: type[np.generic]) -> npt.NDArray[Any]:
            return np.frombuffer(memory, kind, places[number + 1].numbers, places[number].end)

        return cls(
            column(0, np.uint8).reshape(most, spec.schema.bytes),
            column(1, np.uint8).reshape(most, spec.legal_bytes),
            column(2, np.uint8),
            column(3, np.int32),
            column(4, np.float32),
            column(5, np.float32),
        )

    @staticmethod
    def bytes(spec: GameSpec, most: int) -> int:
        return _places(spec, most)[-1].end


class _Place(NamedTuple):
    """How many numbers a column has, and where it ends."""

    numbers: int
    end: int


def _places(spec: GameSpec, most: int) -> list[_Place]:
    """Of the columns, each on a line of the cache; the first is before them all."""
    places = [_Place(0, 0)]
    for width, size in ((spec.schema.bytes, 1), (spec.legal_bytes, 1), (1, 1), (1, 4), (1, 4), (1, 4)):
        count = most * width
        places.append(_Place(count, places[-1].end + count * size + -(count * size) % 64))
    return places


class _Actor:
    """One connected actor."""

    def __init__(self, connection: socket.socket, rows: Rows, most: int) -> None:
        self.connection, self.rows, self.most = connection, rows, most
        self.waiting = 0
        self.since = 0.0


class InferenceServer:
    """Answers the rows of all actors that connect to `path`."""

    def __init__(
        self, table: PolicyTable, path: Path, batching: Batching, meters: Meters = NO_METERS
    ) -> None:
        self.table, self.path, self._meters = table, path, meters
        self.pace = Pace(batching, 1)
        self._actors: dict[socket.socket, _Actor] = {}
        self._selector = selectors.DefaultSelector()
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listener.bind(str(path))
        except OSError as error:
            self._listener.close()
            raise PlaymillError(f"cannot listen at {path}: {error}; name another folder") from None
        path.chmod(0o600)
        self._inode = path.stat().st_ino
        self._listener.listen(64)
        self._selector.register(self._listener, selectors.EVENT_READ)

    def serve(self, stopped: Callable[[], bool], between: Callable[[], None]) -> None:
        """Until `stopped`; `between` is called between two batches, for new weights."""
        while not stopped():
            between()
            self.step(0.05)

    def step(self, idle_s: float) -> int:
        """Takes in what came, and answers a batch if one is due: its rows."""
        now = time.perf_counter()
        ready = [actor for actor in self._actors.values() if actor.waiting]
        oldest = min((actor.since for actor in ready), default=now)
        wait = max(0.0, oldest + self.pace.wait_s - now) if ready else idle_s
        for key, _ in self._selector.select(wait):
            if key.fileobj is self._listener:
                self._accept()
            else:
                self._asked(self._actors[key.fileobj])  # type: ignore[index]
        ready = [actor for actor in self._actors.values() if actor.waiting]
        rows, now = sum(actor.waiting for actor in ready), time.perf_counter()
        if not ready:
            return 0
        oldest = min(actor.since for actor in ready)
        if rows < self.pace.size and now - oldest < self.pace.wait_s:
            return 0
        asked = [(actor.waiting, actor.since) for actor in ready] if self._meters.on else ()
        self._answer(ready)
        for count, since in asked:
            self._meters.observe("inference_seconds", time.perf_counter() - since, count)
        self._meters.observe("inference_batch_fill", rows / self.pace.most)
        self.pace.answered(rows, now - oldest, time.perf_counter() - now)
        return rows

    def close(self) -> None:
        for actor in list(self._actors.values()):
            self._drop(actor)
        self._selector.close()
        self._listener.close()
        with contextlib.suppress(FileNotFoundError):
            if self.path.stat().st_ino == self._inode:  # else it is a successor's
                self.path.unlink()

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        connection.settimeout(5.0)
        try:
            most = self._read_greeting(connection.recv(GREETING.size))
        except (ValueError, OSError) as error:
            with contextlib.suppress(OSError):
                connection.sendall(f"refused: {error}".encode()[:200])
            connection.close()
            return
        size = Rows.bytes(self.table.spec, most)
        descriptor = make_memory(1, size)
        try:
            socket.send_fds(connection, [b"welcome"], [descriptor])
            memory = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)
        connection.setblocking(False)
        self._actors[connection] = _Actor(connection, Rows.over(memory, self.table.spec, most), most)
        self._selector.register(connection, selectors.EVENT_READ)
        self._resize()

    def _read_greeting(self, data: bytes) -> int:
        """How many rows an actor wants to ask at once; ValueError where it is none of ours."""
        if len(data) != GREETING.size or not data.startswith(POLICY):
            raise ValueError("this is the socket of a policy")
        _, schema, most = GREETING.unpack(data)
        mine = self.table.spec.schema.hash
        if schema != mine:
            raise ValueError(f"this policy reads schema {mine:016x}, not {schema:016x}")
        if not 1 <= most <= MOST_ROWS:
            raise ValueError(f"rows must be from 1 to {MOST_ROWS}")
        return int(most)

    def _asked(self, actor: _Actor) -> None:
        try:
            data = actor.connection.recv(ASKED.size)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        rows = ASKED.unpack(data)[0] if len(data) == ASKED.size else 0
        if actor.waiting or not 1 <= rows <= actor.most:
            self._drop(actor)
            return
        if actor.rows.driver[:rows].max() > self.table.past:
            self._reply(actor, UNKNOWN_DRIVER)
            return
        actor.waiting, actor.since = rows, time.perf_counter()

    def _answer(self, ready: list[_Actor]) -> None:
        asked = [(actor, actor.waiting) for actor in ready]
        parts = [[column[:n] for column in actor.rows[:3]] for actor, n in asked]
        columns = parts[0] if len(parts) == 1 else [np.concatenate(c) for c in zip(*parts, strict=True)]
        # A copy: what an actor does to its memory meanwhile must not matter.
        observation, legal, driver = (np.array(column) for column in columns)
        found = self.table.answer(observation, legal, np.minimum(driver, self.table.past).astype(np.uint8))
        at = 0
        for actor, n in asked:
            for mine, new in zip(actor.rows[3:], found[:3], strict=True):
                mine[:n] = new[at : at + n]
            at += n
            actor.waiting = 0
            self._reply(actor)

    def _reply(self, actor: _Actor, refusal: int = 0) -> None:
        try:
            actor.connection.send(REPLY.pack(self.table.version, self.table.past, refusal))
        except OSError:
            self._drop(actor)

    def _drop(self, actor: _Actor) -> None:
        self._actors.pop(actor.connection, None)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(actor.connection)
        actor.connection.close()
        self._resize()

    def _resize(self) -> None:
        self.pace.resize(sum(actor.most for actor in self._actors.values()))
