"""Memory over ten minutes: a pool of 10,000 Generals games played at random in one process, and beside it a
server whose games are opened, played and deleted by clients that come and go. Neither may grow."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bars import Bar, Result
from benchmarks.served import Served
from playmill.games import PlaymillError
from playmill.pools import NativePool
from playmill.serving import Client, Standing, connect

ROOT = Path(__file__).resolve().parent.parent
GAMES, SIDE = 10_000, 20
SECONDS, QUICK = 600.0, 10.0
SAMPLES = 300
KINDS = (("skull_king", 128), ("leduc", 256), ("generals", 32))
"""What clients open, and how many at once."""
CALLS = 20
"""Rounds of turns before a client deletes its games and hangs up."""


def measure(say: Callable[[str], None], quick: bool, *, seconds: float = 0.0, **unknown: float) -> Result:
    """`settings` may name the seconds it lasts."""
    if unknown or seconds < 0:
        raise PlaymillError("the soak has one setting: seconds, more than 0")
    seconds = seconds or (QUICK if quick else SECONDS)
    with tempfile.TemporaryDirectory() as name:
        kept = ("--folder", str(Path(name) / "kept"), "--turns", "20000")
        with Served.everywhere(Path(name), *kept) as server:
            players = [_child("play_pool", seconds), _child("come_and_go", seconds, *server.places[1:])]
            watched = {"pool": players[0].pid, "server": server.process.pid}
            found = _sample(watched, seconds, say)
            peak = {name: _peak_mb(pid) for name, pid in watched.items()}
            told = [_told(player) for player in players]
            left = server.drain()
    growth = {name: _growth(samples) for name, samples in found.items()}
    for name, samples in found.items():
        say(f"{name}: {statistics.median(samples):.1f} MB, grew by {growth[name]:+.3f} MB")
    grown = {name: 100 * growth[name] / statistics.median(samples) for name, samples in found.items()}
    wrong = sum(told[1]["wrong"].values()) + (left != 0)
    bars = [
        Bar("soak_growth_percent", max(grown.values()), "%", 1.0, at_most=True),
        Bar("soak_errors", wrong, "errors", 0, at_most=True),
    ]
    series = {name: [round(mb, 2) for mb in samples] for name, samples in found.items()}
    memory = {"growth_mb": growth, "peak_mb": peak, "rss_mb": series}
    return Result(bars, {"seconds": seconds, **memory, "pool": told[0], "served": told[1]})


def _child(function: str, *arguments: object) -> subprocess.Popen[str]:
    code = f"import sys; from benchmarks.soak import {function}; {function}(*sys.argv[1:])"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def _told(player: subprocess.Popen[str]) -> dict[str, Any]:
    """What a player says at the end."""
    out, _ = player.communicate()
    if player.returncode != 0:
        raise PlaymillError(f"a player of the soak failed with {player.returncode}")
    return dict(json.loads(out.splitlines()[-1]))


def _sample(watched: dict[str, int], seconds: float, say: Callable[[str], None]) -> dict[str, list[float]]:
    """Resident memory in MB of each process, at even steps."""
    found: dict[str, list[float]] = {name: [] for name in watched}
    begin = time.monotonic()
    for sample in range(SAMPLES):
        # The last one is taken while the players still play.
        time.sleep(max(0.0, begin + (sample + 0.5) * seconds / SAMPLES - time.monotonic()))
        for name, pid in watched.items():
            found[name].append(_resident_mb(pid))
        if sample % (SAMPLES // 10) == 0:
            say(", ".join(f"{name} {samples[-1]:.1f} MB" for name, samples in found.items()))
    return found


def _resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6


def _peak_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024 / 1e6


def _growth(samples: list[float]) -> float:
    """From the second fifth to the last: the first is for warming up."""
    fifth = len(samples) // 5
    return statistics.median(samples[-fifth:]) - statistics.median(samples[fifth : 2 * fifth])


def play_pool(seconds: str) -> None:
    """Random legal moves in all games at once, which begin anew as they end."""
    pool = NativePool("generals", GAMES, options={"width": SIDE, "height": SIDE}, threads=1)
    begin, rounds = time.monotonic(), 0
    while time.monotonic() - begin < float(seconds):
        pool.turns()
        pool.act(pool.bot_actions("random"))
        rounds += 1
    print(json.dumps({"games": pool.games, "turns": rounds * pool.games, "memory_mb": pool.memory / 1e6}))


def come_and_go(seconds: str, *places: str) -> None:
    """Clients one after another on every transport in turn."""
    rng = np.random.default_rng(0)
    begin, clients, turns = time.monotonic(), 0, 0
    wrong: Counter[str] = Counter()
    while time.monotonic() - begin < float(seconds):
        game, count = KINDS[clients // len(places) % len(KINDS)]
        with connect(places[clients % len(places)]) as client:
            turns += _visit(client, game, count, rng, wrong)
        clients += 1
    print(json.dumps({"clients": clients, "turns": turns, "wrong": wrong}))


def _visit(client: Client, game: str, count: int, rng: np.random.Generator, wrong: Counter[str]) -> int:
    """Opens games, plays them, begins those anew that ended, deletes them; turns played."""
    games = client.create(game, count)
    turns = 0
    for _ in range(CALLS):
        seat = client.states(games, 0).to_act.copy()
        over = seat >= games.spec.seats
        states = client.states(games, np.where(over, 0, seat))
        turn = states.turn.copy()
        mask = np.unpackbits(states.legal, axis=1, count=games.spec.actions, bitorder="little")
        actions = (rng.random(mask.shape) * mask).argmax(axis=1)
        going = ~over
        standings = [client.submit(games[going], seat[going], turn[going], actions[going]).standing.copy()]
        standings.append(client.reset(games[over], turn[over]).standing.copy())
        turns += int(going.sum())
        wrong.update(Standing(int(s)).name for s in np.concatenate(standings) if s != Standing.OK)
    wrong.update(Standing(int(s)).name for s in client.delete(games).standing if s != Standing.OK)
    return turns
