"""A line chart in text: braille dots, two across and four down in every cell; and a bar."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rich.text import Text

from playmill.training.units import short

# Dot bits of a braille cell, by row and column.
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
COLOURS = ("bright_cyan", "bright_magenta", "bright_yellow", "bright_green", "bright_blue", "bright_red")
_FAIR = "grey50"

Points = Sequence[tuple[float, float]]


def learning_curve(
    lines: Mapping[str, Points], levels: Sequence[float], width: int, height: int
) -> list[Text]:
    """Draws shares (0..1) over turns, with a dotted line at each fair level.

    Returns `height` rows and one for the axis, none wider than `width`. Colours follow the order
    of `lines`, so that a legend can name them.
    """
    points = [point for line in lines.values() for point in line]
    columns = width - 7
    if not points or columns < 8 or height < 2:
        return []
    low, high = _range([y for _, y in points] + list(levels))
    right = max(x for x, _ in points) or 1.0
    canvas = _Canvas(columns, height, right, low, high)
    for level in levels:
        canvas.level(level)
    for index, line in enumerate(lines.values()):
        canvas.line(line, COLOURS[index % len(COLOURS)])
    return [*_rows(canvas, low, high), _axis(columns, right)]


def finite(points: Points) -> list[tuple[float, float]]:
    """The points that can be drawn."""
    return [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]


def bar(share: float, width: int) -> Text:
    """A bar that is full at a share of 1."""
    halves = round(min(1.0, max(0.0, share)) * width * 2)
    full = "━" * (halves // 2) + "╸" * (halves % 2)
    return Text.assemble((full, "green"), ("━" * (width - len(full)), "grey30"))


def fit(text: Text, width: int) -> Text:
    """One line, cut where there is no more room."""
    text.no_wrap = True
    text.truncate(width, overflow="ellipsis")
    return text


class _Canvas:
    """A grid of cells; each holds dots and the colour drawn last."""

    def __init__(self, columns: int, rows: int, right: float, low: float, high: float) -> None:
        self.columns, self.rows = columns, rows
        self._right, self._low, self._high = right, low, high
        self._cells = [[0] * columns for _ in range(rows)]
        self._colours = [[""] * columns for _ in range(rows)]

    def level(self, y: float) -> None:
        row = self._down(y)
        for x in range(0, self.columns * 2, 4):
            self._dot(x, row, _FAIR)

    def line(self, points: Points, colour: str) -> None:
        places = [(self._across(x), self._down(y)) for x, y in points]
        for (x0, y0), (x1, y1) in zip(places, places[1:] or places, strict=False):
            steps = max(abs(x1 - x0), abs(y1 - y0), 1)
            for i in range(steps + 1):
                self._dot(x0 + round((x1 - x0) * i / steps), y0 + round((y1 - y0) * i / steps), colour)

    def row(self, index: int) -> Text:
        text = Text()
        for bits, colour in zip(self._cells[index], self._colours[index], strict=True):
            text.append(chr(0x2800 + bits) if bits else " ", colour or None)
        return text

    def _across(self, x: float) -> int:
        return min(self.columns * 2 - 1, max(0, round(x / self._right * (self.columns * 2 - 1))))

    def _down(self, y: float) -> int:
        share = (y - self._low) / (self._high - self._low)
        return min(self.rows * 4 - 1, max(0, round((1 - share) * (self.rows * 4 - 1))))

    def _dot(self, x: int, y: int, colour: str) -> None:
        cell = (y // 4, x // 2)
        if colour != _FAIR and self._colours[cell[0]][cell[1]] == _FAIR:
            # A line replaces the dots of a level in its cell: one cell has only one colour.
            self._cells[cell[0]][cell[1]] = 0
        self._cells[cell[0]][cell[1]] |= _DOTS[y % 4][x % 2]
        self._colours[cell[0]][cell[1]] = colour


def _range(values: Sequence[float]) -> tuple[float, float]:
    """A range of whole tens of percent around the values, inside 0..1 where they are."""
    low = min(values) * 10 // 1 / 10
    high = -(-max(values) * 10 // 1) / 10
    return low, max(high, low + 0.1)


def _rows(canvas: _Canvas, low: float, high: float) -> list[Text]:
    rows = []
    for index in range(canvas.rows):
        marked = index in (0, canvas.rows - 1) or (canvas.rows >= 7 and index == canvas.rows // 2)
        value = high - (high - low) * index / (canvas.rows - 1)
        label = f"{value * 100:4.0f} %" if marked else ""
        rows.append(Text.assemble((f"{label:>6}", "dim"), ("┤" if marked else "│", "dim"), canvas.row(index)))
    return rows


def _axis(columns: int, right: float) -> Text:
    end = f"{short(right)} turns"
    middle = short(right / 2)
    gap = columns // 2 - 1 - len(middle) // 2
    labels = "0" + " " * max(gap, 1) + middle if columns > 30 else "0"
    return Text(" " * 7 + labels + end.rjust(columns - len(labels)), "dim")
