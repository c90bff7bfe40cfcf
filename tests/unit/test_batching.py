"""How many rows a forward pass waits for."""

from __future__ import annotations

import pytest

from playmill.games import PlaymillError
from playmill.serving.batching import Batching, Pace


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def played(pace: Pace, clock: Clock, seconds: float, rate_of: dict[int, float]) -> dict[int, float]:
    """Batches of the size asked for, at the rows a second that size gives; time spent at each."""
    spent: dict[int, float] = {}
    end = clock.now + seconds
    while clock.now < end:
        size = pace.size
        took = size / rate_of[size]
        clock.now += took
        spent[size] = spent.get(size, 0.0) + took
        pace.answered(size, took / 2, took / 2)
    return spent


def test_a_size_that_is_set_is_kept_to_and_never_over_what_can_wait() -> None:
    clock = Clock()
    pace = Pace(Batching(rows=100), 64, clock)
    assert pace.size == 64
    played(pace, clock, 5.0, {64: 1000.0})
    assert pace.size == 64


@pytest.mark.parametrize("best", [1, 8, 64])
def test_the_best_size_is_found_and_kept_to(best: int) -> None:
    clock = Clock()
    pace = Pace(Batching(), 64, clock)
    sizes = [1, 2, 4, 8, 16, 32, 64]
    rates = {size: 1000.0 / (1.0 + abs(sizes.index(size) - sizes.index(best))) for size in sizes}
    played(pace, clock, 20.0, rates)
    spent = played(pace, clock, 20.0, rates)
    assert pace.best == best
    assert spent[best] > 0.6 * sum(spent.values())


def test_of_equal_sizes_the_largest_is_taken_since_it_costs_the_least() -> None:
    clock = Clock()
    pace = Pace(Batching(), 16, clock)
    played(pace, clock, 20.0, {1: 900.0, 2: 1000.0, 4: 1000.0, 8: 1000.0, 16: 500.0})
    assert pace.best == 8


def test_what_was_best_once_is_left_when_it_no_longer_is() -> None:
    clock = Clock()
    pace = Pace(Batching(), 16, clock)
    played(pace, clock, 20.0, {1: 100.0, 2: 200.0, 4: 300.0, 8: 400.0, 16: 500.0})
    assert pace.best == 16
    played(pace, clock, 60.0, {1: 500.0, 2: 400.0, 4: 300.0, 8: 200.0, 16: 100.0})
    assert pace.best == 1


def test_the_report_is_of_the_time_since_the_last_one() -> None:
    clock = Clock()
    pace = Pace(Batching(rows=8), 16, clock)
    clock.now = 1.0
    pace.answered(8, 0.3, 0.1)
    pace.answered(4, 0.1, 0.1)
    clock.now = 2.0
    figures = pace.report()
    assert figures.rows_per_s == pytest.approx(6.0)
    assert figures.rows == pytest.approx(6.0)
    assert figures.fill == pytest.approx(6.0 / 16)
    assert figures.latency_ms == pytest.approx(300.0)
    assert figures.computing == pytest.approx(0.1)
    clock.now = 3.0
    assert pace.report().rows_per_s == 0.0


@pytest.mark.parametrize("wrong", [{"rows": -1}, {"wait_ms": 0.0}, {"wait_ms": 5000.0}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(PlaymillError, match="batching"):
        Batching(**wrong)  # type: ignore[arg-type]
