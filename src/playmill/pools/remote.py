"""Many engine processes as one pool. `turns` gives the rows that are ready, `act` answers them; an engine
that is slow, dies, hangs or lies costs its own games and nobody's time."""

from __future__ import annotations

import math
import random
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from types import TracebackType

import numpy as np
import numpy.typing as npt

from playmill import _native
from playmill.engines import protocol
from playmill.engines.connection import EngineGone
from playmill.engines.facts import BadEngine
from playmill.engines.names import Launch, command_launch, launch_of
from playmill.engines.protocol import GAME_BODY, NO_GAME, Frame, Kind
from playmill.games import GameSpec, OptionValue, PlaymillError, registry
from playmill.pools.remote_crew import TICK, Crew
from playmill.pools.remote_engine import Engine, Lie, State
from playmill.pools.remote_settings import EngineHealth, Supervision
from playmill.pools.remote_slots import FIRST_BOT, Ended, Slots, Waiting

LINGER = 0.2
"""Share of a decision's time that a caller who wants several rows waits for more at a wake-up: a quarter
less work for the pool, and no engine idles that has another game to go on with."""
LINGER_MOST = 0.001
DURATIONS = 16_384
"""Lengths of games that are kept for who asks for them."""


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
        stagger: bool = False,
        alike: int = 1,
        keep_results: bool = False,
    ) -> None:
        """`games_per_engine` limits an engine's games in flight; without it, twice its fair share. `command`
        or `sockets` say how engines are reached where the game's name does not. With `stagger` one game of
        each slot is cut short, each at another turn: games that are of one length would otherwise go through
        all their phases together, for ever. So many neighbouring slots as `alike` says are dealt the same
        games. `keep_results` is for those who ask for `results`."""
        if slots < 1 or engines < 1:
            raise PlaymillError(f"a pool needs a slot and an engine, got {slots} and {engines}")
        if alike < 1:
            raise PlaymillError(f"alike must be at least 1, got {alike}")
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
        made = [Engine(n, launch, self.spec, settings, seed + n) for n in range(engines)]
        self._rows = Slots(self.spec, slots, seed % 2**64, alike, keep_results)
        self._homeless = deque(range(slots))
        self._tallies: dict[tuple[int, int], list[float]] = {}
        self._stagger, self._seed = stagger, seed
        self._cuts: dict[int, int] = {}
        self._durations: deque[float] = deque(maxlen=DURATIONS)
        self._crew = Crew(made, self._take, self._lost)
        try:
            for engine in made:
                self._crew.start(engine)
            self._first_ready(settings.start_timeout)
        except BaseException:
            self.close()
            raise

    # ---- The two verbs ----

    def turns(self, at_least: int = 1, within: float = 0.1) -> Waiting:
        """The rows that are ready: at least so many, or what there is when `within` seconds are over.
        NoEngines once there is none and every engine is out for good."""
        crew, rows = self._crew, self._rows
        crew.listen()
        until = time.monotonic() + within
        crew.pump(0.0)
        while len(rows.ready) < at_least and (left := until - time.monotonic()) > 0:
            if not rows.ready and crew.all_in(State.OUT):
                raise NoEngines(f"no engine of {self.spec.name} is left. {crew.reasons()}")
            if len(rows.ready) + 1 < at_least:
                time.sleep(min(left, self._linger()))
            crew.pump(left)
        crew.leave()
        return rows.gather()

    def act(self, slots: npt.ArrayLike, actions: npt.ArrayLike) -> None:
        """Answers rows. An illegal action, or a slot that does not wait, raises and changes nothing."""
        at, wanted = self._rows.check(slots, actions)
        now = self._crew.listen()
        for slot, action, void in zip(at, wanted, self._rows.answer(at), strict=True):
            if not void:
                self._ask(slot, action, now)
        self._crew.send()
        self._crew.leave()

    def set_drivers(self, drivers: npt.ArrayLike) -> None:
        """Who answers for which seat, [slots, seats]: policies below FIRST_BOT, bots from there on. Bot
        "random" plays here, the others are the engine's own."""
        rows = self._rows
        rows.set_drivers(drivers)
        now = self._crew.listen()
        for slot in list(rows.ready):
            driver = rows.driver_lists[slot][rows.seat[slot]]
            if driver >= FIRST_BOT:
                del rows.ready[slot]
                self._play_bot(slot, driver, now)
        self._crew.send()
        self._crew.leave()

    # ---- Numbers ----

    def stats(self) -> dict[int, dict[str, tuple[float, int]]]:
        """The game's named statistics by driver: mean and count since the last `clear_stats`."""
        out: dict[int, dict[str, tuple[float, int]]] = {}
        for (driver, stat), (total, count) in self._tallies.items():
            out.setdefault(driver, {})[self.spec.stats[stat]] = (total / count, int(count))
        return out

    def results(self) -> list[Ended]:
        """The games that ended since this was last asked, with `keep_results`."""
        if self._rows.ended is None:
            raise PlaymillError("this pool keeps no results; make it with keep_results=True")
        found, self._rows.ended = self._rows.ended, []
        return found

    def durations(self) -> list[float]:
        """Seconds of the games that ended since this was last asked, the latest of them."""
        found = list(self._durations)
        self._durations.clear()
        return found

    def waited(self, slots: npt.NDArray[np.int32]) -> list[float]:
        """Seconds since the rows of these slots came from their engines."""
        now, came = self._crew.listen(), self._rows.came
        self._crew.leave()
        return [now - came[slot] for slot in slots.tolist()]

    def numbers(self) -> list[int]:
        """Which of its games each slot is at, from 0."""
        return list(self._rows.number)

    def clear_stats(self) -> None:
        self._tallies.clear()

    def health(self) -> list[EngineHealth]:
        """How every engine is, now."""
        now = self._crew.listen()
        self._crew.leave()
        return [engine.health(now) for engine in self._crew.engines]

    def close(self) -> None:
        """Ends all engines, and waits until nothing is left of them."""
        self._crew.close()

    def __enter__(self) -> RemotePool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _linger(self) -> float:
        engines = self._crew.engines
        busy, decisions = sum(e.busy for e in engines), sum(e.decisions for e in engines)
        return min(LINGER_MOST, LINGER * busy / max(1, decisions))

    # ---- What engines say ----

    def _take(self, engine: Engine, frame: Frame, now: float) -> None:
        kind, payload = frame
        if kind == Kind.FAILED:
            game, text = protocol.read_failed(payload)
            if game == NO_GAME:
                raise BadEngine(text) if engine.state is State.STARTING else EngineGone(text)
            slot = engine.gave_up(game, text, now)
            if slot >= 0:
                self._lost([slot], now)
        elif engine.state is State.STARTING:
            engine.greet(frame, now, self._most)
            self._place(now)
        elif kind == Kind.TURN and len(payload) >= GAME_BODY.size:
            self._turn(engine, payload, now)
        elif kind == Kind.OVER and len(payload) >= GAME_BODY.size:
            self._over(engine, payload, now)
        elif kind == Kind.PONG:
            engine.pong()
        else:
            raise Lie(f"it sent a frame of kind {kind} and {len(payload)} bytes")

    def _turn(self, engine: Engine, payload: bytes, now: float) -> None:
        game: int = GAME_BODY.unpack_from(payload)[0]
        slot, took = engine.answered(game, now)
        if slot < 0:
            return
        rows = self._rows
        driver = rows.take_turn(slot, payload)
        rows.spent[slot] += took
        if self._cuts and rows.number[slot] and rows.turn[slot] >= self._cuts.get(slot, sys.maxsize):
            del self._cuts[slot]
            engine.drop(game)
            self._lost([slot], now)
        elif rows.spent[slot] > engine.settings.game_timeout:
            engine.drop(game)
            engine.reason = f"a game took longer than {engine.settings.game_timeout:g} s"
            self._lost([slot], now)
        elif driver < FIRST_BOT:
            rows.came[slot] = now
            rows.show(slot)
        else:
            self._play_bot(slot, driver, now)

    def _over(self, engine: Engine, payload: bytes, now: float) -> None:
        game: int = GAME_BODY.unpack_from(payload)[0]
        slot, _ = engine.answered(game, now)
        if slot < 0:
            return
        stats = self._rows.take_over(slot, payload)
        self._durations.append(now - self._rows.begun[slot])
        if self._stagger:
            # The first game to end says how long they are; the next one of each slot is cut short.
            self._stagger = False
            chosen = random.Random(self._seed)
            self._cuts = {s: chosen.randrange(self._rows.turn[slot]) for s in range(self.slots)}
        del engine.games[game]
        self._rows.engine[slot] = None
        names = len(self.spec.stats)
        for i in range(0, len(stats), 2):
            if stats[i + 1]:
                seat, stat = divmod(i // 2, names)
                cell = self._tallies.setdefault((self._rows.driver_lists[slot][seat], stat), [0.0, 0.0])
                cell[0] += stats[i]
                cell[1] += stats[i + 1]
        self._homeless.append(slot)
        self._place(now)

    # ---- Games ----

    def _play_bot(self, slot: int, driver: int, now: float) -> None:
        rows, name = self._rows, self.spec.bots[driver - FIRST_BOT]
        engine = rows.engine[slot]
        assert engine is not None
        if name == "random":
            legal = rows.legal[slot].tobytes()
            self._ask(slot, _native.random_legal(rows.seed[slot], rows.turn[slot], legal), now)
        else:
            self._ask(slot, -1 - engine.bots.index(name), now)

    def _ask(self, slot: int, action: int, now: float) -> None:
        rows = self._rows
        engine = rows.engine[slot]
        assert engine is not None
        game, turn = rows.game[slot], rows.turn[slot]
        rows.turn[slot] = turn + 1
        engine.ask(game, protocol.act(game, turn, action), now)

    def _lost(self, slots: list[int], now: float) -> None:
        """Games that are gone; their slots begin new ones elsewhere."""
        for slot in slots:
            self._rows.lose(slot)
        self._homeless.extend(slots)
        self._place(now)

    def _place(self, now: float) -> None:
        """Begins games in slots that have none, each on the engine with the fewest."""
        engines = self._crew.engines
        # The first engine to be ready must not take the games of those that are about to be.
        most = self._fair if any(engine.first_start for engine in engines) else self._most
        while self._homeless:
            free = [
                engine
                for engine in engines
                if engine.state is State.READY and len(engine.games) < min(engine.limit, most)
            ]
            if not free:
                return
            best = min(free, key=lambda engine: len(engine.games))
            slot = self._homeless.popleft()
            self._rows.engine[slot] = best
            self._rows.begun[slot] = now
            self._rows.game[slot] = best.open(slot, self._rows.next_game(slot), now)

    def _first_ready(self, within: float) -> None:
        """Waits for one engine; where none comes up, says why."""
        until = time.monotonic() + within
        while not any(engine.state is State.READY for engine in self._crew.engines):
            if self._crew.all_in(State.OUT, State.WAITING) or time.monotonic() > until:
                raise NoEngines(f"no engine of {self.spec.name} started. {self._crew.reasons()}")
            self._crew.pump(TICK)
        self._crew.leave()


def _launch(spec: GameSpec, command: Sequence[str] | None, sockets: Sequence[str] | None) -> Launch:
    if command is not None and sockets is not None:
        raise PlaymillError("engines are started by a command or reached at sockets; leave one out")
    if sockets is not None:
        return Launch(sockets=tuple(sockets))
    return launch_of(spec.name) if command is None else command_launch(tuple(command))
