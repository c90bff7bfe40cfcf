"""The pieces of the live screen, each fitted to the room the terminal gives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from playmill.cli.chart import COLOURS, bar, finite, fit, learning_curve
from playmill.training.status import EvaluationLike, Status
from playmill.training.units import clock, short

_PHASES = {
    "engine": "cyan",
    "expansion": "blue",
    "network": "magenta",
    "returns": "yellow",
    "update": "green",
    "other": "grey37",
}
_SPARE = ("bright_cyan", "bright_blue", "bright_magenta", "bright_yellow", "bright_green")
_WIDE = 110


def picture(title: str, status: Status, done: float | None, width: int, height: int) -> RenderableType:
    """The whole screen. What does not fit in `height` is left out, the least needed first."""
    inside = width - 4
    # A short terminal keeps the opponents and the curve; losses and the split of time go first.
    airy, short_of_room = height >= 32, height < 20
    blocks = [[_progress(status, done, inside), _speed(status, inside)]]
    if status.shares and not short_of_room:
        blocks.append(_time_split(status.shares, inside))
    if (status.losses or status.extras) and not short_of_room:
        figures = _figures({**status.extras, **status.losses}, inside)
        blocks.append(figures if airy else figures[:1])
    body: list[RenderableType] = []
    for block in blocks:
        body += [*block, Text()] if airy else block
    body += _lower(status, inside, height - 3 - len(body))
    heading = Text(title, "bold cyan", no_wrap=True, overflow="ellipsis")
    heading.truncate(max(8, width - 8), overflow="ellipsis")
    return Panel(
        Group(*body), title=heading, title_align="left", box=box.ROUNDED, border_style="grey42", width=width
    )


def _progress(status: Status, done: float | None, width: int) -> Text:
    left = f"{clock(status.eta_s)} left" if status.eta_s is not None else ""
    if done is None:
        return fit(
            Text.assemble((f"{short(status.turns)} turns", "bold"), f"  in {clock(status.seconds)}"), width
        )
    label = f" {done * 100:5.1f} %"
    tail = f"  {left}" if left else ""
    room = max(4, width - len(label) - len(tail))
    return fit(Text.assemble(bar(done, room), (label, "bold"), (tail, "cyan")), width)


def _speed(status: Status, width: int) -> Text:
    parts = [
        (f"{short(status.turns_per_s)} turns/s", "bold cyan"),
        (f"{short(status.turns)} turns", ""),
        (clock(status.seconds), ""),
        (f"saved {status.checkpoint}" if status.checkpoint else "not saved yet", "dim"),
        (f"{short(status.games_per_s)} games/s", "dim"),
        (f"{status.updates:,} updates", "dim"),
    ]
    text = Text()
    for words, style in parts:
        if text.cell_len + len(words) + 3 > width and text.cell_len:
            break
        text.append("   " if text.cell_len else "")
        text.append(words, style)
    return fit(text, width)


def _time_split(shares: Mapping[str, float], width: int) -> list[Text]:
    """A bar of the phases and a line that names them."""
    clean = {name: share for name, share in shares.items() if math.isfinite(share) and share > 0}
    rest = 1.0 - sum(clean.values())
    if rest > 0.005:
        clean["other"] = clean.get("other", 0.0) + rest
    total = sum(clean.values()) or 1.0
    split = Text()
    labels: list[tuple[float, str, str]] = []
    spent = 0.0
    for index, (name, share) in enumerate(clean.items()):
        colour = _PHASES.get(name, _SPARE[index % len(_SPARE)])
        before = round(spent / total * width)
        spent += share
        split.append("━" * (round(spent / total * width) - before), colour)
        labels.append((share, f"{name} {share / total * 100:.0f} %", colour))
    if sum(len(words) + 4 for _, words, _ in labels) > width + 2:
        # Not all names fit: those that take most of the time come first.
        labels.sort(reverse=True)
    names = Text()
    for _, words, colour in labels:
        if names.cell_len + len(words) + 4 <= width + 2:
            names.append("  " if names.cell_len else "")
            names.append("■ ", colour)
            names.append(words)
    return [fit(split, width), fit(names, width)]


def _figures(values: Mapping[str, float], width: int) -> list[Text]:
    """Names and numbers in as many columns as fit."""
    cells = [(name.split("/")[-1], f"{value:.4g}") for name, value in values.items()]
    size = max(len(name) + len(number) for name, number in cells) + 4
    columns = max(1, min(len(cells), (width + 3) // size))
    rows = []
    for start in range(0, len(cells), columns):
        row = Text()
        for name, number in cells[start : start + columns]:
            row.append(f"{name} ", "dim")
            row.append(number.ljust(size - len(name) - 1), "bold")
        row.rstrip()
        rows.append(fit(row, width))
    return rows


def _lower(status: Status, width: int, height: int) -> list[RenderableType]:
    """The table of opponents and the learning curve: side by side where there is room."""
    names = list(dict.fromkeys([*status.evaluation, *status.history]))
    table_rows = len(status.evaluation) + 2
    if not names or height < 4:
        return []
    wide = width >= _WIDE
    table = _table(status.evaluation, names, wide or width >= 70) if status.evaluation else None
    chart_width = width - 62 if wide and table else width
    chart_height = min(13, height - 2 if wide else height - table_rows - 3)
    lines = {name: finite(status.history.get(name, ())) for name in names}
    fair = sorted({result.fair for result in status.evaluation.values() if math.isfinite(result.fair)})
    # An odd number of rows has a true middle for the middle label.
    chart_height -= chart_height % 2 == 0
    chart: list[RenderableType] = list(learning_curve(lines, fair, chart_width, chart_height))
    if chart:
        chart.insert(0, _legend(names, bool(fair), chart_width))
    if table is None or table_rows > height:
        return chart
    if not chart:
        return [table]
    if not wide:
        return [table, Text(), *chart]
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=58)
    grid.add_column()
    grid.add_row(table, Group(*chart))
    return [grid]


def _table(results: Mapping[str, EvaluationLike], names: Sequence[str], roomy: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), header_style="dim", show_edge=False)
    table.add_column("against", no_wrap=True, overflow="ellipsis", max_width=16)
    table.add_column("wins", justify="right", no_wrap=True)
    if roomy:
        table.add_column("95 %", justify="right", no_wrap=True)
        table.add_column("fair", justify="right", no_wrap=True)
    scored = any(result.score is not None for result in results.values())
    bids = any(result.bid_made is not None for result in results.values())
    if scored:
        table.add_column("score", justify="right", no_wrap=True)
    if bids:
        table.add_column("bids", justify="right", no_wrap=True)
    for name, result in results.items():
        # Green and red only where the interval excludes luck.
        tone = "bold green" if result.low > result.fair else "red" if result.high < result.fair else "bold"
        row = [Text(name, COLOURS[names.index(name) % len(COLOURS)]), Text(_percent(result.win_share), tone)]
        if roomy:
            row.append(Text(f"{result.low * 100:.1f}-{result.high * 100:.1f}", "dim"))
            row.append(Text(_percent(result.fair), "dim"))
        if scored:
            row.append(Text("" if result.score is None else f"{result.score:.1f}"))
        if bids:
            row.append(Text("" if result.bid_made is None else _percent(result.bid_made)))
        table.add_row(*row)
    return table


def _legend(names: Sequence[str], fair: bool, width: int) -> Text:
    text = Text("win share", "bold")
    for index, name in enumerate(names):
        text.append("  ━ ", COLOURS[index % len(COLOURS)])
        text.append(name)
    if fair:
        text.append("  ┄ fair", "grey50")
    return fit(text, width)


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"
