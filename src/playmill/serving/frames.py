"""The service as frames over a unix socket, for clients on this host that want single actions fast: states
and turns are answered in native code, which never waits for the interpreter; all other calls, and whatever
is wrong with those two, are answered here."""

from __future__ import annotations

import numpy as np

from playmill import _native
from playmill.serving.desk import Desk
from playmill.serving.door import Door
from playmill.serving.ring import FRAMES, Ring, greet, slot_size

PATIENCE = 30.0
"""Seconds for a client to go on with half a frame, or to read."""


class FrameDesk(Desk):
    """A client that sends frames."""

    def _make_ring(self) -> Ring:
        ring = Ring(1, slot_size(self._house.limits.message))
        greet(self._connection, FRAMES, ring)
        return ring

    def serve(self) -> None:
        """Until the client hangs up, sends a frame longer than its slot, or does not go on in time."""
        memory = np.frombuffer(self._ring.memory, np.uint8)
        native = _native.FrameDesk(self._connection.fileno(), memory, self._house.limits.rows, PATIENCE)
        known = 0
        while native.next():
            fits = self._ring.read(0).size <= self._ring.room()
            if not native.reply(self._answer(0)) or not fits:
                return
            # Rows are counted for a limit on the rate, and answers recorded, here.
            if not self._house.limits.rate and not self._house.recording:
                for hall in self._house.halls[known:]:
                    native.know(hall.number, hall.native)
                    known += 1


class FrameServer(Door):
    """Gives every client a slot of the server's own, which frames are read into."""

    scheme = "frames"
    desk = FrameDesk
