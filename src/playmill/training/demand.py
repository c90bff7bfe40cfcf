"""How much play a learner asks for, where actors play by assignment (`actors.assigned`)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from playmill.experience.assignments import AssignmentBoard
from playmill.experience.channel import Backlog
from playmill.training.engine_settings import Actors

LOOK_S = 0.25
"""Between two looks at what was taken."""
STOCK = 2
"""Updates' worth of segments that may be under way to a learner that has enough."""
STARVED = 0.1
"""Share of its time that a learner waits from which on it wants all actors it can get."""
MEMORY_S = 10.0
"""Over which that share is taken."""
FULL = 0.5
"""Share of the channel's room from which on nothing is asked for."""


class Demand:
    """Keeps assignments in the stream. A learner that waits for experience keeps `ahead` untaken ones there;
    one that does not asks for what it will need, and no more: it would be old when it is read."""

    def __init__(self, settings: Actors, board: AssignmentBoard) -> None:
        self._settings, self._board = settings, board
        self._looked_at = time.monotonic()
        self._waited = 0.0
        self.starved = 1.0
        """Share of the last time that the learner waited. A run begins with nothing."""

    def waited(self, seconds: float) -> None:
        """The learner had nothing to learn from for so long."""
        self._waited += seconds

    def look(self, backlog: Callable[[], Backlog]) -> None:
        """To be called again and again; adds assignments where there are too few."""
        passed = time.monotonic() - self._looked_at
        if passed < LOOK_S:
            return
        self._looked_at += passed
        share = min(1.0, self._waited / passed)
        self.starved += (share - self.starved) * -math.expm1(-passed / MEMORY_S)
        self._waited = 0.0
        posted = self._board.look()
        if posted is None:
            return
        wanted = self.wanted(backlog(), posted.taken)
        if wanted > posted.untaken:
            self._board.add(wanted - posted.untaken, self._settings.assignment)

    def wanted(self, backlog: Backlog, taken: int) -> int:
        """How many assignments should lie untaken."""
        if backlog.share >= FULL:
            return 0
        if self.starved > STARVED:
            return self._settings.ahead
        unread = backlog.messages - backlog.unacknowledged
        need = math.ceil((STOCK * self._settings.segments - unread) / self._settings.assignment) - taken
        return max(0, min(need, self._settings.ahead))

    def withdraw(self) -> None:
        """The run is over: nothing is asked for."""
        self._board.withdraw()

    def close(self) -> None:
        self._board.close()
