"""A load test of the batch game service: agents in processes of their own, each with games of its own, one
action a call; how long the calls took."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from playmill.games import PlaymillError
from playmill.serving import Client, Games, ServiceError, Standing, connect

ROOT = Path(__file__).resolve().parent.parent
GAME, BOTS = "skull_king", ("", "random", "random", "random")


@dataclass(frozen=True)
class Load:
    """What the agents do."""

    agents: int = 1
    games: int = 1000
    """Of each agent."""
    rate: float = 0.0
    """Actions a second of each agent; 0: as fast as answers come."""
    think: float = 0.0
    """Seconds between a state and the action."""
    seconds: float = 10.0

    def __post_init__(self) -> None:
        if self.agents < 1 or self.games < 1 or self.seconds <= 0 or self.rate < 0 or self.think < 0:
            raise PlaymillError("a load has agents, games and seconds, and no negative rate or think time")


def run_load(where: str, load: Load, say: Callable[[str], None]) -> dict[str, Any]:
    """Latencies of actions and states in ms by percentile, what was reached, and what failed."""
    code = "import sys; from benchmarks.service_load import agent; agent(*sys.argv[1:])"
    command = [sys.executable, "-c", code, where, json.dumps(asdict(load))]
    agents = [
        subprocess.Popen(
            [*command, str(n)], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, cwd=ROOT
        )
        for n in range(load.agents)
    ]
    for process in agents:  # all have their games before the first begins
        assert process.stdout is not None
        process.stdout.readline()
    found = [json.loads(process.communicate("go\n")[0]) for process in agents]
    actions = np.concatenate([np.array(f["actions"]) for f in found])
    states = np.concatenate([np.array(f["states"]) for f in found])
    errors: dict[str, int] = {}
    for f in found:
        for name, count in f["errors"].items():
            errors[name] = errors.get(name, 0) + count
    out = {
        **asdict(load),
        "where": where.partition(":")[0],
        "action_ms": _percentiles(actions),
        "state_ms": _percentiles(states),
        "actions_per_s": len(actions) / load.seconds,
        "errors": errors,
    }
    what = f"{load.agents} agents, {load.agents * load.games:,} games, {out['where']}"
    say(f"{what}: {out['action_ms']} ms, {len(actions) / load.seconds:,.0f} actions/s, errors {errors}")
    return out


def _percentiles(seconds: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, float]:
    return {f"p{p}": round(1e3 * float(np.percentile(seconds, p)), 4) for p in (50, 95, 99)}


def agent(where: str, load_text: str, number: str) -> None:
    """One agent: opens its games, waits for the word, plays, and prints what it saw."""
    load = Load(**json.loads(load_text))
    with connect(where) as client:
        games = client.create(GAME, load.games, bots=BOTS)
        player = _Player(client, games, int(number))
        print("ready", flush=True)
        sys.stdin.readline()
        player.play(load)
        client.delete(games)
    print(json.dumps({"actions": player.actions, "states": player.states, "errors": player.errors}))


class _Player:
    """Plays its games in turn, a random legal action each time."""

    def __init__(self, client: Client, games: Games, seed: int) -> None:
        self._client = client
        self._rows = [games[[row]] for row in range(len(games))]
        self._rng = np.random.default_rng(seed)
        self.actions: list[float] = []
        self.states: list[float] = []
        self.errors: dict[str, int] = {}

    def play(self, load: Load) -> None:
        begin = time.perf_counter()
        turn = 0
        while (now := time.perf_counter() - begin) < load.seconds:
            if load.rate and now < (due := turn / load.rate):
                time.sleep(min(due, load.seconds) - now)
            try:
                self._turn(self._rows[turn % len(self._rows)], load.think)
            except ServiceError as error:
                self._count(error.code.name)
            turn += 1

    def _turn(self, game: Games, think: float) -> None:
        start = time.perf_counter()
        states = self._client.states(game, 0)
        self.states.append(time.perf_counter() - start)
        turn = states.turn.copy()
        if states.over[0]:
            self._client.reset(game, turn)
            return
        legal = np.flatnonzero(np.unpackbits(states.legal[0], bitorder="little"))
        action = self._rng.choice(legal)
        if think:
            time.sleep(think)
        start = time.perf_counter()
        answer = self._client.submit(game, 0, turn, action)
        self.actions.append(time.perf_counter() - start)
        if answer.standing[0] != Standing.OK:
            self._count(Standing(int(answer.standing[0])).name)

    def _count(self, name: str) -> None:
        self.errors[name] = self.errors.get(name, 0) + 1
