"""What goes wrong without anybody dying: a cut network, a broker that hangs or has no memory, a full disk."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.broker import Broker, free_port
from benchmarks.chaos_run import LOGGED, Trial
from playmill.experience.redis_link import Link

DISK_MB = 48
LONG = 8.0
"""Seconds of a trouble: longer than any time-out of a connection."""
WITHIN = 120.0
HERE, THERE = "10.213.77.1", "10.213.77.2"
NOT_RUN: list[str] = []
"""What this machine does not permit."""


class Trouble(NamedTuple):
    name: str
    seconds: float
    """From its end until new segments were trained and saved."""
    recovered: bool


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A disk of its own for a folder, small enough to be filled."""
    options = ["-t", "tmpfs", "-o", f"size={DISK_MB}m,mode=0700", "playmill-chaos", str(folder)]
    if not _run("mount", *options):
        NOT_RUN.append("disk full: mounting a small disk needs root")
        yield
        return
    try:
        yield
    finally:
        _run("umount", "--lazy", str(folder))


@contextmanager
def full(folder: Path) -> Iterator[None]:
    """Every byte of the disk is taken."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    try:
        yield
    finally:
        filler.unlink()


def disk_troubles(trial: Trial, say: Callable[[str], None]) -> list[Trouble]:
    """Checkpoints cannot be written: training goes on, nothing is acknowledged, and later all is well. Then
    the same with a learner that dies meanwhile."""
    if not os.path.ismount(trial.folder):
        return []
    weights, receiver = trial.exchange.follower(), trial.exchange.receiver(look=True)
    with closing(weights), closing(receiver):
        with full(trial.folder):
            trial.wait(lambda: "could not be saved" in trial.log(), "nobody noticed that the disk is full")
            version, waiting = weights.newest(), set(receiver.waiting())
            time.sleep(LONG / 2)
            went_on = weights.newest() > version
            kept = waiting <= set(receiver.waiting())
        first = _over("disk full", trial, say)
    with full(trial.folder):
        trial.learner.kill()
        time.sleep(LONG)
    second = _over("disk full and the learner killed", trial, say)
    return [first._replace(recovered=first.recovered and went_on and kept), second]


def network_troubles(folder: Path, say: Callable[[str], None]) -> tuple[list[Trouble], dict[str, Any]]:
    """On Redis behind a tunnel, the broker in a network of its own where that is permitted."""
    with ExitStack() as stack:
        space = stack.enter_context(_network())
        data = stack.enter_context(tempfile.TemporaryDirectory())
        prefix = ("ip", "netns", "exec", space) if space else ()
        broker = Broker(data, THERE if space else "127.0.0.1", prefix)
        stack.callback(broker.kill)
        broker.start(*LOGGED)
        port = free_port()
        line = [sys.executable, "-m", "benchmarks.tunnel", str(port), broker.host, str(broker.port)]
        tunnel = subprocess.Popen(line, cwd=Path(__file__).resolve().parent.parent)
        stack.callback(tunnel.wait)
        stack.callback(tunnel.kill)
        stack.callback(tunnel.send_signal, signal.SIGCONT)
        trial = stack.enter_context(closing(Trial(folder, 1, broker, port)))
        cut = (partial(_link, space, "down"), partial(_link, space, "up"))
        stop = (partial(tunnel.send_signal, signal.SIGSTOP), partial(tunnel.send_signal, signal.SIGCONT))
        hang = (partial(broker.send_signal, signal.SIGSTOP), partial(broker.send_signal, signal.SIGCONT))
        found = [_during("a broker that hangs", trial, hang, say)]
        found.append(_during("a tunnel that drops everything", trial, stop, say))
        if space:
            found.append(_during("partition by a network namespace", trial, cut, say))
        else:
            NOT_RUN.append("partition: a network namespace needs root; the tunnel was stopped instead")
        found.append(_out_of_memory(trial, broker, say))
        if os.path.ismount(folder):
            with full(folder):
                ways = cut if space else stop
                ways[0]()
                time.sleep(LONG)
                ways[1]()
                time.sleep(1.0)
            found.append(_over("partition with a full disk", trial, say))
        return found, trial.finish()


def _during(
    name: str,
    trial: Trial,
    ways: tuple[Callable[[], object], Callable[[], object]],
    say: Callable[[str], None],
) -> Trouble:
    began, ended = ways
    began()
    time.sleep(LONG)
    ended()
    return _over(name, trial, say)


def _out_of_memory(trial: Trial, broker: Broker, say: Callable[[str], None]) -> Trouble:
    """The broker has less memory than it holds already: it takes nothing, and gives what it has."""
    link = Link(f"redis://127.0.0.1:{trial.port}/0", broker.password)
    client = link.client()
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", int(client.info("memory")["used_memory"]) - 1)
    time.sleep(LONG)
    client.config_set("maxmemory", 0)
    link.close()
    return _over("broker out of memory", trial, say)


def _over(name: str, trial: Trial, say: Callable[[str], None]) -> Trouble:
    """The trouble has ended: until training goes on."""
    began, again = time.monotonic(), trial.trains_again()
    while not (recovered := again()) and time.monotonic() - began < WITHIN:
        time.sleep(0.02)
    seconds = time.monotonic() - began
    say(f"{name}: {'trained again after' if recovered else 'NOT over after'} {seconds:.1f} s")
    return Trouble(name, seconds, recovered)


@contextmanager
def _network() -> Iterator[str]:
    """A network namespace joined to this one by a cable; empty where that is not permitted."""
    space = f"playmill-{os.getpid()}"
    if shutil.which("ip") is None or not _run("ip", "netns", "add", space):
        yield ""
        return
    try:
        steps = (
            ("link", "add", _cable(space), "type", "veth", "peer", "name", "cable", "netns", space),
            ("addr", "add", f"{HERE}/30", "dev", _cable(space)),
            ("link", "set", _cable(space), "up"),
            ("-n", space, "addr", "add", f"{THERE}/30", "dev", "cable"),
            ("-n", space, "link", "set", "cable", "up"),
            ("-n", space, "link", "set", "lo", "up"),
        )
        yield space if all(_run("ip", *step) for step in steps) else ""
    finally:
        _run("ip", "netns", "del", space)


def _cable(space: str) -> str:
    return f"pm{space.rpartition('-')[2]}"


def _link(space: str, state: str) -> None:
    if not _run("ip", "link", "set", _cable(space), state):
        raise RuntimeError(f"the cable could not be set {state}")


def _run(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
