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
"""Updates' worth of unread segments from which on a learner has enough."""
STARVED = 0.1
"""Share of its time that a learner waits from which on it wants all actors it can get."""
MEMORY_S = 10.0
"""Over which that share is taken."""
FULL = 0.5
"""Share of the channel's room from which on nothing is asked for."""


class Demand:
    """Keeps assignments in the stream. A learner that waits for experience keeps `ahead` untaken ones there;
    one that does not asks for what is missing to its stock, and no more: it would be old when it is read."""

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
        wanted = self.wanted(backlog())
        if wanted > posted.untaken:
            self._board.add(wanted - posted.untaken, self._settings.assignment)

    def wanted(self, backlog: Backlog) -> int:
        """How many assignments should lie untaken. Taken ones do not count: of slow games many must be under
        way at once, and those that are too many show in the stock."""
        if backlog.share >= FULL:
            return 0
        if self.starved > STARVED:
            return self._settings.ahead
        unread = backlog.messages - backlog.unacknowledged
        missing = math.ceil((STOCK * self._settings.segments - unread) / self._settings.assignment)
        return max(0, min(missing, self._settings.ahead))

    def withdraw(self) -> None:
        """The run is over: nothing is asked for."""
        self._board.withdraw()

    def close(self) -> None:
        self._board.close()
