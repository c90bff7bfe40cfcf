"""What takes segments from actors to the learner: a sender at one end, a receiver at the other.

    actor     send(identity, message) ... until it says True: then it is handed over, and outlives the actor
    learner   receive -> train, drop or refuse -> checkpoint with the ledger -> acknowledge

A delivery that was not acknowledged comes again to the learner's next process; so may one that was, where the
actor had to send it twice. The ledger knows which were trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from playmill.experience.segment import Identity

Message = bytes | bytearray | memoryview


class Delivery(NamedTuple):
    """A message and what its carrier knows it by."""

    key: Any
    message: memoryview
    """To be read before it is acknowledged, not later: its room is used again."""
    identity: Identity
    """As the carrier counts it; the one inside must be the same."""

    def spent(self) -> Delivery:
        """All that is needed to acknowledge it."""
        return self._replace(message=memoryview(b""))


class Backlog(NamedTuple):
    """What was handed over and is not acknowledged."""

    messages: int
    bytes: int
    unacknowledged: int
    """Those of them that were delivered."""
    share: float
    """Of the capacity, 0 to 1; from 1 on senders wait."""


class Sender(Protocol):
    def send(self, identity: Identity, message: Message, within: float) -> bool:
        """Hands a message over. False: there was no room within so many seconds, and it is still the actor's.

        Sequences go up by one. One that was handed over already is not sent again."""

    @property
    def spooled(self) -> int:
        """Bytes on this machine's disk that the broker has not got."""

    def backlog(self) -> Backlog: ...
    def close(self) -> None: ...


class Receiver(Protocol):
    buried: int
    """Messages that went to the dead letters."""

    def receive(self, at_most: int, within: float) -> list[Delivery]:
        """What has come, in order for each actor; empty when nothing came within so many seconds."""

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """After the checkpoint whose ledger holds them: they never come again, and their room is free."""

    def refuse(self, delivery: Delivery, reason: str) -> None:
        """Puts a copy to the dead letters and counts it. The ledger drops it, and it is acknowledged like any
        other, after the checkpoint: before, a crash would leave it in no book."""

    def produced(self) -> dict[tuple[int, int], int]:
        """How many were handed over by each (actor, epoch)."""

    def waiting(self) -> Iterator[Identity]:
        """What was handed over and is not acknowledged."""

    def backlog(self) -> Backlog: ...
    def close(self) -> None: ...


class Pause:
    """Sleeps between looks: short ones first, so that nobody waits long for what is about to come, then
    longer ones, so that waiting costs next to nothing."""

    SHORTEST, LONGEST = 20e-6, 1e-3

    def __init__(self) -> None:
        self._next = self.SHORTEST

    def length(self, left: float) -> float:
        """How long to sleep now, if so many seconds are left."""
        now, self._next = self._next, min(2 * self._next, self.LONGEST)
        return max(0.0, min(now, left))
