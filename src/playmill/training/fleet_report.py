"""The page of a fleet: what differs between its runs, and what came of it."""

from __future__ import annotations

import json
import math
import shlex
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from urllib.parse import quote

from playmill.training.fleet_folder import Record, read_fleet
from playmill.training.fleet_plan import short_names, text_of
from playmill.training.report_data import Line, Panel, Run, Size, load_run, metric_line, thin
from playmill.training.report_parts import (
    command_card,
    document,
    figure,
    grid,
    header,
    interval,
    section,
    table,
)
from playmill.training.throughput import Throughput
from playmill.training.units import clock, percent, short

_MOST_POINTS = 240


@dataclass(frozen=True)
class Comparison:
    """All a fleet's report knows."""

    folder: Path
    record: Record
    runs: Mapping[str, Run]
    """Member to what its folder holds."""

    @property
    def bots(self) -> list[str]:
        """Those met, the hardest first: a recipe names them from the easiest on."""
        met = {bot for run in self.runs.values() for bot in run.bots()}
        known = [bot for bot in reversed(self.record.config.bots) if bot in met]
        return known + sorted(met - set(known))

    @property
    def settings(self) -> list[str]:
        """What is varied, seeds aside."""
        return [name for name in next(iter(self.record.members.values()), {}) if name != "seed"]

    @property
    def groups(self) -> dict[str, list[str]]:
        """Members that differ by nothing but the seed, under what they have in common."""
        leaves = short_names(self.settings)
        found: dict[str, list[str]] = {}
        for name, changes in self.record.members.items():
            common = ", ".join(f"{leaves[key]} {text_of(changes[key])}" for key in self.settings)
            found.setdefault(common or "all seeds", []).append(name)
        return found

    @property
    def figures(self) -> list[str]:
        """Figures of the agents themselves, such as exploitability."""
        keys = dict.fromkeys(key for run in self.runs.values() for row in run.metrics for key in row)
        parts = (key.split("/") for key in keys)
        return [part[1] for part in parts if len(part) == 2 and part[0] == "eval"]

    @property
    def best(self) -> str:
        """The member to play against, by what a run calls its best checkpoint by."""

        def score(name: str) -> float:
            latest = self.runs[name].latest
            if "exploitability" in self.figures:
                found = latest("eval/exploitability")
                return -math.inf if found is None else -found
            found = latest(f"eval/{self.bots[0]}/low") if self.bots else None
            return -math.inf if found is None else found

        return max(self.runs, key=score)

    def turns(self, name: str) -> int:
        rows = self.runs[name].metrics
        return int(rows[-1]["step"]) if rows else 0

    def state(self, name: str) -> str:
        ended = self.record.ended.get(name)
        if ended is not None:
            return {"budget": "done", "plateau": "plateau"}.get(ended.reason, "stopped")
        return "failed" if (self.folder / name / "failure.txt").exists() else "not ended"


def load_fleet(folder: Path) -> Comparison:
    """Reads a fleet and all its members."""
    record = read_fleet(folder)
    return Comparison(folder, record, {name: load_run(folder / name) for name in record.members})


def write_fleet_report(folder: Path) -> Path:
    """Writes report.html into the fleet's folder, with links to the reports of its members."""
    path = folder / "report.html"
    beside = path.with_name(".report.html.tmp")
    beside.write_text(fleet_page(load_fleet(folder)), encoding="utf-8")
    beside.replace(path)
    return path


def fleet_page(fleet: Comparison) -> str:
    """The whole report."""
    body = [
        _header(fleet),
        section("Runs", _members(fleet)),
        section("Over the seeds", _spread_table(fleet)),
        section("Together and one at a time", _throughput(fleet.record.throughput)),
        section("Learning", _learning(fleet)),
        section("Go on from here", _commands(fleet)),
        section("What all runs share", _shared(fleet)),
    ]
    return document(f"{fleet.folder.resolve().name} - Playmill fleet", body)


# Its parts


def _header(fleet: Comparison) -> str:
    turns = sum(fleet.turns(name) for name in fleet.runs)
    times = [row["time"] for run in fleet.runs.values() for row in run.metrics]
    states = [fleet.state(name) for name in fleet.runs]
    facts = [("runs", str(len(states))), ("trained for", f"{short(turns)} turns")]
    if times:
        facts.append(("over", clock(max(times) - min(times))))
    facts += [(state, str(states.count(state))) for state in dict.fromkeys(states)]
    kicker = f"Playmill fleet of {fleet.record.config.game}"
    return header(kicker, fleet.folder.resolve().name, facts)


def _members(fleet: Comparison) -> str:
    leaves = short_names(fleet.settings)
    differs = [*fleet.settings, *(["seed"] if _seeded(fleet) else [])]
    heads = ["run", *(leaves.get(key, key) for key in differs)]
    heads += ["", *(f"wins against {bot}" for bot in fleet.bots)]
    heads += [*fleet.figures, "turns", "time", "state"]
    rows = []
    for name, run in fleet.runs.items():
        link = f'<a href="{escape(quote(name), quote=True)}/report.html">{escape(name)}</a>'
        row = [link, *(escape(text_of(fleet.record.members[name][key])) for key in differs)]
        row += [_track(run, fleet.bots[0]) if fleet.bots else "", *(_wins(run, bot) for bot in fleet.bots)]
        row += [
            "" if (found := run.latest(f"eval/{key}")) is None else f"{found:.4g}" for key in fleet.figures
        ]
        seconds = run.latest("run/seconds")
        row += [short(fleet.turns(name)), "" if seconds is None else clock(seconds)]
        rows.append([*row, fleet.state(name)])
    return table(heads, rows)


def _wins(run: Run, bot: str) -> str:
    share, low, high = (run.latest(f"eval/{bot}/{key}") for key in ("win_share", "low", "high"))
    if share is None:
        return ""
    more = "" if low is None or high is None else f"{low * 100:.1f} to {high * 100:.1f}"
    return f'{percent(share)} <span class="more">{more}</span>'


def _track(run: Run, bot: str) -> str:
    """The share against a bot and its interval as a picture."""
    share, low, high, fair = (run.latest(f"eval/{bot}/{key}") for key in ("win_share", "low", "high", "fair"))
    return "" if share is None else interval(low, high, share, fair)


def _spread_table(fleet: Comparison) -> str:
    """Mean and spread of what differs by the seed alone."""
    rows = []
    for key, label in _judged(fleet):
        for common, names in fleet.groups.items():
            values = [value for name in names if (value := fleet.runs[name].latest(key)) is not None]
            if len(values) < 2:
                continue
            written = percent if key.endswith("win_share") else (lambda value: f"{value:.4g}")
            spread = f"{written(min(values))} to {written(max(values))}"
            mean, deviation = statistics.fmean(values), statistics.stdev(values)
            rows.append(
                [escape(label), escape(common), str(len(values)), written(mean), written(deviation), spread]
            )
    return table(["what", "runs", "seeds", "mean", "standard deviation", "least to most"], rows)


def _learning(fleet: Comparison) -> str:
    """Curves of what matters most over the whole width, of the rest side by side."""
    large: list[Panel] = []
    small: list[Panel] = []
    for index, (key, label) in enumerate(_judged(fleet)):
        first = index == 0 or key.count("/") == 1
        (large if first else small).extend(_curves(fleet, key, label, "main" if first else "half"))
    return f'<div class="grid">{"".join(figure(panel) for panel in large)}</div>{grid("two", small)}'


def _curves(fleet: Comparison, key: str, label: str, size: Size) -> list[Panel]:
    """A figure over turns: the runs, and their means where several differ by the seed alone."""
    share, title = key.endswith("win_share"), label[:1].upper() + label[1:]
    lines = [metric_line(run.metrics, key, name) for name, run in fleet.runs.items()]
    fair = {run.latest(key.replace("win_share", "fair")) for run in fleet.runs.values()} if share else set()
    levels = [("fair", level) for level in sorted(level for level in fair if level is not None)]
    drawn = {title: lines}
    if any(len(names) > 1 for names in fleet.groups.values()):
        means = [_mean_line(common, lines, names) for common, names in fleet.groups.items()]
        drawn[f"{title}: mean over the seeds, and least to most"] = means
    return [
        Panel(name, [thin(line, _MOST_POINTS) for line in some], size, share, levels=levels, from_zero=True)
        for name, some in drawn.items()
        if any(line.x for line in some)
    ]


def _mean_line(common: str, lines: Sequence[Line], names: Sequence[str]) -> Line:
    """Where all of them were judged: their mean, and a band from the least to the most."""
    points = [dict(zip(line.x, line.y, strict=True)) for line in lines if line.name in names and line.x]
    shared = sorted(set.intersection(*(set(one) for one in points))) if points else []
    values = [[one[x] for one in points] for x in shared]
    return Line(
        common,
        shared,
        [statistics.fmean(some) for some in values],
        [min(some) for some in values],
        [max(some) for some in values],
    )


def _throughput(found: Throughput | None) -> str:
    if found is None:
        words = "Not measured: that takes two runs or more, and a budget of some dozen updates."
        return f'<p class="empty">{words}</p>'
    cards = [
        (
            f"{found.runs} runs together",
            f"{short(found.together)} turns/s",
            "all taking turns in one process",
        ),
        ("one run at a time", f"{short(found.alone)} turns/s", "each by itself, the same updates' worth"),
        ("gain", f"{found.gain:.2f}x", "together over one at a time"),
    ]
    inside = "".join(
        f'<div class="card"><div class="name">{escape(name)}</div><div class="value">{escape(value)}</div>'
        f'<div class="more">{escape(more)}</div></div>'
        for name, value, more in cards
    )
    words = (
        f"Timed on the runs' own first updates, {found.updates} of each in either part, after a warm-up and"
        " without evaluations."
    )
    return f'<div class="grid results">{inside}</div><p class="empty">{words}</p>'


def _commands(fleet: Comparison) -> str:
    folder, first = (shlex.quote(str(path)) for path in (fleet.folder, fleet.folder / fleet.best))
    return command_card(
        [
            ("Go on with all runs", f"playmill train --resume {folder}"),
            ("Play against the best", f"playmill play {first}"),
            ("Measure it again", f"playmill evaluate {first}"),
        ]
    )


def _shared(fleet: Comparison) -> str:
    """The members' settings, where all have the same."""
    configs = [_flat(run.config) for run in fleet.runs.values()]
    first, *others = configs or [{}]
    same = {key: value for key, value in first.items() if all(one.get(key) == value for one in others)}
    rows = [[escape(key), f"<code>{escape(value)}</code>"] for key, value in same.items()]
    return f"<details><summary>{len(rows)} settings</summary>{table(['setting', 'value'], rows)}</details>"


# Figures


def _judged(fleet: Comparison) -> list[tuple[str, str]]:
    """Metrics that runs are judged by, with words for them."""
    wins = [(f"eval/{bot}/win_share", f"wins against {bot}") for bot in fleet.bots]
    return [*wins, *((f"eval/{key}", key.replace("_", " ")) for key in fleet.figures)]


def _seeded(fleet: Comparison) -> bool:
    return all("seed" in changes for changes in fleet.record.members.values())


def _flat(values: Mapping[str, object], before: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{before}{key}.")
        else:
            found[before + key] = text_of(value) if isinstance(value, list) else json.dumps(value)
    return found
