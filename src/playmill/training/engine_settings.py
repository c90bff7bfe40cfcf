"""The settings of the engine lane: games in other processes, played by actors beside the learner."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Literal

from playmill.experience.segment import check_run
from playmill.games import PlaymillError
from playmill.pools.remote_settings import Supervision
from playmill.serving.batching import Batching


@dataclass(frozen=True)
class Actors:
    """Who plays the games, and how what they play comes to the learner."""

    count: int = 1
    """Actors that the learner starts on its machine; 0: they are started elsewhere."""
    engines: int = field(default_factory=lambda: min(16, max(2, len(os.sched_getaffinity(0)))))
    """Engine processes of an actor; as many as there are cores, from 2 to 16."""
    games: int = 4
    """Games in flight on each engine: one thinks while others wait for their answers."""
    command: tuple[str, ...] = ()
    """How an engine is started, where the game's name does not say it."""
    segments: int = 64
    """Segments, each `steps` turns of one game, in an update."""
    inference: Literal["actor", "process"] = "actor"
    """Where decisions are computed: in each actor, or for all actors of a machine in a process of its own."""
    channel: str = "shared"
    """How experience travels: shared (memory of one machine), or redis://... between machines."""
    weights: str = ""
    """How weights travel: shared, redis://..., or an address of fsspec; as `channel` when empty."""
    ring_mb: int = 64
    """Megabytes that an actor's experience may take in shared memory while it waits for the learner."""
    assigned: bool = False
    """Actors play only what the learner has asked for, by assignments at the broker; needs Redis."""
    assignment: int = 16
    """Segments that an actor may hand over for an assignment."""
    ahead: int = 8
    """Assignments that lie untaken at the broker while the learner wants more than it gets."""
    assigned_name: str = ""
    """Name in the key of their stream, for those who must know it beforehand; the run's id when empty."""
    batching: Batching = field(default_factory=Batching)
    supervision: Supervision = field(default_factory=Supervision)

    def __post_init__(self) -> None:
        for name in ("count", "engines", "games", "segments", "ring_mb", "assignment", "ahead"):
            low = 0 if name == "count" else 1
            if getattr(self, name) < low:
                raise PlaymillError(f"actors.{name} must be at least {low}, got {getattr(self, name)}")
        if self.channel != "shared" and not self.channel.startswith(("redis://", "rediss://", "unix://")):
            raise PlaymillError(f"actors.channel must be shared or redis://..., got {self.channel!r}")
        if self.assigned and self.channel == "shared":
            raise PlaymillError(
                "actors.assigned needs a broker: set actors.channel to redis://..., or leave it out"
            )
        if self.assigned_name:
            check_run(self.assigned_name)

    @property
    def slots(self) -> int:
        """Games in flight of one actor."""
        return self.engines * self.games

    @property
    def weights_at(self) -> str:
        return self.weights or self.channel


@dataclass(frozen=True)
class Replaying:
    """Learning from segments more than once: a buffer of the newest ones beside the channel."""

    share: float = 0.0
    """Share of an update's segments that are drawn from the buffer; 0: none, and no buffer."""
    mb: int = 256
    """Megabytes of the buffer."""
    alpha: float = 0.0
    """0: segments are drawn evenly; else by the size of their advantages, to this power."""
    beta: float = 0.4
    """With alpha: how far what is drawn often counts less."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.share < 1.0:
            raise PlaymillError(f"replay.share must be from 0 to below 1, got {self.share}")
        if self.mb < 1:
            raise PlaymillError(f"replay.mb must be at least 1, got {self.mb}")
        for name in ("alpha", "beta"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise PlaymillError(f"replay.{name} must be from 0 to 1, got {getattr(self, name)}")

    def reused(self, fresh: int) -> int:
        """Segments to draw beside so many new ones."""
        return round(fresh * self.share / (1.0 - self.share))
