"""How many rows to wait for before a forward pass, and how long: as set, or found by trying."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from playmill.games import PlaymillError


@dataclass(frozen=True)
class Batching:
    """Rows are answered together: when enough wait, or the first has waited long enough."""

    rows: int = 0
    """Rows to wait for; 0: found by trying which gives the most answers a second."""
    wait_ms: float = 5.0
    """The longest a row waits for others."""

    def __post_init__(self) -> None:
        if self.rows < 0:
            raise PlaymillError(f"batching.rows must not be negative, got {self.rows}")
        if not 0.0 < self.wait_ms <= 1000.0:
            raise PlaymillError(f"batching.wait_ms must be over 0 and at most 1000, got {self.wait_ms}")


@dataclass(frozen=True)
class BatchFigures:
    """What batches were like since the last report."""

    rows_per_s: float
    fill: float
    """Mean rows of a batch, as a share of the most that can wait."""
    rows: float
    """Mean rows of a batch."""
    latency_ms: float
    """Mean time from when a batch was begun to be waited for until it was answered."""
    computing: float
    """Share of the time spent in the policy."""


class Pace:
    """The size to wait for. Set to 0 it tries sizes in turn and keeps to the best.

    Sizes are powers of two up to `most`. A trial lasts `TRIAL_S`; the answers a second of each size are
    remembered, old trials less. Most trials are of the best size, every `EXPLORE`-th is of a neighbour. Sizes
    that are as good within `EQUAL` count as equal; the largest of them wins, since it costs the least."""

    TRIAL_S = 0.25
    EXPLORE = 4
    EQUAL = 0.02
    KEPT = 0.7

    def __init__(self, settings: Batching, most: int, clock: Callable[[], float] = time.perf_counter) -> None:
        """`most`: rows that can wait at one time."""
        self._settings, self._clock = settings, clock
        self.wait_s = settings.wait_ms / 1000.0
        self._rates: dict[int, float] = {}
        self._trials = 0
        self.resize(most)
        self._begin_trial()
        self._begin_report()

    def resize(self, most: int) -> None:
        """Another number of rows can wait at one time from now on."""
        self.most = max(1, most)
        self._sizes = [1]
        while self._sizes[-1] * 2 <= self.most:
            self._sizes.append(self._sizes[-1] * 2)
        self._rates = {size: rate for size, rate in self._rates.items() if size <= self.most}
        middle = self._sizes[len(self._sizes) // 2]
        self.size = min(self._settings.rows, self.most) or (self.best if self._rates else middle)

    def answered(self, rows: int, waited_s: float, computed_s: float) -> None:
        """A batch is done."""
        self._rows += rows
        self._report_rows += rows
        self._batches += 1
        self._waited += waited_s
        self._computed += computed_s
        now = self._clock()
        if not self._settings.rows and now - self._since >= self.TRIAL_S:
            self._judge(self._rows / (now - self._since))
            self._begin_trial()

    def report(self) -> BatchFigures:
        """Figures since the last report."""
        seconds = max(self._clock() - self._report_since, 1e-9)
        batches = max(self._batches, 1)
        figures = BatchFigures(
            rows_per_s=self._report_rows / seconds,
            fill=self._report_rows / batches / self.most,
            rows=self._report_rows / batches,
            latency_ms=1000.0 * (self._waited + self._computed) / batches,
            computing=self._computed / seconds,
        )
        self._begin_report()
        return figures

    @property
    def best(self) -> int:
        """The size that is kept to."""
        if not self._rates:
            return self.size
        top = max(self._rates.values())
        return max(size for size, rate in self._rates.items() if rate >= (1.0 - self.EQUAL) * top)

    def _judge(self, rate: float) -> None:
        before = self._rates.get(self.size)
        self._rates[self.size] = rate if before is None else self.KEPT * before + (1 - self.KEPT) * rate
        self._trials += 1
        best = self._sizes.index(self.best)
        neighbours = [i for i in (best + 1, best - 1) if 0 <= i < len(self._sizes)]
        untried = [i for i in neighbours if self._sizes[i] not in self._rates]
        if untried:
            best = untried[0]
        elif neighbours and self._trials % self.EXPLORE == 0:
            best = neighbours[self._trials // self.EXPLORE % len(neighbours)]
        self.size = self._sizes[best]

    def _begin_trial(self) -> None:
        self._since, self._rows = self._clock(), 0

    def _begin_report(self) -> None:
        self._report_since = self._clock()
        self._report_rows = self._batches = 0
        self._waited = self._computed = 0.0
