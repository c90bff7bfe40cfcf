"""Which roles go together to which nodes of Ray; refused before anything starts where it cannot be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from playmill.games import PlaymillError
from playmill.launch.cluster import HERE, Cluster
from playmill.launch.plan import Placed, placed
from playmill.launch.ray_settings import ANYWHERE, LABEL

Node = Mapping[str, Any]
"""As `ray.nodes` gives it."""


class Place(NamedTuple):
    """Roles that need each other's machine, and what they ask for."""

    roles: tuple[Placed, ...]
    host: str
    cpus: float
    gpus: float

    @property
    def name(self) -> str:
        return ", ".join(role.name for role in self.roles)

    @property
    def learns(self) -> bool:
        return self.roles[0].role == "learner"

    @property
    def needs(self) -> str:
        gpus = f" and {self.gpus:g} GPUs" if self.gpus else ""
        where = {HERE: "on this machine", ANYWHERE: "anywhere"}.get(self.host, f"with {LABEL}={self.host}")
        return f"{self.cpus:g} CPUs{gpus} {where}"


def places(cluster: Cluster) -> list[Place]:
    """The evaluator reads the learner's folder; actors that share a policy's process are beside it. Every
    other actor is by itself. The broker is launch's own."""
    settings, roles = cluster.ray, [one for one in placed(cluster) if one.role != "broker"]
    learning = tuple(one for one in roles if one.role in ("learner", "evaluator"))
    out = [Place(learning, learning[0].host, settings.learner_cpus, settings.learner_gpus)]
    actors = [one for one in roles if one.role == "actor"]
    groups: list[tuple[Placed, ...]] = [(one,) for one in actors]
    policies = [one for one in roles if one.role == "policy"]
    if policies:
        groups = [(one, *(actor for actor in actors if actor.host == one.host)) for one in policies]
    for group in groups:
        count = sum(one.role == "actor" for one in group)
        out.append(Place(group, group[0].host, count * settings.actor_cpus, 0.0))
    return out


def check_nodes(cluster: Cluster, nodes: Sequence[Node], here: str, tls: bool) -> None:
    """`here`: id of this machine's node. `tls`: what goes over Ray's wires cannot be read."""
    alive = [node for node in nodes if node["Alive"]]
    own = next(node for node in alive if node["NodeID"] == here)
    used: list[Node] = []
    for place in places(cluster):
        used += _usable(place, alive, own)
    beyond = sorted({str(node["NodeManagerAddress"]) for node in used} - {str(own["NodeManagerAddress"])})
    if beyond and cluster.broker.loopback:
        raise PlaymillError(
            f"{cluster.broker.url} cannot be reached from {', '.join(beyond[:4])}: give a broker with TLS "
            f'(rediss://), or set learner.on and actors.on = ["{HERE}"]'
        )
    if beyond and not tls and not cluster.broker.password_file:
        raise PlaymillError(
            "the broker's password would go over Ray's wires in the clear: set broker.password_file to a "
            "file that every node has, or turn on Ray's own TLS (RAY_USE_TLS=1)"
        )


def _usable(place: Place, alive: Sequence[Node], own: Node) -> list[Node]:
    """The nodes on which a place may be."""
    if place.host in (HERE, ANYWHERE):
        found = [own] if place.host == HERE else list(alive)
    else:
        found = [node for node in alive if node["Labels"].get(LABEL) == place.host]
    if not found:
        raise PlaymillError(
            f"no node of Ray has the label {LABEL}={place.host}: start one with "
            f"`ray start --labels {LABEL}={place.host}`"
        )
    if place.learns and len(found) > 1:
        raise PlaymillError(
            f"{len(found)} nodes of Ray have the label {LABEL}={place.host}; the learner's folder lies on "
            "one: give it a label of its own"
        )
    able = [node for node in found if _has(node, "CPU", place.cpus) and _has(node, "GPU", place.gpus)]
    if not able:
        raise PlaymillError(f"no node of Ray has room for {place.name}: {place.needs}; see [ray]")
    return able


def _has(node: Node, what: str, amount: float) -> bool:
    return bool(node["Resources"].get(what, 0.0) >= amount)
