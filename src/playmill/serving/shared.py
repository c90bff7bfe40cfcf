"""The service through shared memory, for clients on this host: answers are written in place."""

from __future__ import annotations

import os
import socket

from playmill.serving.desk import Desk
from playmill.serving.door import Door
from playmill.serving.ring import SHARED, SLOTS, Ring, greet, make_memory, slot_size


class SharedDesk(Desk):
    """A client with which memory is shared."""

    def _make_ring(self) -> Ring:
        size = slot_size(self._house.limits.message)
        descriptor = make_memory(SLOTS, size)
        try:
            ring = Ring(SLOTS, size, descriptor)
            greet(self._connection, SHARED, ring, descriptor)
            return ring
        finally:
            os.close(descriptor)

    def serve(self) -> None:
        """Until the client hangs up, rings for a slot there is not, or no longer takes answers."""
        while bells := self._connection.recv(SLOTS):
            for slot in bells:
                if slot >= SLOTS:
                    return
                self._answer(slot)
            # What was rung for together is answered together: less waking of each other. As many bytes
            # as slots fit any socket; a full one is of a client that stopped reading.
            self._connection.send(bells, socket.MSG_DONTWAIT)


class SharedServer(Door):
    """Gives every client a ring in memory that both can write to."""

    scheme = "shared"
    desk = SharedDesk
