"""Pieces that the pages of runs and fleets are made of. All text is escaped here or marked as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from html import escape

from playmill.training.report_data import Panel
from playmill.training.report_style import STYLE
from playmill.training.report_svg import SERIES, svg
from playmill.training.units import percent, short

Commands = Sequence[tuple[str, str]]
"""Pairs (what it does, command line)."""


def document(title: str, body: Sequence[str]) -> str:
    """One file that opens anywhere: no script, nothing loaded from elsewhere. `body` is HTML."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>'
        f"<body><main>{''.join(body)}<footer>Written by Playmill, {date(datetime.now().timestamp())}."
        " Point at a curve to read its values.</footer></main></body></html>\n"
    )


def header(kicker: str, name: str, facts: Sequence[tuple[str, str]]) -> str:
    items = "".join(f"<li>{escape(what)} <b>{escape(value)}</b></li>" for what, value in facts)
    return (
        f'<header><p class="kicker">{escape(kicker)}</p><h1>{escape(name)}</h1>'
        f'<ul class="facts">{items}</ul></header>'
    )


def command_card(commands: Commands) -> str:
    items = (f"<dt>{escape(what)}</dt><dd><code>{escape(line)}</code></dd>" for what, line in commands)
    return f'<div class="card"><dl class="commands">{"".join(items)}</dl></div>'


def section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{content}</section>" if content else ""


def figure(panel: Panel) -> str:
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


def grid(kind: str, some: Sequence[Panel]) -> str:
    return f'<div class="grid {kind}">{"".join(figure(panel) for panel in some)}</div>' if some else ""


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
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


def interval(
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


def date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")
