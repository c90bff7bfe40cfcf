"""Machines that are reached by ssh: one session each, which holds the machine's processes on a leash.

The far end is `playmill agent`. It is told on its stdin what to run, with the password; a sign of life comes
every few seconds. When stdin ends or falls silent its processes drain. So nothing is left behind by a launch
that dies or a network that breaks, and no file has to be copied. The session carries the broker's tunnel."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from playmill.games import PlaymillError
from playmill.launch.cluster import Cluster, Host
from playmill.launch.crew import NOTICED, WATCHED
from playmill.launch.names import quoted
from playmill.training.actors import Member
from playmill.training.config import to_dict

ALIVE_S = 5.0
"""Between two signs of life."""
TRY_S = 20.0
OPTIONS = {
    "BatchMode": "yes",
    "StrictHostKeyChecking": "yes",
    "ConnectTimeout": "10",
    "ServerAliveInterval": "5",
    "ServerAliveCountMax": "3",
    "ExitOnForwardFailure": "yes",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "PermitLocalCommand": "no",
    "UpdateHostKeys": "no",
}


def ssh_words(host: Host, words: list[str], broker: tuple[str, int] | None = None) -> list[str]:
    """The command for a session in which `words` run; `broker`: what the tunnel leads to."""
    options = dict(OPTIONS)
    if host.known_hosts:
        options["UserKnownHostsFile"] = options["GlobalKnownHostsFile"] = str(
            Path(host.known_hosts).resolve()
        )
    if host.key:
        options["IdentitiesOnly"] = "yes"
    out = ["ssh", "-T", *(part for name, value in options.items() for part in ("-o", f"{name}={value}"))]
    out += ["-p", str(host.port)]
    if host.key:
        out += ["-i", str(Path(host.key).resolve())]
    if host.user:
        out += ["-l", host.user]
    if broker is not None:
        out += ["-R", f"127.0.0.1:{host.tunnel_port or broker[1]}:{broker[0]}:{broker[1]}"]
    return [*out, "--", host.address or host.name, quoted(words)]


def seen_from(cluster: Cluster, host: Host) -> Cluster:
    """The cluster as that machine sees it: a broker on loopback is at the end of the tunnel."""
    broker = dataclasses.replace(cluster.broker, start=False, password_file="")
    if cluster.broker.loopback:
        path = urlsplit(cluster.broker.url).path
        url = f"redis://127.0.0.1:{host.tunnel_port or cluster.broker.port}{path}"
        broker = dataclasses.replace(broker, url=url)
    return dataclasses.replace(cluster, broker=broker, folder=host.folder or cluster.folder)


class Session(Member):
    """The processes of one machine."""

    stdin = subprocess.PIPE

    def __init__(self, cluster: Cluster, host: Host, password: str, logs: Path, seed: int) -> None:
        url = urlsplit(cluster.broker.url)
        tunnel = ("127.0.0.1", cluster.broker.port) if cluster.broker.loopback else None
        if tunnel is not None and url.hostname == "::1":
            tunnel = ("[::1]", cluster.broker.port)
        words = ssh_words(host, [host.playmill, "agent"], tunnel)
        super().__init__(host.name, words, logs, WATCHED, seed, final=(0, NOTICED))
        task = {"cluster": to_dict(seen_from(cluster, host)), "host": host.name, "password": password}
        if token := cluster.train.telemetry.needed_token():
            task["token"] = token
        self._task = json.dumps(task).encode() + b"\n"
        self._alive_at = 0.0

    def look_after(self) -> None:
        super().look_after()
        now = time.monotonic()
        if self.running and now - self._alive_at >= ALIVE_S:
            self._alive_at = now
            self._write(b"\n")

    def ask_to_end(self) -> None:
        """The end of its stdin tells the far end to drain."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def _start(self, now: float) -> None:
        super()._start(now)
        self._alive_at = now
        self._write(self._task)

    def _write(self, line: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it is gone, as its exit code will say
            self._process.stdin.write(line)
            self._process.stdin.flush()


def check_hosts(cluster: Cluster, names: list[str]) -> None:
    """Refuses machines that cannot be used, before anything is started."""
    if names and shutil.which("ssh") is None:
        raise PlaymillError('by = "ssh" needs the program ssh (Debian: apt-get install openssh-client)')
    for name in names:
        host = cluster.host(name)
        if host.key and not Path(host.key).is_file():
            raise PlaymillError(f"hosts.{name}: there is no key {host.key}; make one with ssh-keygen")
        try:
            done = subprocess.run(
                ssh_words(host, [host.playmill, "--version"]),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=TRY_S,
            )
        except subprocess.TimeoutExpired:
            raise PlaymillError(f"hosts.{name}: no answer within {TRY_S:g} s") from None
        if done.returncode:
            raise PlaymillError(f"hosts.{name}: {_why(host, done.returncode, done.stderr)}")


def _why(host: Host, code: int, said: str) -> str:
    """What went wrong, and what to do."""
    where = host.address or host.name
    last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), f"exit code {code}")
    if "Host key verification failed" in said:
        file = host.known_hosts or "~/.ssh/known_hosts"
        return (
            f"its key is not in {file}, or is another one. Compare its fingerprint with the machine's, then: "
            f"ssh-keyscan -p {host.port} {where} >> {file}"
        )
    if "Permission denied" in said:
        return f"it does not take the key ({last}); put the public key into authorized_keys there"
    if code == 255:
        return f"it cannot be reached: {last}"
    if code in (126, 127):
        return f"there is no {host.playmill} there; set `playmill` to the program's path on that machine"
    return last


class Task(NamedTuple):
    """What a session is told."""

    cluster: dict[str, Any]
    host: str
    """Which one this is."""
    password: str
    """The broker's."""
    token: str
    """Of the metrics; empty: none is needed."""


def read_task(line: bytes) -> Task:
    try:
        task: Mapping[str, Any] = json.loads(line)
        return Task(task["cluster"], task["host"], task["password"], task.get("token", ""))
    except (ValueError, KeyError, TypeError):
        raise PlaymillError(
            "playmill agent is started by `playmill launch`, which tells it what to do"
        ) from None
