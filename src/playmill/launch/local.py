"""`playmill launch` on its own machine: starts everything, waits, and ends everything."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playmill.games import PlaymillError
from playmill.launch.broker import check_broker_there
from playmill.launch.cluster import HERE, Cluster
from playmill.launch.crew import PATIENCE_S, Crew, local_members
from playmill.launch.plan import on_host, placed
from playmill.launch.ray_settings import enter
from playmill.launch.secret import find_password, private_folder
from playmill.launch.ssh import Session, check_hosts
from playmill.training.actors import Member

PID_FILE = "launch.pid"


def launch(cluster: Cluster, stopped: Callable[[], bool], say: Callable[[str], None]) -> str:
    """Runs the cluster from this machine until its learner is done or it is told to stop; why it ended."""
    password = find_password(cluster)
    cluster.train.telemetry.needed_token()
    with _only_one(cluster):
        if not cluster.broker.start:
            check_broker_there(cluster, password)
        if cluster.by == "ray":
            return _launch_by_ray(cluster, password, stopped, say)
        hosts = [name for name in dict.fromkeys(one.host for one in placed(cluster)) if name != HERE]
        check_hosts(cluster, hosts)
        members = local_members(cluster, on_host(cluster, HERE), password)
        logs = cluster.own_folder / "logs"
        members += [
            Session(cluster, cluster.host(name), password, logs, len(members) + i)
            for i, name in enumerate(hosts)
        ]
        return Crew(members, _finishing(cluster, members), say).run(stopped)


def _launch_by_ray(
    cluster: Cluster, password: str, stopped: Callable[[], bool], say: Callable[[str], None]
) -> str:
    enter(cluster.ray)
    try:
        from playmill.launch.ray import by_ray
    except ImportError as error:
        raise PlaymillError(f"by = 'ray' needs Ray ({error}): pip install 'playmill[ray]'") from None
    brokers = local_members(cluster, [one for one in placed(cluster) if one.role == "broker"], password)
    with by_ray(cluster, password, say) as roles:
        return Crew([*brokers, *roles], roles[0], say).run(stopped)


def stop(cluster: Cluster) -> bool:
    """Tells the launch of this cluster to end, and waits until it has; whether there was one."""
    file = cluster.own_folder / PID_FILE
    try:
        with file.open() as held:
            until = time.monotonic() + PATIENCE_S + 10.0
            if _lock(held.fileno()):
                return False
            os.kill(int(held.read()), signal.SIGTERM)
            while not _lock(held.fileno()):
                if time.monotonic() > until:
                    raise PlaymillError(
                        f"the launch of {cluster.name} has not ended; see {file.parent / 'logs'}"
                    )
                time.sleep(0.1)
            return True
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return False


def _finishing(cluster: Cluster, members: list[Member]) -> Member:
    """With whose end all is done: the learner's, or that of the session to its machine."""
    name = "learner" if cluster.learner.on == HERE else cluster.learner.on
    return next(member for member in members if member.name == name)


@contextmanager
def _only_one(cluster: Cluster) -> Iterator[None]:
    """One launch of a cluster at a time; its process's number is in the file."""
    file: Path = private_folder(cluster.own_folder) / PID_FILE
    with file.open("a+") as held:
        if not _lock(held.fileno()):
            raise PlaymillError(f"{cluster.name} is running already; `playmill launch --stop` ends it")
        held.truncate(0)
        held.write(str(os.getpid()))
        held.flush()
        yield


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
