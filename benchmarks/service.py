"""The batch game service: states a second over gRPC and through shared memory, the time a single action
takes, and kills under load. Skull King, four players: 121 bytes of observation a row, 40 of the rest."""

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
KILLS = 50
UNDER_WAY = 6
"""Batches a shared-memory client has under way."""


def measure(say: Callable[[str], None], quick: bool, **settings: float) -> Result:
    """`settings` change the load: agents, games, rate, think, seconds."""
    load = dataclasses.replace(Load(seconds=2.0 if quick else 10.0), **_whole(settings))
    rounds, seconds = (1, 0.5) if quick else (ROUNDS, 2.0)
    with tempfile.TemporaryDirectory() as name, Served.everywhere(Path(name)) as server:
        tcp, unix, shared = server.places
        rates = _rates({"tcp": tcp, "unix": unix, "shared": shared}, rounds, seconds, say)
        loads = [
            {kind: run_load(where, load, say) for kind, where in (("grpc", unix), ("shared", shared))}
            for _ in range(1 if quick else LOADS)
        ]
    wanted = 3 if quick else KILLS
    with tempfile.TemporaryDirectory() as name:
        kills = survive(Path(name), wanted, 32 if quick else 256, say)
    # Work of others on the same cores slows server and clients alike: the best says what they do undisturbed.
    best = {name: max(found) for name, found in rates.items()}
    errors = sum(sum(found["errors"].values()) for each in loads for found in each.values())
    bars = [
        Bar("grpc_states_per_s", best["tcp"], "states/s", 250e3),
        Bar("shm_states_per_s", best["shared"], "states/s", 15e6),
        Bar(
            "action_p99_ms", min(each["grpc"]["action_ms"]["p99"] for each in loads), "ms", 1.0, at_most=True
        ),
        Bar("load_errors", errors, "errors", 0, at_most=True),
        Bar("kills_survived", kills, "kills", wanted),
    ]
    medians = {name: statistics.median(found) for name, found in rates.items()}
    return Result(bars, {"batch": BATCH, "best": best, "median": medians, "load": loads})


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
