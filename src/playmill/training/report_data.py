"""What a report shows, gathered from a run folder: figures, and the panels drawn from metrics."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from playmill.checkpoints import Store
from playmill.telemetry import read_metrics
from playmill.training.utilisation import Utilisation, read_utilisation

PHASES = ("engine", "expansion", "network", "returns", "update", "other")

_LOSSES = {
    "loss/policy": "Policy loss",
    "loss/value": "Value loss",
    "loss/entropy": "Entropy",
    "loss/kl": "KL divergence",
    "loss/clip_share": "Clipped share",
}
# Figures of the agent itself, such as eval/exploitability.
_GOAL = re.compile(r"eval/[^/]+")
# Keys that have a place in a panel, or that only say where a line of metrics stands.
_KNOWN = re.compile(
    r"step|time|turns|updates|seconds|eval/[^/]+|eval/[^/]+/(win_share|low|high|fair|score|bid_made)"
    r"|loss/.+|time/.+|speed/turns_per_s|gpu/.+"
)

Size = Literal["main", "half", "small"]
Row = dict[str, Any]


@dataclass(frozen=True)
class Line:
    """One curve. `low` and `high` make a band: an interval, or the spread that averaging hid."""

    name: str
    x: list[float]
    y: list[float]
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Panel:
    """One set of axes; x is turns."""

    title: str
    lines: list[Line]
    size: Size = "half"
    share: bool = False
    """Values are shares, shown in percent."""
    stacked: bool = False
    levels: list[tuple[str, float]] = field(default_factory=list)
    from_zero: bool = False
    group: Literal["learning", "loss", "other"] = "learning"


@dataclass(frozen=True)
class Saved:
    """A checkpoint in the list."""

    step: int
    size: int
    time: float
    best: bool
    pinned: bool


@dataclass(frozen=True)
class Run:
    """All a report knows about a run."""

    folder: Path
    config: dict[str, Any]
    metrics: list[Row]
    ratings: list[Row]
    checkpoints: list[Saved]
    utilisation: Utilisation | None = None

    def latest(self, key: str) -> float | None:
        """The newest finite value of a metric."""
        return next((row[key] for row in reversed(self.metrics) if _finite(row.get(key))), None)

    def bots(self) -> list[str]:
        """Opponents with a win share, in the order they first appeared."""
        parts = (key.split("/") for key in _keys(self.metrics))
        return [part[1] for part in parts if len(part) == 3 and part[0] == "eval" and part[2] == "win_share"]


def load_run(folder: Path) -> Run:
    """Reads a run folder; files that are missing or unreadable leave their part of the report out."""
    config = _json(folder / "config.json")
    ratings = _json(folder / "ratings.json")
    entries = [row for row in ratings if isinstance(row, dict)] if isinstance(ratings, list) else []
    return Run(
        folder,
        config if isinstance(config, dict) else {},
        read_metrics(folder),
        sorted(entries, key=lambda row: -(row["rating"] if _finite(row.get("rating")) else -math.inf)),
        _checkpoints(folder / "checkpoints"),
        read_utilisation(folder),
    )


def panels(run: Run) -> list[Panel]:
    """Every curve the metrics have material for, the largest first."""
    keys = _keys(run.metrics)
    drawn = [*_against(run), *(_single(run, key) for key in keys if _GOAL.fullmatch(key)), *_speed(run, keys)]
    drawn += [_loss(run, key) for key in sorted(keys, key=_loss_order) if key.startswith("loss/")]
    drawn += [_single(run, key) for key in keys if not _KNOWN.fullmatch(key)]
    return [_thinned(panel) for panel in drawn if any(line.x for line in panel.lines)]


def thin(line: Line, most: int) -> Line:
    """At most `most` points: means of equal runs of points, their spread kept as the band."""
    count = len(line.x)
    if count <= most:
        return line
    cuts = [index * count // most for index in range(most + 1)]
    parts = [slice(start, end) for start, end in itertools.pairwise(cuts)]
    return Line(
        line.name,
        [_mean(line.x[part]) for part in parts],
        [_mean(line.y[part]) for part in parts],
        [min((line.low or line.y)[part]) for part in parts],
        [max((line.high or line.y)[part]) for part in parts],
    )


def _thinned(panel: Panel) -> Panel:
    most = {"main": 240, "half": 120, "small": 70}[panel.size]
    return replace(panel, lines=[thin(line, most) for line in panel.lines])


def _against(run: Run) -> list[Panel]:
    bots = run.bots()
    fair = {run.latest(f"eval/{bot}/fair") for bot in bots} - {None}
    levels = [("fair", level) for level in sorted(level for level in fair if level is not None)]
    wins = [
        metric_line(run.metrics, f"eval/{bot}/win_share", bot, f"eval/{bot}/low", f"eval/{bot}/high")
        for bot in bots
    ]
    scores = [metric_line(run.metrics, f"eval/{bot}/score", bot) for bot in bots]
    bids = [metric_line(run.metrics, f"eval/{bot}/bid_made", bot) for bot in bots]
    return [
        Panel("Win share against each bot", wins, "main", share=True, levels=levels, from_zero=True),
        Panel("Score a game", [line for line in scores if line.x]),
        Panel("Bids made", [line for line in bids if line.x], share=True),
    ]


def _speed(run: Run, keys: Sequence[str]) -> list[Panel]:
    line = metric_line(run.metrics, "speed/turns_per_s", "turns a second")
    shares = [
        metric_line(run.metrics, "gpu/matrix_share", "matrix units"),
        metric_line(run.metrics, "gpu/memory_share", "memory"),
    ]
    return [
        Panel("Speed, turns a second", [line], from_zero=True),
        *_time_split(run, keys),
        Panel("Share of what the card was measured to do", shares, share=True, from_zero=True),
    ]


def _loss(run: Run, key: str) -> Panel:
    title = _LOSSES.get(key, _words(key.removeprefix("loss/")))
    line = metric_line(run.metrics, key, title)
    return Panel(title, [line], "small", share=key == "loss/clip_share", group="loss")


def _loss_order(key: str) -> int:
    return list(_LOSSES).index(key) if key in _LOSSES else len(_LOSSES)


def _single(run: Run, key: str) -> Panel:
    goal = bool(_GOAL.fullmatch(key))
    title = _words(key.removeprefix("eval/"))
    line = metric_line(run.metrics, key, title)
    return Panel(
        title, [line], "half" if goal else "small", from_zero=goal, group="learning" if goal else "other"
    )


def _time_split(run: Run, keys: Sequence[str]) -> list[Panel]:
    found = [key.split("/", 1)[1] for key in keys if key.startswith("time/")]
    if not found:
        return []
    names = [name for name in PHASES if name in found] + [name for name in found if name not in PHASES]
    names = [name for name in names if name != "other"] + ["other"]
    rows = [row for row in run.metrics if any(_finite(row.get(f"time/{name}")) for name in names)]
    x = [_turns(row) for row in rows]
    shares = [_shares(row, names) for row in rows]
    lines = [Line(name, x, [share[name] for share in shares]) for name in names]
    return [Panel("Where the time goes", lines, share=True, stacked=True, from_zero=True)]


def _shares(row: Row, names: Sequence[str]) -> dict[str, float]:
    """Shares that add up to 1: what nobody measured is other, seconds are turned into shares."""
    values = {name: float(row[f"time/{name}"]) if _finite(row.get(f"time/{name}")) else 0.0 for name in names}
    total = sum(values.values())
    if total < 1.0:
        values["other"] += 1.0 - total
        total = 1.0
    return {name: value / total for name, value in values.items()}


def metric_line(metrics: Sequence[Row], key: str, name: str, low: str = "", high: str = "") -> Line:
    """A metric over turns, with a band from the metrics `low` to `high` where they are."""
    # Of two values at one place, as when the last evaluation is done again with more deals, the later counts.
    rows = list({_turns(row): row for row in metrics if _finite(row.get(key))}.values())
    banded = [row for row in rows if _finite(row.get(low)) and _finite(row.get(high))]
    # Half a band would be drawn askew: it is all rows or none.
    band = bool(rows) and len(banded) == len(rows)
    return Line(
        name,
        [_turns(row) for row in rows],
        [float(row[key]) for row in rows],
        [float(row[low]) for row in rows] if band else [],
        [float(row[high]) for row in rows] if band else [],
    )


def _checkpoints(root: Path) -> list[Saved]:
    store = Store(root, keep=1)
    best, pins = store.best_step(), store.pins()
    saved = []
    for step in reversed(store.steps()):
        folder = store.path(step)
        try:
            size = sum(file.stat().st_size for file in folder.iterdir())
            saved.append(Saved(step, size, folder.stat().st_mtime, step == best, step in pins))
        except OSError:
            # Pruned between the listing and the look: the run goes on while its report is written.
            continue
    return saved


def _keys(metrics: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(key for row in metrics for key in row))


def _turns(row: Row) -> float:
    return float(row["turns"] if _finite(row.get("turns")) else row["step"])


def _finite(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _words(key: str) -> str:
    text = key.replace("/", ", ").replace("_", " ")
    return text[:1].upper() + text[1:]


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None
