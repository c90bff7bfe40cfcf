"""The pieces of a fleet's screen, each fitted to the room the terminal gives."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from playmill.cli.chart import COLOURS, bar, finite, fit, learning_curve
from playmill.training.status import EvaluationLike, Status
from playmill.training.units import clock, percent, short

_TONES = {
    "waiting": "dim",
    "training": "cyan",
    "done": "green",
    "plateau": "green",
    "stopped": "yellow",
    "failed": "bold red",
}
_ALWAYS, _BARS = 30, 15
"""Columns of the terminal that turns, speed and state take, and the bars."""
_CHART = (5, 17)
"""Least and most rows of the chart."""


@dataclass(frozen=True)
class Row:
    """A run at one moment."""

    state: str
    done: float | None
    speed: float
    """Turns a second by the clock on the wall, the others' turns included."""
    status: Status | None


@dataclass(frozen=True)
class Moment:
    """A fleet at one moment."""

    rows: Mapping[str, Row]
    bots: Sequence[str]
    """Evaluated against, the hardest last."""
    seconds: float
    eta_s: float | None
    throughput: str | None
    """What K together gain, in words, once it is measured."""

    @property
    def turns(self) -> int:
        return sum(row.status.turns for row in self.rows.values() if row.status)

    @property
    def speed(self) -> float:
        return sum(row.speed for row in self.rows.values())

    @property
    def done(self) -> float | None:
        shares = [row.done for row in self.rows.values()]
        known = [share for share in shares if share is not None]
        return sum(known) / len(known) if known and len(known) == len(shares) else None

    @property
    def states(self) -> Counter[str]:
        return Counter(row.state for row in self.rows.values())


def fleet_picture(title: str, moment: Moment, width: int, height: int) -> RenderableType:
    """The whole screen. Where it is short the chart shrinks first, then rows are left out."""
    inside, room = width - 4, height - 3
    body: list[RenderableType] = [_progress(moment, inside), _speed(moment, inside)]
    if room >= 8:
        words = moment.throughput or "together against one at a time: not measured yet"
        body.append(fit(Text(words, "dim" if moment.throughput is None else "bold"), inside))
    if room >= 28:
        body.append(Text())
    room -= len(body)
    if room >= 4:
        hardest = moment.bots[-1] if moment.bots else None
        rows = min(len(moment.rows), room - 2)
        chart_rows = min(_CHART[1], room - 2 - rows - 3)
        if chart_rows < _CHART[0] and room >= 16:
            chart_rows = _CHART[0]
            rows = min(len(moment.rows), room - 2 - chart_rows - 3)
        body.append(_table(moment, rows, inside))
        if hardest is not None and chart_rows >= _CHART[0]:
            body += _chart(moment, hardest, inside, chart_rows)
    heading = Text(title, "bold cyan", no_wrap=True, overflow="ellipsis")
    heading.truncate(max(8, width - 8), overflow="ellipsis")
    return Panel(
        Group(*body), title=heading, title_align="left", box=box.ROUNDED, border_style="grey42", width=width
    )


def _progress(moment: Moment, width: int) -> Text:
    if moment.done is None:
        return fit(Text(f"{short(moment.turns)} turns in {clock(moment.seconds)}", "bold"), width)
    label = f" {moment.done * 100:5.1f} %"
    tail = f"  {clock(moment.eta_s)} left" if moment.eta_s is not None else ""
    room = max(4, width - len(label) - len(tail))
    return fit(Text.assemble(bar(moment.done, room), (label, "bold"), (tail, "cyan")), width)


def _speed(moment: Moment, width: int) -> Text:
    text = Text.assemble(
        (f"{short(moment.speed)} turns/s", "bold cyan"),
        f"   {short(moment.turns)} turns   {clock(moment.seconds)}",
    )
    for state, count in moment.states.items():
        text.append("   ")
        text.append(f"{count} {state}", _TONES.get(state, ""))
    return fit(text, width)


def _table(moment: Moment, rows: int, width: int) -> Table:
    """As many rows and columns as fit; the last row counts the runs that are left out."""
    names = min(max(len(name) for name in moment.rows), max(8, width - 40))
    shown, bars = _columns(moment, width - names - _ALWAYS)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), header_style="dim", show_edge=False)
    table.add_column("run", no_wrap=True, overflow="ellipsis", max_width=names)
    if bars:
        table.add_column("progress", no_wrap=True)
    for head in ("turns", "turns/s", *shown):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    cut = len(moment.rows) > rows
    kept = max(rows - 1, 0) if cut else len(moment.rows)
    for index, (name, row) in enumerate(itertools.islice(moment.rows.items(), kept)):
        table.add_row(*_cells(name, index, row, shown, bars))
    if cut:
        table.add_row(Text(f"{len(moment.rows) - kept} more", "dim"))
    return table


def _columns(moment: Moment, left: int) -> tuple[list[str], bool]:
    """Bots and figures that there is room for, the hardest bot before the others; whether bars are too."""
    extras = dict.fromkeys(key for row in moment.rows.values() if row.status for key in row.status.extras)
    shown: list[str] = []
    for head in [*reversed(moment.bots), *extras]:
        left -= max(len(head), 7) + 2
        if left < 0:
            break
        shown.append(head)
    return shown, left >= _BARS


def _cells(name: str, index: int, row: Row, shown: Sequence[str], bars: bool) -> list[Text]:
    status = row.status or Status()
    cells = [Text(name, COLOURS[index % len(COLOURS)])]
    if bars:
        share = Text("") if row.done is None else Text.assemble(bar(row.done, 6), f" {row.done * 100:3.0f} %")
        cells.append(share)
    cells += [Text(short(status.turns)), Text(short(row.speed) if row.speed else "", "dim")]
    for head in shown:
        result = status.evaluation.get(head)
        if result is not None:
            cells.append(Text(percent(result.win_share), _tone(result)))
        else:
            cells.append(Text(f"{status.extras[head]:.4f}" if head in status.extras else ""))
    return [*cells, Text(row.state, _TONES.get(row.state, ""))]


def _tone(result: EvaluationLike) -> str:
    """Green and red only where the interval excludes luck."""
    return "bold green" if result.low > result.fair else "red" if result.high < result.fair else "bold"


def _chart(moment: Moment, bot: str, width: int, rows: int) -> list[RenderableType]:
    """All runs against one bot; their colours are those of their names in the table."""
    lines = {
        name: finite(row.status.history.get(bot, ())) if row.status else []
        for name, row in moment.rows.items()
    }
    known = [row.status.evaluation for row in moment.rows.values() if row.status]
    fair = sorted({found[bot].fair for found in known if bot in found and math.isfinite(found[bot].fair)})
    # An odd number of rows has a true middle for the middle label.
    drawn = learning_curve(lines, fair, width, rows - (rows % 2 == 0))
    if not drawn:
        return []
    legend = Text.assemble((f"win share against {bot}", "bold"), ("  ┄ fair" if fair else "", "grey50"))
    return [Text(), fit(legend, width), *drawn]
