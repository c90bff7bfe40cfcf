"""The engines of a RemotePool: bytes in and out of all of them at once, their clocks, restarts and ends."""

from __future__ import annotations

import contextlib
import logging
import select
import time
from collections.abc import Callable

from playmill.engines import protocol
from playmill.engines.connection import Connection, EngineGone
from playmill.engines.facts import BadEngine
from playmill.engines.protocol import Frame, FrameError, Kind
from playmill.pools.remote_engine import Engine, Lie, State
from playmill.pools.remote_settings import End

TICK = 0.05
"""Seconds between looks at the clocks of engines."""
AWAY = 1.0
"""Seconds between two calls from which on engines' clocks stood still: nobody read what they had answered."""

_LOG = logging.getLogger(__name__)


class Crew:
    """Nothing here knows what a game is: `take` gets every frame, `lost` the slots of ended engines."""

    def __init__(
        self,
        engines: list[Engine],
        take: Callable[[Engine, Frame, float], None],
        lost: Callable[[list[int], float], None],
    ) -> None:
        self.engines = engines
        self._take, self._lost = take, lost
        self._dying: list[Connection] = []
        self._epoll = select.epoll()
        self._watched: dict[int, tuple[Engine, bool]] = {}
        self._blocked: set[int] = set()
        self._away = 0.0
        self._left: float | None = None
        self._checked = time.monotonic()

    # ---- Time ----

    def now(self) -> float:
        """The engines' clock: it stands still while the caller is away for long, and never goes back."""
        return time.monotonic() - self._away

    def listen(self) -> float:
        """The caller is back: whoever reads the clock says so first. The time."""
        now = time.monotonic()
        if self._left is not None and now - self._left > AWAY:
            self._away += now - self._left
        self._left = None
        return now - self._away

    def leave(self) -> None:
        """The caller goes and does something else."""
        self._left = time.monotonic()

    # ---- Bytes ----

    def pump(self, within: float) -> None:
        """Waits for bytes at most so long, takes in all that came, looks at the clocks when it is time."""
        events = self._epoll.poll(min(within, max(0.0, self._checked + TICK - self.now())))
        now = self.now()
        for fd, event in events:
            engine, is_errors = self._watched.get(fd, (None, False))
            if engine is None or engine.connection is None:
                continue
            if is_errors:
                if not engine.connection.read_errors():
                    self._unwatch(fd)
                continue
            try:
                self._served(engine, engine.connection, event, now)
            except (Lie, FrameError) as error:
                self.fail(engine, f"it lied: {error}", "lied")
            except BadEngine as error:
                self.fail(engine, str(error), "unfit")
            except EngineGone as error:
                self.fail(engine, str(error))
        if now - self._checked >= TICK:
            self._check(now)
        self.send()

    def _served(self, engine: Engine, connection: Connection, event: int, now: float) -> None:
        if event & select.EPOLLOUT and connection.flush():
            self._epoll.modify(connection.socket.fileno(), select.EPOLLIN)
            self._blocked.discard(connection.socket.fileno())
        if event & ~select.EPOLLOUT:
            frames = engine.decoder.feed(connection.read())
            engine.heard(now)
            for frame in frames:
                self._take(engine, frame, now)

    def send(self) -> None:
        """Sends what was put out for engines. One that is gone leaves games that are begun elsewhere."""
        again = True
        while again:
            again = False
            for engine in self.engines:
                if not engine.out or engine.connection is None:
                    continue
                data = b"".join(engine.out)
                engine.out.clear()
                try:
                    fd = engine.connection.socket.fileno()
                    if not engine.connection.send(data) and fd not in self._blocked:
                        self._epoll.modify(fd, select.EPOLLIN | select.EPOLLOUT)
                        self._blocked.add(fd)
                except EngineGone as error:
                    self.fail(engine, str(error))
                    again = True

    # ---- Lives ----

    def start(self, engine: Engine) -> None:
        try:
            engine.start(self.now())
        except EngineGone as error:
            self.fail(engine, str(error))
            return
        connection = engine.connection
        assert connection is not None
        self._watch(connection.socket.fileno(), engine, False)
        if connection.errors >= 0:
            self._watch(connection.errors, engine, True)

    def fail(self, engine: Engine, reason: str, why: End = "died") -> None:
        """Ends an engine, and tells which slots lost their games."""
        connection, now = engine.connection, self.now()
        if connection is not None:
            self._unwatch(connection.socket.fileno())
            self._unwatch(connection.errors)
            self._dying.append(connection)
        slots = engine.fail(reason, now, why)
        where = f"{engine.spec.name}, engine {engine.number}"
        if engine.state is State.OUT:
            _LOG.error("%s is left out for good: %s", where, engine.reason)
        else:
            _LOG.warning("%s is started anew: %s", where, engine.reason)
        self._lost(slots, now)

    def all_in(self, *states: State) -> bool:
        return all(engine.state in states for engine in self.engines)

    def reasons(self) -> str:
        """Why engines failed, the first few."""
        return "\n".join(f"Engine {e.number}: {e.reason}" for e in self.engines[:4] if e.reason)

    def close(self) -> None:
        """Ends all engines, and waits until nothing is left of them."""
        for engine in self.engines:
            if engine.connection is not None:
                with contextlib.suppress(EngineGone):
                    engine.connection.send(protocol.frame(Kind.BYE))
                engine.connection.kill()
                self._dying.append(engine.connection)
                engine.connection = None
            engine.state = State.OUT
        for connection in self._dying:
            connection.close()
        self._dying.clear()
        self._epoll.close()

    def _check(self, now: float) -> None:
        self._checked = now
        self._dying = [connection for connection in self._dying if not connection.reaped()]
        for engine in self.engines:
            engine.settle(now)
            if engine.state is State.WAITING:
                if now >= engine.start_at:
                    self.start(engine)
            elif why := engine.overdue(now):
                self.fail(engine, why, "late")

    def _watch(self, fd: int, engine: Engine, is_errors: bool) -> None:
        self._watched[fd] = (engine, is_errors)
        self._epoll.register(fd, select.EPOLLIN)

    def _unwatch(self, fd: int) -> None:
        if self._watched.pop(fd, None) is not None:
            self._epoll.unregister(fd)
        self._blocked.discard(fd)
