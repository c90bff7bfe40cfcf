"""Experience from an actor's process to a learner's: through shared memory, and through Redis beside a bare
loop of redis-py in the same run, in turns."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.bars import Bar, Result
from benchmarks.broker import running_broker
from playmill.experience.channel import Receiver, Sender
from playmill.experience.redis_link import Link
from playmill.experience.redis_receiver import RedisReceiver
from playmill.experience.redis_sender import BYTES, RedisSender
from playmill.experience.ring import RingReceiver, RingSender
from playmill.experience.segment import Identity
from playmill.games import PlaymillError

ROOT = Path(__file__).resolve().parent.parent
SIZES = {"64k": 64 << 10, "1m": 1 << 20}
SHARED_BYTES, REDIS_BYTES = 4 << 30, 256 << 20
"""Moved in one round."""
ROUNDS = 7


class Round(NamedTuple):
    """What one round found."""

    rate: float
    """GB/s."""
    cpu: float
    """CPU-seconds of both processes for a GB."""


RUN = "bench"
STREAM, GROUP = "bare", "learner"


def measure(say: Callable[[str], None], quick: bool) -> Result:
    rounds = 1 if quick else ROUNDS
    scale = 16 if quick else 1
    bars: list[Bar] = []
    details: dict[str, Any] = {"rounds": rounds}
    with _shared_memory() as folder, running_broker() as broker:
        shared: dict[str, list[Round]] = {name: [] for name in SIZES}
        for _ in range(rounds):
            for name, size in SIZES.items():
                shared[name].append(_round("ring", folder, size, SHARED_BYTES // scale))
        for name, found in shared.items():
            # Others on the same cores only ever slow it down: the best round shows what the ring does.
            bars.append(Bar(f"shm_{name}", max(one.rate for one in found), "GB/s", 2.0))
            details[f"shm_{name}"] = _shown(found, say, f"shared memory, {name}")
        for name, size in SIZES.items():
            both: dict[str, list[Round]] = {"redis": [], "bare": []}
            for turn in range(rounds):
                for kind in sorted(both, reverse=turn % 2 == 1):
                    place = Path(folder, f"{name}-{turn}")
                    both[kind].append(_round(kind, place, size, REDIS_BYTES // scale, broker.url))
            for kind, found in both.items():
                details[f"{kind}_{name}"] = _shown(found, say, f"{kind}, {name}")
            share = _median(both["redis"]) / _median(both["bare"])
            bars.append(Bar(f"redis_{name}_share", share, "x", 0.8))
    return Result(bars, details)


@contextmanager
def _shared_memory() -> Iterator[Path]:
    root = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=root) as folder:
        yield Path(folder)


def _median(found: list[Round]) -> float:
    return statistics.median(one.rate for one in found)


def _shown(found: list[Round], say: Callable[[str], None], title: str) -> dict[str, Any]:
    rates = [round(one.rate, 3) for one in found]
    cpu = statistics.median(one.cpu for one in found)
    say(f"{title}: {' '.join(map(str, rates))} GB/s, {cpu:.2f} CPU-seconds a GB")
    return {"gb_per_s": rates, "median": round(_median(found), 3), "cpu_s_per_gb": round(cpu, 3)}


def _round(kind: str, place: Path, size: int, total: int, url: str = "") -> Round:
    """From the first message sent to the last acknowledged, between two processes that were ready."""
    count = total // size
    ends = [_child(end, kind, place, size, count, url) for end in ("receive", "send")]
    for end in ends:
        assert end.stdout is not None
        if end.stdout.readline() != "ready\n":
            raise PlaymillError(f"the {kind} benchmark could not begin")
    for end in ends:
        assert end.stdin is not None
        end.stdin.write("go\n")
        end.stdin.flush()
    received, sent = (json.loads(end.communicate()[0]) for end in ends)
    moved = count * size / 1e9
    return Round(moved / (received[0] - sent[0]), (received[1] + sent[1]) / moved)


def _child(function: str, *arguments: object) -> subprocess.Popen[str]:
    code = f"import sys; from benchmarks.transport import {function}; {function}(*sys.argv[1:])"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, text=True, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _ready() -> tuple[float, float]:
    """Waits for the word; when it came, and the CPU-seconds used up to then."""
    print("ready", flush=True)
    sys.stdin.readline()
    return time.monotonic(), time.process_time()


def _tell(when: float, cpu: float) -> None:
    print(json.dumps([when, time.process_time() - cpu]))


def send(kind: str, place: str, size: str, count: str, url: str) -> None:
    """The actor's process; tells when it began."""
    message = np.random.default_rng(0).bytes(int(size))
    epoch = os.getpid()
    if kind == "bare":
        _send_bare(Link(url).client(), message, int(count))
        return
    sender: Sender
    if kind == "ring":
        sender = RingSender(Path(place), RUN, 0, epoch)
    else:
        sender = RedisSender(url, RUN, 0, epoch, Path(place))
    begin, cpu = _ready()
    for sequence in range(int(count)):
        while not sender.send(Identity(RUN, 0, epoch, sequence), message, 1.0):
            pass
    sender.close()
    _tell(begin, cpu)


def receive(kind: str, place: str, size: str, count: str, url: str) -> None:
    """The learner's process: copies every message out; tells when it was done."""
    out = np.empty(int(size), np.uint8)
    if kind == "bare":
        _receive_bare(Link(url).client(), out, int(count))
        return
    Path(place).mkdir(mode=0o700, exist_ok=True)
    receiver: Receiver = RingReceiver(Path(place), RUN) if kind == "ring" else RedisReceiver(url, RUN)
    receiver.receive(1, 0.0)
    _, cpu = _ready()
    left = int(count)
    while left:
        deliveries = receiver.receive(_batch(out.size), 1.0)
        for delivery in deliveries:
            out[:] = np.frombuffer(delivery.message, np.uint8)
        receiver.acknowledge(deliveries)
        left -= len(deliveries)
    _tell(time.monotonic(), cpu)


def _batch(size: int) -> int:
    return max(1, BYTES // size)


def _send_bare(client: Any, message: bytes, count: int) -> None:
    begin, cpu = _ready()
    batch = _batch(len(message))
    for first in range(0, count, batch):
        pipeline = client.pipeline(transaction=False)
        for _ in range(min(batch, count - first)):
            pipeline.xadd(STREAM, {"m": message})
        pipeline.execute()
    _tell(begin, cpu)


def _receive_bare(client: Any, out: np.ndarray[Any, Any], count: int) -> None:
    client.delete(STREAM)
    client.xgroup_create(STREAM, GROUP, "0", mkstream=True)
    _, cpu = _ready()
    left, batch = count, _batch(out.size)
    while left:
        reply = client.xreadgroup(GROUP, "me", {STREAM: ">"}, count=batch, block=1000)
        entries = reply[0][1] if reply else []
        for _, fields in entries:
            out[:] = np.frombuffer(fields[b"m"], np.uint8)
        if entries:
            ids = [entry for entry, _ in entries]
            pipeline = client.pipeline(transaction=False)
            pipeline.xack(STREAM, GROUP, *ids).xdel(STREAM, *ids).execute()
        left -= len(entries)
    _tell(time.monotonic(), cpu)
