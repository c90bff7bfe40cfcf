"""How long a new version of 10 MB of weights takes from the learner to the use of every actor, on one host
through shared memory and to two "hosts" through Redis, while the actors play."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bars import Bar, Result
from benchmarks.broker import running_broker
from playmill.experience.weights import Publisher
from playmill.experience.weights_format import Tensors
from playmill.experience.weights_redis import RedisFollower, RedisPublisher
from playmill.experience.weights_shared import SharedFollower, SharedPublisher
from playmill.experience.weights_watch import Relay, WeightsWatch

ROOT = Path(__file__).resolve().parent.parent
ACTORS = 4
WIDTH, LAYERS = 808, 4
"""10.4 MB of float32."""
ROWS = 8
ENGINE = 0.005
"""Seconds an actor waits for its engines each batch."""


def measure(say: Callable[[str], None], quick: bool) -> Result:
    rounds, versions = (1, 8) if quick else (5, 40)
    host, cluster = [], []
    for number in range(rounds):
        host.append(_host(versions))
        say(f"host, round {number + 1}: {host[-1]}")
        cluster.append(_cluster(max(versions // 2, 5)))
        say(f"cluster, round {number + 1}: {cluster[-1]}")
    # Best of the rounds: work of others on the same cores only ever makes it longer.
    calm = min(host, key=lambda found: found["in_use_p95_ms"])
    bars = [
        Bar("host_ms", calm["in_use_p95_ms"], "ms", 50, at_most=True),
        Bar("cluster_ms", min(found["in_use_p95_ms"] for found in cluster), "ms", 500, at_most=True),
    ]
    details = {
        "bytes": sum(array.nbytes for array in _tensors(1).values()),
        "actors": ACTORS,
        "longest_pause_ms": calm["pause_max_ms"],
        "longest_pause_without_loading_ms": calm["quiet_max_ms"],
        **_cpu(),
        "host": host,
        "cluster": cluster,
    }
    return Result(bars, details)


def _cpu() -> dict[str, float]:
    """What publishing and fetching a version cost, in CPU time: what is left when nobody else works here."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder) / "run.weights"
        publisher, follower = SharedPublisher(path), SharedFollower(path)
        publishing, fetching = [], []
        for version in range(1, 20):
            tensors = _tensors(version)
            start = time.thread_time()
            publisher.publish(version, tensors)
            middle = time.thread_time()
            follower.fetch()
            publishing.append(middle - start)
            fetching.append(time.thread_time() - middle)
        publisher.close()
        follower.close()
    return {
        "publish_cpu_ms": round(1e3 * float(np.median(publishing)), 2),
        "fetch_cpu_ms": round(1e3 * float(np.median(fetching)), 2),
    }


def _host(versions: int) -> dict[str, float]:
    """One host: the learner publishes into the memory all actors read."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder) / "run.weights"
        publisher = SharedPublisher(path)
        try:
            return _published(publisher, [path] * ACTORS, versions, 0.15)
        finally:
            publisher.close()


def _cluster(versions: int) -> dict[str, float]:
    """Two hosts, each a folder of its own with a relay and half of the actors; Redis between."""
    with (
        running_broker() as broker,
        tempfile.TemporaryDirectory(dir="/dev/shm") as folder,
        contextlib.ExitStack() as stack,
    ):
        paths = [Path(folder) / f"host{n}.weights" for n in range(2)]
        for path in paths:
            relay = stack.enter_context(_process("relay", path, "", {"PLAYMILL_REDIS": broker.url}))
            _line(relay)
        publisher = RedisPublisher(broker.url, "bench")
        return _published(publisher, paths * (ACTORS // 2), versions, 0.5)


def _published(publisher: Publisher, paths: list[Path], versions: int, every: float) -> dict[str, float]:
    """Publishes so many versions; when each was in use by all, and how play fared meanwhile."""
    with contextlib.ExitStack() as stack:
        actors = [stack.enter_context(_process("actor", path, str(versions))) for path in paths]
        for process in actors:
            _line(process)
        called, published = [], []
        for version in range(1, versions + 1):
            tensors = _tensors(version)
            called.append(time.time())
            publisher.publish(version, tensors)
            published.append(time.time())
            time.sleep(every)
        found = [json.loads(_line(process)) for process in actors]
    used = np.array([[_first_use(f["used"], v) for v in range(1, versions + 1)] for f in found])
    # The first version finds processes that never ran this code; play begins with it.
    sync = 1e3 * (used.max(axis=0) - np.array(called))[1:]
    return {
        "in_use_p50_ms": round(float(np.percentile(sync, 50)), 2),
        "in_use_p95_ms": round(float(np.percentile(sync, 95)), 2),
        "in_use_max_ms": round(float(sync.max()), 2),
        "publish_p50_ms": round(1e3 * float(np.median(np.array(published) - np.array(called))), 2),
        "taken_share": round(float(np.mean([len(f["used"]) / versions for f in found])), 3),
        **_pauses(found, np.array(called)),
    }


def _first_use(used: dict[str, float], version: int) -> float:
    """When this version or a newer one came into use."""
    return min(moment for number, moment in used.items() if int(number) >= version)


def _pauses(found: list[dict[str, Any]], called: np.ndarray[Any, Any]) -> dict[str, float]:
    """How much longer than usual a batch took, of those while weights came in and of all others."""
    loading, quiet = [], []
    for f in found:
        begin, length = np.array(f["begin"]), np.array(f["length"])
        late = 1e3 * (length - np.median(length))
        came = np.zeros(len(begin), bool)
        for version, moment in f["used"].items():
            came |= (begin + length >= called[int(version) - 1]) & (begin <= moment)
        loading.append(late[came])
        quiet.append(late[~came])
    return {
        "pause_p95_ms": round(float(np.percentile(np.concatenate(loading), 95)), 2),
        "pause_max_ms": round(float(np.concatenate(loading).max()), 2),
        "quiet_p95_ms": round(float(np.percentile(np.concatenate(quiet), 95)), 2),
        "quiet_max_ms": round(float(np.concatenate(quiet).max()), 2),
    }


def _tensors(version: int) -> Tensors:
    return {f"layer{n}": np.full((WIDTH, WIDTH), version * 1e-6, np.float32) for n in range(LAYERS)}


@contextlib.contextmanager
def _process(
    role: str, path: Path, last: str, extra: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    code = f"import sys; from benchmarks.weights import {role}; {role}(*sys.argv[1:])"
    # An actor has a core or less; more threads would only disturb the others.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", **(extra or {})}
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path), last],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def actor(path: str, last: str) -> None:
    """Plays: waits for engines, decides for some rows; between two batches takes what came."""
    watch = WeightsWatch(SharedFollower(Path(path)))
    print("ready", flush=True)
    version, layers = watch.first(60)
    used = {version: time.time()}
    begin: list[float] = []
    length: list[float] = []
    rows = np.ones((ROWS, WIDTH), np.float32)
    while version < int(last):
        start = time.time()
        time.sleep(ENGINE)
        out = rows
        for layer in layers.values():
            out = np.tanh(out @ layer)
        news = watch.take()
        if news is not None:
            version, layers = news
            used[version] = time.time()
        begin.append(start)
        length.append(time.time() - start)
    watch.close()
    print(json.dumps({"used": used, "begin": begin, "length": length}), flush=True)


def relay(path: str, _: str) -> None:
    """Brings the weights to one host, until the parent ends."""
    relay = Relay(RedisFollower(os.environ["PLAYMILL_REDIS"], "bench"), Path(path))
    print("ready", flush=True)
    sys.stdin.read()
    relay.close()
