"""One file that describes a cluster: what is trained, by which roles, on which machines."""

from __future__ import annotations

import copy
import dataclasses
import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from playmill.games import PlaymillError, unknown
from playmill.launch.names import (
    check_broker,
    check_host,
    check_image,
    check_name,
    check_path,
    check_quantity,
    check_user,
)
from playmill.launch.ray_settings import ANYWHERE, Ray
from playmill.training.config import Train, from_dict, recipe_values

HERE = "here"
"""The machine on which `playmill launch` runs, among the names of hosts."""
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def _check(good: bool, otherwise: str) -> None:
    if not good:
        raise PlaymillError(otherwise)


@dataclass(frozen=True)
class Broker:
    """The Redis between the roles. Its password comes from PLAYMILL_REDIS_PASSWORD or a file."""

    url: str = "redis://127.0.0.1:6379/0"
    """Beyond loopback it must be rediss:// (TLS); ssh hosts reach a loopback one through their tunnel."""
    start: bool = False
    """Start a redis-server on this machine, and keep it running."""
    password_file: str = ""
    """Where the password stands; without it and without the variable, a started broker gets a new one."""
    memory_mb: int = 2048
    """What a started broker may hold."""

    def __post_init__(self) -> None:
        check_broker(self.url, "broker.url")
        if self.password_file:
            check_path(self.password_file, "broker.password_file")
        _check(self.memory_mb >= 64, f"broker.memory_mb must be at least 64, got {self.memory_mb}")
        plain = self.url.startswith("redis:")
        _check(
            not plain or self.loopback,
            f"broker.url {self.url}: use rediss:// (TLS) beyond loopback, or a tunnel as ssh hosts have",
        )
        _check(not self.start or (plain and self.loopback), "broker.start needs a broker.url on 127.0.0.1")

    @property
    def loopback(self) -> bool:
        return (urlsplit(self.url).hostname or "") in LOOPBACK

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 6379


@dataclass(frozen=True)
class Learner:
    """Where the learner runs, and with it the evaluators: they share its folder."""

    on: str = HERE
    """A host by its name; by Ray the one node with that label."""
    evaluators: int = 0
    """Processes that evaluate checkpoints beside it; 0 or 1."""

    def __post_init__(self) -> None:
        _check(self.evaluators in (0, 1), f"learner.evaluators must be 0 or 1, got {self.evaluators}")


@dataclass(frozen=True)
class ActorPlaces:
    """How many actors, and where."""

    count: int = 1
    """In all."""
    on: tuple[str, ...] = ()
    """Hosts by name; actors are shared out among them in turn. Left out: this machine; Ray and Kubernetes
    place them themselves."""

    def __post_init__(self) -> None:
        _check(1 <= self.count <= 10_000, f"actors.count must be from 1 to 10000, got {self.count}")


@dataclass(frozen=True)
class Host:
    """A machine that is reached by ssh."""

    name: str = ""
    address: str = ""
    """As ssh knows it; the name where it is left out."""
    user: str = ""
    port: int = 22
    key: str = ""
    """File of the private key; otherwise whatever ssh finds."""
    known_hosts: str = ""
    """File with the host's key; otherwise the user's own. A host that is not in it is refused."""
    playmill: str = "playmill"
    """The program on that machine."""
    folder: str = ""
    """Where runs lie on that machine, if not in the cluster's folder."""
    tunnel_port: int = 0
    """Port of the tunnel to the broker on that machine; 0: the broker's own."""

    def __post_init__(self) -> None:
        check_name(self.name, "the host")
        _check(self.name != HERE, f"a host cannot be called {HERE}: that is this machine")
        check_host(self.address or self.name, f"hosts.{self.name}: address")
        if self.user:
            check_user(self.user, f"hosts.{self.name}: user")
        for name in ("key", "known_hosts", "playmill", "folder"):
            if getattr(self, name):
                check_path(getattr(self, name), f"hosts.{self.name}: {name}")
        _check(bool(self.playmill), f"hosts.{self.name}: playmill must be the program there")
        for name, low in (("port", 1), ("tunnel_port", 0)):
            value = getattr(self, name)
            _check(
                low <= value <= 65535, f"hosts.{self.name}: {name} must be from {low} to 65535, got {value}"
            )


@dataclass(frozen=True)
class Notice:
    """Word from the cloud that a machine will be taken away: its roles drain, checkpoint and stay away."""

    by: Literal["none", "aws", "gcp", "azure", "url", "file", "command"] = "none"
    url: str = ""
    """For url: taken away when it answers 200; for the clouds another address than theirs."""
    file: str = ""
    """For file: taken away when it exists."""
    command: tuple[str, ...] = ()
    """For command: taken away when it ends with 0."""
    every_s: float = 5.0
    """Seconds between two looks."""

    def __post_init__(self) -> None:
        if self.by in ("url", "file", "command"):
            _check(bool(getattr(self, self.by)), f"notice.by {self.by} needs notice.{self.by}")
        scheme = urlsplit(self.url).scheme
        _check(
            not self.url or scheme in ("http", "https"),
            f"notice.url must begin with http://, got {self.url!r}",
        )
        if self.file:
            check_path(self.file, "notice.file")
        _check(
            0.1 <= self.every_s <= 10, f"notice.every_s must be from 0.1 to 10 seconds, got {self.every_s:g}"
        )


@dataclass(frozen=True)
class Systemd:
    """What units say."""

    playmill: str = "/opt/playmill/bin/playmill"
    """The program, with its whole path."""
    settings: str = "/etc/playmill"
    """Folder of the cluster's file and of the password."""

    def __post_init__(self) -> None:
        for name in ("playmill", "settings"):
            path = check_path(getattr(self, name), f"systemd.{name}")
            _check(path.startswith("/"), f"systemd.{name} must be a whole path, got {path!r}")


@dataclass(frozen=True)
class Kubernetes:
    """What manifests say."""

    namespace: str = "playmill"
    image: str = "playmill:latest"
    redis_image: str = "redis:7.4"
    cpu: str = "2"
    """For an actor; the learner gets as much."""
    memory: str = "4Gi"
    disk: str = "20Gi"
    """For the learner's folder, and for the broker's."""
    silent_s: int = 600
    """A learner or actor that gave no sign of life for so many seconds is restarted."""
    scale: bool = False
    """KEDA starts as many actors as the learner asks for, actors.count at the most."""
    min_actors: int = 0
    """And so many at the least."""
    keda: str = "keda"
    """The namespace in which KEDA runs."""

    def __post_init__(self) -> None:
        check_name(self.namespace, "kubernetes.namespace")
        check_name(self.keda, "kubernetes.keda")
        check_image(self.image, "kubernetes.image")
        check_image(self.redis_image, "kubernetes.redis_image")
        for name in ("cpu", "memory", "disk"):
            check_quantity(getattr(self, name), f"kubernetes.{name}")
        _check(
            60 <= self.silent_s <= 86_400,
            f"kubernetes.silent_s must be from 60 to 86400, got {self.silent_s}",
        )


@dataclass(frozen=True)
class Cluster:
    """A run and the machines it is trained on."""

    name: str = ""
    """Of the cluster; the run's folder is called the same."""
    by: Literal["local", "ssh", "ray", "kubernetes", "systemd"] = "local"
    folder: str = "runs"
    """On every machine: runs lie in it."""
    broker: Broker = field(default_factory=Broker)
    learner: Learner = field(default_factory=Learner)
    actors: ActorPlaces = field(default_factory=ActorPlaces)
    hosts: tuple[Host, ...] = ()
    notice: Notice = field(default_factory=Notice)
    ray: Ray = field(default_factory=Ray)
    kubernetes: Kubernetes = field(default_factory=Kubernetes)
    systemd: Systemd = field(default_factory=Systemd)
    run: dict[str, Any] = field(default_factory=dict)
    """Settings of the run as a recipe has them; what depends on the machine is left to the learner's."""

    def __post_init__(self) -> None:
        check_name(self.name, "the cluster's name")
        check_path(self.folder, "folder")
        names = [host.name for host in self.hosts]
        _check(len(set(names)) == len(names), f"two hosts have the same name: {', '.join(names)}")
        _check(
            self.by == "ssh" or not names, f'hosts are for by = "ssh"; this cluster is placed by {self.by}'
        )
        for name in (self.learner.on, *self.actors.on):
            if self.by == "ray":
                check_name(name, "the node")
            elif name not in (HERE, *names):
                raise unknown("host", name, [HERE, *names])
        _check(
            self.by != "ray" or self.learner.on != ANYWHERE,
            "learner.on must be one machine: the run's folder lies there",
        )
        least, most = self.kubernetes.min_actors, self.actors.count
        _check(0 <= least <= most, f"kubernetes.min_actors must be from 0 to actors.count, got {least}")
        _check(
            not self.kubernetes.scale or self.by == "kubernetes", "kubernetes.scale is for kubernetes alone"
        )
        config = self.train
        _check(
            config.actors.inference == "actor" or self.by != "kubernetes",
            f'run.actors.inference = "process" needs actors side by side; by {self.by} take "actor"',
        )
        shared = config.actors.weights.startswith("shared")
        _check(not shared, "run.actors.weights cannot be shared memory: actors are on other machines")

    @property
    def train(self) -> Train:
        """The run, as the roles of this machine see it."""
        values = copy.deepcopy(self.run)
        actors = values.setdefault("actors", {})
        for name, where in (("channel", "broker.url"), ("count", "actors.count")):
            if isinstance(actors, dict) and name in actors:
                raise PlaymillError(f"leave out run.actors.{name}: {where} says it")
        if values.setdefault("lane", "engines") == "resident":
            raise PlaymillError("a cluster is for the engine lane; leave out run.lane")
        made = from_dict(Train, values, "run.")
        placed = dataclasses.replace(made.actors, channel=self.broker.url, count=0, **self._asked(made))
        return dataclasses.replace(made, lane="engines", actors=placed)

    def _asked(self, made: Train) -> dict[str, Any]:
        """Where actors are scaled: the stream has a name that is known before the run is, and a learner that
        starves asks for all actors there may be."""
        if not self.kubernetes.scale:
            return {}
        ahead = max(made.actors.ahead, self.actors.count)
        return {"assigned": True, "assigned_name": self.name, "ahead": ahead}

    @property
    def run_folder(self) -> Path:
        """Of the learner's run, on its machine."""
        return Path(self.folder) / self.name

    @property
    def own_folder(self) -> Path:
        """Of launch itself, on every machine: logs, what actors keep, the broker's data."""
        return Path(self.folder) / f"{self.name}.launch"

    def host(self, name: str) -> Host:
        return next(host for host in self.hosts if host.name == name)


def cluster_from(values: dict[str, Any]) -> Cluster:
    """A cluster from plain values; a recipe's are taken in, and what the file says goes before them."""
    rest = {name: value for name, value in values.items() if name not in ("run", "recipe")}
    run, recipe = values.get("run", {}), values.get("recipe", "")
    if not isinstance(run, dict) or not isinstance(recipe, str):
        raise PlaymillError("run must be a table of settings, and recipe the name of one")
    if recipe:
        run = _merged(recipe_values(recipe), run)
    _check(bool(run), "the cluster has nothing to train: give recipe = NAME, or a table [run]")
    return from_dict(Cluster, {**rest, "run": run})


def read_cluster(path: Path) -> Cluster:
    """From TOML as people write it, or JSON as launch passes it on."""
    try:
        text = path.read_text()
        values = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise PlaymillError(f"{path} cannot be read: {error}") from None
    except (json.JSONDecodeError, tomllib.TOMLDecodeError) as error:
        raise PlaymillError(f"{path} is not valid {path.suffix[1:].upper()}: {error}") from None
    if not isinstance(values, dict):
        raise PlaymillError(f"{path} is no cluster: it must be a table")
    return cluster_from(values)


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    out = dict(base)
    for name, value in over.items():
        inside = out.get(name)
        both = isinstance(inside, dict) and isinstance(value, dict)
        out[name] = _merged(inside, value) if both else value  # type: ignore[arg-type]
    return out
