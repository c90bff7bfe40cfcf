"""The pool of native games: turns a CPU-second, beside OpenSpiel in the same run; threads; memory."""

from __future__ import annotations

import ctypes
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.bars import Bar, Result
from playmill.games import registry
from playmill.pools import NativePool

ROOT = Path(__file__).resolve().parent.parent
BATCH = 4096
ROUNDS = 5
"""Every figure is the median of so many interleaved measurements."""


def measure(say: Callable[[str], None], quick: bool) -> Result:
    rounds = 1 if quick else ROUNDS
    seconds = 0.3 if quick else 1.5
    pool = NativePool("skull_king", BATCH, threads=1)
    ours: list[float] = []
    plain: list[float] = []
    tensor: list[float] = []
    for i in range(rounds):
        ours.append(_pool_rate(pool, seconds, time.process_time))
        plain.append(_openspiel_rate(seconds, tensors=False))
        tensor.append(_openspiel_rate(seconds, tensors=True))
        say(f"round {i + 1}: {ours[-1]:,.0f} turns a CPU-second; oh_hell {plain[-1]:,.0f}, {tensor[-1]:,.0f}")
    two = _two_threads(say, rounds, seconds)
    memory = _memory(100_000 if quick else 1_000_000)
    bytes_per_game = registry.spec("skull_king").state_bytes
    mine = statistics.median(ours)
    bars = [
        Bar("turns_per_cpu_s", mine, "turns/CPU-s", 5e6),
        Bar("vs_openspiel", mine / statistics.median(plain), "x", 15),
        Bar("vs_openspiel_tensor", mine / statistics.median(tensor), "x", 500),
        Bar("two_threads", two["best"], "x", 1.8),
        Bar("bytes_per_game", bytes_per_game, "bytes", 256, at_most=True),
        Bar("million_games_mb", memory["mb"], "MB", 512, at_most=True),
        Bar("steady_state_allocation", memory["allocated"], "bytes", 0, at_most=True),
    ]
    details = {
        "openspiel_oh_hell_per_cpu_s": statistics.median(plain),
        "openspiel_oh_hell_tensor_per_cpu_s": statistics.median(tensor),
        "two_threads_against_one": two,
        "games_in_flight": memory["games"],
        "batch": BATCH,
    }
    return Result(bars, details)


def _pool_rate(pool: NativePool, seconds: float, clock: Callable[[], float]) -> float:
    """Turns a second of `clock`: observation and legal bits written for every turn, random legal answers."""
    steps = 0
    start = clock()
    while (spent := clock() - start) < seconds:
        for _ in range(20):
            pool.turns()
            pool.act(pool.bot_actions("random"))
        steps += 20
    return steps * pool.games / spent


def _openspiel_rate(seconds: float, tensors: bool) -> float:
    """Decisions a CPU-second of OpenSpiel's oh_hell with four players, stepped from Python."""
    import numpy as np
    import pyspiel

    game = pyspiel.load_game("oh_hell(players=4)")
    rng = random.Random(0)
    decisions = 0
    start = time.process_time()
    while (spent := time.process_time() - start) < seconds:
        state = game.new_initial_state()
        while not state.is_terminal():
            legal = state.legal_actions()
            if not state.is_chance_node():
                decisions += 1
                if tensors:
                    np.asarray(state.information_state_tensor(), np.float32)
                    np.asarray(state.legal_actions_mask(), np.int8)
            state.apply_action(rng.choice(legal))
    return decisions / spent


def _two_threads(say: Callable[[str], None], rounds: int, seconds: float) -> dict[str, float]:
    """How much faster than one thread are, on the wall clock: a pool with two threads; and two pools of half
    the games that have nothing to do with each other, which is what the machine has to give. In short turns
    about. Other people's work on the same processor slows two threads more than one and changes from second
    to second: the ratio of the best rates says what the pool does undisturbed, the medians what it did here.
    """
    one, two = (NativePool("skull_king", BATCH, threads=n) for n in (1, 2))
    halves = [NativePool("skull_king", BATCH // 2, threads=1) for _ in range(2)]

    def rate(pool: NativePool) -> float:
        return _pool_rate(pool, seconds / 5, time.perf_counter)

    alone: list[float] = []
    together: list[float] = []
    apart: list[float] = []
    with ThreadPoolExecutor(2) as threads:
        for _ in range(6 * rounds):
            alone.append(rate(one))
            together.append(rate(two))
            apart.append(sum(threads.map(rate, halves)))
    found = {
        "best": max(together) / max(alone),
        "median": statistics.median(t / a for t, a in zip(together, alone, strict=True)),
        "separate_pools_best": max(apart) / max(alone),
        "separate_pools_median": statistics.median(t / a for t, a in zip(apart, alone, strict=True)),
    }
    say("two threads against one: " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in found.items()))
    return found


def _memory(games: int) -> dict[str, Any]:
    """Memory of a pool with its arrays, and what it allocates while it runs, in a process of its own."""
    code = f"from benchmarks.pool import memory_child; memory_child({games})"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    found = json.loads(out.stdout.splitlines()[-1])
    found["mb"] *= 1_000_000 / games
    return dict(found)


def memory_child(games: int) -> None:
    before = _resident_mb()
    pool = NativePool("skull_king", games, threads=1)
    for _ in range(3):
        pool.turns()
        pool.act(pool.bot_actions("random"))
    grown = _resident_mb() - before
    in_use = [0, 0, 0]  # the first look allocates for itself; the last two are compared
    for look in range(len(in_use)):
        for _ in range(4):
            pool.turns()
            pool.act(pool.bot_actions("random"))
        in_use[look] = _in_use()
    print(json.dumps({"mb": grown, "games": games, "allocated": max(0, in_use[2] - in_use[1])}))


def _resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


class _Mallinfo(ctypes.Structure):
    """glibc's mallinfo2."""

    _names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in _names.split()]


_libc = ctypes.CDLL(None)
_libc.mallinfo2.restype = _Mallinfo


def _in_use() -> int:
    """Bytes the C library has handed out, small blocks and mapped ones."""
    info = _libc.mallinfo2()
    return int(info.uordblks + info.hblkhd)
