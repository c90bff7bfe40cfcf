"""Screens and reports of fleets: what they say, in any room, whatever the runs hold."""

from __future__ import annotations

import io
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from rich.console import Console

from playmill.cli.fleet_parts import Moment, Row, fleet_picture
from playmill.cli.fleet_screen import FleetScreen
from playmill.cli.live import ScreenConsole
from playmill.telemetry import MetricsLog
from playmill.training.config import Train
from playmill.training.fleet_folder import Ended, FleetFolder, Record, create_fleet
from playmill.training.fleet_plan import plan_members
from playmill.training.fleet_report import load_fleet, write_fleet_report
from playmill.training.status import Status
from playmill.training.throughput import Throughput

KUHN = Train(game="kuhn", turns=5120)

# The screen


class Result(NamedTuple):
    win_share: float
    low: float
    high: float
    fair: float = 0.5
    score: float | None = None
    bid_made: float | None = None


def status(share: float = 0.6, turns: int = 2560, **changes: Any) -> Status:
    values: dict[str, Any] = {
        "turns": turns,
        "updates": turns // 128,
        "seconds": 3.0,
        "evaluation": {"random": Result(share, share - 0.05, share + 0.05)},
        "history": {"random": [(0, 0.5), (turns, share)]},
        "extras": {"exploitability": 0.1234},
        "eta_s": 30.0,
    }
    return Status(**{**values, **changes})


def moment(runs: int = 4, **changes: Any) -> Moment:
    rows = {f"seed-{i}": Row("training", 0.5, 1000.0, status(0.5 + i / 100)) for i in range(runs)}
    values: dict[str, Any] = {
        "rows": rows,
        "bots": ("random",),
        "seconds": 61.0,
        "eta_s": 30.0,
        "throughput": Throughput(runs, 9, 22e6, 61e6).words,
    }
    return Moment(**{**values, **changes})


def rendered(what: Moment, width: int, height: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    console.print(fleet_picture("Kuhn poker · runs/kuhn-1", what, width, height))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


ODD = {
    "plain": moment(),
    "many": moment(64),
    "empty": moment(rows={"seed-0": Row("waiting", None, 0.0, None)}, eta_s=None, throughput=None),
    "nan": moment(rows={"a": Row("failed", 0.1, math.inf, status(math.nan))}),
    "long": moment(
        rows={"x" * 120: Row("done", 1.0, 0.0, status()), "[red]": Row("done", 1.0, 0.0, status())}
    ),
    "no bots": moment(bots=()),
    "bots": moment(bots=tuple(f"bot_number_{i}" for i in range(20))),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("width", [40, 80, 120, 200])
@pytest.mark.parametrize("height", [5, 12, 24, 50])
def test_the_picture_fits_the_terminal(name: str, width: int, height: int) -> None:
    lines = rendered(ODD[name], width, height)
    assert all(len(line) <= width for line in lines)
    assert len(lines) <= max(height - 1, 4)
    assert lines[-1].endswith("╯")


def test_the_picture_says_what_matters() -> None:
    rows = dict(moment().rows)
    rows["seed-3"] = Row("failed", 0.25, 0.0, status(0.9))
    text = "\n".join(rendered(moment(rows=rows), 120, 40))
    for words in ("43.8 %", "3k turns/s", "10.2k turns", "3 training", "1 failed", "0:30 left"):
        assert words in text
    for words in ("seed-2", "52.0 %", "90.0 %", "0.1234", "win share against random", "┄ fair"):
        assert words in text
    assert "4 together 61M turns/s, one at a time 22M turns/s: 2.77x" in text
    assert any(0x2800 < ord(letter) < 0x2900 for letter in text)


def test_runs_that_do_not_fit_are_counted() -> None:
    text = "\n".join(rendered(moment(64), 100, 30))
    shown = len(re.findall(r"seed-\d+", text))
    assert 5 < shown < 40
    assert f"{64 - shown} more" in text
    assert "win share against random" in text


RECORD = Record(KUHN, {"seed-0": {"seed": 0}, "seed-1": {"seed": 1}})


def watched(screen: FleetScreen) -> None:
    with screen:
        for name in RECORD.members:
            screen.state(name, "training")
            screen.update(name, status(0.55))
        screen.throughput(Throughput(2, 9, 1e6, 1.01e6))
        screen.note("seed-1 failed (ValueError: no)")
        screen.state("seed-1", "failed")
        screen.update("seed-0", status(0.65, 5120))
        screen.state("seed-0", "done")


def test_plain_lines_name_the_run() -> None:
    console = Console(file=io.StringIO(), width=80)
    watched(FleetScreen("kuhn", RECORD, console=console))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    lines = text.splitlines()
    assert lines[0] == "kuhn"
    assert (
        "seed-0: evaluation at 2.56k turns: random 55.0 % (50.0-60.0, fair 50.0); exploitability 0.1234"
        in lines
    )
    assert "2 together 1.01M turns/s, one at a time 1M turns/s: 1.01x" in lines
    assert "seed-0: done after 5.12k turns" in lines
    assert text.count("seed-0: evaluation") == 2
    assert "1 done, 1 failed" in lines[-1]
    assert "75.0 %" in lines[-1]
    assert "\x1b" not in text


def test_a_live_screen_keeps_its_notes() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100, height=30)
    screen = FleetScreen("kuhn", RECORD, plain=False, console=console)
    watched(screen)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "seed-1 failed (ValueError: no)" in text
    assert "1.01x" in text
    assert "65.0 %" in text
    assert not screen.plain


class Broken(io.StringIO):
    def write(self, _: str) -> int:
        raise BrokenPipeError(32, "gone")


@pytest.mark.parametrize("plain", [True, False])
def test_a_terminal_that_goes_away_does_not_stop_the_training(plain: bool) -> None:
    console = ScreenConsole(file=Broken(), force_terminal=True, width=80, height=30)
    watched(FleetScreen("t", RECORD, plain=plain, console=console))


# The report


class Reader(HTMLParser):
    """Checks that tags close, and collects text and links."""

    VOID = {"meta", "path", "rect", "circle"}  # noqa: RUF012

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(path.read_text())
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for key, value in attrs if key in ("href", "src")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None: ...

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def make_fleet(path: Path, seeds: tuple[int, ...] = (0, 1), vary: tuple[str, ...] = ()) -> FleetFolder:
    """A fleet with results that are known: 0.5, 0.6, ... against random at 1000 turns."""
    folder = create_fleet(path, KUHN, plan_members(KUHN, seeds, vary))
    for index, name in enumerate(folder.record.members):
        share = 0.5 + index / 10
        with MetricsLog(path / name, use_tensorboard=False) as log:
            for turns in (500, 1000):
                result = {
                    "win_share": share * turns / 1000,
                    "low": share - 0.02,
                    "high": share + 0.02,
                    "fair": 0.5,
                }
                log.write(
                    turns,
                    {f"eval/random/{key}": value for key, value in result.items()} | {"run/seconds": 75},
                )
        folder.end(name, Ended("budget", 1000, 75.0))
    folder.release()
    return folder


def test_the_report_compares_the_seeds(tmp_path: Path) -> None:
    folder = make_fleet(tmp_path / "fleet")
    assert "Not measured" in Reader(write_fleet_report(folder.path)).text
    folder.measured(Throughput(2, 30, 22e6, 61e6))
    reader = Reader(write_fleet_report(folder.path))
    assert reader.links == ["seed-0/report.html", "seed-1/report.html"]
    for words in ("fleet", "50.0 %", "60.0 %", "58.0 to 62.0", "1k", "1:15", "done"):
        assert words in reader.text
    mean, deviation, spread = "55.0 %", "7.1 %", "50.0 % to 60.0 %"
    assert f"\nall seeds\n2\n{mean}\n{deviation}\n{spread}\n" in reader.text
    assert "Wins against random: mean over the seeds, and least to most" in reader.text
    for words in ("61M turns/s", "22M turns/s", "2.77x", "30 of each"):
        assert words in reader.text
    assert f"playmill play {folder.path}/seed-1" in reader.text  # the better one
    text = (folder.path / "report.html").read_text()
    assert text.count('class="line s1"') == 1  # one curve for the second run, and one mean
    assert not re.search(r"https?://|url\(|@import|<script", text)


def test_the_report_groups_settings_over_their_seeds(tmp_path: Path) -> None:
    folder = make_fleet(tmp_path / "fleet", (0, 1), ("ppo.lr=1e-3,3e-3",))
    found = load_fleet(folder.path)
    assert found.groups == {
        "lr 0.001": ["lr=0.001,seed=0", "lr=0.001,seed=1"],
        "lr 0.003": ["lr=0.003,seed=0", "lr=0.003,seed=1"],
    }
    text = Reader(write_fleet_report(folder.path)).text
    assert "\nlr 0.001\n2\n55.0 %\n" in text
    assert "\nlr 0.003\n2\n75.0 %\n" in text
    assert found.best == "lr=0.003,seed=1"


def test_without_seeds_there_is_no_spread(tmp_path: Path) -> None:
    folder = make_fleet(tmp_path / "fleet", (), ("ppo.lr=1e-3,3e-3",))
    reader = Reader(write_fleet_report(folder.path))
    assert "Over the seeds" not in reader.text
    assert "mean over" not in reader.text
    assert reader.links == ["lr%3D0.001/report.html", "lr%3D0.003/report.html"]


def test_a_fleet_that_has_nothing_yet_has_a_report(tmp_path: Path) -> None:
    create_fleet(tmp_path / "fleet", KUHN, plan_members(KUHN, (0, 1), ())).release()
    assert "not ended" in Reader(write_fleet_report(tmp_path / "fleet")).text
