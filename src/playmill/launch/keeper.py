"""What Ray runs on a node: it keeps the processes of a few roles alive there.

It knows neither Ray nor torch, and is small beside the processes it keeps."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from playmill.games import PlaymillError
from playmill.launch.secret import private_folder, write_private
from playmill.pools.remote_settings import Supervision
from playmill.training.actors import Member

CLUSTER_FILE = "cluster.json"
"""In the folder of launch, on every machine; there is no secret in it."""
LOOK_S = 0.2


class Job(NamedTuple):
    """A process that is to run."""

    name: str
    words: list[str]
    """Behind `playmill`."""
    final: tuple[int, ...]
    """Exit codes after which it stays away."""


class Report(NamedTuple):
    """How the processes are."""

    life: str
    """Another one for each place that the keeper has had."""
    host: str
    """The name of its machine."""
    starts: dict[str, int]
    """By name, in this life."""
    ended: dict[str, int]
    """Exit codes of who stays away."""
    refusal: str = ""
    """Why one of them does not start."""


class Keeper:
    """Ray makes it again on another node when its own is gone. It starts nothing before it is told what is
    secret: that comes with a call from launch, and not with what Ray keeps to make it again."""

    def __init__(self, folder: str, cluster: str, jobs: Sequence[Job], supervision: Supervision) -> None:
        """`folder`: of launch on this node. `cluster`: text of the cluster's file."""
        self._folder, self._cluster, self._jobs = Path(folder), cluster, jobs
        self._supervision = supervision
        self._life = secrets.token_hex(8)
        self._members: list[Member] = []

    def begin(self, secret: Mapping[str, str]) -> Report:
        """Starts the processes, with what is secret in their environment."""
        try:
            self._members = self._members or self._made({**os.environ, **secret})
        except (OSError, PlaymillError) as error:
            return self._report(str(error))
        return self._look()

    def watch(self, within: float) -> Report | None:
        """Looks after them, until something has changed or the time is over; None: they are not begun."""
        if not self._members:
            return None
        until, before = time.monotonic() + within, self._look()
        found = before
        while found == before and time.monotonic() < until:
            time.sleep(LOOK_S)
            found = self._look()
        return found

    def end(self, within: float) -> None:
        """They drain; who takes too long is killed."""
        until = time.monotonic() + within
        for member in self._members:
            member.ask_to_end()
        for member in self._members:
            member.end(until)

    def _made(self, environment: Mapping[str, str]) -> list[Member]:
        private_folder(self._folder)
        write_private(self._folder / CLUSTER_FILE, self._cluster)
        logs = private_folder(self._folder / "logs")
        program, parent = [sys.executable, "-m", "playmill"], ["--parent", str(os.getpid())]
        return [
            Member(
                job.name, [*program, *job.words, *parent], logs, self._supervision, i, environment, job.final
            )
            for i, job in enumerate(self._jobs)
        ]

    def _look(self) -> Report:
        try:
            for member in self._members:
                member.look_after()
        except PlaymillError as error:
            return self._report(str(error))
        return self._report()

    def _report(self, refusal: str = "") -> Report:
        starts = {member.name: member.starts for member in self._members}
        ended = {member.name: member.ended for member in self._members if member.ended is not None}
        return Report(self._life, socket.gethostname(), starts, ended, refusal)
