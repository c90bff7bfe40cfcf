"""Sets of whole numbers that lie close together, as spans [start, end)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


class Spans:
    """Disjoint spans in order, none touching the next."""

    def __init__(self, spans: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in spans:
            self.add(start, end)

    def add(self, start: int, end: int | None = None) -> None:
        """Takes in start up to, but not with, end; start alone without one."""
        end = start + 1 if end is None else end
        if start >= end:
            return
        first = bisect_left(self._ends, start)
        last = bisect_right(self._starts, end)
        if first < last:
            start = min(start, self._starts[first])
            end = max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self._starts, number) - 1
        return place >= 0 and number < self._ends[place]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._ends, strict=True)

    def __len__(self) -> int:
        """How many numbers, not how many spans."""
        return sum(self._ends) - sum(self._starts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spans) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def end(self) -> int:
        """One more than the largest; 0 when empty."""
        return self._ends[-1] if self._ends else 0

    def __or__(self, other: Spans) -> Spans:
        return Spans([*self, *other])

    def __and__(self, other: Spans) -> Spans:
        out, mine, theirs = Spans(), list(self), list(other)
        i = j = 0
        while i < len(mine) and j < len(theirs):
            out.add(max(mine[i][0], theirs[j][0]), min(mine[i][1], theirs[j][1]))
            if mine[i][1] < theirs[j][1]:
                i += 1
            else:
                j += 1
        return out

    def __sub__(self, other: Spans) -> Spans:
        return self & other.outside(self.end)

    def outside(self, end: int) -> Spans:
        """Those from 0 up to, but not with, end that are not here."""
        out, at = Spans(), 0
        for start, stop in self:
            out.add(at, min(start, end))
            at = stop
        out.add(at, end)
        return out
