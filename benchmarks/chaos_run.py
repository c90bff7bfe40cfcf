"""A real run of the engine lane whose parts are killed: the learner under a supervisor, its actors and their
engines as the run itself keeps them."""

from __future__ import annotations

import contextlib
import json
import os
import random
import secrets
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.broker import Broker
from playmill.checkpoints import Store, read
from playmill.cli.roles import prove
from playmill.experience.ledger import Proof
from playmill.games import PlaymillError
from playmill.training.exchange import PASSWORD, Exchange, run_id
from playmill.training.runs import read_config

ENGINES, SEGMENTS, STEPS = 2, 8, 8
SETTINGS = f"""
    leduc --lane engines --plain --turns 1000000000 --steps {STEPS} --threads 1 --network.hidden 64
    --ppo.minibatch 64 --evaluation.every 0 --evaluation.deals 10 --evaluation.final-deals 10
    --evaluation.no-exploitability --checkpoints.every-s 0.5 --actors.engines {ENGINES} --actors.games 4
    --actors.segments {SEGMENTS} --actors.ring-mb 4 --actors.supervision.restart-delay-most 1
    --actors.supervision.healthy-after 5
"""
DELAY_MS = 4
MARK = "PLAYMILL_CHAOS"
PATIENCE = 90.0
LOGGED = ("--appendonly", "yes", "--appendfsync", "everysec")


class Trial:
    """One run. Whoever of its parts dies comes back; nobody does it by hand."""

    def __init__(
        self,
        folder: Path,
        actors: int,
        broker: Broker | None = None,
        port: int | None = None,
        *,
        settings: str = "",
        lie: str = "",
    ) -> None:
        """`port`: of a tunnel to the broker, if there is one. `settings`: more of the training. `lie`: how
        the first engine lies; its successors do not."""
        self.folder, self.run, self.broker, self.port = folder, folder / "run", broker, port
        self._mark = secrets.token_hex(8)
        self._environment = {**os.environ, MARK: self._mark}
        channel = "shared"
        if broker is not None:
            channel = broker.bare_url if port is None else f"redis://127.0.0.1:{port}/0"
            os.environ[PASSWORD] = self._environment[PASSWORD] = broker.password
        engine = folder / "engine"
        command = f"exec {shlex.quote(sys.executable)} -m playmill.engines.host native:leduc"
        lies = f'mkdir "$0.lied" 2>/dev/null && {command} --lie {lie} --lie-after 20\n' if lie else ""
        engine.write_text(f"#!/bin/sh\n{lies}{command} --delay-ms {DELAY_MS}\n")
        engine.chmod(0o700)
        own = ["--run", str(self.run), "--actors.command", str(engine), "--actors.channel", channel]
        own += ["--actors.count", str(actors), *settings.split()]
        self.learner = self._start(*SETTINGS.split(), *own)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._supervise, daemon=True)
        self._thread.start()
        self.wait(lambda: self.saved() > 0, "the run did not begin")
        self.exchange = Exchange(read_config(self.run), run_id(self.run), self.run)

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "playmill", "train", *arguments]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=self._environment)

    def _supervise(self) -> None:
        """What systemd, Kubernetes or Ray would do."""
        while not self._ended.wait(0.02):
            if self.learner.poll() is not None:
                self.learner = self._start("--resume", str(self.run), "--plain")

    # ---- What there is ----

    def wait(self, what: Callable[[], bool], else_say: str, within: float = PATIENCE) -> None:
        until = time.monotonic() + within
        while not what():
            if time.monotonic() > until:
                raise PlaymillError(f"{else_say}; the log is {self.log()[-2000:]}")
            time.sleep(0.02)

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def saved(self) -> int:
        """Turns of the newest checkpoint."""
        return max(Store(self.run / "checkpoints", keep=1).steps(), default=0)

    def actors(self) -> dict[int, int]:
        """Process ids by the number of the actor."""
        found = {}
        for pid, line in children(self.learner.pid).items():
            if "actor" in line and "--number" in line:
                found[int(line[line.index("--number") + 1])] = pid
        return found

    def policy(self) -> int:
        """The process that decides for all actors; 0: there is none now."""
        lines = children(self.learner.pid).items()
        return next((pid for pid, line in lines if "policy" in line), 0)

    def engines(self, number: int) -> list[int]:
        """Process ids of an actor's engines."""
        actor = self.actors().get(number)
        return [] if actor is None else list(children(actor))

    def produced(self) -> dict[tuple[int, int], int]:
        """By actor and epoch; nothing while the broker cannot say."""
        receiver = self.exchange.receiver(look=True)
        try:
            return receiver.produced()
        except PlaymillError:
            return {}
        finally:
            receiver.close()

    def proof(self) -> Proof | None:
        """The ledger now, beside whatever goes on; None while the broker cannot say."""
        with contextlib.suppress(PlaymillError):
            return prove(self.run)
        return None

    # ---- Kills: each gives a question that is true once the part works again ----

    def kill(self, kind: str, rng: random.Random) -> Callable[[], bool]:
        kills: dict[str, Callable[[random.Random], Callable[[], bool]]] = {
            "actor": self._kill_actor,
            "engine": self._kill_engine,
            "learner": self._kill_learner,
            "broker": self._kill_broker,
        }
        return kills[kind](rng)

    def _kill_actor(self, rng: random.Random) -> Callable[[], bool]:
        self.wait(lambda: bool(self.actors()), "there is no actor")
        number, pid = rng.choice(sorted(self.actors().items()))
        before = set(self.produced())
        _kill(pid)
        return lambda: any(n == number and (n, e) not in before for n, e in self.produced())

    def _kill_engine(self, rng: random.Random) -> Callable[[], bool]:
        victims: list[tuple[int, int]] = []

        def look() -> bool:
            victims[:] = [(n, pid) for n in self.actors() for pid in self.engines(n)]
            return bool(victims)

        self.wait(look, "there is no engine")
        number, pid = rng.choice(sorted(victims))
        _kill(pid)

        def works() -> bool:
            now = self.engines(number)
            return len(now) == ENGINES and pid not in now and all(map(_answers, now))

        return works

    def _kill_learner(self, _rng: random.Random) -> Callable[[], bool]:
        before = self.saved()
        _kill(self.learner.pid)
        return lambda: self.saved() > before

    def _kill_broker(self, rng: random.Random) -> Callable[[], bool]:
        assert self.broker is not None
        self.broker.kill()
        time.sleep(rng.uniform(0.0, 0.5))
        self.broker.start(*LOGGED)
        return self.trains_again()

    def trains_again(self) -> Callable[[], bool]:
        """Whether new segments have come since now, and a newer checkpoint after them."""
        before: list[int] = []

        def trained() -> bool:
            if len(before) < 2:
                now = sum(self.produced().values())
                if now and not before:
                    before.append(now)
                elif before and now > before[0]:
                    before.append(self.saved())
            return len(before) == 2 and self.saved() > before[1]

        return trained

    # ---- The end ----

    def stop(self) -> None:
        """As a person would: one SIGTERM."""
        self._ended.set()
        self._thread.join()
        if self.learner.poll() is None:
            self.learner.send_signal(signal.SIGTERM)
        self.learner.wait(PATIENCE)

    def finish(self) -> dict[str, Any]:
        """Stops, goes on to a budget's end, where the channel is drained; the ledgers of both ends."""
        self.stop()
        stopped = self._ledger()
        turns = str(self.saved() + 20 * SEGMENTS * STEPS)
        code = self._start("--resume", str(self.run), "--plain", "--turns", turns).wait(PATIENCE)
        if code != 0:
            raise PlaymillError(f"the run did not come to its end; the log is {self.log()[-2000:]}")
        drained = self._ledger()
        latest = Store(self.run / "checkpoints", keep=1).latest()
        assert latest is not None
        # Every update takes so many segments: were one trained twice, updates would not match the ledger.
        over = int(read(latest).meta["updates"]) * SEGMENTS - drained["trained"]
        return {"stopped": stopped, "drained": drained, "over": over, "left_behind": len(self.left())}

    def _ledger(self) -> dict[str, Any]:
        command = [sys.executable, "-m", "playmill", "ledger", str(self.run), "--json"]
        out = subprocess.run(command, capture_output=True, text=True, env=self._environment, check=False)
        found: dict[str, Any] = json.loads(out.stdout) if out.stdout else {"holds": False, "said": out.stderr}
        return found

    def left(self, within: float = 15.0) -> list[int]:
        """Processes of this run that live on though it has ended."""
        until, mark = time.monotonic() + within, f"{MARK}={self._mark}".encode()
        while (found := [pid for pid in _pids() if mark in _environment(pid)]) and time.monotonic() < until:
            time.sleep(0.1)
        return found

    def close(self) -> None:
        """Ends whatever is left, by its mark."""
        self._ended.set()
        self._thread.join()
        with contextlib.suppress(ProcessLookupError):
            self.learner.kill()
        self.learner.wait()
        for pid in self.left(0.0):
            _kill(pid)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def children(parent: int) -> dict[int, list[str]]:
    """The processes that one has started and that live, with their command lines."""
    found = {}
    for pid in _pids():
        try:
            state, ppid = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
            if int(ppid) == parent and state != "Z":
                found[pid] = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        except OSError:
            continue
    return found


def _answers(pid: int) -> bool:
    """Whether an engine has answered more than its handshake."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return False
    return any(line.startswith("syscw:") and int(line.split()[1]) > 3 for line in lines)
