"""Panels as inline SVG: no script, colours from the page's style, values on hover."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from html import escape

from playmill.training.report_data import Line, Panel, Size
from playmill.training.units import percent, short, ticks

SIZES: dict[Size, tuple[int, int]] = {"main": (1060, 380), "half": (520, 260), "small": (340, 180)}
SERIES = 8

_MOST_HOVERS = 100
_RIGHT, _TOP, _BOTTOM = 14, 12, 30


class _Frame:
    """Where values land on the picture."""

    def __init__(self, panel: Panel) -> None:
        self.width, self.height = SIZES[panel.size]
        self.share = panel.share
        values = [y for line in panel.lines for y in (*line.y, *line.low, *line.high)]
        values += [level for _, level in panel.levels]
        low, high = (0.0, 1.0) if panel.stacked else (min(values), max(values))
        if panel.from_zero:
            low = min(low, 0.0)
        self.y_ticks = ticks(low, high, 6 if panel.size == "main" else 4)
        self.low, self.high = self.y_ticks[0], self.y_ticks[-1]
        # Digits of the tick font are some 7 units wide.
        self.edge = 14 + 7 * max(len(self.tick(value)) for value in self.y_ticks)
        xs = [x for line in panel.lines for x in line.x]
        self.left, self.right = min(0.0, *xs) if len(xs) > 1 else 0.0, max(xs) or 1.0
        across = {"main": 8, "half": 5, "small": 3}[panel.size]
        self.x_ticks = [x for x in ticks(self.left, self.right, across) if x <= self.right * 1.0001]

    def x(self, value: float) -> float:
        room = self.width - self.edge - _RIGHT
        return self.edge + (value - self.left) / (self.right - self.left) * room

    def y(self, value: float) -> float:
        room = self.height - _TOP - _BOTTOM
        return self.height - _BOTTOM - (value - self.low) / (self.high - self.low) * room

    def tick(self, value: float) -> str:
        return f"{value * 100:.4g} %" if self.share else short(value)

    def words(self, value: float) -> str:
        return percent(value) if self.share else short(value)


def svg(panel: Panel) -> str:
    """The picture of a panel."""
    frame = _Frame(panel)
    parts = [
        f'<svg viewBox="0 0 {frame.width} {frame.height}" role="img" aria-label="{escape(panel.title)}">',
        *_grid(frame),
        *(_stack(panel.lines, frame) if panel.stacked else _curves(panel, frame)),
        *_hovers(panel, frame),
        "</svg>",
    ]
    return "".join(parts)


def _grid(frame: _Frame) -> list[str]:
    end, base = frame.width - _RIGHT, frame.height - _BOTTOM
    parts = []
    for value in frame.y_ticks:
        y = frame.y(value)
        kind = "zero" if abs(value) < 1e-12 else "grid"
        parts.append(f'<path class="{kind}" d="M{frame.edge} {y:.1f}H{end}"/>')
        place = f'x="{frame.edge - 8}" y="{y + 4:.1f}" text-anchor="end"'
        parts.append(f'<text class="tick" {place}>{frame.tick(value)}</text>')
    for value in frame.x_ticks:
        x = frame.x(value)
        # The last label names the axis.
        words = f"{short(value)} turns" if value == frame.x_ticks[-1] else short(value)
        place = f'x="{end}" text-anchor="end"' if x > end - 28 else f'x="{x:.1f}" text-anchor="middle"'
        parts.append(f'<text class="tick" {place} y="{base + 20}">{words}</text>')
    return parts


def _curves(panel: Panel, frame: _Frame) -> list[str]:
    parts = []
    for index, line in enumerate(panel.lines):
        if line.low and len(line.x) > 1:
            there = _points(line.x, line.high, frame)
            back = _points(line.x[::-1], line.low[::-1], frame)
            parts.append(f'<path class="band f{index % SERIES}" d="M{there}L{back}Z"/>')
    for name, level in panel.levels:
        y, end = frame.y(level), frame.width - _RIGHT
        parts.append(f'<path class="level" d="M{frame.edge} {y:.1f}H{end}"/>')
        # Above its line, or below where there is no room above.
        place = y - 6 if y > _TOP + 12 else y + 15
        parts.append(f'<text class="level" x="{end}" y="{place:.1f}" text-anchor="end">{escape(name)}</text>')
    for index, line in enumerate(panel.lines):
        if len(line.x) == 1:
            parts.append(_dot(index, frame.x(line.x[0]), frame.y(line.y[0])))
        elif line.x:
            parts.append(f'<path class="line s{index % SERIES}" d="M{_points(line.x, line.y, frame)}"/>')
    return parts


def _stack(lines: Sequence[Line], frame: _Frame) -> list[str]:
    parts = []
    floor = [0.0] * len(lines[0].x)
    for index, line in enumerate(lines):
        roof = [low + share for low, share in zip(floor, line.y, strict=True)]
        there, back = _points(line.x, roof, frame), _points(line.x[::-1], floor[::-1], frame)
        parts.append(f'<path class="stack f{index % SERIES}" d="M{there}L{back}Z"/>')
        floor = roof
    return parts


def _hovers(panel: Panel, frame: _Frame) -> list[str]:
    """Invisible columns; the one under the pointer shows a guide, dots and the values."""
    values: dict[float, list[tuple[int, str, float]]] = {}
    for index, line in enumerate(panel.lines):
        for x, y in zip(line.x, line.y, strict=True):
            values.setdefault(x, []).append((index, line.name, y))
    places = sorted(values)
    places = places[:: max(1, -(-len(places) // _MOST_HOVERS))]
    edges = [frame.x(place) for place in places]
    middles = [frame.edge, *((a + b) / 2 for a, b in itertools.pairwise(edges)), frame.width - _RIGHT]
    parts = []
    for place, start, end in zip(places, middles, middles[1:], strict=False):
        words = [f"{short(place)} turns", *(f"{name}: {frame.words(y)}" for _, name, y in values[place])]
        dots = (
            "" if panel.stacked else "".join(_dot(i, frame.x(place), frame.y(y)) for i, _, y in values[place])
        )
        base = frame.height - _BOTTOM
        parts.append(
            f'<g class="hover"><title>{escape(chr(10).join(words))}</title>'
            f'<rect x="{start:.1f}" y="{_TOP}" width="{max(end - start, 0.5):.1f}" height="{base - _TOP}"/>'
            f'<path d="M{frame.x(place):.1f} {_TOP}V{base}"/>{dots}</g>'
        )
    return parts


def _dot(index: int, x: float, y: float) -> str:
    return f'<circle class="f{index % SERIES}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>'


def _points(xs: Sequence[float], ys: Sequence[float], frame: _Frame) -> str:
    return "L".join(f"{frame.x(x):.1f} {frame.y(y):.1f}" for x, y in zip(xs, ys, strict=True))
