"""The actor's side of a policy in a process of its own (`inference.py`)."""

from __future__ import annotations

import mmap
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from playmill.games import GameSpec, PlaymillError
from playmill.serving.answers import Answered
from playmill.serving.inference import ASKED, GREETING, POLICY, REPLY, UNKNOWN_DRIVER, Rows


class SharedAnswers:
    """Answers of the process behind `path`. If it dies, its successor is waited for."""

    def __init__(
        self,
        path: Path,
        spec: GameSpec,
        most: int,
        patience_s: float = 60.0,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """`most`: rows asked at once. Who is told to stop waits for no successor."""
        self.path, self.spec, self.most, self.patience_s = path, spec, most, patience_s
        self._stopped = stopped
        self.past = 0
        """Past policies that can be asked, as of the last answer."""
        self._connection, self._rows = self._connect()

    @property
    def opponents(self) -> int:
        return self.past

    def renew(self) -> None:
        """The process does it for all its actors."""

    def answer(
        self,
        observation: npt.NDArray[np.uint8],
        legal: npt.NDArray[np.uint8],
        driver: npt.NDArray[np.uint8],
    ) -> Answered:
        n = len(observation)
        if not 1 <= n <= self.most:
            raise PlaymillError(f"{n} rows asked at once; this connection was made for 1 to {self.most}")
        version, self.past, refusal = REPLY.unpack(self._ask(n, observation, legal, driver))
        if refusal == UNKNOWN_DRIVER:
            raise PlaymillError(f"driver {driver.max()} is asked, but there are {self.past} past policies")
        rows = self._rows
        action, logs, value = rows.action[:n].copy(), rows.log_probability[:n].copy(), rows.value[:n].copy()
        return Answered(action, logs, value, version)

    def close(self) -> None:
        self._connection.close()

    def _ask(self, n: int, *columns: npt.NDArray[np.uint8]) -> bytes:
        """The reply to n rows."""
        while True:
            for mine, given in zip(self._rows[:3], columns, strict=True):
                mine[:n] = given
            try:
                self._connection.sendall(ASKED.pack(n))
                reply = self._connection.recv(REPLY.size, socket.MSG_WAITALL)
            except OSError:
                reply = b""
            if len(reply) == REPLY.size:
                return reply
            self._connection.close()  # it died: its successor is asked the same
            self._connection, self._rows = self._connect()

    def _connect(self) -> tuple[socket.socket, Rows]:
        deadline, pause = time.monotonic() + self.patience_s, 0.01
        while True:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                return connection, self._greet(connection)
            except OSError as error:
                connection.close()
                if self._stopped() or time.monotonic() > deadline:
                    raise PlaymillError(f"no policy answers at {self.path} ({error})") from None
            time.sleep(pause)
            pause = min(2 * pause, 0.5)

    def _greet(self, connection: socket.socket) -> Rows:
        connection.connect(str(self.path))
        connection.sendall(GREETING.pack(POLICY, self.spec.schema.hash, self.most))
        word, descriptors, _, _ = socket.recv_fds(connection, 256, 1)
        if not descriptors:
            if word:
                connection.close()
                raise PlaymillError(f"the policy at {self.path} {word.decode(errors='replace')}")
            raise ConnectionResetError("it hung up")
        memory = mmap.mmap(descriptors[0], Rows.bytes(self.spec, self.most))
        os.close(descriptors[0])
        return Rows.over(memory, self.spec, self.most)
