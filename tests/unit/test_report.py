"""Reports: one file, no network, every text escaped, whatever a run holds."""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch

from playmill.checkpoints import Store
from playmill.telemetry import MetricsLog
from playmill.training.report import draw_curves, write_report
from playmill.training.report_data import Line, load_run, panels, thin
from playmill.training.units import clock, short, ticks

EVIL = "<script>alert('x')</script>"


def make_run(folder: Path, lines: int = 40) -> Path:
    config = {"name": "first <b>run</b>", "game": {"name": "skull_king"}, "ppo": {EVIL: EVIL, "epochs": 4}}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    rating = {"name": EVIL, "rating": 1500, "low": 1480, "high": 1520, "games": 4000}
    (folder / "ratings.json").write_text(json.dumps([rating, {"name": "broken"}]))
    with MetricsLog(folder, use_tensorboard=False) as log:
        for step in range(lines):
            values = {"loss/policy": 0.1 / (step + 1), "loss/kl": float("nan"), "speed/turns_per_s": 4e4}
            values |= {"time/engine": 0.2, "time/update": 0.5, "custom/thing": step}
            if step % 10 == 0:
                for bot in ("greedy", EVIL.replace("/", "")):
                    result = {
                        "win_share": 0.3,
                        "low": 0.28,
                        "high": 0.32,
                        "fair": 0.25,
                        "score": 99.0,
                        "bid_made": 0.6,
                    }
                    values |= {f"eval/{bot}/{key}": value for key, value in result.items()}
            log.write(step * 1000, values)
    Store(folder / "checkpoints", keep=2).save(7, {"w": torch.zeros(3)}, {}, pin=True, best_score=0.5)
    return folder


class Reader(HTMLParser):
    """Checks that tags close, and collects what they hold."""

    VOID = {"meta", "path", "rect", "circle", "br"}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def parse(path: Path) -> Reader:
    reader = Reader()
    reader.feed(path.read_text())
    reader.close()
    assert reader.open == []
    return reader


def test_the_report_stands_alone_and_escapes_everything(tmp_path: Path) -> None:
    path = write_report(make_run(tmp_path / "run"))
    reader = parse(path)
    assert not reader.tags & {"script", "link", "img", "iframe", "object", "b-script"}
    assert not [
        name for name, _ in reader.attributes if name in ("src", "href", "srcset") or name.startswith("on")
    ]
    assert not re.search(r"https?://|url\(|@import|//cdn", path.read_text())
    assert EVIL not in path.read_text()
    assert EVIL in reader.text


def test_the_report_shows_results_ratings_checkpoints_and_commands(tmp_path: Path) -> None:
    reader = parse(write_report(make_run(tmp_path / "run"), [("Go on", "playmill train --resume 'a b'")]))
    for words in (
        "first <b>run</b>",
        "30.0 %",
        "1480 to 1520",
        "step-000000000007",
        "best",
        "pinned",
        "epochs",
    ):
        assert words in reader.text
    assert "playmill train --resume 'a b'" in reader.text
    assert "svg" in reader.tags


def test_panels_follow_the_keys_that_exist(tmp_path: Path) -> None:
    titles = [panel.title for panel in panels(load_run(make_run(tmp_path / "run")))]
    assert titles == [
        "Win share against each bot",
        "Score a game",
        "Bids made",
        "Speed, turns a second",
        "Where the time goes",
        "Policy loss",
        "Custom, thing",
    ]


def test_a_tiny_game_has_its_exploitability_drawn(tmp_path: Path) -> None:
    with MetricsLog(tmp_path, use_tensorboard=False) as log:
        for step in range(5):
            log.write(step, {"eval/exploitability": 0.5 / (step + 1), "turns": step * 100})
    assert [panel.title for panel in panels(load_run(tmp_path))] == ["Exploitability"]
    assert panels(load_run(tmp_path))[0].lines[0].x[-1] == 400
    assert "0 is unbeatable" in parse(write_report(tmp_path)).text


@pytest.mark.parametrize("lines", [0, 1, 2, 5000])
def test_any_length_of_run_gives_a_report(tmp_path: Path, lines: int) -> None:
    folder = make_run(tmp_path / "run", lines)
    path = write_report(folder)
    parse(path)
    assert path.stat().st_size < 600_000


def test_an_empty_or_damaged_folder_gives_a_report_too(tmp_path: Path) -> None:
    assert "No evaluation yet" in parse(write_report(tmp_path)).text
    (tmp_path / "config.json").write_text("{")
    (tmp_path / "ratings.json").write_text('{"not": "a list"}')
    parse(write_report(tmp_path))


def test_shares_of_time_add_up_to_one(tmp_path: Path) -> None:
    panel = next(panel for panel in panels(load_run(make_run(tmp_path / "run"))) if panel.stacked)
    assert [line.name for line in panel.lines] == ["engine", "update", "other"]
    assert all(
        sum(values) == pytest.approx(1) for values in zip(*(line.y for line in panel.lines), strict=True)
    )


@pytest.mark.parametrize("lines", [1, 40])
def test_curves_are_drawn(tmp_path: Path, lines: int) -> None:
    path = draw_curves(make_run(tmp_path / "run", lines))
    assert path == tmp_path / "run" / "curves.png"
    assert path.read_bytes().startswith(b"\x89PNG")
    assert "matplotlib.pyplot" not in sys.modules


def test_curves_say_why_they_are_not_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    assert draw_curves(tmp_path, notes.append) is None
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert draw_curves(make_run(tmp_path / "run"), notes.append) is None
    assert "no metrics yet" in notes[0] or "missing" in notes[0]
    assert "pip install matplotlib" in notes[1]


def test_thinning_keeps_the_spread() -> None:
    line = thin(Line("x", [float(i) for i in range(1000)], [float(i % 2) for i in range(1000)]), 100)
    assert len(line.x) == 100
    assert set(line.low) == {0.0}
    assert set(line.high) == {1.0}
    assert line.y == [0.5] * 100


def test_units_read_well() -> None:
    assert [short(n) for n in (0, 12, 999_999, 12_345_678, -1500, 0.00123)] == [
        "0",
        "12",
        "1M",
        "12.3M",
        "-1.5k",
        "0.00123",
    ]
    assert [clock(s) for s in (5, 65, 3725, 90_061, float("inf"))] == [
        "0:05",
        "1:05",
        "1:02:05",
        "1d 1:01:01",
        "?",
    ]
    assert ticks(0.03, 0.97, 5) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    for low, high in ((0, 0), (5, 5), (-3, -3), (1e-9, 2e-9), (-1e9, 1e12)):
        marks = ticks(low, high, 4)
        assert marks[0] <= low <= high <= marks[-1]
        assert marks[0] < marks[-1]
        assert len(marks) < 12


def test_of_two_values_at_one_place_the_later_is_drawn(tmp_path: Path) -> None:
    with MetricsLog(tmp_path, use_tensorboard=False) as log:
        for step, score in [(1000, 1.0), (2000, 2.0), (2000, 3.0)]:
            log.write(step, {"custom/thing": score})
    (panel,) = panels(load_run(tmp_path))
    assert (panel.lines[0].x, panel.lines[0].y) == ([1000, 2000], [1.0, 3.0])


def test_curves_leave_the_other_metrics_to_the_report(tmp_path: Path) -> None:
    with MetricsLog(tmp_path, use_tensorboard=False) as log:
        log.write(1000, {"custom/thing": 1.0})
    notes: list[str] = []
    assert draw_curves(tmp_path, on_note=notes.append) is None
    assert notes
