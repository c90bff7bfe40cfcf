"""A game, turn by turn: from a record, or fresh between agents (see `play_out`)."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Sequence
from typing import Literal

from rich.console import Console, Group, RenderableType
from rich.text import Text

from playmill.cli import table_view as view
from playmill.games import Game, PlaymillError
from playmill.league.agents import Decision
from playmill.league.records import Record, positions

ReadKey = Callable[[], str]
Step = Literal["key"] | float

_NEXT = ("\n", "\r", " ", "\x1b[C", "\x1b[B")
_BACK = ("b", "B", "\x7f", "\x1b[D", "\x1b[A")
_LEAVE = ("q", "Q", "\x1b", "\x04")
_KEYS = "Enter next · b back · number Enter jumps · q quit"


def watch(
    record: Record,
    console: Console,
    *,
    step: Step = "key",
    seat: int | None = None,
    thoughts: Sequence[Decision] | None = None,
    read_key: ReadKey | None = None,
) -> None:
    """Shows the game move by move.

    `step`: "key" waits for one, a number waits that many seconds. `seat`: whose view; None shows all
    hands. `thoughts`: the decision behind each move, where known. Off a terminal, and without a
    `read_key`, all moves are printed one after the other."""
    replay = _Replay(record, seat, thoughts)
    by_key = step == "key" and (read_key is not None or (console.is_terminal and sys.stdin.isatty()))
    try:
        if by_key:
            _turn_pages(replay, console, read_key or terminal_key)
        else:
            _run_through(replay, console, 0.0 if step == "key" else float(step))
    except (EOFError, KeyboardInterrupt):
        console.print()


class _Replay:
    """The pages of a game: page n is the table after n moves."""

    def __init__(self, record: Record, seat: int | None, thoughts: Sequence[Decision] | None) -> None:
        self.record, self.thoughts = record, thoughts
        self.games = positions(record)
        self.seats = self.games[0].spec.seats
        if seat is not None and not 0 <= seat < self.seats:
            raise PlaymillError(f"{record.game} has seats 0 to {self.seats - 1}, got {seat}")
        if thoughts is not None and len(thoughts) != len(record.actions):
            raise PlaymillError(f"{len(record.actions)} moves, but {len(thoughts)} thoughts")
        self.viewer, self.open = seat or 0, seat is None
        self.rewards = self._rewards()

    @property
    def last(self) -> int:
        return len(self.record.actions)

    def name(self, seat: int) -> str:
        return f"{view.seat_label(seat, self.viewer, self.seats)} ({self.record.names[seat]})"

    def move(self, number: int, page: int) -> Text:
        """Move `number`, counted from 1, in words, as far as it is known on `page`."""
        before = self.games[number - 1]
        words = view.words(before, self.record.actions[number - 1])
        if not self.known(number, page):
            words = Text("decides in secret", "dim italic")
        return Text.assemble((f"{number:>4}  ", "dim"), (self.name(before.seat), "bold"), "  ", words)

    def known(self, number: int, page: int) -> bool:
        before = self.games[number - 1]
        moves = self.record.actions[number - 1 : page]
        return self.open or before.seat == self.viewer or view.is_known(before, moves, self.viewer)

    def table(self, number: int) -> RenderableType:
        """The viewer's table and, where all hands are open, what is private to the others."""
        game = self.games[number]
        lines = [game.table_text(self.viewer)]
        if self.open:
            lines += [self._hand(game, seat) for seat in range(self.seats) if seat != self.viewer]
        turn = "" if game.over else f", {self.name(game.seat)} to {game.role}"
        sight = "all hands" if self.open else f"as seat {self.viewer} sees it"
        names = " · ".join(self.name(seat) for seat in range(self.seats))
        return view.framed("\n".join(lines), f"{sight}{turn}", names)

    def thought(self, number: int) -> RenderableType | None:
        """What was weighed before move `number`."""
        if self.thoughts is None or number == 0 or not self.known(number, number):
            return None
        decision = self.thoughts[number - 1]
        return None if decision.probabilities is None else view.thought_view(self.games[number - 1], decision)

    def ending(self) -> RenderableType:
        if not self.games[-1].over:
            return Text("the record ends here, before the end of the game", "dim")
        return view.standings([self.name(seat) for seat in range(self.seats)], self.rewards)

    def _hand(self, game: Game, seat: int) -> str:
        """The lines of a seat's table that speak of it alone; by custom they begin with "your"."""
        text, who = game.table_text(seat), view.seat_label(seat, self.viewer, self.seats)
        own = [line.removeprefix("your ") for line in text.split("\n") if line.startswith("your ")]
        return "\n".join(f"{who} {line}" for line in own) if own else f"{who}: {text}"

    def _rewards(self) -> list[float]:
        game, total = self.games[0].copy(), [0.0] * self.seats
        for action in self.record.actions:
            total = [a + b for a, b in zip(total, game.act(action).tolist(), strict=True)]
        return total


def _page(replay: _Replay, number: int) -> Group:
    """Everything there is to see after `number` moves."""
    title = Text.assemble(
        (replay.games[0].spec.title, "bold"),
        (f"   seed {replay.record.seed}   move {number} of {replay.last}", "dim"),
    )
    parts: list[RenderableType] = [title, replay.table(number)]
    parts += [replay.move(n, number) for n in range(max(1, number - replay.seats + 1), number + 1)]
    if (thought := replay.thought(number)) is not None:
        parts.append(thought)
    if number == replay.last:
        parts.append(replay.ending())
    return Group(*parts)


def _turn_pages(replay: _Replay, console: Console, read_key: ReadKey) -> None:
    number, typed = 0, ""
    while True:
        if console.is_terminal:
            console.clear()
        console.print(_page(replay, number))
        prompt = f"jump to {typed}" if typed else _KEYS
        console.print(Text(prompt, "dim"))
        key = read_key()
        if key.isdecimal():
            typed += key
        elif key in _NEXT:
            number, typed = min(replay.last, int(typed) if typed else number + 1), ""
        elif key in _BACK:
            number, typed = max(0, number - 1), ""
        elif key in _LEAVE:
            return
        else:
            typed = ""


def _run_through(replay: _Replay, console: Console, delay: float) -> None:
    """All moves without being asked; the whole table wherever the kind of decision changes."""
    for number in range(replay.last + 1):
        if console.is_terminal:
            console.clear()
            console.print(_page(replay, number))
        else:
            _tell(replay, number, console)
        if number < replay.last:
            time.sleep(delay)


def _tell(replay: _Replay, number: int, console: Console) -> None:
    if number == 0:
        console.print(f"{replay.games[0].spec.title}, seed {replay.record.seed}, {replay.last} moves")
    else:
        console.print(replay.move(number, number))
        if (thought := replay.thought(number)) is not None:
            console.print(thought)
    now, ended = replay.games[number], number == replay.last
    if number == 0 or ended or now.role != replay.games[number - 1].role:
        console.print(replay.table(number))
    if ended:
        console.print(replay.ending())


def terminal_key() -> str:
    """One key from the terminal, as it is pressed; an arrow is the sequence it sends."""
    try:
        import termios
        import tty
    except ImportError:  # no termios on Windows: a line at a time
        return input()[:1] or "\n"
    handle = sys.stdin.fileno()
    before = termios.tcgetattr(handle)
    try:
        tty.setcbreak(handle, termios.TCSADRAIN)  # the default would drop keys typed ahead
        key = os.read(handle, 1)
        if key == b"\x1b" and select.select([handle], [], [], 0.02)[0]:
            key += os.read(handle, 8)
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)
    if not key:
        raise EOFError
    return key.decode("utf-8", "replace")
