"""A game, turn by turn: on a terminal by keys or by itself, elsewhere as plain text."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Literal

from rich.console import Console
from rich.segment import Segment, Segments
from rich.text import Text

from playmill.cli.keys import ReadKey, terminal_key
from playmill.cli.table_view import print_wide
from playmill.cli.watch_pages import Pages
from playmill.league.agents import Decision
from playmill.replays import Timeline

Step = Literal["key"] | float

_NEXT = ("\n", "\r", " ", "\x1b[C", "\x1b[B")
_BACK = ("b", "B", "\x7f", "\x1b[D", "\x1b[A")
_ROUND = ("n", "\x1b[6~")
_ROUND_BACK = ("N", "\x1b[5~")
_FIRST, _LAST = ("g", "\x1b[H", "\x1b[1~"), ("G", "\x1b[F", "\x1b[4~")
_LEAVE = ("q", "Q", "\x1b", "\x04")
_OTHER = {"]": 1, "[": -1}
_PAN = {"h": (-1, 0), "l": (1, 0), "k": (0, -1), "j": (0, 1)}
_KEYS = "Enter next · b back · n, N a round · g, G ends · p run · v view · number Enter jumps · q quit"
_RUNNING = "p pauses · + - speed, {:g} s a move · q quit"
_PACE = 0.3
"""Seconds a move, when a game is made to run by a key."""


def watch(
    timeline: Timeline,
    console: Console,
    *,
    step: Step = "key",
    seat: int | None = None,
    thoughts: Sequence[Decision] | None = None,
    read_key: ReadKey | None = None,
    title: str = "",
    several: bool = False,
) -> int:
    """Shows the game move by move.

    `step`: "key" waits for one, a number goes on after that many seconds. `seat`: whose view; None shows all
    there is. `thoughts`: the decision behind each move, where known. Off a terminal, and without a
    `read_key`, all moves are printed one after the other. With `several` games the keys ] and [ leave for
    the next (1 is returned) or the one before (-1)."""
    pages = Pages(timeline, seat, thoughts, title)
    keys = read_key is not None or (console.is_terminal and sys.stdin.isatty())
    try:
        if keys and (step == "key" or console.is_terminal):
            return _Viewer(pages, console, read_key or terminal_key, step, several).run()
        _run_through(pages, console, 0.0 if step == "key" else float(step))
    except (EOFError, KeyboardInterrupt):
        console.print()
    return 0


class _Viewer:
    """A page on the screen, and what keys do with it."""

    def __init__(self, pages: Pages, console: Console, read_key: ReadKey, step: Step, several: bool) -> None:
        self.pages, self.console, self.read_key = pages, console, read_key
        self.several = several
        self.running = step != "key"
        self.pace = _PACE if step == "key" else float(step)
        self.number, self.typed = 0, ""
        self.left = self.top = 0

    def run(self) -> int:
        while True:
            self.show()
            if self.running and self.number == self.pages.last:
                self.running = False
            key = self.read_key(self.pace if self.running else None)
            if key in _LEAVE:
                return 0
            if self.several and key in _OTHER:
                return _OTHER[key]
            if not key:
                self.turn(self.number + 1)
            elif key.isdecimal():
                self.typed += key
            elif not self.obeyed(key):
                self.typed = ""

    def obeyed(self, key: str) -> bool:
        number = self.number
        if key in _NEXT:
            self.turn(int(self.typed) if self.typed else number + 1)
        elif key in _BACK:
            self.turn(number - 1)
        elif key in _ROUND:
            self.turn(self.pages.round(number, 1))
        elif key in _ROUND_BACK:
            self.turn(self.pages.round(number, -1))
        elif key in _FIRST:
            self.turn(0)
        elif key in _LAST:
            self.turn(self.pages.last)
        elif key == "p":
            self.running = not self.running
        elif key in ("+", "-"):
            self.pace = min(10.0, max(0.01, self.pace * (0.5 if key == "+" else 2)))
        elif key == "v":
            self.pages = self.pages.turned()
        elif key in _PAN:
            across, down = _PAN[key]
            self.left = max(0, self.left + across * (self.console.width // 3))
            self.top = max(0, self.top + down * (self.console.height // 3))
        else:
            return False
        return True

    def turn(self, number: int) -> None:
        self.number, self.typed = min(self.pages.last, max(0, number)), ""

    def prompt(self) -> str:
        if self.typed:
            return f"jump to {self.typed}"
        keys = _RUNNING.format(self.pace) if self.running else _KEYS
        return keys + (" · ] [ other games" if self.several else "")

    def show(self) -> None:
        if not self.console.is_terminal:
            self.console.print(self.pages.page(self.number))
            self.console.print(Text(self.prompt(), "dim"))
            return
        lines, hidden = self.window()
        self.console.clear()
        self.console.print(Segments([part for line in lines for part in (*line, Segment.line())]), end="")
        self.console.print(Text(hidden or self.prompt(), "dim"), no_wrap=True, overflow="ellipsis", end="")

    def window(self) -> tuple[list[list[Segment]], str]:
        """The part of the page that fits the terminal, and what to say if that is not all."""
        width, height = self.console.width, self.console.height - 1
        wanted = max(width, self.pages.width(self.number))
        options = self.console.options.update(width=wanted, height=None)
        lines = self.console.render_lines(self.pages.page(self.number), options, pad=False)
        self.left = min(self.left, wanted - width)
        self.top = min(self.top, max(0, len(lines) - height))
        if wanted == width and len(lines) <= height:
            return lines, ""
        shown = lines[self.top : self.top + height]
        cut = [list(Segment.divide(line, [self.left, self.left + width])) for line in shown]
        columns = f"columns {self.left + 1} to {self.left + width} of {wanted}"
        rows = f"rows {self.top + 1} to {self.top + len(shown)} of {len(lines)}"
        text = f"{columns}, {rows}: h j k l move, or make the window larger · {self.prompt()}"
        return [parts[1] if len(parts) > 1 else [] for parts in cut], text


def _run_through(pages: Pages, console: Console, delay: float) -> None:
    """All moves without being asked."""
    for number in range(pages.last + 1):
        if console.is_terminal:
            console.clear()
            console.print(pages.page(number))
        else:
            _tell(pages, number, console)
        if number < pages.last:
            time.sleep(delay)


def _tell(pages: Pages, number: int, console: Console) -> None:
    """A move, and the table: a board whenever it is another, cards where another kind of decision begins."""
    if number == 0:
        console.print(f"{pages.spec.title}, {pages.title}seed {pages.replay.seed}, {pages.last} moves")
    else:
        console.print(pages.move(number, number))
        if (thought := pages.thought(number)) is not None:
            console.print(thought)
    ended = number == pages.last
    if number == 0 or ended or _is_news(pages, number):
        print_wide(console, pages.table(number), pages.width(number))
    if number == 0 and pages.spec.legend:
        console.print(Text(pages.spec.legend), soft_wrap=True)
    if ended:
        console.print(pages.ending())


def _is_news(pages: Pages, number: int) -> bool:
    before, now = pages.game(number - 1), pages.game(number)
    if pages.spec.open_table:
        return before.table_text(-1) != now.table_text(-1)
    return now.role != before.role
