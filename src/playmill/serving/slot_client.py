"""What clients on the server's own host have in common: requests and replies in slots."""

from __future__ import annotations

import socket
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, NoReturn, cast

from google.protobuf.message import Message

from playmill.games import GameSpec, PlaymillError
from playmill.serving.client import Client, Games
from playmill.serving.columns import U8, U64, Answers, C, Columns, Hosts, Moves, Resets, Seats, States
from playmill.serving.errors import Code, ServiceError
from playmill.serving.messages import METHODS, create_request, pack, read_created, unpack
from playmill.serving.proto import batch_pb2 as pb
from playmill.serving.ring import HEADER_BYTES, Call, Header, join

_NUMBERS = {name: Call.MESSAGE + number for number, name in enumerate(METHODS)}


class Pending(Generic[C]):
    """A batch under way. `wait` gives its columns, which stay until the ring has come round to their slot."""

    def __init__(self, client: SlotClient, slot: int, columns: C) -> None:
        self._client = client
        self._slot = slot
        self._columns = columns

    def wait(self) -> C:
        self._client.finish(self._slot)
        return self._columns


class SlotClient(Client):
    """A client on the server's own host. One thread at a time may use it."""

    carrier: ClassVar[bytes]

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(path)
            self._ring = join(self._socket, self.carrier)
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

    def close(self) -> None:
        self._socket.close()

    @abstractmethod
    def _send(self, slot: int) -> None:
        """Lets the server have a slot; OSError where nobody is."""

    @abstractmethod
    def _receive(self) -> bytes:
        """Waits for replies; the numbers of their slots, none once the server has hung up."""

    def finish(self, slot: int) -> None:
        """Waits until a slot is answered."""
        while slot not in self._done:
            try:
                answered = self._receive()
            except OSError:
                answered = b""
            if not answered:
                self._hung_up()
            self._done.update(answered)
        self._done.discard(slot)
        head = self._ring.read(slot)
        if head.ack != self._waiting.pop(slot):
            raise ServiceError(Code.INTERNAL, "the server answered another request than this")
        if head.code:
            text = bytes(self._ring.payload(slot, min(head.size, self._ring.room()))).decode(errors="replace")
            raise ServiceError(Code(head.code), text)

    def _hung_up(self) -> NoReturn:
        self._waiting.clear()
        raise ServiceError(Code.UNAVAILABLE, "the server hung up; connect again")

    def _post(self, slot: int, head: Header) -> None:
        """Sends what lies in the slot; it must have come back before."""
        self._next = (slot + 1) % self._ring.slots
        self._seq += 1
        self._waiting[slot] = self._seq
        self._ring.write(slot, head._replace(seq=self._seq))
        try:
            self._send(slot)
        except OSError:
            self._hung_up()

    def _slot(self) -> int:
        if self._next in self._waiting:
            raise PlaymillError(f"{self._ring.slots} batches are under way: wait for the oldest first")
        return self._next

    def _ask(self, call: Call, games: Games, columns: Columns) -> tuple[int, Columns]:
        slot = self._slot()
        rows = len(columns)
        asked, replied, middle, _ = self._ring.places(slot, call, games.hall, rows, games.layout)
        for place, column in zip(asked, columns, strict=True):
            place[:] = column
        self._post(slot, Header(0, 0, call, games.hall, rows, middle - HEADER_BYTES))
        return slot, replied

    def _call(self, name: str, request: Message) -> Any:
        said = request.SerializeToString()
        if len(said) > self._ring.room():
            raise ServiceError(Code.RESOURCE_EXHAUSTED, "the request does not fit a slot; send fewer rows")
        slot = self._slot()
        self._ring.payload(slot, len(said))[:] = said
        self._post(slot, Header(0, 0, _NUMBERS[name], 0, 0, len(said)))
        self.finish(slot)
        size = self._ring.read(slot).size
        return METHODS[name].reply.FromString(bytes(self._ring.payload(slot, size)))

    def _create(
        self, spec: GameSpec, count: int, seeds: U64 | None, bots: Sequence[str], request: bytes
    ) -> tuple[int, int, U64, U8]:
        return read_created(self._call("CreateBatchGames", create_request(spec, count, seeds, bots, request)))

    def _states(self, games: Games, seats: Seats) -> States:
        slot, replied = self._ask(Call.STATES, games, seats)
        self.finish(slot)
        return cast(States, replied)

    def _submit(self, games: Games, moves: Moves) -> Answers:
        slot, replied = self._ask(Call.SUBMIT, games, moves)
        self.finish(slot)
        return cast(Answers, replied)

    def _reset(self, games: Games, resets: Resets) -> Answers:
        request = pack(resets, pb.ResetBatchGamesRequest, hall=games.hall)
        return unpack(self._call("ResetBatchGames", request), Answers, games.layout)

    def _delete(self, games: Games, hosts: Hosts) -> Answers:
        request = pack(hosts, pb.DeleteGamesRequest, hall=games.hall)
        return unpack(self._call("DeleteGames", request), Answers, games.layout)
