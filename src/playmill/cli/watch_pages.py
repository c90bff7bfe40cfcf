"""The pages of a game that is watched: page n is the table after n moves."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from playmill.cli import table_view as view
from playmill.games import Game, PlaymillError
from playmill.league.agents import Decision
from playmill.replays import Timeline


class Pages:
    """A game as one seat sees it, or with everything open."""

    def __init__(
        self,
        timeline: Timeline,
        seat: int | None = None,
        thoughts: Sequence[Decision] | None = None,
        title: str = "",
    ) -> None:
        """`thoughts`: the decision behind each move, where known. `title`: which game it is, of several."""
        self.timeline, self.thoughts = timeline, thoughts
        self.replay, self.spec = timeline.replay, timeline.spec
        self.title = title
        if seat is not None and not 0 <= seat < self.spec.seats:
            raise PlaymillError(f"{self.spec.name} has seats 0 to {self.spec.seats - 1}, got {seat}")
        if thoughts is not None and len(thoughts) != len(timeline):
            raise PlaymillError(f"{len(timeline)} moves, but {len(thoughts)} thoughts")
        self.viewer, self.open = seat or 0, seat is None
        self.game = functools.lru_cache(maxsize=32)(timeline.at)

    @property
    def last(self) -> int:
        return len(self.timeline)

    def turned(self) -> Pages:
        """The same game through the next pair of eyes: everything, seat 0, seat 1, ..."""
        seat = 0 if self.open else self.viewer + 1
        return Pages(self.timeline, seat if seat < self.spec.seats else None, self.thoughts, self.title)

    def page(self, number: int) -> Group:
        """Everything there is to see after `number` moves."""
        title = Text.assemble(
            (self.spec.title, "bold"),
            (f"   {self.title}seed {self.replay.seed}   move {number} of {self.last}", "dim"),
        )
        parts: list[RenderableType] = [title, self.table(number)]
        if self.spec.legend:
            parts.append(view.legend(self.spec))
        parts += [self.move(n, number) for n in range(max(1, number - self.spec.seats + 1), number + 1)]
        if (thought := self.thought(number)) is not None:
            parts.append(thought)
        if number == self.last:
            parts.append(self.ending())
        return Group(*parts)

    def width(self, number: int) -> int:
        """Columns that a page needs at least: those of its board."""
        return view.board_width(self.text(number)) if self.spec.open_table else 0

    def round(self, number: int, step: int) -> int:
        """The page a round on, or back: where the seat that moves now moves again."""
        now, last = self.game(number), self.last
        for page in range(number + step, last if step > 0 else 0, step):
            if self.game(page).seat == now.seat:
                return page
        return last if step > 0 else 0

    def name(self, seat: int) -> str:
        viewer = None if self.open and self.spec.open_table else self.viewer
        return f"{view.seat_label(self.spec, seat, viewer)} ({self.replay.names[seat]})"

    def move(self, number: int, page: int) -> Text:
        """Move `number`, counted from 1, in words, as far as it is known on `page`."""
        before = self.game(number - 1)
        words = view.words(before, self.replay.actions[number - 1])
        if not self.known(number, page):
            words = Text("decides in secret", "dim italic")
        return Text.assemble((f"{number:>4}  ", "dim"), (self.name(before.seat), "bold"), "  ", words)

    def known(self, number: int, page: int) -> bool:
        before = self.game(number - 1)
        moves = self.replay.actions[number - 1 : page]
        return self.open or before.seat == self.viewer or view.is_known(before, moves, self.viewer)

    def text(self, number: int) -> str:
        """The table in the game's own words."""
        game = self.game(number)
        if self.open and self.spec.open_table:
            return game.table_text(-1)
        lines = [game.table_text(self.viewer)]
        if self.open:
            lines += [self._hand(game, seat) for seat in range(self.spec.seats) if seat != self.viewer]
        return "\n".join(lines)

    def table(self, number: int) -> RenderableType:
        """The viewer's table and, where all hands are open, what is private to the others."""
        game = self.game(number)
        turn = "" if game.over else f", {self.name(game.seat)} to {game.role}"
        everything = "the whole board" if self.spec.open_table else "all hands"
        sight = everything if self.open else f"as seat {self.viewer} sees it"
        names = " · ".join(self.name(seat) for seat in range(self.spec.seats))
        return view.framed(self.text(number), f"{sight}{turn}", names, board=self.spec.open_table)

    def thought(self, number: int) -> RenderableType | None:
        """What was weighed before move `number`."""
        if self.thoughts is None or number == 0 or not self.known(number, number):
            return None
        decision = self.thoughts[number - 1]
        return None if decision.probabilities is None else view.thought_view(self.game(number - 1), decision)

    def ending(self) -> RenderableType:
        if not self.timeline.over:
            return Text("the replay ends here, before the end of the game", "dim")
        names = [self.name(seat) for seat in range(self.spec.seats)]
        return view.standings(names, self.timeline.rewards)

    def _hand(self, game: Game, seat: int) -> str:
        """The lines of a seat's table that speak of it alone; by custom they begin with "your"."""
        text, who = game.table_text(seat), view.seat_label(self.spec, seat, self.viewer)
        own = [line.removeprefix("your ") for line in text.split("\n") if line.startswith("your ")]
        return "\n".join(f"{who} {line}" for line in own) if own else f"{who}: {text}"
