"""The games of one server: halls by game and options, ids and keys that nobody can guess, limits. It knows
no transport; rows come and go as columns, one native call a batch."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from playmill import _native
from playmill.games import GameSpec, OptionValue, PlaymillError, registry
from playmill.pools import FIRST_BOT
from playmill.serving.columns import KEY_BYTES, U8, U64, Answers, Hosts, Layout, Moves, Resets, Seats, States
from playmill.serving.errors import Code, ServiceError
from playmill.serving.limits import Limits, Meter
from playmill.serving.recorder import Recorder

REMEMBERED = 1024
"""Requests for games whose answer can be asked for again."""
REQUEST_BYTES = 16


@dataclass(frozen=True)
class Hall:
    """All games of one game with certain options."""

    number: int
    spec: GameSpec
    layout: Layout
    native: Any = field(repr=False)
    """A `_native.Hall`; whole columns are spread over its arguments."""


@dataclass(frozen=True)
class Opened:
    """Games that were opened. N games, S seats."""

    hall: Hall
    game: U64  # [N] ids
    keys: U8  # [N, S + 1, 16] of every seat, and last the host's


class House:
    """Halls and what goes on in them. Calls may come from several threads."""

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        threads: int = 1,
        clock: Callable[[], float] = time.time,
        recorder: Recorder | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self._recorder = recorder
        self.threads = threads
        self.meter = Meter(self.limits)
        self.draining = False
        self._clock = clock
        self._lock = threading.RLock()
        self._halls: list[Hall] = []
        self._by_kind: dict[tuple[str, tuple[tuple[str, int], ...]], Hall] = {}
        self._requests: OrderedDict[bytes, tuple[Hall, U64]] = OrderedDict()

    # Looking

    @property
    def recording(self) -> bool:
        """Whether games are written down, and every answer must pass here."""
        return self._recorder is not None

    @property
    def halls(self) -> tuple[Hall, ...]:
        return tuple(self._halls)

    @property
    def games(self) -> int:
        """Games open now."""
        return sum(hall.native.games for hall in self._halls)

    @property
    def changes(self) -> int:
        """Turns played, games opened, reset and deleted: what a checkpoint would have to keep."""
        return sum(hall.native.changes for hall in self._halls)

    def hall(self, number: int) -> Hall:
        if not 0 <= number < len(self._halls):
            raise ServiceError(Code.NOT_FOUND, f"there is no hall {number}; create games first")
        return self._halls[number]

    def states(self, number: int, seats: Seats, out: States | None = None) -> States:
        """What the seats may know, written into `out` if given."""
        hall = self.hall(number)
        self._refuse_too_many(len(seats))
        found = hall.layout.empty(States, len(seats)) if out is None else out
        _native_call(hall.native.states, *seats, *found)
        return found

    # Changing

    def create(
        self,
        game: str,
        count: int,
        *,
        options: Mapping[str, OptionValue] | None = None,
        seeds: U64 | None = None,
        bots: Sequence[str] = (),
        request: bytes = b"",
    ) -> Opened:
        """Opens games. `bots` names who plays which seat inside, empty for a client's. The same `request`
        again (16 bytes that nobody else can guess) is answered with the same games."""
        spec = self._spec(game, options)
        drivers = _drivers(spec, bots)
        self._refuse_too_many(count)
        if count < 1:
            raise _wrong(f"count must be at least 1, got {count}")
        if seeds is not None and len(seeds) != count:
            raise _wrong(f"{count} games need as many seeds, got {len(seeds)}")
        if request and len(request) != REQUEST_BYTES:
            raise _wrong(f"request must be {REQUEST_BYTES} random bytes, got {len(request)}")
        with self._lock:
            if request in self._requests:
                return self._again(request, spec, count)
            self._refuse_when_draining()
            if self.games + count > self.limits.games:
                text = (
                    f"{self.games:,} of {self.limits.games:,} games are open; delete some, or raise the limit"
                )
                raise ServiceError(Code.RESOURCE_EXHAUSTED, text)
            opened = self._open(self._hall_of(spec), count, seeds, drivers)
            if request:
                self._remember(request, opened.hall, opened.game)
        return opened

    def submit(self, number: int, moves: Moves, out: Answers | None = None) -> Answers:
        """Answers turns; every turn of a game is answered once, however often it is sent."""
        hall = self.hall(number)
        self._refuse_when_draining()
        self._refuse_too_many(len(moves))
        found = hall.layout.empty(Answers, len(moves)) if out is None else out
        if self._recorder is None:
            _native_call(hall.native.submit, *moves, self._now(), *found)
        else:
            self._submit_recorded(self._recorder, hall, moves, found)
        return found

    def reset(self, number: int, resets: Resets) -> Answers:
        """Begins games anew at the turn named; turn numbers go on."""
        hall = self.hall(number)
        self._refuse_when_draining()
        self._refuse_too_many(len(resets))
        found = hall.layout.empty(Answers, len(resets))
        with self._noting():
            _native_call(hall.native.reset, *resets, self._now(), *found)
            if self._recorder is not None:
                self._recorder.reset(resets, found)
        return found

    def delete(self, number: int, hosts: Hosts) -> Answers:
        """Closes games for good."""
        hall = self.hall(number)
        self._refuse_when_draining()
        self._refuse_too_many(len(hosts))
        found = hall.layout.empty(Answers, len(hosts))
        with self._noting():
            _native_call(hall.native.close, *hosts, found.standing)
            if self._recorder is not None:
                self._recorder.closed(hosts, found)
        return found

    def sweep(self) -> int:
        """Closes games that nobody has answered for too long; how many."""
        if not self.limits.idle_minutes or self.draining:
            return 0
        before = self._now() - int(60 * self.limits.idle_minutes)
        closed = sum(int(hall.native.sweep(max(0, before))) for hall in self._halls)
        if closed and self._recorder is not None:
            self._forget_swept(self._recorder)
        return closed

    def drain(self) -> None:
        """From now on nothing changes; states can still be read."""
        with self._lock:
            self.draining = True
            for hall in self._halls:
                hall.native.drain()

    # Checkpoints

    def snapshot(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """What the halls are and which requests are remembered; and the bytes of both, by name."""
        with self._lock:
            halls = list(self._halls)
            requests = [(key, hall.number, games) for key, (hall, games) in self._requests.items()]
        blobs = {f"hall-{hall.number}": hall.native.snapshot() for hall in halls}
        blobs["requests"] = b"".join(games.tobytes() for _, _, games in requests)
        meta = {
            "halls": [
                {"game": hall.spec.name, "options": hall.spec.options, "layout": f"{hall.layout.hash:016x}"}
                for hall in halls
            ],
            "requests": [[key.hex(), number, len(games)] for key, number, games in requests],
        }
        return meta, blobs

    def restore(self, meta: Mapping[str, Any], blobs: Mapping[str, bytes]) -> None:
        """Takes up what an earlier house left; only in a house that is still empty."""
        with self._lock:
            if self._halls:
                raise PlaymillError("games can only be restored into an empty house")
            for kind in meta["halls"]:
                hall = self._hall_of(registry.native(kind["game"], kind["options"]), limited=False)
                if f"{hall.layout.hash:016x}" != kind["layout"]:
                    raise PlaymillError(f"{kind['game']}: the games were saved with other columns or rules")
                try:
                    hall.native.restore(blobs[f"hall-{hall.number}"])
                except ValueError:
                    raise PlaymillError(f"{kind['game']}: the games were saved by another version") from None
            begin = 0
            for key, number, count in meta["requests"]:
                games = np.frombuffer(blobs["requests"][begin : begin + 8 * count], np.uint64)
                self._remember(bytes.fromhex(key), self._halls[number], games)
                begin += 8 * count

    # Inside

    def _now(self) -> int:
        return int(self._clock())

    def _refuse_when_draining(self) -> None:
        if self.draining:
            raise ServiceError(Code.UNAVAILABLE, "the server is shutting down; its games are kept")

    def _refuse_too_many(self, rows: int) -> None:
        if rows > self.limits.rows:
            text = f"{rows:,} rows in one request; at most {self.limits.rows:,} are taken"
            raise ServiceError(Code.RESOURCE_EXHAUSTED, text)

    def _spec(self, game: str, options: Mapping[str, OptionValue] | None) -> GameSpec:
        try:
            return registry.native(game, options)
        except PlaymillError as error:
            raise _wrong(str(error)) from None

    def _hall_of(self, spec: GameSpec, *, limited: bool = True) -> Hall:
        options = {o.name: o.default for o in spec.option_specs} | spec.native_options
        kind = (spec.name, tuple(sorted(options.items())))
        if kind not in self._by_kind:
            if limited and len(self._halls) >= self.limits.halls:
                text = f"there are {len(self._halls)} kinds of games already; use one of them"
                raise ServiceError(Code.RESOURCE_EXHAUSTED, text)
            native = _native.Hall(spec.name, spec.native_options, self.threads)
            hall = Hall(len(self._halls), spec, Layout.of(spec), native)
            self._halls.append(hall)
            self._by_kind[kind] = hall
        return self._by_kind[kind]

    def _open(self, hall: Hall, count: int, seeds: U64 | None, drivers: U8) -> Opened:
        width = (hall.spec.seats + 1) * KEY_BYTES
        keys = np.frombuffer(os.urandom(count * width), np.uint8).reshape(count, -1, KEY_BYTES)
        nonce, random_seeds = np.frombuffer(os.urandom(16 * count), np.uint64).reshape(2, count)
        game = np.zeros(count, np.uint64)
        named = random_seeds if seeds is None else seeds
        with self._noting():
            _native_call(hall.native.open, nonce, named, keys, drivers, self._now(), game)
            if self._recorder is not None:
                self._recorder.opened(hall.spec, game, named, drivers)
        return Opened(hall, game, keys)

    # Recording

    def _noting(self) -> AbstractContextManager[object]:
        return nullcontext() if self._recorder is None else self._recorder.lock

    def _submit_recorded(self, recorder: Recorder, hall: Hall, moves: Moves, out: Answers) -> None:
        # Both may lie in a client's memory: what is noted must be what was played.
        mine = Moves(*(column.copy() for column in moves))
        found = hall.layout.empty(Answers, len(moves))
        with recorder.lock:
            _native_call(hall.native.submit, *mine, self._now(), *found)
            recorder.moved(mine, found)
        for theirs, column in zip(out, found, strict=True):
            theirs[:] = column

    def _forget_swept(self, recorder: Recorder) -> None:
        with recorder.lock:
            left = recorder.games
            gone = np.ones(len(left), bool)
            for hall in self._halls:
                keys = np.zeros((len(left), hall.spec.seats + 1, KEY_BYTES), np.uint8)
                hall.native.keys(left, keys)
                gone &= ~keys.any(axis=(1, 2))
            recorder.forget(left[gone])

    def _remember(self, request: bytes, hall: Hall, games: U64) -> None:
        self._requests[request] = (hall, games)
        while len(self._requests) > REMEMBERED:
            self._requests.popitem(last=False)

    def _again(self, request: bytes, spec: GameSpec, count: int) -> Opened:
        hall, games = self._requests[request]
        if len(games) != count or hall.spec.name != spec.name:
            raise _wrong("this request was made before, for other games")
        keys = np.zeros((count, hall.spec.seats + 1, KEY_BYTES), np.uint8)
        hall.native.keys(games, keys)
        return Opened(hall, games, keys)


def _wrong(text: str) -> ServiceError:
    return ServiceError(Code.INVALID_ARGUMENT, text)


def _native_call(call: Callable[..., int], *arguments: object) -> int:
    """What the native core finds wrong with arrays is the caller's mistake."""
    try:
        return call(*arguments)
    except (ValueError, TypeError) as error:
        raise _wrong(str(error).splitlines()[0]) from None


def _drivers(spec: GameSpec, bots: Sequence[str]) -> U8:
    if bots and len(bots) != spec.seats:
        raise _wrong(
            f"{spec.name} has {spec.seats} seats here; name as many bots, empty for those of clients"
        )
    if bots and all(bots):
        raise _wrong("every seat is a bot's; leave at least one to a client")
    try:
        drivers = [FIRST_BOT + spec.bot(name) if name else 0 for name in bots]
    except PlaymillError as error:
        raise _wrong(str(error)) from None
    return np.array(drivers or [0] * spec.seats, np.uint8)
