"""Which rows changed between two looks at the same seats."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from playmill.serving.columns import U32, States


class Watcher:
    """Remembers what was last shown of each row. A reset moves the turn, a deletion the standing: nothing
    else has to be compared."""

    def __init__(self, rows: int) -> None:
        self._turn = np.zeros(rows, np.uint32)
        self._standing = np.full(rows, 255, np.uint8)

    def changed(self, states: States) -> U32:
        """Rows that differ from the last look."""
        differ = (states.turn != self._turn) | (states.standing != self._standing)
        self._turn[:] = states.turn
        self._standing[:] = states.standing
        return np.flatnonzero(differ).astype(np.uint32)


def pick(states: States, rows: U32) -> States:
    """Copies of some rows."""
    return States(*(column[rows] for column in states))


def changes(look: Callable[[], States], interval: float) -> Iterator[tuple[U32, States]]:
    """Rows that changed, for ever."""
    states = look()
    watcher = Watcher(len(states))
    while True:
        rows = watcher.changed(states)
        if len(rows):
            yield rows, pick(states, rows)
        time.sleep(interval)
        states = look()
