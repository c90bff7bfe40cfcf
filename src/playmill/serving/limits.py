"""How much a server takes on, and how fast one peer may ask."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from playmill.games import PlaymillError
from playmill.serving.errors import Code, ServiceError


@dataclass(frozen=True)
class Limits:
    """What one server takes on."""

    games: int = 100_000
    """Games open at once."""
    halls: int = 64
    """Halls at once: a game with certain options each."""
    rows: int = 16_384
    """Rows in one request."""
    message: int = 16 << 20
    """Bytes of one request or reply."""
    rate: float = 0.0
    """Rows a second that one peer may send, on average; 0: as many as it likes."""
    streams: int = 256
    """Streams at once."""
    clients: int = 64
    """Clients through shared memory at once, and as many that send frames."""
    idle_minutes: float = 0.0
    """Games that nobody answers for so long are closed; 0: never."""

    def __post_init__(self) -> None:
        for name in ("games", "halls", "rows", "streams", "clients"):
            if getattr(self, name) < 1:
                raise PlaymillError(f"limits.{name} must be at least 1, got {getattr(self, name)}")
        if self.message < 4096:
            raise PlaymillError(f"limits.message must be at least 4096 bytes, got {self.message}")
        if self.rate < 0 or self.idle_minutes < 0:
            raise PlaymillError("limits.rate and limits.idle-minutes cannot be negative")


class Meter:
    """A bucket a peer: it fills at the rate and holds a second's worth (a full request at least)."""

    PEERS = 4096
    """The peers that were quiet longest are forgotten first."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = limits.rate
        self._room = max(limits.rate, float(limits.rows))
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def admit(self, peer: str, rows: int) -> None:
        """Takes `rows` from the peer's bucket, or refuses."""
        if self._rate == 0:
            return
        with self._lock:
            now = self._clock()
            left, since = self._buckets.pop(peer, (self._room, now))
            left = min(self._room, left + (now - since) * self._rate)
            enough = left >= rows
            self._buckets[peer] = (left - rows if enough else left, now)
            if len(self._buckets) > self.PEERS:
                self._buckets.popitem(last=False)
        if not enough:
            wait = (rows - left) / self._rate
            text = f"more than {self._rate:g} rows a second; try again in {wait:.2f} s"
            raise ServiceError(Code.RESOURCE_EXHAUSTED, text)
