"""What a cluster that Ray places asks Ray for, and the environment in which Ray may be used at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import MutableMapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from playmill.games import PlaymillError
from playmill.launch.names import check_host

LABEL = "playmill"
"""Nodes of Ray are called by this label of theirs."""
ANYWHERE = "anywhere"
"""Any node, among the names of hosts."""
MODE, TOKEN, TOKEN_FILE = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
LOOPBACK_ALONE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Ray's own setting for machines that are no part of a cluster; its listeners are on 127.0.0.1 then."""


@dataclass(frozen=True)
class Ray:
    """Where Ray is, and what the roles ask it for."""

    address: str = "auto"
    """auto: the cluster that this machine is a node of; HOST:PORT of its head; local: one on this machine,
    for as long as the launch runs."""
    actor_cpus: float = 1.0
    """That an actor asks for."""
    learner_cpus: float = 1.0
    """That the learner asks for, with its evaluator."""
    learner_gpus: float = 0.0

    def __post_init__(self) -> None:
        if self.address not in ("auto", "local"):
            _check_address(self.address)
        for name in ("actor_cpus", "learner_cpus", "learner_gpus"):
            value = getattr(self, name)
            if not (value == 0 or 0.01 <= value <= 1024):
                raise PlaymillError(f"ray.{name} must be 0, or from 0.01 to 1024, got {value:g}")
        if self.learner_gpus > 1 and self.learner_gpus % 1:
            raise PlaymillError(f"ray.learner_gpus must be whole above 1, got {self.learner_gpus:g}")


def _check_address(address: str) -> None:
    try:
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    shown = f"[{host}]" if ":" in host else host
    if not port or f"{shown}:{port}".lower() != address.lower():
        raise PlaymillError(f"ray.address {address!r}: give auto, local, or HOST:PORT of the cluster's head")
    check_host(host, "ray.address: the host")


def enter(settings: Ray, environment: MutableMapping[str, str] = os.environ) -> None:
    """Before Ray is imported, which reads its environment once. Whoever reaches a Ray without a token can
    run whatever he likes on all its nodes, so there is none without."""
    mode = environment.get(MODE, "token" if settings.address == "local" else "")
    if mode.lower() != "token":
        raise PlaymillError(
            f"Ray must ask for its token: make one with `ray get-auth-token --generate`, give every node the "
            f"same file ~/.ray/auth_token, and set {MODE}=token for `ray start` and for this command"
        )
    if settings.address == "local":
        environment.update({MODE: mode, **LOOPBACK_ALONE})
        if TOKEN not in environment and TOKEN_FILE not in environment:
            environment[TOKEN] = secrets.token_hex(32)
