"""What a run leaves for people: curves.png and report.html."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playmill.training.report_data import Panel, load_run, panels
from playmill.training.report_html import page
from playmill.training.report_parts import Commands
from playmill.training.units import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = ("#2f6fde", "#dd6a1f", "#11906a", "#b4458f", "#8d8410", "#8b8f9c", "#5a55b8", "#b3362b")
_INK, _SOFT, _GRID = "#1c1d21", "#62656f", "#e9e7e0"
# Columns of a six-column grid, and the height of a row in inches.
_SPANS = {"main": (6, 3.4), "half": (3, 2.7), "small": (2, 2.0)}
_STEPS = [1, 2, 2.5, 5, 10]
_LOG = logging.getLogger(__name__)


def write_report(run_folder: Path, commands: Commands | None = None) -> Path:
    """Writes report.html: one file that opens anywhere, without a network.

    `commands` are pairs (what it does, command line) for the part on how to go on.
    """
    path = Path(run_folder) / "report.html"
    beside = path.with_name(".report.html.tmp")
    beside.write_text(page(load_run(Path(run_folder)), commands), encoding="utf-8")
    beside.replace(path)
    return path


def draw_curves(run_folder: Path, on_note: Callable[[str], None] = _LOG.warning) -> Path | None:
    """Draws curves.png. None, with a note why, where matplotlib is missing or nothing is measured."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError:
        on_note("curves.png was not drawn: matplotlib is missing; `pip install matplotlib` brings it")
        return None
    drawn = [panel for panel in panels(load_run(Path(run_folder))) if panel.group != "other"]
    if not drawn:
        on_note("curves.png was not drawn: the run has no metrics yet")
        return None
    rows = _layout(drawn)
    heights = [_SPANS[row[0].size][1] for row in rows]
    # A figure of its own, not pyplot: no window, no global state, safe beside a training.
    figure = Figure(
        figsize=(12, sum(heights) + 0.3),
        layout=ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.12),
        facecolor="white",
    )
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(len(rows), 6, height_ratios=heights)
    for index, row in enumerate(rows):
        span = _SPANS[row[0].size][0]
        for place, panel in enumerate(row):
            _draw(figure.add_subplot(grid[index, place * span : (place + 1) * span]), panel)
    path = Path(run_folder) / "curves.png"
    beside = path.with_name(".curves.tmp.png")
    figure.savefig(beside, dpi=130)
    beside.replace(path)
    return path


def _layout(drawn: list[Panel]) -> list[list[Panel]]:
    """Rows of panels of one size."""
    rows: list[list[Panel]] = []
    for panel in drawn:
        room = 6 // _SPANS[panel.size][0]
        if rows and rows[-1][0].size == panel.size and len(rows[-1]) < room:
            rows[-1].append(panel)
        else:
            rows.append([panel])
    return rows


def _draw(axes: Axes, panel: Panel) -> None:
    if panel.stacked:
        values: Any = [line.y for line in panel.lines]
        names = [line.name for line in panel.lines]
        axes.stackplot(panel.lines[0].x, values, labels=names, colors=_COLOURS[: len(names)], alpha=0.85)
        axes.set_ylim(0, 1)
    else:
        for index, line in enumerate(panel.lines):
            colour = _COLOURS[index % len(_COLOURS)]
            if line.low:
                axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.16, linewidth=0)
            single = len(line.x) == 1
            axes.plot(
                line.x,
                line.y,
                color=colour,
                linewidth=1.7,
                label=line.name,
                marker="o" if single else "",
            )
        for name, level in panel.levels:
            axes.axhline(level, color=_SOFT, linewidth=1, linestyle=(0, (1, 3)), label=name)
        lowest = min(min(line.y) for line in panel.lines if line.y)
        if panel.from_zero and lowest >= 0:
            axes.set_ylim(bottom=0.0)
    _dress(axes, panel)


def _dress(axes: Axes, panel: Panel) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    # Many names need a line of their own between title and picture.
    many = len(panel.lines) > 4
    axes.set_title(panel.title, loc="left", fontsize=11, fontweight="bold", color=_INK, pad=20 if many else 8)
    axes.margins(x=0.01)
    axes.grid(axis="y", color=_GRID)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_GRID)
    axes.tick_params(colors=_SOFT, labelsize=9, length=0)
    axes.xaxis.set_major_locator(MaxNLocator(4 if panel.size == "small" else 7, steps=_STEPS))
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=_STEPS))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    unit = (lambda value, _: f"{value * 100:.4g} %") if panel.share else (lambda value, _: short(value))
    axes.yaxis.set_major_formatter(FuncFormatter(unit))
    if panel.size == "main":
        axes.set_xlabel("turns", fontsize=9, color=_SOFT)
    if len(panel.lines) > 1 or panel.levels:
        place: Any = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.2}
        spacing: Any = {"handlelength": 1.0, "columnspacing": 1.0, "handletextpad": 0.5}
        axes.legend(frameon=False, fontsize=8, labelcolor=_INK, ncols=8, **place, **spacing)
