"""Games in the terminal: the parts that `play` and `watch` share."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from playmill.games import Game, GameSpec, IllegalAction
from playmill.league.agents import Decision

_FRAME = 4
_TOP = 5
_BAR = 16


def words(game: Game, action: int) -> Text:
    """A move in words, in colour."""
    return Text.from_markup(game.action_text(action))


def seat_label(spec: GameSpec, seat: int, viewer: int | None) -> str:
    """A seat as its tables call it: by letters on a board; else the viewer's neighbours are +1, +2, ... in
    order of play."""
    if seat == viewer:
        return "you"
    if spec.open_table or viewer is None:
        return chr(ord("a") + seat)
    return f"seat +{(seat - viewer) % spec.seats}"


def board_width(markup: str) -> int:
    """Columns of a board in its frame."""
    return max(line.cell_len for line in Text.from_markup(markup).split("\n")) + _FRAME


def print_wide(console: Console, what: RenderableType, width: int) -> None:
    """Prints in `width` columns, however few the console has: a board in a file is never cut."""
    lines = console.render_lines(what, console.options.update(width=max(width, console.width)), pad=False)
    parts = [part for line in lines for part in (*line, Segment.line())]
    console.print(Segments(parts), end="", crop=False, soft_wrap=True)


def legend(spec: GameSpec) -> Text:
    """What the signs on a board mean."""
    return Text(spec.legend, "dim")


def framed(markup: str, title: str, footer: str, *, board: bool = False) -> Panel:
    """A game's words in a frame. The lines of a board are never broken."""
    text = Text.from_markup(markup)
    text.no_wrap = board
    return Panel(
        text,
        title=Text(title, "bold default"),
        title_align="left",
        subtitle=Text(footer, "default"),
        subtitle_align="left",
        border_style="grey42",
        box=box.ROUNDED,
        padding=(0, 1),
    )


def move_list(game: Game, actions: Sequence[int]) -> Columns:
    """The legal moves, numbered from 1, in as many columns as fit."""
    width = len(str(len(actions)))
    cells = [
        Text.assemble((f"{number:>{width}}) ", "dim"), words(game, action))
        for number, action in enumerate(actions, start=1)
    ]
    return Columns(cells, padding=(0, 3))


def thought_view(game: Game, decision: Decision) -> RenderableType:
    """What an agent weighed at `game`: its likeliest moves, and what it expects."""
    if decision.probabilities is None:
        return Text.assemble("  ", words(game, decision.action), ("  by rule: a scripted bot", "dim"))
    legal = sorted(game.legal(), key=lambda a: -float(decision.probabilities[a]))  # type: ignore[index]
    grid = Table.grid(padding=(0, 1))
    for action in legal[:_TOP]:
        chance = float(decision.probabilities[action])
        chosen = "›" if action == decision.action else " "
        bar = Text("━" * round(chance * _BAR), "cyan")
        grid.add_row(f" {chosen}", words(game, action), Text(f"{chance:4.0%}", justify="right"), bar)
    if decision.value is None:
        return grid
    return Group(grid, Text(f"   expects {decision.value:+.2f} from here", "dim"))


def is_known(before: Game, moves: Sequence[int], viewer: int) -> bool:
    """Whether `viewer` can tell, after all of `moves`, that the first of them was made.

    Of simultaneous moves (secret bids) a table must not speak before they are shown: a move is known
    if no other move, put into other words, would have left the viewer with the same view."""
    made, after = before.action_text(moves[0]), _after(before, moves)
    if after is None:
        return False
    others = [a for a in before.legal() if before.action_text(a) != made]
    if not others:  # what was forced may still be a secret, for the viewer cannot know it was forced
        return after.over or made in after.table_text(viewer)
    branches = (_after(before, [other, *moves[1:]]) for other in others)
    return all(branch is not None and not _looks_alike(branch, after, viewer) for branch in branches)


def _after(game: Game, moves: Sequence[int]) -> Game | None:
    branch = game.copy()
    try:
        for move in moves:
            branch.act(move)
    except IllegalAction:
        return None
    return branch


def _looks_alike(one: Game, other: Game, viewer: int) -> bool:
    if one.observe(viewer).tobytes() != other.observe(viewer).tobytes():
        return False
    return one.table_text(viewer) == other.table_text(viewer)


def ordinal(place: int) -> str:
    """1st, 2nd, 3rd, 4th, ..."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(place % 10 if place % 100 not in (11, 12, 13) else 0, "th")
    return f"{place}{ending}"


def standings(names: Sequence[str], rewards: Sequence[float]) -> Table:
    """Who came where, best first; equal rewards share a place."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("place")
    table.add_column("who")
    table.add_column("reward", justify="right")
    for seat in sorted(range(len(names)), key=lambda s: -rewards[s]):
        style = "bold" if names[seat] == "you" else ""
        table.add_row(ordinal(place_of(seat, rewards)), names[seat], f"{rewards[seat]:+.2f}", style=style)
    return table


def place_of(seat: int, rewards: Sequence[float]) -> int:
    """1 for the best; a hair's breadth (of float32 sums) makes no difference."""
    return 1 + sum(other > rewards[seat] + 1e-4 for other in rewards)
