"""The client through shared memory: requests are written where the server reads them, and the other way."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any, Generic, cast

from google.protobuf.message import Message

from playmill.games import GameSpec, PlaymillError
from playmill.serving.client import Client, Games
from playmill.serving.columns import U8, U64, Answers, C, Columns, Hosts, Moves, Resets, Seats, States
from playmill.serving.errors import Code, ServiceError
from playmill.serving.messages import METHODS, create_request, pack, read_created, unpack
from playmill.serving.proto import batch_pb2 as pb
from playmill.serving.ring import BELLS, KINDS, Call, Header, join

_NUMBERS = {name: Call.MESSAGE + number for number, name in enumerate(METHODS)}


class Pending(Generic[C]):
    """A batch under way. `wait` gives its columns, which stay until the ring has come round to their slot."""

    def __init__(self, client: SharedClient, slot: int, columns: C) -> None:
        self._client = client
        self._slot = slot
        self._columns = columns

    def wait(self) -> C:
        self._client.finish(self._slot)
        return self._columns


class SharedClient(Client):
    """A client on the server's own host. One thread at a time may use it."""

    VIEWS = 256

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(path)
            self._ring = join(self._socket)
        except OSError as error:
            self._socket.close()
            text = f"nobody listens on {path} ({error.strerror})"
            raise ServiceError(Code.UNAVAILABLE, text) from None
        except PlaymillError:
            self._socket.close()
            raise
        self._seq = 0
        self._next = 0
        self._waiting: dict[int, int] = {}  # slots under way and the seq of each
        self._done: set[int] = set()
        self._views: dict[tuple[int, int, int, int], tuple[Any, Any]] = {}

    def close(self) -> None:
        self._socket.close()

    def ask_states(self, games: Games, seat: int | Any) -> Pending[States]:
        """`states` without waiting for them: several batches can be under way, one a slot of the ring."""
        seats = games.seats(seat)
        slot, out = self._post(Call.STATES, games, seats)
        return Pending(self, slot, cast(States, out))

    def finish(self, slot: int) -> None:
        """Waits until a slot is answered."""
        while slot not in self._done:
            bells = self._receive()
            self._done.update(bells)
        self._done.discard(slot)
        head = self._ring.read(slot)
        if head.ack != self._waiting.pop(slot):
            raise ServiceError(Code.INTERNAL, "the server answered another request than this")
        if head.code:
            text = bytes(self._ring.payload(slot, min(head.size, self._ring.room()))).decode(errors="replace")
            raise ServiceError(Code(head.code), text)

    def _receive(self) -> bytes:
        try:
            bells = self._socket.recv(self._ring.slots)
        except OSError:
            bells = b""
        if not bells:
            raise ServiceError(Code.UNAVAILABLE, "the server hung up")
        return bells

    def _take(self) -> int:
        """The next slot of the ring; it must have come back."""
        slot = self._next
        if slot in self._waiting:
            raise PlaymillError(f"{self._ring.slots} batches are under way: wait for the oldest first")
        self._next = (slot + 1) % self._ring.slots
        self._seq += 1
        self._waiting[slot] = self._seq
        return slot

    def _ring_for(self, slot: int) -> None:
        try:
            self._socket.send(BELLS[slot])
        except OSError:
            raise ServiceError(Code.UNAVAILABLE, "the server hung up") from None

    def _post(self, call: Call, games: Games, columns: Columns) -> tuple[int, Columns]:
        rows = len(columns)
        slot = self._take()
        key = (slot, call, games.hall, rows)
        views = self._views.get(key)
        if views is None:
            fits = self._ring.columns(slot, games.layout, *KINDS[call], rows)
            if fits is None:
                del self._waiting[slot]
                raise ServiceError(Code.RESOURCE_EXHAUSTED, f"{rows:,} rows do not fit one request")
            if len(self._views) >= self.VIEWS:
                self._views.clear()
            views = self._views[key] = fits
        for place, column in zip(views[0], columns, strict=True):
            place[:] = column
        self._ring.write(slot, Header(self._seq, 0, call, games.hall, rows))
        self._ring_for(slot)
        return slot, views[1]

    def _call(self, name: str, request: Message) -> Any:
        said = request.SerializeToString()
        if len(said) > self._ring.room():
            raise ServiceError(Code.RESOURCE_EXHAUSTED, "the request does not fit a slot; send fewer rows")
        slot = self._take()
        self._ring.payload(slot, len(said))[:] = said
        self._ring.write(slot, Header(self._seq, 0, _NUMBERS[name], 0, 0, len(said)))
        self._ring_for(slot)
        self.finish(slot)
        size = self._ring.read(slot).size
        return METHODS[name].reply.FromString(bytes(self._ring.payload(slot, size)))

    def _create(
        self, spec: GameSpec, count: int, seeds: U64 | None, bots: Sequence[str], request: bytes
    ) -> tuple[int, int, U64, U8]:
        return read_created(self._call("CreateBatchGames", create_request(spec, count, seeds, bots, request)))

    def _states(self, games: Games, seats: Seats) -> States:
        slot, out = self._post(Call.STATES, games, seats)
        self.finish(slot)
        return cast(States, out)

    def _submit(self, games: Games, moves: Moves) -> Answers:
        slot, out = self._post(Call.SUBMIT, games, moves)
        self.finish(slot)
        return cast(Answers, out)

    def _reset(self, games: Games, resets: Resets) -> Answers:
        request = pack(resets, pb.ResetBatchGamesRequest, hall=games.hall)
        return unpack(self._call("ResetBatchGames", request), Answers, games.layout)

    def _delete(self, games: Games, hosts: Hosts) -> Answers:
        request = pack(hosts, pb.DeleteGamesRequest, hall=games.hall)
        return unpack(self._call("DeleteGames", request), Answers, games.layout)
