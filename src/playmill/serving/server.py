"""A whole server: a house, its keeper and its transports, from the first call to the last checkpoint."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from playmill.games import PlaymillError
from playmill.serving.frames import FrameServer
from playmill.serving.grpc_server import Access, GrpcServer
from playmill.serving.house import House
from playmill.serving.keeper import Keeper
from playmill.serving.limits import Limits
from playmill.serving.recorder import Recorder
from playmill.serving.shared import SharedServer

SWEEP = 30.0
"""Seconds between two looks for abandoned games."""


@dataclass(frozen=True)
class Settings:
    """What a server is started with."""

    access: Access
    frames: Path | None = None
    shared: Path | None = None
    folder: Path | None = None
    turns: int = 10_000
    seconds: float = 10.0
    threads: int = 1
    grace: float = 5.0
    limits: Limits = field(default_factory=Limits)
    replays: Path | None = None


async def serve(settings: Settings, say: Callable[[str], None]) -> None:
    """Serves until SIGTERM or Ctrl-C, then drains: no new calls, running ones end, games are saved."""
    recorder = Recorder(settings.replays) if settings.replays is not None else None
    house = House(settings.limits, threads=settings.threads, recorder=recorder)
    keeper = None
    if settings.folder is not None:
        keeper = Keeper(house, settings.folder, settings.turns, settings.seconds)
        say(f"{keeper.load():,} games taken up from {settings.folder}")
    wanted = ((FrameServer, settings.frames), (SharedServer, settings.shared))
    doors = [kind(house, path) for kind, path in wanted if path is not None]
    if not settings.access.listen and not doors:
        raise PlaymillError("a server that listens nowhere: give --listen, --frames or --shared")
    remote = GrpcServer(house, settings.access)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if keeper is not None:
        keeper.start()
    await remote.start()
    for place in remote.places:
        say(f"listening on {place}")
    for door in doors:
        door.start()
        say(f"listening on {door.place}")
    await _until(stop, house)
    say("draining")
    house.drain()
    await remote.stop(settings.grace)
    for door in doors:
        await asyncio.to_thread(door.stop)
    if keeper is not None:
        await asyncio.to_thread(keeper.stop)
        say(f"{house.games:,} games kept in {settings.folder}")
    if recorder is not None:
        await asyncio.to_thread(recorder.close)


async def _until(stop: asyncio.Event, house: House) -> None:
    while not stop.is_set():
        try:
            await asyncio.wait_for(stop.wait(), SWEEP)
        except TimeoutError:
            house.sweep()
