"""`playmill train` with --seeds or --vary, or with the folder of a fleet to resume: many runs at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from playmill.cli.fleet_screen import FleetScreen
from playmill.cli.process import program, stop_on_signals
from playmill.games import PlaymillError
from playmill.training.config import Train
from playmill.training.fleet import Fleet, State
from playmill.training.fleet_folder import FleetFolder, create_fleet, open_fleet
from playmill.training.fleet_plan import difference, plan_members, settled
from playmill.training.fleet_report import Comparison, load_fleet, write_fleet_report
from playmill.training.report import draw_curves, write_report
from playmill.training.runs import new_run_path
from playmill.training.telemetry_settings import Telemetry
from playmill.training.units import clock, percent, short


def check_fleet_arguments(args: Sequence[str], seeds: Sequence[int], vary: Sequence[str]) -> None:
    """What the parser lets pass and would mean something else than it seems to."""
    names = [arg.partition("=")[0] for arg in args]
    for flag, given, example in (("--seeds", seeds, "0 1 2 3"), ("--vary", vary, "ppo.lr=1e-3,3e-3")):
        if flag in names and not given:
            raise PlaymillError(f"{flag} needs values, as `{flag} {example}`")
        if names.count(flag) > 1:
            raise PlaymillError(f"{flag} is there twice; put all values behind one")
    if seeds and "--seed" in names:
        raise PlaymillError("--seeds names the seeds already; leave --seed out")
    if (seeds or vary) and "--resume" in names:
        raise PlaymillError("what is resumed has its runs already; leave --seeds and --vary out")


def start_fleet(
    config: Train, seeds: Sequence[int], vary: Sequence[str], path: Path | None, plain: bool
) -> None:
    """Trains a run for each seed and each combination of what is varied."""
    _check_unwatched(config)
    members = plan_members(config, seeds, vary)
    config = settled(config, next(iter(members.values())))
    folder = create_fleet(path or new_run_path(Path("runs"), config.game), config, members)
    _train(folder, plain)


def resume_fleet(path: Path, config: Train, plain: bool) -> None:
    """Goes on with every run of a fleet that has not come to its end."""
    _check_unwatched(config)
    folder = open_fleet(path)
    try:
        if changes := difference(folder.record.config, config):
            folder.change(changes)
    except PlaymillError:
        folder.release()
        raise
    _train(folder, plain)


def _check_unwatched(config: Train) -> None:
    if config.telemetry != Telemetry():
        raise PlaymillError("runs of a fleet share one process, and its metrics; leave --telemetry out")


def _train(folder: FleetFolder, plain: bool) -> None:
    config, count = folder.record.config, len(folder.record.members)
    title = f"{config.spec.title} · {count} run{'s' if count > 1 else ''} · {folder.path}"
    try:
        with FleetScreen(title, folder.record, plain=plain or None) as screen:
            fleet = Fleet(folder, screen)
            stop_on_signals(fleet.stop)
            states = fleet.run()
        _close(folder, states, Console())
    finally:
        folder.release()
    if "failed" in states.values():
        raise SystemExit(1)


def _close(folder: FleetFolder, states: dict[str, State], console: Console) -> None:
    """The reports, and a few lines on what came out."""
    notes = dict.fromkeys(_member_reports(folder))
    for note in notes:
        console.print(note, style="yellow")
    report = write_fleet_report(folder.path)
    found = load_fleet(folder.path)
    console.print()
    console.print(_results(found, states))
    if folder.record.throughput is not None:
        console.print(f"\n  {folder.record.throughput.words}", highlight=False)
    console.print(f"\n  report    {report}", highlight=False)
    best = folder.path / found.best
    lines = [("play", f"play {best}"), ("watch", f"watch {best}"), ("go on", _go_on(folder, states))]
    for what, line in lines:
        console.print(f"  {what:9} [cyan]{program()} {line}[/]", highlight=False, soft_wrap=True)


def _member_reports(folder: FleetFolder) -> list[str]:
    """Writes what every run leaves for people; returns what there is to say about it."""
    notes: list[str] = []
    for name in folder.record.members:
        try:
            draw_curves(folder.path / name, on_note=notes.append)
            write_report(folder.path / name)
        except (OSError, ValueError) as error:
            notes.append(f"{name}: its report could not be written ({error})")
    return notes


def _results(found: Comparison, states: dict[str, State]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="dim")
    table.add_column("run", no_wrap=True)
    for head in ("turns", "time", *(f"vs {bot}" for bot in found.bots), *found.figures, "ended"):
        table.add_column(head, justify="right", no_wrap=True)
    for name, run in found.runs.items():
        seconds = run.latest("run/seconds")
        row = [name, short(found.turns(name)), "" if seconds is None else clock(seconds)]
        row += [_share(run.latest(f"eval/{bot}/win_share")) for bot in found.bots]
        row += [
            "" if (value := run.latest(f"eval/{key}")) is None else f"{value:.4f}" for key in found.figures
        ]
        tone = {"done": "green", "failed": "bold red"}.get(states[name], "yellow")
        table.add_row(*(Text(cell) for cell in row), Text(states[name], tone))
    return table


def _share(value: float | None) -> str:
    return "" if value is None else percent(value)


def _go_on(folder: FleetFolder, states: dict[str, State]) -> str:
    """The line to resume with; a larger budget where all is spent."""
    line, record = f"train --resume {folder.path}", folder.record
    varied = {setting for changes in record.members.values() for setting in changes}
    if set(states.values()) != {"done"} or varied & {"turns", "minutes"}:
        return line
    if not record.config.turns:
        return f"{line} --minutes {2 * record.config.minutes:g}"
    # A member may have gone further by itself.
    spent = max(ended.turns for ended in record.ended.values())
    longer = 2 * record.config.turns
    return f"{line} --turns {longer if longer > spent else 2 * spent}"
