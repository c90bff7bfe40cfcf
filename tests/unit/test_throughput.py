"""Runs together against one at a time: the clock decides, evaluations aside."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from playmill.telemetry import read_metrics
from playmill.training import throughput as throughput_module
from playmill.training.config import Checkpoints
from playmill.training.fleet import Fleet, State
from playmill.training.fleet_folder import create_fleet, open_fleet, read_fleet
from playmill.training.fleet_plan import changed, plan_members
from playmill.training.status import Status
from playmill.training.throughput import Throughput, measure
from tests.unit.test_fleet import TINY as TINY_RUN

TINY = replace(TINY_RUN, checkpoints=Checkpoints())


class Ear:
    found: Throughput | None = None

    def update(self, name: str, status: Status) -> None: ...
    def state(self, name: str, state: State) -> None: ...
    def note(self, text: str) -> None: ...

    def throughput(self, found: Throughput) -> None:
        self.found = found


class Clocked:
    """A trainer on a false clock, evaluated every tenth update."""

    def __init__(self, turns: int = 0) -> None:
        self.config, self.turns, self.seconds = changed(TINY, {"turns": turns}), 0, 0.0
        self.judge = self

    def due(self, turns: int) -> bool:
        return turns % 1280 == 0


@pytest.mark.parametrize("overlap", [1.0, 0.25])
def test_the_gain_is_what_the_clock_says(monkeypatch: pytest.MonkeyPatch, overlap: float) -> None:
    """On a device where an update costs 0.01 s, and less beside the queued work of another run."""
    clock, queue = [0.0], set[int]()
    monkeypatch.setattr(throughput_module.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(throughput_module, "_wait_for_device", queue.clear)

    def advance(one: Any) -> bool:
        one.turns += 128
        beside = queue - {id(one)}
        clock[0] += 50.0 if one.due(one.turns) else 0.01 * (overlap if beside else 1.0)
        queue.add(id(one))
        return True

    found = measure([Clocked() for _ in range(4)], advance)  # type: ignore[arg-type]
    assert found is not None
    assert found.runs == 4
    assert found.updates >= 40
    # Evaluations took 50 s each and are in neither.
    assert found.alone == pytest.approx(12800)
    assert found.gain == pytest.approx(1 / overlap, rel=0.15)
    assert f"{found.gain:.2f}x" in found.words


def test_what_cannot_be_measured_is_left_out() -> None:
    assert measure([], lambda _: True) is None
    short = [Clocked(9 * 128), Clocked(9 * 128)]
    assert measure(short, lambda one: bool(setattr(one, "turns", one.turns + 128)) or True) is None  # type: ignore[arg-type]
    assert measure([Clocked(), Clocked()], lambda _: False) is None  # type: ignore[arg-type]


def test_the_throughput_is_measured_once_and_written_down(tmp_path: Path) -> None:
    members = plan_members(TINY, (0, 1), ())
    folder, ear = create_fleet(tmp_path / "fleet", TINY, members), Ear()
    Fleet(folder, ear).run()
    folder.release()
    assert ear.found is not None
    assert read_fleet(tmp_path / "fleet").throughput == ear.found
    assert 0.3 < ear.found.gain < 3  # about 1 on the CPU, however busy it is
    (row,) = [row for row in read_metrics(tmp_path / "fleet") if "throughput/gain" in row]
    assert row["throughput/together"] == ear.found.together
    assert row["throughput/alone"] == ear.found.alone
    assert any("speed/turns_per_s" in row for row in read_metrics(tmp_path / "fleet"))
    # Resumed, the fleet keeps what was measured.
    again, ear = open_fleet(tmp_path / "fleet"), Ear()
    again.change({"turns": 80 * 128})
    assert set(Fleet(again, ear).run().values()) == {"done"}
    again.release()
    assert ear.found is None
