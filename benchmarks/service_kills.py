"""Kills a server at random moments under load: every game of its last checkpoint must come back as it was
there, and every answer must count once."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.served import Served
from playmill.games import Game
from playmill.serving import Client, Games, House, LocalClient, ServiceError, Standing, connect
from playmill.serving.keeper import Keeper

GAME = "skull_king"
DOORS = ("frames", "shared")
"""Clients come by one and the other in turn."""


@dataclass
class Memory:
    """What the clients remember: the answers that counted, by game and turn, and what they sent last."""

    games: Games
    seeds: list[int]
    answers: list[list[int]]
    last: tuple[int, int, int, int] | None = None
    """Row, seat, turn and action of the answer under way."""
    counted: dict[str, int] = field(default_factory=dict)


def survive(folder: Path, kills: int, games: int, say: Callable[[str], None]) -> int:
    """How many kills were survived: all, or those before the first that was not."""
    rng = random.Random(1)
    doors = [word for name in DOORS for word in (f"--{name}", str(folder / f"{name}.sock"))]
    place = ("--listen", *doors, "--folder", str(folder / "kept"), "--turns", "40", "--seconds", "0.1")
    memory = _begin(folder, place, games)
    for kill in range(kills):
        expected = _turns_kept(folder, memory)
        server = Served(folder, *place)
        if rng.random() < 0.1:  # while it starts
            time.sleep(rng.uniform(0.0, 2.0))
        else:
            server.ready()
            with connect(server.places[kill % len(DOORS)]) as client:
                if not _as_kept(client, memory, expected, say):
                    server.kill()
                    return kill
                _play(client, memory, server, rng.uniform(0.0, 0.8), rng)
        server.kill()
        say(f"kill {kill + 1}: {sum(map(len, memory.answers))} answers counted, {memory.counted}")
    return kills


def _begin(folder: Path, place: tuple[str, ...], count: int) -> Memory:
    """Opens the games and drains, so that they are in a checkpoint."""
    with Served(folder, *place) as server:
        server.ready()
        with connect(server.places[0]) as client:
            seeds = list(range(1, count + 1))
            games = client.create(GAME, count, seeds=seeds)
        server.drain()
    return Memory(games, seeds, [[] for _ in seeds])


def _turns_kept(folder: Path, memory: Memory) -> list[int]:
    """Where each game stands in the last whole checkpoint; -1 for one that is not there."""
    copy = folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder / "kept", copy)
    house = House()
    keeper = Keeper(house, copy)
    keeper.load()
    states = LocalClient(house).states(memory.games, 0)
    return [int(t) if s == Standing.OK else -1 for t, s in zip(states.turn, states.standing, strict=True)]


def _as_kept(client: Client, memory: Memory, expected: list[int], say: Callable[[str], None]) -> bool:
    """Every game is back, stands where the checkpoint has it, and is what its answers make of its seed."""
    games = memory.games
    seen = [client.states(games, seat).observation.copy() for seat in range(games.spec.seats)]
    turns = client.states(games, 0).turn.tolist()
    if turns != expected:
        say(f"games came back at {turns}, not at {expected}")
        return False
    for row, (turn, seed) in enumerate(zip(turns, memory.seeds, strict=True)):
        answers = memory.answers[row]
        if turn > len(answers):  # the answer under way was taken, and the server died before it said so
            assert memory.last is not None
            if memory.last[0] != row or memory.last[2] != len(answers) or turn != len(answers) + 1:
                say(f"game {row} stands at {turn}, but only {len(answers)} answers were sent")
                return False
            answers.append(memory.last[3])
        del answers[turn:]  # played after the checkpoint: lost with the crash
        twin = Game(GAME, seed=seed)
        for action in answers:
            twin.act(action)
        if not all(np.array_equal(seen[seat][row], twin.observe(seat)) for seat in range(games.spec.seats)):
            say(f"game {row} is not what its answers make of it")
            return False
    return _again(client, memory)


def _again(client: Client, memory: Memory) -> bool:
    """The answer under way when the server died, sent again: it counts once, now or before."""
    if memory.last is None:
        return True
    row, seat, turn, action = memory.last
    stood = len(memory.answers[row])
    found = client.submit(memory.games[[row]], seat, turn, action)
    standing, now = Standing(int(found.standing[0])), int(found.turn[0])
    memory.counted[standing.name] = memory.counted.get(standing.name, 0) + 1
    if standing == Standing.OK:
        memory.answers[row].append(action)
        return turn == stood and now == stood + 1
    known = Standing.REPEATED if turn < stood else Standing.AHEAD
    return standing == known and now == stood


def _play(client: Client, memory: Memory, server: Served, seconds: float, rng: random.Random) -> None:
    """Random play, one answer at a time, some sent twice, until the server is killed under it."""
    games, deadline = memory.games, time.monotonic() + seconds
    rows = [games[[row]] for row in range(len(games))]
    try:
        while True:
            row = rng.randrange(len(games))
            seat = int(client.states(rows[row], 0).to_act[0])
            if seat >= games.spec.seats:  # over: its answers stay, and it is checked to the end
                if time.monotonic() > deadline:
                    server.kill()
                continue
            states = client.states(rows[row], seat)
            turn = int(states.turn[0])
            legal = np.flatnonzero(np.unpackbits(states.legal[0], bitorder="little"))
            action = int(rng.choice(legal.tolist()))
            memory.last = (row, seat, turn, action)
            if time.monotonic() > deadline:
                server.process.kill()  # while the answer is on its way
            for _ in range(2 if rng.random() < 0.3 else 1):
                found = client.submit(rows[row], seat, turn, action)
                if found.standing[0] == Standing.OK:
                    memory.answers[row].append(action)
    except ServiceError:
        return
