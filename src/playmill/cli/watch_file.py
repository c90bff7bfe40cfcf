"""`playmill watch FILE`: the games of a file of replays."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from playmill.cli.watch import Step, watch
from playmill.games import PlaymillError
from playmill.replays import ReplayFile


def watch_file(
    path: Path, which: str, console: Console, *, step: Step, seat: int | None, list_games: bool = False
) -> None:
    """Shows game `which` (its number from 1, the first if it is empty), or a list of all."""
    file = ReplayFile(path)
    if file.warning:
        Console(stderr=True).print(Text(file.warning, "yellow"), soft_wrap=True)
    if not len(file):
        raise PlaymillError(f"{path} holds no game yet")
    if list_games:
        console.print(_listed(file))
        return
    number, several = _chosen(file, which), len(file) > 1
    while True:
        title = f"game {number + 1} of {len(file)}   " if several else ""
        turned = watch(file.play(number), console, step=step, seat=seat, title=title, several=several)
        if turned == 0:
            return
        number = (number + turned) % len(file)


def _chosen(file: ReplayFile, which: str) -> int:
    if not which:
        return 0
    if not which.isdecimal() or not 1 <= int(which) <= len(file):
        known = f"{file.path} has games 1 to {len(file)}"
        raise PlaymillError(f"{known}; --game takes one of them, got '{which}'")
    return int(which) - 1


def _listed(file: ReplayFile) -> Table:
    table = Table(title=str(file.path), title_justify="left")
    for column in ("game", "of", "options", "seed", "moves", "who", "rewards"):
        table.add_column(column, justify="right" if column in ("game", "seed", "moves") else "left")
    for number in range(len(file)):
        stored = file[number]
        replay = stored.replay
        options = " ".join(f"{name} {value}" for name, value in replay.options.items())
        who, rewards = ", ".join(replay.names), ", ".join(f"{reward:+.2f}" for reward in stored.rewards)
        moves = f"{len(replay.actions):,}"
        table.add_row(str(number + 1), replay.game, options, str(replay.seed), moves, who, rewards)
    return table
