"""The page of a run: one file, no script, nothing loaded from elsewhere. All text is escaped."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any

from playmill.training.report_data import Panel, Row, Run, Saved, panels
from playmill.training.report_style import STYLE
from playmill.training.report_svg import SERIES, svg
from playmill.training.units import clock, percent, short

Commands = Sequence[tuple[str, str]]


def page(run: Run, commands: Commands | None = None) -> str:
    """The whole report. `commands` are (what it does, command line)."""
    drawn = panels(run)
    body = [
        _header(run),
        _results(run),
        _section("Learning", "".join(_figure(panel) for panel in drawn if panel.size == "main")),
        _grid("two", [panel for panel in drawn if panel.size == "half"]),
        _section("Latest evaluation", _evaluation(run)),
        _section("Ratings", _ratings(run.ratings)),
        _section("Optimisation", _grid("three", [panel for panel in drawn if panel.group == "loss"])),
        _section("Go on from here", _commands(run, commands)),
        _section("Checkpoints", _checkpoints(run.checkpoints)),
        _section("Other metrics", _grid("three", [panel for panel in drawn if panel.group == "other"])),
        _section("Configuration", _settings(run.config)),
    ]
    title = escape(f"{_name(run)} - Playmill run")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>'
        f"<body><main>{''.join(body)}<footer>Written by Playmill, {_date(datetime.now().timestamp())}."
        " Point at a curve to read its values.</footer></main></body></html>\n"
    )


def default_commands(run: Run) -> Commands:
    folder = shlex.quote(str(run.folder))
    return [
        ("Continue the training", f"playmill train --resume {folder}"),
        ("Play against the agent", f"playmill play {folder}"),
        ("Measure it again", f"playmill evaluate {folder}"),
    ]


def _header(run: Run) -> str:
    rows = run.metrics
    game = run.config.get("game")
    game = game.get("name") if isinstance(game, dict) else game
    turns = run.latest("turns") or (rows[-1]["step"] if rows else 0)
    seconds = run.latest("seconds") or (rows[-1]["time"] - rows[0]["time"] if rows else 0.0)
    speed = run.latest("speed/turns_per_s")
    facts = [("trained for", f"{short(turns)} turns"), ("in", clock(seconds))]
    if speed is not None:
        facts.append(("at", f"{short(speed)} turns a second"))
    if rows:
        facts.append(("last line", _date(rows[-1]["time"])))
    items = "".join(f"<li>{escape(name)} <b>{escape(value)}</b></li>" for name, value in facts)
    kicker = f"Playmill run of {game}" if game else "Playmill run"
    return (
        f'<header><p class="kicker">{escape(kicker)}</p><h1>{escape(_name(run))}</h1>'
        f'<ul class="facts">{items}</ul></header>'
    )


def _results(run: Run) -> str:
    cards = []
    for bot in run.bots():
        share, low, high, fair = _result(run, bot)
        if share is None:
            continue
        tone = ""
        if low is not None and high is not None and fair is not None:
            tone = "good" if low > fair else "bad" if high < fair else ""
        more = "" if low is None or high is None else f"95 % interval {low * 100:.1f} to {high * 100:.1f}"
        more += "" if fair is None else f"{', ' if more else ''}fair {fair * 100:.4g}"
        cards.append(
            f'<div class="card"><div class="name">wins against {escape(bot)}</div>'
            f'<div class="value {tone}">{percent(share)}</div>'
            f'{_interval(low, high, share, fair)}<div class="more">{more}</div></div>'
        )
    exploitability = run.latest("eval/exploitability")
    if exploitability is not None:
        cards.append(
            '<div class="card"><div class="name">exploitability</div>'
            f'<div class="value">{exploitability:.4g}</div><div class="more">0 is unbeatable</div></div>'
        )
    if not cards:
        return '<p class="empty">No evaluation yet: the first one will appear here.</p>'
    return f'<div class="grid results">{"".join(cards)}</div>'


def _result(run: Run, bot: str) -> tuple[float | None, float | None, float | None, float | None]:
    share, low, high, fair = (run.latest(f"eval/{bot}/{key}") for key in ("win_share", "low", "high", "fair"))
    return share, low, high, fair


def _interval(
    low: float | None,
    high: float | None,
    point: float,
    mark: float | None,
    ends: tuple[float, float] = (0.0, 1.0),
) -> str:
    """A thin track with an interval, its centre, and a tick at the fair level."""

    def x(value: float) -> float:
        return min(1.0, max(0.0, (value - ends[0]) / ((ends[1] - ends[0]) or 1.0))) * 196 + 2

    parts = ['<rect class="track" x="0" y="6" width="200" height="4" rx="2"/>']
    if low is not None and high is not None:
        wide = max(x(high) - x(low), 2)
        parts.append(f'<rect class="range" x="{x(low):.1f}" y="4" width="{wide:.1f}" height="8" rx="2"/>')
    if mark is not None:
        parts.append(f'<rect class="mark" x="{x(mark) - 0.75:.1f}" y="1" width="1.5" height="14"/>')
    parts.append(f'<circle class="point" cx="{x(point):.1f}" cy="8" r="3.5"/>')
    return f'<svg viewBox="0 0 200 16" aria-hidden="true">{"".join(parts)}</svg>'


def _figure(panel: Panel) -> str:
    items = []
    for index, line in enumerate(panel.lines):
        if line.y:
            name = (
                f'<i class="f{index % SERIES}"></i>{escape(line.name)}' if len(panel.lines) > 1 else "lately"
            )
            last = percent(line.y[-1]) if panel.share else short(line.y[-1])
            items.append(f"<span>{name} <b>{last}</b></span>")
    caption = f"<h3>{escape(panel.title)}</h3>{''.join(items)}"
    return (
        f'<figure class="card {panel.size}"><figcaption>{caption}</figcaption>'
        f'<div class="scroll">{svg(panel)}</div></figure>'
    )


def _grid(kind: str, some: Sequence[Panel]) -> str:
    return f'<div class="grid {kind}">{"".join(_figure(panel) for panel in some)}</div>' if some else ""


def _evaluation(run: Run) -> str:
    rows = []
    for bot in run.bots():
        share, low, high, fair = _result(run, bot)
        if share is None:
            continue
        score, bids = run.latest(f"eval/{bot}/score"), run.latest(f"eval/{bot}/bid_made")
        rows.append(
            [
                escape(bot),
                percent(share),
                "" if low is None or high is None else f"{low * 100:.1f} to {high * 100:.1f}",
                "" if fair is None else percent(fair),
                "" if score is None else f"{score:.1f}",
                "" if bids is None else percent(bids),
            ]
        )
    return _table(["against", "wins", "95 % interval", "fair", "score a game", "bids made"], rows)


def _ratings(ratings: Sequence[Row]) -> str:
    known = [row for row in ratings if all(_is_number(row.get(key)) for key in ("rating", "low", "high"))]
    if not known:
        return ""
    ends = (min(row["low"] for row in known), max(row["high"] for row in known))
    rows = [
        [
            escape(str(row.get("name", "?"))),
            f"{row['rating']:.0f}",
            f"{row['low']:.0f} to {row['high']:.0f}",
            _interval(row["low"], row["high"], row["rating"], None, ends),
            f"{row['games']:,}" if _is_number(row.get("games")) else "",
        ]
        for row in known
    ]
    return _table(["player", "rating", "95 % interval", "", "games"], rows)


def _checkpoints(saved: Sequence[Saved]) -> str:
    rows = [
        [
            f"<code>step-{one.step:012d}</code>",
            _date(one.time),
            f"{short(one.size)}B",
            ('<span class="tag star">best</span> ' if one.best else "")
            + ('<span class="tag">pinned</span>' if one.pinned else ""),
        ]
        for one in saved
    ]
    return _table(["folder", "saved", "size", ""], rows)


def _commands(run: Run, commands: Commands | None) -> str:
    items = (
        f"<dt>{escape(what)}</dt><dd><code>{escape(line)}</code></dd>"
        for what, line in (default_commands(run) if commands is None else commands)
    )
    return f'<div class="card"><dl class="commands">{"".join(items)}</dl></div>'


def _settings(config: Mapping[str, Any]) -> str:
    plain = {key: value for key, value in config.items() if not isinstance(value, dict)}
    groups = {"general": plain, **{key: value for key, value in config.items() if isinstance(value, dict)}}
    cards = []
    for name, values in groups.items():
        rows = "".join(
            f"<tr><td>{escape(key)}</td><td><code>{escape(_setting(value))}</code></td></tr>"
            for key, value in _flat(values)
        )
        if rows:
            cards.append(f'<div class="card"><h3>{escape(name)}</h3><table>{rows}</table></div>')
    return f'<div class="settings">{"".join(cards)}</div>' if cards else ""


def _flat(values: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in values.items():
        nested = isinstance(value, dict) and value
        found += _flat(value, f"{before}{key}.") if nested else [(f"{before}{key}", value)]
    return found


def _setting(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(_setting(item) for item in value)
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else str(value)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells are HTML already. Columns that are empty in every row are left out."""
    kept = [index for index in range(len(heads)) if any(row[index] for row in rows)]
    if not rows:
        return ""

    def kind(index: int) -> str:
        plot = any(row[index].startswith("<svg") for row in rows)
        return ' class="plot"' if plot else ' class="number"' if index and heads[index] else ""

    head = "".join(f"<th{kind(index)}>{escape(heads[index])}</th>" for index in kept)
    body = "".join(
        "<tr>" + "".join(f"<td{kind(index)}>{row[index]}</td>" for index in kept) + "</tr>" for row in rows
    )
    return (
        f'<div class="card scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{content}</section>" if content else ""


def _name(run: Run) -> str:
    name = run.config.get("name")
    return name if isinstance(name, str) and name else run.folder.resolve().name


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)
