"""Generals on one thread: ticks a CPU-second on 20 x 20 with two players, packed observations and legal
bits for both every tick; beside two Python engines in the same run. Memory of a game in flight."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.bars import Bar, Result
from playmill.games import PlaymillError
from playmill.pools import NativePool

ROOT = Path(__file__).resolve().parent.parent
SIDE = 20
OPTIONS = {"width": SIDE, "height": SIDE, "maps": 10_000}
"""Maps made beforehand, as in training; the two engines beside it make one a game."""
BATCH = 512
ROUNDS = 5
"""Every figure is the median of so many interleaved measurements."""
PEERS = {"numpy": "generals==1.0.0", "bots": "generals-bots==2.5.0"}
"""They install a package of the same name: each has a folder of its own."""


def measure(say: Callable[[str], None], quick: bool) -> Result:
    rounds, seconds = (1, 0.3) if quick else (ROUNDS, 1.0)
    folders = {name: fetch(package, say) for name, package in PEERS.items()}
    rates: dict[str, list[float]] = {name: [] for name in ("ours", "random", *PEERS)}
    pool = NativePool("generals", BATCH, options=OPTIONS, threads=1)
    for i in range(rounds):
        ours, drawn = pool_rates(pool, seconds)
        rates["ours"].append(ours)
        rates["random"].append(drawn)
        for name, folder in folders.items():
            rates[name].append(peer_rate(name, folder, seconds))
        told = ", ".join(f"{name} {found[-1]:,.0f}" for name, found in rates.items())
        say(f"round {i + 1}, ticks a CPU-second: {told}")
    middle = {name: statistics.median(found) for name, found in rates.items()}
    many = NativePool("generals", 10_000, options=OPTIONS, threads=1)
    bars = [
        Bar("ticks_per_cpu_s", middle["ours"], "ticks/CPU-s", 3e6),
        Bar("vs_generals_bots", middle["ours"] / middle["bots"], "x", 100),
        Bar("vs_generals_numpy", middle["ours"] / middle["numpy"], "x", 1000),
        Bar("bytes_per_game", many.memory / many.games, "bytes", 4096, at_most=True),
        Bar("ten_thousand_games_mb", many.memory / 1e6, "MB", 64, at_most=True),
    ]
    return Result(bars, {"ticks_per_cpu_s_by": middle, "batch": BATCH, "side": SIDE})


def pool_rates(pool: NativePool, seconds: float) -> tuple[float, float]:
    """Ticks a CPU-second without and with the drawing of random legal moves."""
    ticks, spent, drawing = 0.0, 0.0, 0.0
    while spent < seconds:
        begun = time.process_time()
        pool.turns()
        asked = time.process_time()
        actions = pool.bot_actions("random")
        drawn = time.process_time()
        pool.act(actions)
        spent += time.process_time() - drawn + asked - begun
        drawing += drawn - asked
        ticks += pool.games / pool.spec.seats
    return ticks / spent, ticks / (spent + drawing)


def fetch(package: str, say: Callable[[str], None]) -> Path:
    """The folder that has the package and what it needs; installed on the first call."""
    folder = ROOT / "build" / "peers" / package
    if not folder.exists():
        say(f"installing {package} into {folder.relative_to(ROOT)}")
        partial = folder.with_name(folder.name + ".partial")
        command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(partial), package]
        if subprocess.run(command, stdout=subprocess.DEVNULL).returncode != 0:
            raise PlaymillError(
                f"{package} could not be installed: this benchmark runs beside it and needs pip's index"
            )
        partial.rename(folder)
    return folder


def peer_rate(name: str, folder: Path, seconds: float) -> float:
    script = Path(__file__).with_name("generals_peer.py")
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "PYTHONWARNINGS": "ignore",
        "PYGAME_HIDE_SUPPORT_PROMPT": "1",
    }
    command = [sys.executable, "-P", str(script), name, str(SIDE), str(seconds)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise PlaymillError(f"{PEERS[name]} failed: {done.stderr.strip()[-300:]}")
    return float(done.stdout.split()[-1])
