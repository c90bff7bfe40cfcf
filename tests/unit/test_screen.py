"""The live screen: any width, any value, and never an error into the training."""

from __future__ import annotations

import io
import math
from typing import Any, NamedTuple

import pytest
from rich.console import Console

from playmill.cli import screen as screen_module
from playmill.cli.chart import learning_curve
from playmill.cli.live import ScreenConsole
from playmill.cli.screen import Screen
from playmill.cli.screen_parts import picture
from playmill.training.status import Status


class Result(NamedTuple):
    win_share: float
    low: float
    high: float
    fair: float = 0.25
    score: float | None = None
    bid_made: float | None = None


def status(evaluations: int = 20, **changes: Any) -> Status:
    history = {
        name: [(i * 1e6, top * (1 - math.exp(-i / 5))) for i in range(evaluations)]
        for name, top in (("greedy", 0.4), ("random", 0.95))
    }
    results = {
        name: Result(line[-1][1], 0.3, 0.5, 0.25, 141.0, 0.62) for name, line in history.items() if line
    }
    values: dict[str, Any] = {
        "turns": 13_000_000,
        "updates": 398,
        "seconds": 312.0,
        "turns_per_s": 41_800.0,
        "games_per_s": 190.0,
        "shares": {"engine": 0.06, "network": 0.33, "update": 0.45},
        "losses": {"policy": -0.0123, "value": 0.2, "entropy": 1.1, "kl": 0.007},
        "evaluation": results,
        "history": history,
        "checkpoint": "step-000013000000",
        "eta_s": 167.0,
    }
    return Status(**{**values, **changes})


def terminal(width: int, height: int = 40) -> Console:
    return Console(
        file=io.StringIO(), force_terminal=True, width=width, height=height, color_system="truecolor"
    )


def rendered(moment: Status, width: int, height: int, done: float | None = 0.5) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    console.print(picture("skull_king", moment, done, width, height))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


ODD = {
    "empty": Status(),
    "nan": status(
        losses={"policy": math.nan},
        shares={"engine": math.nan, "update": 0.0},
        turns_per_s=math.inf,
        eta_s=math.inf,
        evaluation={"a": Result(math.nan, math.nan, math.nan, math.nan)},
        history={"a": [(0, math.nan), (1, 0.2), (math.inf, 0.1)]},
    ),
    "one point": status(1),
    "no history": status(history={}),
    "no result": status(evaluation={}),
    "many": status(
        losses={f"loss/number_{i}": float(i) for i in range(30)},
        evaluation={f"b{i}" * 9: Result(1, 0, 1) for i in range(20)},
    ),
    "long": status(checkpoint="x" * 300, shares={f"a_very_long_phase_{i}": 0.2 for i in range(7)}),
    "markup": status(
        checkpoint="[red]", losses={"[/nothing]": 1.0}, evaluation={"[bold]": Result(0.1, 0, 0.2)}
    ),
    "extras": status(extras={"exploitability": 0.013}, evaluation={}, history={}),
}


@pytest.mark.parametrize("width", [40, 41, 80, 113, 114, 160, 400])
@pytest.mark.parametrize("height", [5, 10, 16, 24, 40, 100])
def test_the_picture_fits_the_terminal(width: int, height: int) -> None:
    for moment in (status(), status(1), Status()):
        lines = rendered(moment, width, height)
        assert all(len(line) <= width for line in lines)
        assert len(lines) <= max(height - 1, 4)
        assert lines[-1].endswith("╯")


@pytest.mark.parametrize("width", [40, 80, 160])
@pytest.mark.parametrize("name", ODD)
def test_odd_moments_are_drawn(name: str, width: int) -> None:
    for done in (None, 0.0, 1.0):
        assert all(len(line) <= width for line in rendered(ODD[name], width, 40, done))


def test_the_picture_says_what_matters() -> None:
    text = "\n".join(rendered(status(), 160, 40))
    for words in ("50.0 %", "2:47 left", "41.8k turns/s", "step-000013000000", "update 45 %", "other 16 %"):
        assert words in text
    for words in ("policy -0.0123", "greedy", "30.0-50.0", "fair", "141.0", "62.0 %", "19M turns"):
        assert words in text
    assert any(0x2800 < ord(letter) < 0x2900 for letter in text)


def test_the_curve_rises_where_the_values_rise() -> None:
    rows = [row.plain for row in learning_curve({"a": [(0, 0.0), (100, 1.0)]}, [0.25], 40, 9)]
    assert len(rows) == 10
    assert rows[0].startswith(" 100 %┤")
    assert rows[4].startswith("  50 %┤")
    assert rows[8].startswith("   0 %┤")
    assert rows[0].rstrip()[-1] not in " ┤"
    assert rows[8][7] != " "
    assert rows[8].rstrip().endswith(rows[8][7:].split()[0])
    assert rows[9].endswith("100 turns")
    assert learning_curve({}, [], 40, 9) == []


@pytest.mark.parametrize("width", [40, 80, 160])
def test_a_live_screen_runs_and_keeps_its_notes(width: int) -> None:
    console = terminal(width)
    with Screen("skull_king", 20_000_000, None, plain=False, console=console) as screen:
        for evaluations in range(1, 8):
            screen.update(status(evaluations))
        screen.note("the disk is full")
        screen.update(status(9))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "the disk is full" in text
    assert "65.0 %" in text
    assert not screen.plain


def plain_lines(screen: Screen, console: Console, moments: list[Status]) -> list[str]:
    with screen:
        for moment in moments:
            screen.update(moment)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_plain_mode_prints_every_five_seconds_and_each_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("playmill.cli.screen.time.monotonic", lambda: now[0])
    console = Console(file=io.StringIO(), width=80)
    screen = Screen("kuhn", None, 600.0, console=console)
    assert screen.plain
    with screen:
        for tick in range(100):
            now[0] = tick * 0.25
            screen.update(status(1 + tick // 40, seconds=now[0]))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert lines[0] == "kuhn"
    assert len([line for line in lines if "turns/s" in line]) == 6
    assert len([line for line in lines if line.startswith("evaluation at")]) == 3
    assert "greedy 0.0 % (30.0-50.0, fair 25.0) score 141.0 bids 62.0 %" in "\n".join(lines)
    assert "\x1b" not in "\n".join(lines)


def test_progress_follows_whichever_limit_ends_first() -> None:
    console = Console(file=io.StringIO(), width=80)
    lines = plain_lines(Screen("t", 26_000_000, 400.0, console=console), console, [status()])
    assert lines[1].startswith("78.0 %")


def test_terminals_that_cannot_show_the_picture_get_lines() -> None:
    narrow = terminal(39)
    assert Screen("t", None, None, console=narrow).plain
    ascii_only = Console(file=io.TextIOWrapper(io.BytesIO(), "ascii"), force_terminal=True, width=80)
    screen = Screen("título ♠", None, None, console=ascii_only)
    assert screen.plain
    with screen:
        screen.note("♥")
        screen.update(status())


class Broken(io.StringIO):
    def write(self, _: str) -> int:
        raise BrokenPipeError(32, "gone")


@pytest.mark.parametrize("plain", [True, False])
def test_a_terminal_that_goes_away_does_not_stop_the_training(plain: bool) -> None:
    console = ScreenConsole(file=Broken(), force_terminal=True, width=80, height=30)
    with Screen("t", 10, None, plain=plain, console=console) as screen:
        screen.update(status())
        screen.note("hello")
        screen.update(status(3))


def test_a_picture_that_fails_falls_back_to_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("drawing")

    monkeypatch.setattr(screen_module, "picture", fail)
    console = terminal(80)
    with Screen("t", 20_000_000, None, plain=False, console=console) as screen:
        screen.update(status())
    assert isinstance(console.file, io.StringIO)
    assert "plain lines from here" in console.file.getvalue()
    assert "41.8k turns/s" in console.file.getvalue()
    assert screen.plain


def test_errors_of_the_training_pass_through() -> None:
    with pytest.raises(KeyboardInterrupt), Screen("t", None, None, console=terminal(80)):
        raise KeyboardInterrupt
