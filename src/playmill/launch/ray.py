"""Roles placed by Ray: each behind a keeper, which Ray makes again on another node when its own is gone.

The only file that imports Ray. Keepers are no detached actors: they die with launch, however it dies, and
Ray kills their processes with them. Only a launch that is told to stop lets them drain."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ray
from ray._raylet import GcsClient  # type: ignore[attr-defined]  # it is compiled
from ray.exceptions import ActorDiedError, GetTimeoutError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from playmill.games import PlaymillError
from playmill.launch.cluster import HERE, Cluster
from playmill.launch.crew import PATIENCE_S, WATCHED, cluster_text, final_codes
from playmill.launch.keeper import CLUSTER_FILE, Job, Keeper, Report
from playmill.launch.ray_places import Place, check_nodes, places
from playmill.launch.ray_settings import ANYWHERE, LABEL, MODE, Ray
from playmill.training.exchange import PASSWORD

WATCH_S = 1.0
"""For which a keeper watches before it answers; as long may an end wait to be heard."""
SILENCE_S = 10.0
"""After which launch says who has no place."""
STORE_BYTES = 100 << 20
"""Of a Ray that launch starts; nothing of ours goes through its store."""
REACH_S = 10.0
OPEN, SHUT = 0, 3
# Whether a cluster answers who has no token: the environment decides when Ray is imported, so in a process.
ASK = f"""\
import sys
from ray._raylet import GcsClient
from ray.exceptions import AuthenticationError
try:
    GcsClient(address=sys.argv[1])
except AuthenticationError:
    sys.exit({SHUT})
"""


@contextlib.contextmanager
def by_ray(cluster: Cluster, password: str, say: Callable[[str], None]) -> Iterator[list[PlacedRole]]:
    """The roles of a cluster, handed to Ray."""
    cluster = _everywhere(cluster)
    wanted = places(cluster)
    with _connected(cluster.ray, sum(place.cpus for place in wanted), wanted[0].gpus):
        here = ray.get_runtime_context().get_node_id()
        nodes = ray.nodes()  # type: ignore[no-untyped-call]
        check_nodes(cluster, nodes, here, os.environ.get("RAY_USE_TLS") == "1")
        secret = {} if cluster.broker.password_file else {PASSWORD: password}
        groups = [Group(cluster, place, here, secret, say) for place in wanted]
        yield [PlacedRole(job.name, group) for group in groups for job in group.jobs]


def _everywhere(cluster: Cluster) -> Cluster:
    """With the same paths on every node, whatever folder Ray was started in there."""
    file = cluster.broker.password_file
    broker = dataclasses.replace(cluster.broker, password_file=str(Path(file).resolve()) if file else "")
    return dataclasses.replace(cluster, folder=str(Path(cluster.folder).resolve()), broker=broker)


@contextlib.contextmanager
def _connected(settings: Ray, cpus: float, gpus: float) -> Iterator[None]:
    # Nodes that Ray starts here would hand it on to all that runs on them.
    os.environ.pop(PASSWORD, None)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if settings.address == "local":
            ray.init(
                address="local",
                include_dashboard=False,
                num_cpus=math.ceil(cpus),
                num_gpus=math.ceil(gpus),
                object_store_memory=STORE_BYTES,
                **quiet,
            )
        else:
            address = (
                os.environ.get("RAY_ADDRESS", "auto") if settings.address == "auto" else settings.address
            )
            if address != "auto":
                _reach(address)
            ray.init(address=address, **quiet)
            _check_shut(ray.get_runtime_context().gcs_address)
    except (OSError, ValueError, RuntimeError, subprocess.SubprocessError, RayError) as error:
        ray.shutdown()
        raise PlaymillError(f"Ray ({settings.address}) cannot be used: {_last_line(error)}") from None
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    try:
        yield
    finally:
        ray.shutdown()


def _reach(address: str) -> None:
    """Ray itself would try for minutes where nobody is, and long where its token is not taken."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), REACH_S):
        GcsClient(address=address)


def _check_shut(address: str) -> None:
    environment = {**os.environ, MODE: "disabled"}
    done = subprocess.run(
        [sys.executable, "-c", ASK, address], env=environment, capture_output=True, timeout=REACH_S
    )
    if done.returncode == OPEN:
        raise RuntimeError(f"it answers without a token; start its nodes anew with {MODE}=token")
    if done.returncode != SHUT:
        raise RuntimeError(f"whether it asks for a token cannot be found out: {done.stderr.decode()[-200:]}")


class Group:
    """Roles behind one keeper, wherever it is now."""

    def __init__(
        self, cluster: Cluster, place: Place, here: str, secret: dict[str, str], say: Callable[[str], None]
    ) -> None:
        self.place, self._secret, self._say = place, secret, say
        file = str(cluster.own_folder / CLUSTER_FILE)
        self.jobs = [Job(role.name, role.words([], file), final_codes(role)) for role in place.roles]
        keeper: Any = ray.remote(Keeper)
        self._keeper = keeper.options(**_options(place, here)).remote(
            str(cluster.own_folder), cluster_text(cluster), self.jobs, WATCHED
        )
        self._call: Any = self._keeper.begin.remote(secret)
        self._ending: Any = None
        self._heard = time.monotonic()
        self._report: Report | None = None
        self._before = {job.name: 0 for job in self.jobs}
        """Starts in lives before this one."""

    def look(self) -> None:
        """Takes an answer if there is one, and asks anew."""
        if not ray.wait([self._call], timeout=0)[0]:
            self._tell_silence()
            return
        try:
            found = ray.get(self._call)
        except (ActorDiedError, RayTaskError) as error:
            raise PlaymillError(f"{self.place.name} cannot be kept by Ray: {_last_line(error)}") from None
        except RayError:  # its node or its keeper is gone, and Ray sees to it
            found = None
            self._tell_silence()
        if found is not None:
            self._take(found)
        begun = found is not None
        self._call = self._keeper.watch.remote(WATCH_S) if begun else self._keeper.begin.remote(self._secret)

    def starts(self, name: str) -> int:
        return self._before[name] + (self._report.starts[name] if self._report is not None else 0)

    def ended(self, name: str) -> int | None:
        return self._report.ended.get(name) if self._report is not None else None

    def ask_to_end(self) -> None:
        if self._ending is None:
            self._ending = self._keeper.end.remote(PATIENCE_S)

    def end(self, until: float) -> None:
        """Who has no place has nothing to hand over."""
        if self._report is not None:
            with contextlib.suppress(RayError, GetTimeoutError):
                ray.get(self._ending, timeout=max(0.0, until - time.monotonic()) + WATCH_S)
        ray.kill(self._keeper)

    def _take(self, found: Report) -> None:
        if found.refusal:
            raise PlaymillError(f"on {found.host}: {found.refusal}")
        if self._report is None or self._report.life != found.life:
            self._before = {job.name: self.starts(job.name) for job in self.jobs}
            self._say(f"{self.place.name}: on {found.host}")
        self._report, self._heard = found, time.monotonic()

    def _tell_silence(self) -> None:
        if time.monotonic() - self._heard > SILENCE_S:
            self._heard = time.monotonic()
            self._say(f"{self.place.name}: no place yet; Ray is asked for {self.place.needs}")


class PlacedRole:
    """A role that Ray has placed, as a crew sees it."""

    def __init__(self, name: str, group: Group) -> None:
        self.name, self._group = name, group

    @property
    def starts(self) -> int:
        return self._group.starts(self.name)

    @property
    def ended(self) -> int | None:
        return self._group.ended(self.name)

    def look_after(self) -> None:
        self._group.look()

    def ask_to_end(self) -> None:
        self._group.ask_to_end()

    def end(self, until: float) -> None:
        self._group.end(until)


def _options(place: Place, here: str) -> dict[str, Any]:
    out: dict[str, Any] = {
        "num_cpus": place.cpus,
        "num_gpus": place.gpus,
        "max_restarts": -1,
        "scheduling_strategy": "SPREAD",
    }
    if place.host == HERE:
        out["scheduling_strategy"] = NodeAffinitySchedulingStrategy(here, soft=False)
    elif place.host != ANYWHERE:
        out["label_selector"] = {LABEL: place.host}
    return out


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
