"""The actors that a learner starts on its own machine, kept alive."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from playmill.games import PlaymillError
from playmill.pools.remote_settings import Backoff, Supervision

if TYPE_CHECKING:
    from playmill.training.config import Train

PATIENCE_S = 10.0
"""For actors to hand over what they have, when the run ends."""
LOG_BYTES = 1 << 20
YOUNG_S, REFUSALS_MOST = 30.0, 5
"""Who ends within so many seconds with an error of ours, more often than that in a row, will not start."""


class ActorCrew:
    """One process for each actor, one for the policy where it has its own, and an evaluator. Whoever dies is
    started again, later each time it dies young."""

    def __init__(self, config: Train, folder: Path) -> None:
        self.folder = folder
        names = ["policy"] if config.actors.inference == "process" and config.actors.count else []
        names += [f"actor-{number}" for number in range(config.actors.count)]
        if config.actors.count and config.judged_beside and config.evaluation.every:
            names.append("evaluator")
        (folder / "logs").mkdir(exist_ok=True)
        self.members = [
            Member(name, _command(name, folder), folder / "logs", config.actors.supervision, i)
            for i, name in enumerate(names)
        ]

    @property
    def restarts(self) -> dict[str, int]:
        """How often each was started again."""
        return {member.name: max(0, member.starts - 1) for member in self.members}

    def look_after(self) -> None:
        """Starts who is not there; called again and again."""
        for member in self.members:
            member.look_after()

    def close(self) -> None:
        """Actors first: they need the policy to the last."""
        until = time.monotonic() + PATIENCE_S
        policies = [member for member in self.members if member.name == "policy"]
        for some in ([member for member in self.members if member not in policies], policies):
            for member in some:
                member.ask_to_end()
            for member in some:
                member.end(until)


def _command(name: str, folder: Path) -> list[str]:
    role, _, number = name.partition("-")
    command = [sys.executable, "-m", "playmill", role, str(folder), "--parent", str(os.getpid())]
    return [*command, "--number", number] if number else command


class Member:
    """A process that is to run."""

    stdin = subprocess.DEVNULL

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        logs: Path,
        supervision: Supervision,
        seed: int,
        environment: Mapping[str, str] | None = None,
        final: Collection[int] = (),
    ) -> None:
        """`environment`: this process's own, unless given. `final`: exit codes after which it stays away."""
        self.name, self.command, self.logs, self.supervision = name, command, logs, supervision
        self.environment, self.final = environment, final
        self.ended: int | None = None
        """With which of them it ended."""
        self.starts = 0
        self._refusals = 0
        """Starts in a row that ended at once with an error of ours."""
        self._backoff = Backoff(supervision, seed)
        self._process: subprocess.Popen[bytes] | None = None
        self._begun = self._not_before = 0.0

    def look_after(self) -> None:
        now = time.monotonic()
        if self.ended is not None:
            return
        if self._process is not None:
            code = self._process.poll()
            if code is None:
                return
            if code in self.final:
                self.ended = code
                return
            refused = code == 2 and self.name != "evaluator" and now - self._begun < YOUNG_S
            self._refusals = self._refusals + 1 if refused else 0
            if self._refusals > REFUSALS_MOST:
                raise PlaymillError(f"{self.name} does not start: {self._last_words()}")
            self._process = None
            if now - self._begun > self.supervision.healthy_after:
                self._backoff.reset()
            self._not_before = now + self._backoff.next()
        if now >= self._not_before:
            self._start(now)

    def ask_to_end(self) -> None:
        if self._process is not None and self.running:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)

    def end(self, until: float) -> None:
        if self._process is None:
            return
        try:
            self._process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _start(self, now: float) -> None:
        with self._log() as log:
            self._process = subprocess.Popen(
                self.command, stdin=self.stdin, stdout=log, stderr=log, env=self.environment
            )
        self.starts += 1
        self._begun = now

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def _log_file(self) -> Path:
        return self.logs / f"{self.name}.log"

    def _log(self) -> IO[bytes]:
        """Its log, begun anew when it is long."""
        file = self._log_file
        try:
            long = file.exists() and file.stat().st_size > LOG_BYTES
            return file.open("wb" if long else "ab")
        except OSError:  # a full disk is no reason not to play
            return Path(os.devnull).open("ab")

    def _last_words(self) -> str:
        try:
            lines = self._log_file.read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else f"see {self._log_file}"
