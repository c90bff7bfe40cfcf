"""The batch game service: states a second over gRPC and through shared memory, the time a single action
takes as a frame and over gRPC, and kills under load. Skull King, four players: 121 bytes of observation a
row, 40 of the rest."""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bars import Bar, Result
from benchmarks.served import Served
from benchmarks.service_kills import survive
from benchmarks.service_load import Load, run_load
from playmill.games import unknown
from playmill.serving import Client, Games, House, connect
from playmill.serving.shared_client import SharedClient

BATCH = 1024
ROUNDS = 5
LOADS = 3
PACED = Load(agents=4, games=250, rate=50.0, think=0.01)
"""Beside one agent as fast as answers come. Both have 1,000 games."""
TURNS = 1000
"""Between two checkpoints while the agents play."""
KILLS = 50
UNDER_WAY = 6
"""Batches a shared-memory client has under way."""


def measure(say: Callable[[str], None], quick: bool, **settings: float) -> Result:
    """`settings` make a load of one's own: agents, games, rate, think, seconds."""
    loads = {"own": Load(**_whole(settings))} if settings else {"fast": Load(), "paced": PACED}
    if quick:
        loads = {name: dataclasses.replace(load, seconds=2.0) for name, load in loads.items()}
    rounds, seconds = (1, 0.5) if quick else (ROUNDS, 2.0)
    with tempfile.TemporaryDirectory() as name, Served.everywhere(Path(name)) as server:
        tcp, unix, frames, shared = server.places
        rates = _rates({"tcp": tcp, "unix": unix, "frames": frames, "shared": shared}, rounds, seconds, say)
    with tempfile.TemporaryDirectory() as name:
        kept = ("--folder", str(Path(name) / "kept"), "--turns", str(TURNS))
        with Served.everywhere(Path(name), *kept) as server:
            places = dict(zip(("grpc", "frames", "shared"), server.places[1:], strict=True))
            loaded = _loads(places, loads, 1 if quick else LOADS, say)
    wanted = 3 if quick else KILLS
    with tempfile.TemporaryDirectory() as name:
        kills = survive(Path(name), wanted, 32 if quick else 256, say)
    # Work of others on the same cores slows server and clients alike: the best says what they do undisturbed.
    best = {name: max(found) for name, found in rates.items()}
    p99 = {name: {kind: _p99(runs) for kind, runs in kinds.items()} for name, kinds in loaded.items()}
    all_runs = [run for kinds in loaded.values() for runs in kinds.values() for run in runs]
    bars = [
        Bar("grpc_states_per_s", best["tcp"], "states/s", 250e3),
        Bar("shm_states_per_s", best["shared"], "states/s", 15e6),
        Bar("action_p99_ms", max(kinds["frames"]["best"] for kinds in p99.values()), "ms", 1.0, at_most=True),
        Bar("load_errors", sum(sum(run["errors"].values()) for run in all_runs), "errors", 0, at_most=True),
        Bar("kills_survived", kills, "kills", wanted),
    ]
    medians = {name: statistics.median(found) for name, found in rates.items()}
    details = {"batch": BATCH, "best": best, "median": medians, "action_p99_ms_by": p99, "load": loaded}
    return Result(bars, details)


def _loads(
    places: dict[str, str], loads: dict[str, Load], rounds: int, say: Callable[[str], None]
) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Every load on every transport, in turns about."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {
        name: {kind: [] for kind in places} for name in loads
    }
    for _ in range(rounds):
        for name, load in loads.items():
            for kind, where in places.items():
                found[name][kind].append(run_load(where, load, say))
    return found


def _p99(runs: list[dict[str, Any]]) -> dict[str, float]:
    values = [run["action_ms"]["p99"] for run in runs]
    return {"best": min(values), "median": statistics.median(values)}


def _whole(settings: dict[str, float]) -> dict[str, Any]:
    """Settings of a load, those that are counts as whole numbers."""
    for name in settings:
        if name not in (known := [field.name for field in dataclasses.fields(Load)]):
            raise unknown("setting of the load", name, known)
    return {name: int(value) if name in ("agents", "games") else value for name, value in settings.items()}


def _rates(
    places: dict[str, str], rounds: int, seconds: float, say: Callable[[str], None]
) -> dict[str, list[float]]:
    """States a second on each transport, in turns about; games in the middle of play."""
    clients = {name: connect(where) for name, where in places.items()} | {"in_process": connect(House())}
    games = {name: _midgame(client) for name, client in clients.items()}
    found: dict[str, list[float]] = {name: [] for name in [*clients, "shared_one_at_a_time"]}
    for _ in range(rounds):
        for name, client in clients.items():
            if isinstance(client, SharedClient):
                found[name].append(_under_way(client, games[name], seconds))
                found["shared_one_at_a_time"].append(_one_at_a_time(client, games[name], seconds))
            else:
                found[name].append(_one_at_a_time(client, games[name], seconds))
        say(", ".join(f"{name} {rates[-1]:,.0f} states/s" for name, rates in found.items()))
    for client in clients.values():
        client.close()
    return found


def _midgame(client: Client) -> Games:
    games = client.create("skull_king", BATCH)
    rng = np.random.default_rng(0)
    for _ in range(100):
        seat = client.states(games, 0).to_act.copy()
        states = client.states(games, seat)
        mask = np.unpackbits(states.legal, axis=1, count=games.spec.actions, bitorder="little")
        client.submit(games, seat, states.turn.copy(), (rng.random(mask.shape) * mask).argmax(axis=1))
    return games


def _one_at_a_time(client: Client, games: Games, seconds: float) -> float:
    calls, begin = 0, time.perf_counter()
    while (spent := time.perf_counter() - begin) < seconds:
        client.states(games, 0)
        calls += 1
    return calls * BATCH / spent


def _under_way(client: SharedClient, games: Games, seconds: float) -> float:
    calls, begin = 0, time.perf_counter()
    asked = deque(client.ask_states(games, 0) for _ in range(UNDER_WAY))
    while (spent := time.perf_counter() - begin) < seconds:
        asked.popleft().wait()
        asked.append(client.ask_states(games, 0))
        calls += 1
    while asked:
        asked.popleft().wait()
    return calls * BATCH / spent
