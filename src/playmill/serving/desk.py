"""Where a client on this host is served: what lies in a slot is answered in its place."""

from __future__ import annotations

import logging
import socket
from abc import ABC, abstractmethod

from playmill.serving.errors import Code, ServiceError
from playmill.serving.house import House
from playmill.serving.messages import METHODS, parse
from playmill.serving.ring import HEADER_BYTES, KINDS, Call, Header, Ring

_LOG = logging.getLogger(__name__)
_METHODS = tuple(METHODS.values())


class Desk(ABC):
    """One client and its ring; how slots come and go is the carrier's."""

    def __init__(self, house: House, connection: socket.socket, peer: str) -> None:
        self._house = house
        self._connection = connection
        self._peer = peer
        self._ring = self._make_ring()

    @abstractmethod
    def _make_ring(self) -> Ring:
        """Slots for this client, which is told of them."""

    @abstractmethod
    def serve(self) -> None:
        """Answers until the client hangs up or does what it may not."""

    def _answer(self, slot: int) -> int:
        """Answers what lies in the slot; where in the slot the reply begins."""
        seq, _, call, hall, rows, size, _ = self._ring.read(slot)
        code, begin = 0, HEADER_BYTES
        try:
            if size > self._ring.room():
                raise ServiceError(Code.RESOURCE_EXHAUSTED, f"{size:,} bytes do not fit one request")
            if call in KINDS:
                begin, size = self._columns(slot, call, hall, rows, size)
            else:
                size = self._message(slot, call, size)
        except ServiceError as error:
            code, size = error.code, self._say(slot, str(error))
        except Exception:
            _LOG.exception("a request failed")
            code, size = Code.INTERNAL, self._say(slot, "the server failed on this request")
        self._ring.write(slot, Header(seq, seq, call, hall, rows, size, code))
        return begin

    def _say(self, slot: int, text: str) -> int:
        said = text.encode()[: self._ring.room()]
        self._ring.payload(slot, len(said))[:] = said
        return len(said)

    def _columns(self, slot: int, call: int, hall: int, rows: int, size: int) -> tuple[int, int]:
        self._house.meter.admit(self._peer, rows)
        layout = self._house.hall(hall).layout
        if rows > self._house.limits.rows:  # before there are views of so many
            raise ServiceError(Code.RESOURCE_EXHAUSTED, f"{rows:,} rows do not fit one request")
        asked, replied, middle, end = self._ring.places(slot, call, hall, rows, layout)
        if size != middle - HEADER_BYTES:
            text = f"{rows:,} rows take {middle - HEADER_BYTES:,} bytes, got {size:,}"
            raise ServiceError(Code.INVALID_ARGUMENT, text)
        if call == Call.STATES:
            self._house.states(hall, asked, replied)
        else:
            self._house.submit(hall, asked, replied)
        return middle, end - middle

    def _message(self, slot: int, call: int, size: int) -> int:
        number = call - Call.MESSAGE
        if not 0 <= number < len(_METHODS):
            raise ServiceError(Code.INVALID_ARGUMENT, f"there is no call {call}")
        method = _METHODS[number]
        request = parse(method.request, bytes(self._ring.payload(slot, size)))
        said = method.answer(self._house, request, self._peer).SerializeToString()
        if len(said) > self._ring.room():
            raise ServiceError(Code.RESOURCE_EXHAUSTED, "the reply does not fit a slot; ask for fewer rows")
        self._ring.payload(slot, len(said))[:] = said
        return len(said)
