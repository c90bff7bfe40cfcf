"""One typed client over every transport: in this process, frames, shared memory, gRPC."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from playmill.games import GameSpec, OptionValue, registry
from playmill.serving.columns import (
    KEY_BYTES,
    U8,
    U32,
    U64,
    Answers,
    Hosts,
    Layout,
    Moves,
    Resets,
    Seats,
    States,
)
from playmill.serving.errors import Code, ServiceError
from playmill.serving.house import REQUEST_BYTES, House


@dataclass(frozen=True)
class Games:
    """Games on a server and the keys one has to them. N games, S seats."""

    hall: int
    spec: GameSpec
    layout: Layout
    game: U64  # [N] ids
    keys: U8  # [N, S + 1, 16]: of every seat, and last the host's; zeros where one has none
    _of_seat: dict[int, Seats] = field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.game)

    def __getitem__(self, rows: slice | npt.ArrayLike) -> Games:
        """Some of the games."""
        chosen = rows if isinstance(rows, slice) else np.atleast_1d(np.asarray(rows))
        return Games(self.hall, self.spec, self.layout, self.game[chosen], self.keys[chosen])

    def only(self, seat: int) -> Games:
        """The same games with the keys of one seat: what a player is given."""
        keys = np.zeros_like(self.keys)
        keys[:, seat] = self.keys[:, seat]
        return Games(self.hall, self.spec, self.layout, self.game, keys)

    def seats(self, seat: int | npt.ArrayLike) -> Seats:
        """The address of one seat at every table: the same everywhere, or one a game."""
        if isinstance(seat, int):
            if seat not in self._of_seat:
                self._of_seat[seat] = self._seats(np.full(len(self), seat, np.uint8))
            return self._of_seat[seat]
        return self._seats(np.ascontiguousarray(seat, np.uint8))

    def _seats(self, seat: U8) -> Seats:
        if seat.shape != self.game.shape or (len(seat) and seat.max() >= self.spec.seats):
            raise ValueError(f"seat must be one of 0 to {self.spec.seats - 1}, or {len(self)} of them")
        return Seats(self.game, seat, self.keys[np.arange(len(self)), seat])

    @property
    def host_keys(self) -> U8:
        return np.ascontiguousarray(self.keys[:, -1])


class Client(ABC):
    """Games on a server. What is wrong with a request as a whole is a ServiceError; how each row fared stands
    in its `standing`. Arrays that come back may be overwritten by the calls after; copy what is to stay."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def create(
        self,
        game: str,
        count: int,
        *,
        options: Mapping[str, OptionValue] | None = None,
        seeds: npt.ArrayLike | None = None,
        bots: Sequence[str] = (),
        request: bytes | None = None,
    ) -> Games:
        """Opens games. `bots` names who plays which seat inside, empty for clients' seats. The same `request`
        (16 random bytes; made for this call if not given) again is answered with the same games."""
        given = None if seeds is None else np.ascontiguousarray(seeds, np.uint64)
        spec = registry.spec(game, options)
        layout = Layout.of(spec)
        named = os.urandom(REQUEST_BYTES) if request is None else request
        hall, theirs, ids, keys = self._create(spec, count, given, bots, named)
        if theirs != layout.hash:
            text = f"the server's {game} has other columns: use the same version of Playmill"
            raise ServiceError(Code.FAILED_PRECONDITION, text)
        return Games(hall, spec, layout, ids, keys.reshape(len(ids), spec.seats + 1, KEY_BYTES))

    def states(self, games: Games, seat: int | npt.ArrayLike) -> States:
        """What that seat of every game may know."""
        return self._states(games, games.seats(seat))

    def submit(
        self, games: Games, seat: int | npt.ArrayLike, turn: npt.ArrayLike, action: npt.ArrayLike
    ) -> Answers:
        """Answers `turn` of every game. Sent again, it is REPEATED and counts once."""
        at = games.seats(seat)
        when, what = _column(turn, np.uint32, games), _column(action, np.int32, games)
        return self._submit(games, Moves(at.game, at.seat, at.key, when, what))

    def reset(self, games: Games, turn: npt.ArrayLike, seeds: npt.ArrayLike | None = None) -> Answers:
        """Begins the games anew at `turn`, the one they stand at; turn numbers go on."""
        unknown = np.frombuffer(os.urandom(8 * len(games)), np.uint64)
        named = unknown if seeds is None else _column(seeds, np.uint64, games)
        return self._reset(games, Resets(games.game, games.host_keys, _column(turn, np.uint32, games), named))

    def delete(self, games: Games) -> Answers:
        """Closes the games for good."""
        return self._delete(games, Hosts(games.game, games.host_keys))

    def watch(
        self, games: Games, seat: int | npt.ArrayLike, interval: float = 0.01
    ) -> Iterator[tuple[U32, States]]:
        """Rows that changed and their states, as they do; first all of them."""
        return self._watch(games, games.seats(seat), interval)

    @abstractmethod
    def close(self) -> None:
        """Ends the connection; the games go on."""

    @abstractmethod
    def _create(
        self, spec: GameSpec, count: int, seeds: U64 | None, bots: Sequence[str], request: bytes
    ) -> tuple[int, int, U64, U8]:
        """Hall, hash of its layout, ids and keys."""

    @abstractmethod
    def _states(self, games: Games, seats: Seats) -> States: ...

    @abstractmethod
    def _submit(self, games: Games, moves: Moves) -> Answers: ...

    @abstractmethod
    def _reset(self, games: Games, resets: Resets) -> Answers: ...

    @abstractmethod
    def _delete(self, games: Games, hosts: Hosts) -> Answers: ...

    def _watch(self, games: Games, seats: Seats, interval: float) -> Iterator[tuple[U32, States]]:
        """By asking again and again; a transport that can be told of changes does better."""
        from playmill.serving.watching import changes

        return changes(lambda: self._states(games, seats), interval)


class LocalClient(Client):
    """Games of a house in this process."""

    def __init__(self, house: House) -> None:
        self.house = house

    def close(self) -> None:
        """Nothing to end."""

    def _create(
        self, spec: GameSpec, count: int, seeds: U64 | None, bots: Sequence[str], request: bytes
    ) -> tuple[int, int, U64, U8]:
        opened = self.house.create(
            spec.name, count, options=spec.options, seeds=seeds, bots=bots, request=request
        )
        return opened.hall.number, opened.hall.layout.hash, opened.game, opened.keys

    def _states(self, games: Games, seats: Seats) -> States:
        return self.house.states(games.hall, seats)

    def _submit(self, games: Games, moves: Moves) -> Answers:
        return self.house.submit(games.hall, moves)

    def _reset(self, games: Games, resets: Resets) -> Answers:
        return self.house.reset(games.hall, resets)

    def _delete(self, games: Games, hosts: Hosts) -> Answers:
        return self.house.delete(games.hall, hosts)


def connect(
    where: str | House, *, token: str = "", certificate: bytes | None = None, message: int = 64 << 20
) -> Client:
    """A client of the server at `where`: "frames:/path" or "shared:/path" for frames or shared memory on this
    host, "unix:/path" or "host:port" for gRPC (a `certificate` to trust makes it TLS), or a house in this
    process."""
    if isinstance(where, House):
        return LocalClient(where)
    if where.startswith("frames:"):
        from playmill.serving.frames_client import FramesClient

        return FramesClient(where.removeprefix("frames:"))
    if where.startswith("shared:"):
        from playmill.serving.shared_client import SharedClient

        return SharedClient(where.removeprefix("shared:"))
    from playmill.serving.grpc_client import GrpcClient

    return GrpcClient(where, token=token, certificate=certificate, message=message)


def _column(values: npt.ArrayLike, dtype: type[np.integer[Any]], games: Games) -> npt.NDArray[Any]:
    """One value a game; what does not fit the type is an error, never another number."""
    given = np.asarray(values)
    if given.dtype.kind not in "iu":
        raise TypeError(f"whole numbers are wanted, got {given.dtype}")
    given = np.broadcast_to(given, (len(games),))
    if given.dtype == dtype:
        return np.ascontiguousarray(given)
    info = np.iinfo(dtype)
    if given.size and (int(given.min()) < info.min or int(given.max()) > info.max):
        raise ValueError(f"numbers from {info.min} to {info.max} are wanted")
    return np.ascontiguousarray(given, dtype)
