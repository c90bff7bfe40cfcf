"""Many engine processes as one pool. `turns` gives the rows that are ready, `act` answers them; an engine that
is slow, dies, hangs or lies costs its own games and nobody's time."""

from __future__ import annotations

import logging
import math
import select
import time
from collections import deque
from collections.abc import Mapping, Sequence
from types import TracebackType

import numpy.typing as npt

from playmill import _native
from playmill.engines import protocol
from playmill.engines.connection import Connection, EngineGone
from playmill.engines.facts import BadEngine
from playmill.engines.names import Launch, command_launch, launch_of
from playmill.engines.protocol import GAME_BODY, NO_GAME, Frame, FrameError, Kind
from playmill.games import GameSpec, OptionValue, PlaymillError, registry
from playmill.pools.remote_engine import Engine, Lie, State
from playmill.pools.remote_settings import EngineHealth, Supervision
from playmill.pools.remote_slots import FIRST_BOT, Slots, Waiting

TICK = 0.05
"""Seconds between looks at the clocks of engines."""
AWAY = 1.0
"""Seconds without a call after which engines' clocks stood still: nobody read what they had answered."""

_LOG = logging.getLogger(__name__)


class NoEngines(PlaymillError):
    """All engines are out for good; nothing will come any more."""


class RemotePool:
    """`slots` games on `engines` processes; one thread of the caller's does all the work.

    Every row is given once, in fresh arrays, and must be answered once. Games restart in place. The seed of
    a game is a function of the pool's seed, the slot and the number of the game there."""

    def __init__(
        self,
        game: str | GameSpec,
        slots: int,
        *,
        options: Mapping[str, OptionValue] | None = None,
        seed: int = 0,
        engines: int = 1,
        games_per_engine: int | None = None,
        command: Sequence[str] | None = None,
        sockets: Sequence[str] | None = None,
        supervision: Supervision | None = None,
    ) -> None:
        """`games_per_engine` limits an engine's games in flight; without it, twice its fair share. `command`
        or `sockets` say how engines are reached where the game's name does not."""
        if slots < 1 or engines < 1:
            raise PlaymillError(f"a pool needs a slot and an engine, got {slots} and {engines}")
        if games_per_engine is not None and games_per_engine < 1:
            raise PlaymillError(f"games_per_engine must be at least 1, got {games_per_engine}")
        self.spec = registry.spec(game, options) if isinstance(game, str) else game
        self.slots = slots
        self._fair = math.ceil(slots / engines)
        self._most = games_per_engine or 2 * self._fair
        launch = _launch(self.spec, command, sockets)
        if launch.sockets and engines > len(launch.sockets):
            raise PlaymillError(f"{engines} engines at {len(launch.sockets)} sockets; each needs its own")
        settings = supervision or Supervision()
        self._engines = [Engine(n, launch, self.spec, settings, seed + n) for n in range(engines)]
        self._slots = Slots(self.spec, slots, seed % 2**64)
        self._homeless = deque(range(slots))
        self._tallies: dict[tuple[int, int], list[float]] = {}
        self._dying: list[Connection] = []
        self._epoll = select.epoll()
        self._watched: dict[int, tuple[Engine, bool]] = {}
        self._blocked: set[int] = set()
        self._away = 0.0
        self._left = self._checked = time.monotonic()
        try:
            for engine in self._engines:
                self._start(engine, self._now())
            self._first_ready(settings.start_timeout)
        except BaseException:
            self.close()
            raise

    # ---- The two verbs ----

    def turns(self, at_least: int = 1, within: float = 0.1) -> Waiting:
        """The rows that are ready: at least so many, or what there is when `within` seconds are over."""
        entered = time.monotonic()
        if entered - self._left > AWAY:
            self._away += entered - self._left
        until = self._now() + within
        self._pump(0.0)
        while len(self._slots.ready) < at_least:
            left = until - self._now()
            if left <= 0:
                break
            if all(engine.state is State.OUT for engine in self._engines) and not self._slots.ready:
                raise NoEngines(f"no engine of {self.spec.name} is left. {self._reasons()}")
            self._pump(min(left, max(0.0, self._checked + TICK - self._now())))
        self._left = time.monotonic()
        return self._slots.gather()

    def act(self, slots: npt.ArrayLike, actions: npt.ArrayLike) -> None:
        """Answers rows. An illegal action, or a slot that does not wait, raises and changes nothing."""
        at, wanted = self._slots.check(slots, actions)
        rows, now = self._slots, self._now()
        stale = rows.stale[at].tolist()
        rows.answer(at)
        for slot, action, void in zip(at, wanted, stale, strict=True):
            if void:
                rows.stale[slot] = False
                continue
            rows.live(slot)
            self._ask(slot, action, now)
        self._send(now)

    def set_drivers(self, drivers: npt.ArrayLike) -> None:
        """Who answers for which seat, [slots, seats]: policies below FIRST_BOT, bots from there on. Bot
        "random" plays here, the others are the engine's own."""
        self._slots.set_drivers(drivers)
        rows, now = self._slots, self._now()
        for slot in list(rows.ready):
            driver = rows.driver_lists[slot][rows.seat[slot]]
            if driver >= FIRST_BOT:
                del rows.ready[slot]
                self._play_bot(slot, driver, now)
        self._send(now)

    # ---- Numbers ----

    def stats(self) -> dict[int, dict[str, tuple[float, int]]]:
        """The game's named statistics by driver: mean and count since the last `clear_stats`."""
        out: dict[int, dict[str, tuple[float, int]]] = {}
        for (driver, stat), (total, count) in self._tallies.items():
            out.setdefault(driver, {})[self.spec.stats[stat]] = (total / count, int(count))
        return out

    def clear_stats(self) -> None:
        self._tallies.clear()

    def health(self) -> list[EngineHealth]:
        """How every engine is, now."""
        now = self._now()
        return [engine.health(now) for engine in self._engines]

    def close(self) -> None:
        """Ends all engines, and waits until nothing is left of them."""
        for engine in self._engines:
            if engine.connection is not None:
                try:
                    engine.connection.send(protocol.frame(Kind.BYE))
                except EngineGone:
                    pass
                engine.connection.kill()
                self._dying.append(engine.connection)
                engine.connection = None
            engine.state = State.OUT
        for connection in self._dying:
            connection.close()
        self._dying.clear()
        self._epoll.close()

    def __enter__(self) -> RemotePool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- Bytes in and out ----

    def _now(self) -> float:
        """The engines' clock: it stands still while nobody listens to them."""
        return time.monotonic() - self._away

    def _pump(self, within: float) -> None:
        """Waits for bytes, takes in all that came, looks at the clocks when it is time."""
        events = self._epoll.poll(within)
        now = self._now()
        for fd, event in events:
            engine, is_errors = self._watched.get(fd, (None, False))
            if engine is None or engine.connection is None:
                continue
            if is_errors:
                if not engine.connection.read_errors():
                    self._unwatch(fd)
                continue
            try:
                if event & select.EPOLLOUT and engine.connection.flush():
                    self._epoll.modify(fd, select.EPOLLIN)
                    self._blocked.discard(fd)
                if event & ~select.EPOLLOUT:
                    data = engine.connection.read()
                    engine.heard(now)
                    for frame in engine.decoder.feed(data):
                        self._take(engine, frame, now)
            except (Lie, FrameError) as error:
                self._fail(engine, f"it lied: {error}", lied=True)
            except BadEngine as error:
                self._fail(engine, str(error), for_good=True)
            except EngineGone as error:
                self._fail(engine, str(error))
        if now - self._checked >= TICK:
            self._check(now)
        self._send(now)

    def _take(self, engine: Engine, frame: Frame, now: float) -> None:
        kind, payload = frame
        if kind == Kind.FAILED:
            game, text = protocol.read_failed(payload)
            if game == NO_GAME:
                raise BadEngine(text) if engine.state is State.STARTING else EngineGone(text)
            self._replace(engine.gave_up(game, text, now), now)
        elif engine.state is State.STARTING:
            engine.greet(frame, now, self._most)
            self._place(now)
        elif kind == Kind.TURN and len(payload) >= GAME_BODY.size:
            self._turn(engine, payload, now)
        elif kind == Kind.OVER and len(payload) >= GAME_BODY.size:
            self._over(engine, payload, now)
        elif kind != Kind.PONG:
            raise Lie(f"it sent a frame of kind {kind} and {len(payload)} bytes")

    def _turn(self, engine: Engine, payload: bytes, now: float) -> None:
        game: int = GAME_BODY.unpack_from(payload)[0]
        slot, took = engine.answered(game, now)
        if slot < 0:
            return
        rows = self._slots
        driver = rows.take_turn(slot, payload)
        rows.spent[slot] += took
        if rows.spent[slot] > engine.settings.game_timeout:
            engine.drop(game)
            engine.reason = f"a game took longer than {engine.settings.game_timeout:g} s"
            self._replace(slot, now)
        elif driver < FIRST_BOT:
            rows.show(slot)
        else:
            self._play_bot(slot, driver, now)

    def _over(self, engine: Engine, payload: bytes, now: float) -> None:
        game: int = GAME_BODY.unpack_from(payload)[0]
        slot, _ = engine.answered(game, now)
        if slot < 0:
            return
        stats = self._slots.take_over(slot, payload)
        del engine.games[game]
        self._slots.engine[slot] = None
        names = len(self.spec.stats)
        for i in range(0, len(stats), 2):
            if stats[i + 1]:
                seat, stat = divmod(i // 2, names)
                cell = self._tallies.setdefault((self._slots.driver_lists[slot][seat], stat), [0.0, 0.0])
                cell[0] += stats[i]
                cell[1] += stats[i + 1]
        self._homeless.append(slot)
        self._place(now)

    def _play_bot(self, slot: int, driver: int, now: float) -> None:
        rows = self._slots
        engine = rows.engine[slot]
        assert engine is not None
        name = self.spec.bots[driver - FIRST_BOT]
        if name == "random":
            legal = rows.legal[slot].tobytes()
            self._ask(slot, _native.random_legal(rows.seed[slot], rows.turn[slot], legal), now)
        else:
            self._ask(slot, -1 - engine.bots.index(name), now)

    def _ask(self, slot: int, action: int, now: float) -> None:
        rows = self._slots
        engine = rows.engine[slot]
        assert engine is not None
        game, turn = rows.game[slot], rows.turn[slot]
        rows.turn[slot] = turn + 1
        engine.ask(game, protocol.act(game, turn, action), now)

    def _send(self, now: float) -> None:
        """Sends what was put out for engines. One that is gone leaves games that are begun elsewhere."""
        again = True
        while again:
            again = False
            for engine in self._engines:
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
                    self._fail(engine, str(error))
                    again = True

    # ---- Engines ----

    def _start(self, engine: Engine, now: float) -> None:
        try:
            engine.start(now)
        except EngineGone as error:
            self._fail(engine, str(error))
            return
        connection = engine.connection
        assert connection is not None
        self._watch(connection.socket.fileno(), engine, False)
        if connection.errors >= 0:
            self._watch(connection.errors, engine, True)

    def _watch(self, fd: int, engine: Engine, is_errors: bool) -> None:
        self._watched[fd] = (engine, is_errors)
        self._epoll.register(fd, select.EPOLLIN)

    def _unwatch(self, fd: int) -> None:
        if self._watched.pop(fd, None) is not None:
            self._epoll.unregister(fd)
        self._blocked.discard(fd)

    def _fail(self, engine: Engine, reason: str, *, lied: bool = False, for_good: bool = False) -> None:
        """Ends an engine. Its games are lost, and their slots begin new ones elsewhere."""
        connection, now = engine.connection, self._now()
        if connection is not None:
            self._unwatch(connection.socket.fileno())
            if connection.errors >= 0:
                self._unwatch(connection.errors)
        slots = engine.fail(reason, now, lied=lied, for_good=for_good)
        engine.connection = None
        if connection is not None:
            self._dying.append(connection)
        _LOG.warning("%s, engine %d: %s", self.spec.name, engine.number, engine.reason)
        if engine.state is State.OUT:
            _LOG.error("%s, engine %d is left out for good: %s", self.spec.name, engine.number, engine.reason)
        for slot in slots:
            self._slots.lose(slot)
            self._homeless.append(slot)
        self._place(now)

    def _replace(self, slot: int, now: float) -> None:
        if slot >= 0:
            self._slots.lose(slot)
            self._homeless.append(slot)
            self._place(now)

    def _check(self, now: float) -> None:
        self._checked = now
        self._dying = [connection for connection in self._dying if not connection.reaped()]
        for engine in self._engines:
            if engine.state is State.WAITING:
                if now >= engine.start_at:
                    self._start(engine, now)
            elif why := engine.overdue(now):
                self._fail(engine, why)
        self._place(now)

    def _place(self, now: float) -> None:
        """Begins games in slots that have none, each on the engine with the fewest."""
        # The first engine to be ready must not take the games of those that are about to be.
        most = self._fair if any(engine.first_start for engine in self._engines) else self._most
        while self._homeless:
            best = None
            for engine in self._engines:
                if engine.state is State.READY and len(engine.games) < min(engine.limit, most):
                    if best is None or len(engine.games) < len(best.games):
                        best = engine
            if best is None:
                return
            slot = self._homeless.popleft()
            self._slots.engine[slot] = best
            self._slots.game[slot] = best.open(slot, self._slots.next_game(slot), now)

    def _first_ready(self, within: float) -> None:
        """Waits for one engine; where none comes up, says why."""
        until = self._now() + within
        while not any(engine.state is State.READY for engine in self._engines):
            gone = all(engine.state in (State.OUT, State.WAITING) for engine in self._engines)
            if gone or self._now() > until:
                raise NoEngines(f"no engine of {self.spec.name} started. {self._reasons()}")
            self._pump(TICK)
        self._left = time.monotonic()

    def _reasons(self) -> str:
        return "\n".join(f"Engine {e.number}: {e.reason}" for e in self._engines[:4] if e.reason)


def _launch(spec: GameSpec, command: Sequence[str] | None, sockets: Sequence[str] | None) -> Launch:
    if command is not None and sockets is not None:
        raise PlaymillError("engines are started by a command or reached at sockets; leave one out")
    if sockets is not None:
        return Launch(sockets=tuple(sockets))
    return launch_of(spec.name) if command is None else command_launch(tuple(command))
