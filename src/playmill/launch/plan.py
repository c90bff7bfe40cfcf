"""Which role runs where, and as which command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from playmill.launch.cluster import HERE, Cluster
from playmill.launch.ray_settings import ANYWHERE, LABEL, Ray


class Placed(NamedTuple):
    """A process of the cluster."""

    role: str
    """broker, learner, evaluator, policy or actor."""
    number: int
    """Of an actor."""
    host: str

    @property
    def name(self) -> str:
        return f"actor-{self.number}" if self.role == "actor" else self.role

    def words(self, program: list[str], cluster_file: str) -> list[str]:
        """The command that plays this role."""
        number = ["--number", str(self.number)] if self.role == "actor" else []
        return [*program, "join", cluster_file, self.role, *number]


def placed(cluster: Cluster) -> list[Placed]:
    """All processes, in the order in which they start."""
    return list(_placed(cluster))


def _placed(cluster: Cluster) -> Iterator[Placed]:
    if cluster.broker.start:
        yield Placed("broker", 0, HERE)
    yield Placed("learner", 0, cluster.learner.on)
    if cluster.learner.evaluators:
        yield Placed("evaluator", 0, cluster.learner.on)
    on = cluster.actors.on or ((ANYWHERE,) if cluster.by == "ray" else (HERE,))
    if cluster.train.actors.inference == "process":
        for host in dict.fromkeys(on[: cluster.actors.count]):
            yield Placed("policy", 0, host)
    for number in range(cluster.actors.count):
        yield Placed("actor", number, on[number % len(on)])


def on_host(cluster: Cluster, host: str) -> list[Placed]:
    return [one for one in placed(cluster) if one.host == host]


def plan_lines(cluster: Cluster) -> list[str]:
    """What would be started where. There are no secrets in a cluster, so none are shown."""
    config = cluster.train
    many = f"{'up to ' if cluster.kubernetes.scale else ''}{cluster.actors.count} actors"
    lines = [
        f"cluster {cluster.name}, placed by {cluster.by}: {config.game}, "
        f"{many} with {config.actors.slots} games each",
        f"broker  {cluster.broker.url}" + (", started here" if cluster.broker.start else ""),
    ]
    if cluster.by == "ray":
        lines.append(f"ray     {cluster.ray.address}; {_asked(cluster.ray)}")
    for host in dict.fromkeys(one.host for one in placed(cluster)):
        names = [one.name for one in on_host(cluster, host) if one.role != "actor"]
        numbers = [one.number for one in on_host(cluster, host) if one.role == "actor"]
        if numbers:
            names.append(f"actors {', '.join(map(str, numbers))}" if len(numbers) < 9 else _span(numbers))
        lines.append(f"{_where(cluster, host)}  {', '.join(names)}")
    return lines


def _span(numbers: list[int]) -> str:
    return f"{len(numbers)} actors, {numbers[0]} to {numbers[-1]}"


def _asked(ray: Ray) -> str:
    gpus = f" and {ray.learner_gpus:g} GPUs" if ray.learner_gpus else ""
    return f"the learner asks for {ray.learner_cpus:g} CPUs{gpus}, an actor for {ray.actor_cpus:g}"


def _where(cluster: Cluster, host: str) -> str:
    if host == HERE and cluster.by in ("kubernetes", "systemd"):
        return "rendered"
    if host == HERE or (host == ANYWHERE and cluster.by == "ray"):
        return host
    if cluster.by == "ray":
        return f"nodes with {LABEL}={host}"
    found = cluster.host(host)
    user = f"{found.user}@" if found.user else ""
    return f"{host} ({user}{found.address or found.name}:{found.port})"
