"""Servers of the batch game service in this process, one a transport, and how a game is played on them."""

import asyncio
import threading
from contextlib import contextmanager

import numpy as np

from playmill.serving import House, LocalClient, connect
from playmill.serving.frames import FrameServer
from playmill.serving.grpc_server import Access, GrpcServer
from playmill.serving.shared import SharedServer

DOORS = {"shared": SharedServer, "frames": FrameServer}
TRANSPORTS = ("local", *DOORS, "grpc")


@contextmanager
def grpc_at(house, access):
    """A gRPC server on a thread of its own; where it listens."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(20)

    async def begin():
        server = GrpcServer(house, access)
        await server.start()
        return server

    server = run(begin())
    try:
        yield server.places
    finally:
        run(server.stop(0.2))
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@contextmanager
def serving(transport, house, folder):
    """Where clients of `house` connect to."""
    if transport == "local":
        yield house
    elif transport in DOORS:
        server = DOORS[transport](house, folder / f"{transport}.sock")
        server.start()
        yield server.place
        server.stop()
    else:
        with grpc_at(house, Access([f"unix:{folder / 'grpc.sock'}"])) as places:
            yield places[0]


def actions_of(states, spec, rng):
    """A random legal action a row; -1 where there is none."""
    mask = np.unpackbits(states.legal, axis=1, count=spec.actions, bitorder="little")
    return np.where(mask.any(axis=1), (rng.random(mask.shape) * mask).argmax(axis=1), -1).astype(np.int32)


def step(client, games, rng):
    """Every game that waits for a client's seat goes on by one turn; whether any did."""
    moved = False
    for seat in range(games.spec.seats):
        states = client.states(games, seat)
        turn, mine = states.turn.copy(), states.to_act == seat
        actions = actions_of(states, games.spec, rng)
        if mine.any():
            client.submit(games[mine], seat, turn[mine], actions[mine])
            moved = True
    return moved


def untouched(house, games, before):
    """Whether every seat sees what it saw before."""
    after = [LocalClient(house).states(games, seat) for seat in range(4)]
    return all(np.array_equal(a.observation, b) for a, b in zip(after, before, strict=True))


def waiting(client, games):
    """Whose turn it is in every game, and which turn."""
    states = client.states(games, 0)
    return states.to_act.copy(), states.turn.copy()


__all__ = [
    "DOORS",
    "TRANSPORTS",
    "House",
    "actions_of",
    "connect",
    "grpc_at",
    "serving",
    "step",
    "untouched",
    "waiting",
]
