"""The book of segments: produced = trained + dropped (by reason) + in flight, by identity.

Trained and dropped are part of the learner's checkpoint; produced and waiting are the channel's. What is
delivered again and stands in the book already is a duplicate: acknowledged, not trained."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from playmill.experience.segment import LIMIT, Identity, check_run
from playmill.experience.spans import Spans
from playmill.games import PlaymillError

REASON = re.compile(r"[a-z][a-z0-9_-]{0,31}", re.ASCII)
Source = tuple[int, int]
"""An actor and an epoch."""
Book = dict[Source, Spans]


class Missing(NamedTuple):
    """Sequences of one actor and epoch, from start up to, but not with, end."""

    actor: int
    epoch: int
    start: int
    end: int


class Row(NamedTuple):
    """The sums of one actor's epoch."""

    actor: int
    epoch: int
    produced: int
    trained: int
    dropped: int
    in_flight: int
    lost: int
    twice: int


class Proof(NamedTuple):
    """What became of everything that was ever handed over."""

    rows: list[Row]
    dropped: dict[str, int]
    """By reason."""
    gaps: list[Missing]
    """Produced, and neither trained, dropped nor in flight: lost."""
    overlaps: list[Missing]
    """Both trained and dropped, or dropped for two reasons."""

    @property
    def holds(self) -> bool:
        return not self.gaps and not self.overlaps

    def total(self, name: str) -> int:
        """The sum of a column of the rows."""
        return sum(getattr(row, name) for row in self.rows)

    def table(self) -> str:
        """The proof for people."""
        names = Row._fields
        totals = ["all", "", *(f"{self.total(name):,}" for name in names[2:])]
        cells = [[name.replace("_", " ") for name in names]]
        cells += [[str(row.actor), str(row.epoch), *(f"{n:,}" for n in row[2:])] for row in self.rows]
        cells.append(totals)
        widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
        lines = ["  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)) for line in cells]
        lines += [f"dropped as {reason}: {count:,}" for reason, count in sorted(self.dropped.items())]
        for word, places in (("lost", self.gaps), ("twice", self.overlaps)):
            lines += [
                f"{word}: actor {m.actor}, epoch {m.epoch}, {m.start:,} to {m.end - 1:,}" for m in places
            ]
        sums = " + ".join(f"{self.total(name):,} {name.replace('_', ' ')}" for name in names[3:6])
        sign = "=" if self.holds else "is not"
        lines.append(f"{self.total('produced'):,} produced {sign} {sums}")
        return "\n".join(lines)


class Ledger:
    """Which segments of a run were trained, and which were dropped, and why."""

    def __init__(self, run: str) -> None:
        self.run = check_run(run)
        self._trained: Book = {}
        self._dropped: dict[str, Book] = {}

    def seen(self, identity: Identity) -> bool:
        """Whether it was trained or dropped before."""
        source = (identity.actor, identity.epoch)
        books = (self._trained, *self._dropped.values())
        return any(source in book and identity.sequence in book[source] for book in books)

    def train(self, identities: Iterable[Identity]) -> None:
        self._enter(self._trained, identities)

    def drop(self, identities: Iterable[Identity], reason: str) -> None:
        if REASON.fullmatch(reason) is None:
            raise PlaymillError(f"{reason!r} is no reason: use up to 32 small letters, digits, _ and -")
        self._enter(self._dropped.setdefault(reason, {}), identities)

    def _enter(self, book: Book, identities: Iterable[Identity]) -> None:
        """All of them or, when one cannot be, none."""
        entered = list(identities)
        if len(set(entered)) != len(entered):
            raise PlaymillError("a segment stands twice among those to be entered: ask `seen` before")
        for identity in entered:
            if identity.run != self.run:
                raise PlaymillError(f"{identity} belongs to another run than {self.run}")
            if self.seen(identity):
                raise PlaymillError(f"{identity} stands in the ledger already: ask `seen` before")
        for identity in entered:
            book.setdefault((identity.actor, identity.epoch), Spans()).add(identity.sequence)

    @property
    def trained(self) -> int:
        return sum(map(len, self._trained.values()))

    @property
    def dropped(self) -> dict[str, int]:
        """How many, by reason."""
        return {reason: sum(map(len, book.values())) for reason, book in self._dropped.items()}

    # ---- In the checkpoint ----

    def state(self) -> dict[str, Any]:
        """All of it as values that JSON knows."""
        dropped = {reason: _pack(book) for reason, book in self._dropped.items()}
        return {"run": self.run, "trained": _pack(self._trained), "dropped": dropped}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Ledger:
        try:
            ledger = cls(state["run"])
            ledger._trained = _unpack(state["trained"])
            for reason, book in state["dropped"].items():
                ledger.drop([], reason)
                ledger._dropped[reason] = _unpack(book)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise PlaymillError(f"this is no state of a ledger: {error!r}") from error
        return ledger

    # ---- The proof ----

    def prove(self, produced: Mapping[Source, int], waiting: Iterable[Identity]) -> Proof:
        """Ask the channel for `produced` first, for `waiting` after it, and take the ledger last: then
        nothing that moves meanwhile looks lost. What came later than `produced` counts as produced too."""
        waits: Book = {}
        for identity in waiting:
            waits.setdefault((identity.actor, identity.epoch), Spans()).add(identity.sequence)
        books = [self._trained, *self._dropped.values()]
        sources = sorted({*produced, *waits, *(source for book in books for source in book)})
        proof = Proof([], self.dropped, [], [])
        for source in sources:
            self._prove(proof, source, produced.get(source, 0), waits.get(source, Spans()))
        return proof

    def _prove(self, proof: Proof, source: Source, produced: int, waits: Spans) -> None:
        trained = self._trained.get(source, Spans())
        done, twice, dropped = trained, Spans(), 0
        for book in self._dropped.values():
            more = book.get(source, Spans())
            twice = twice | done & more
            done = done | more
            dropped += len(more)
        flight = waits - done
        known = done | flight
        produced = max(produced, known.end)
        lost = known.outside(produced)
        proof.gaps.extend(Missing(*source, *span) for span in lost)
        proof.overlaps.extend(Missing(*source, *span) for span in twice)
        numbers = (produced, len(trained), dropped, len(flight), len(lost), len(twice))
        proof.rows.append(Row(*source, *numbers))


def _pack(book: Book) -> dict[str, list[list[int]]]:
    return {f"{actor}:{epoch}": [list(span) for span in spans] for (actor, epoch), spans in book.items()}


def _unpack(packed: Mapping[str, list[list[int]]]) -> Book:
    book: Book = {}
    for name, spans in packed.items():
        actor, epoch = map(int, name.split(":"))
        for start, end in spans:
            whole = isinstance(start, int) and isinstance(end, int)
            if not whole or min(actor, epoch) < 0 or not 0 <= start < end <= LIMIT:
                raise ValueError(f"{name} {start} {end}")
        book[actor, epoch] = Spans((start, end) for start, end in spans)
    return book
