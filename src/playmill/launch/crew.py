"""The processes of a cluster on one machine, kept alive; and the ssh sessions to the others."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from playmill.launch.broker import broker_command
from playmill.launch.cluster import Cluster
from playmill.launch.keeper import CLUSTER_FILE
from playmill.launch.plan import Placed
from playmill.launch.secret import private_folder, write_private
from playmill.pools.remote_settings import Supervision
from playmill.training.actors import Member
from playmill.training.config import to_dict
from playmill.training.exchange import PASSWORD

NOTICED = 75
"""Exit code of a process whose machine is about to be taken away: it is not started again."""
PATIENCE_S = 25.0
"""For processes to drain and to save, when they are told to end."""
LOOK_S = 0.2
WATCHED = Supervision(restart_delay=0.5)


class Kept(Protocol):
    """Whom a crew looks after: a process of this machine, a session to another, a role that Ray places."""

    @property
    def name(self) -> str: ...
    @property
    def starts(self) -> int: ...
    @property
    def ended(self) -> int | None: ...
    def look_after(self) -> None: ...
    def ask_to_end(self) -> None: ...
    def end(self, until: float) -> None: ...


class Crew:
    """Members that run until the learner is done, or until told to end."""

    def __init__(self, members: Sequence[Kept], finishing: Kept | None, say: Callable[[str], None]) -> None:
        """`finishing`: the member with whose good end all is done."""
        self.members, self.finishing, self._say = list(members), finishing, say
        self._starts = {member.name: 0 for member in members}

    def run(self, stopped: Callable[[], bool]) -> str:
        """Why it ended: stopped, done, or notice."""
        try:
            while not stopped():
                for member in self.members:
                    member.look_after()
                    self._tell(member)
                if self.finishing is not None and self.finishing.ended is not None:
                    return "done" if self.finishing.ended == 0 else "notice"
                if all(member.ended is not None for member in self.members if member.name != "broker"):
                    return "notice"
                time.sleep(LOOK_S)
            return "stopped"
        finally:
            self.close()

    def close(self) -> None:
        """Everybody drains at once; the broker ends last, when nobody needs it."""
        until = time.monotonic() + PATIENCE_S
        brokers = [member for member in self.members if member.name == "broker"]
        for group in ([member for member in self.members if member not in brokers], brokers):
            for member in group:
                member.ask_to_end()
            for member in group:
                member.end(max(until, time.monotonic() + 1.0))

    def _tell(self, member: Kept) -> None:
        before, self._starts[member.name] = self._starts[member.name], member.starts
        if member.starts > before:
            self._say(f"{member.name} started" + (f" again ({member.starts - 1})" if before else ""))


def write_cluster(cluster: Cluster) -> Path:
    """The file that the processes of this machine read; there is no secret in it."""
    file = private_folder(cluster.own_folder) / CLUSTER_FILE
    write_private(file, cluster_text(cluster))
    return file


def cluster_text(cluster: Cluster) -> str:
    return json.dumps(to_dict(cluster), indent=1)


def final_codes(role: Placed) -> tuple[int, ...]:
    """Exit codes after which it stays away."""
    return (0, NOTICED) if role.role == "learner" else (NOTICED,)


def local_members(cluster: Cluster, roles: Sequence[Placed], password: str) -> list[Member]:
    """A process of this machine for each role."""
    file = write_cluster(cluster)
    logs = private_folder(cluster.own_folder / "logs")
    environment = {**os.environ, PASSWORD: password}
    program = [sys.executable, "-m", "playmill"]
    members = []
    for i, role in enumerate(roles):
        if role.role == "broker":
            words = broker_command(cluster, password)
        else:
            words = [*role.words(program, str(file)), "--parent", str(os.getpid())]
        members.append(Member(role.name, words, logs, WATCHED, i, environment, final_codes(role)))
    return members
