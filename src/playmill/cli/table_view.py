"""Games in the terminal: the parts that `play` and `watch` share."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from playmill.games import Game, IllegalAction
from playmill.league.agents import Decision

_TOP = 5
_BAR = 16


def words(game: Game, action: int) -> Text:
    """A move in words, in colour."""
    return Text.from_markup(game.action_text(action))


def seat_label(seat: int, viewer: int, seats: int) -> str:
    """A seat as its tables call it: the viewer's neighbours are +1, +2, ... in order of play."""
    place = (seat - viewer) % seats
    return "you" if place == 0 else f"seat +{place}"


def framed(markup: str, title: str, footer: str) -> Panel:
    """A game's words in a frame."""
    return Panel(
        Text.from_markup(markup),
        title=Text(title, "bold white"),
        title_align="left",
        subtitle=Text(footer, "grey62"),
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
    seen = _sight(after, viewer)
    others = [a for a in before.legal() if before.action_text(a) != made]
    if not others:  # what was forced may still be a secret, for the viewer cannot know it was forced
        return after.over or made in seen[1]
    branches = (_after(before, [other, *moves[1:]]) for other in others)
    return all(branch is not None and _sight(branch, viewer) != seen for branch in branches)


def _after(game: Game, moves: Sequence[int]) -> Game | None:
    branch = game.copy()
    try:
        for move in moves:
            branch.act(move)
    except IllegalAction:
        return None
    return branch


def _sight(game: Game, viewer: int) -> tuple[bytes, str]:
    return game.observe(viewer).tobytes(), game.table_text(viewer)


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
