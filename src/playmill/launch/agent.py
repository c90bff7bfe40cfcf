"""The far end of an ssh session: runs a machine's part of a cluster while it is held on the leash."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable

from playmill.games import PlaymillError
from playmill.launch.cluster import cluster_from
from playmill.launch.crew import NOTICED, Crew, local_members
from playmill.launch.plan import on_host
from playmill.launch.ssh import read_task
from playmill.training.telemetry_settings import TOKEN

SILENCE_S = 30.0
"""Without a sign of life the other end is gone, or the network is."""
MOST_BYTES = 1 << 20


class Leash:
    """A pipe from whoever started this process."""

    def __init__(self, fd: int, silence_s: float = SILENCE_S) -> None:
        self._fd, self._silence_s = fd, silence_s
        self._heard = time.monotonic()
        self._held = True

    def first_line(self) -> bytes:
        found = b""
        while not found.endswith(b"\n"):
            ready, _, _ = select.select([self._fd], [], [], self._silence_s)
            part = os.read(self._fd, 1) if ready else b""
            if not part or len(found) > MOST_BYTES:
                raise PlaymillError("nothing was said on stdin; `playmill launch` starts this by itself")
            found += part
        self._heard = time.monotonic()
        return found

    def held(self) -> bool:
        """Whether the other end is there."""
        while self._held and select.select([self._fd], [], [], 0)[0]:
            self._held = bool(os.read(self._fd, 4096))
            self._heard = time.monotonic()
        return self._held and time.monotonic() - self._heard < self._silence_s


def attend(leash: Leash, stopped: Callable[[], bool]) -> int:
    """Runs the processes of this machine; the exit code."""
    task = read_task(leash.first_line())
    host, cluster = task.host, cluster_from(task.cluster)
    if task.token:
        os.environ[TOKEN] = task.token
    members = local_members(cluster, on_host(cluster, host), task.password)
    learner = next((one for one in members if one.name == "learner"), None)
    crew = Crew(members, learner, lambda text: print(f"{host}: {text}", flush=True))
    why = crew.run(lambda: stopped() or not leash.held())
    return NOTICED if why == "notice" else 0
