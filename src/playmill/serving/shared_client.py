"""The client through shared memory: requests are written where the server reads them, and the other way."""

from __future__ import annotations

from typing import Any, cast

from playmill.serving.client import Games
from playmill.serving.columns import States
from playmill.serving.ring import BELLS, SHARED, Call
from playmill.serving.slot_client import Pending, SlotClient


class SharedClient(SlotClient):
    """A client that shares memory with the server."""

    carrier = SHARED

    def ask_states(self, games: Games, seat: int | Any) -> Pending[States]:
        """`states` without waiting for them: several batches can be under way, one a slot of the ring."""
        slot, replied = self._ask(Call.STATES, games, games.seats(seat))
        return Pending(self, slot, cast(States, replied))

    def _send(self, slot: int) -> None:
        self._socket.send(BELLS[slot])

    def _receive(self) -> bytes:
        return self._socket.recv(self._ring.slots)
