"""What can be seen of a run's processes from outside, and where."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playmill.games import PlaymillError
from playmill.telemetry.endpoint import is_loopback
from playmill.telemetry.instruments import NO_INSTRUMENTS, Instruments, RunningInstruments
from playmill.training.secret_file import read_secret

TOKEN = "PLAYMILL_METRICS_TOKEN"
"""Where the token is looked for first."""
PORT = "PLAYMILL_METRICS_PORT"
"""The port of this very process, where others on its machine are none of the run's, as in a pod."""
CREDENTIAL = "metrics_token"
"""What systemd calls it, if a unit hands it over."""
OFFSETS = {"learner": 0, "evaluator": 1, "policy": 2, "actor": 10}
"""Of a role's port from the run's; actors have one each from there on."""
PORT_MOST = 55_000


@dataclass(frozen=True)
class Telemetry:
    """Metrics for Prometheus and spans for OpenTelemetry; nothing of both unless it is set."""

    port: int = 0
    """Port of the learner's metrics; the evaluator has the next one, a policy the one after that, and actor N
    this + 10 + N. 0: no metrics."""
    bind: str = "127.0.0.1"
    """Address at which processes show them. Beyond this machine they need a token, from the variable
    PLAYMILL_METRICS_TOKEN or from `token_file`."""
    token_file: str = ""
    """File with the token, at least 16 signs, on every machine of the run."""
    alias: str = ""
    """A prefix under which some metrics are shown a second time, by the names other dashboards have."""
    traces: float = 0.0
    """Share of segments whose way is traced, 0 to 1; spans go to where OTEL_EXPORTER_OTLP_ENDPOINT says."""

    def __post_init__(self) -> None:
        if not 0 <= self.port <= PORT_MOST:
            raise PlaymillError(f"telemetry.port must be from 0 to {PORT_MOST}, got {self.port}")
        if not 0.0 <= self.traces <= 1.0:
            raise PlaymillError(f"telemetry.traces must be from 0 to 1, got {self.traces:g}")

    def listen(self, role: str, number: int = 0) -> str:
        """Where a process of the run shows its metrics; empty: nowhere."""
        if not self.port:
            return ""
        given = os.environ.get(PORT, "")
        if given and not (given.isascii() and given.isdigit() and 1 <= int(given) <= 65535):
            raise PlaymillError(f"{PORT} must be a port, got {given!r}")
        port = int(given or self.port + OFFSETS[role] + number)
        if port > 65535:
            raise PlaymillError(f"actor {number} has no port: telemetry.port {self.port} is too high")
        host = f"[{self.bind}]" if ":" in self.bind else self.bind
        return f"{host}:{port}"

    @property
    def wide(self) -> bool:
        """Whether other machines can see the metrics."""
        return bool(self.port) and not is_loopback(self.bind)

    def token(self) -> str:
        """From the variable, the file, or systemd's credentials; empty: there is none."""
        if given := os.environ.get(TOKEN, ""):
            return _checked(given, TOKEN)
        if self.token_file:
            return _from_file(Path(self.token_file))
        if folder := os.environ.get("CREDENTIALS_DIRECTORY", ""):
            handed = Path(folder) / CREDENTIAL
            return _from_file(handed) if handed.exists() else ""
        return ""

    def needed_token(self) -> str:
        """The token, where there must be one; empty where metrics are for this machine, or off."""
        if not self.wide:
            return ""
        found = self.token()
        if not found:
            raise PlaymillError(f"metrics at {self.bind} need a token: set {TOKEN}, or telemetry.token_file")
        return found

    def open(self, role: str, number: int = 0, *, in_use: Callable[[str], None] | None = None) -> Instruments:
        """The instruments of a process. `in_use`: as RunningInstruments have it."""
        if not self.port and not self.traces:
            return NO_INSTRUMENTS
        return RunningInstruments(
            f"playmill-{role}",
            listen=self.listen(role, number),
            token=self.token() if self.port else "",
            alias=self.alias,
            traces=self.traces,
            in_use=in_use,
        )


def _from_file(path: Path) -> str:
    return _checked(read_secret(path, "the token of the metrics"), str(path))


def _checked(token: str, where: str) -> str:
    """It is sent in a line of a header."""
    if not 16 <= len(token) <= 512 or not all("!" <= sign <= "~" for sign in token):
        raise PlaymillError(f"{where}: a token has 16 to 512 letters, digits and signs, and no spaces")
    return token
