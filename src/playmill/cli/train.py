"""`playmill train`: a recipe, changed by what the command line says, until done or stopped."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn, cast

from rich.console import Console

from playmill.cli.arguments import parse_arguments
from playmill.cli.fleet import check_fleet_arguments, resume_fleet, start_fleet
from playmill.cli.process import end_with_parent, leave, program, stop_on_signals
from playmill.cli.ranks import start_ranks
from playmill.cli.screen import Screen
from playmill.games import PlaymillError, registry, unknown
from playmill.league.evaluate import Player
from playmill.league.policies import load_policy
from playmill.league.ratings import Rating, rate
from playmill.training.config import Train, load_recipe, recipe_names, to_dict
from playmill.training.cuda.lane import need_cards
from playmill.training.fleet_folder import is_fleet, read_fleet
from playmill.training.ranked import Follower
from playmill.training.ranks import ALONE, Group, RankLost, Ranks, take_card, world_size
from playmill.training.report import draw_curves, write_report
from playmill.training.runs import (
    CHANGEABLE,
    RunFolder,
    create_run,
    new_run_path,
    open_run,
    read_config,
    write_json,
)
from playmill.training.trainer import Trainer
from playmill.training.utilisation import utilisation_lines

DEFAULT_RECIPE = "skull_king/quick"


@dataclass(frozen=True)
class TrainCommand(Train):
    """Train an agent by self-play. Begin with a recipe (`playmill train skull_king/quick`, the default)
    or a game; every setting can be changed here. Ctrl-C saves and says how to go on. With --seeds or
    --vary several runs are trained at once, and compared."""

    run: Path | None = None
    """Folder of the run; by default the next free one under runs/."""
    resume: Path | None = None
    """Go on with this run, or with all runs of a fleet, from the last checkpoint."""
    seeds: tuple[int, ...] = ()
    """Train a run for each of these seeds, at once: `--seeds 0 1 2 3`."""
    vary: tuple[str, ...] = ()
    """Train a run for each value, and for every combination of several: `--vary ppo.lr=1e-3,3e-3
    network.hidden=128+128,256+128`. Commas stand between values, + inside a list."""
    plain: bool = False
    """Plain lines instead of the live screen."""
    alive: Path | None = None
    """Touch this file once a second, for those who restart what hangs."""

    @property
    def config(self) -> Train:
        return Train(**{f.name: getattr(self, f.name) for f in dataclasses.fields(Train)})

    @classmethod
    def on(cls, base: Train) -> TrainCommand:
        return cls(**{f.name: getattr(base, f.name) for f in dataclasses.fields(Train)})


def train_command(args: Sequence[str]) -> None:
    """Parses, trains, reports."""
    started = world_size()
    if started is not None:
        _train_rank(args, started)
    command = parse(list(args))
    if command.device == "cuda":
        need_cards(command.ranks)  # before a folder is made: what cannot be trained here leaves none behind
    if command.alive is not None:
        _check_no_fleet(command, "--alive")
    if command.ranks > 1:
        _train_ranks(args, command)
        return
    if command.seeds or command.vary:
        start_fleet(command.config, command.seeds, command.vary, command.run, command.plain)
        return
    if command.resume is not None and is_fleet(command.resume):
        resume_fleet(command.resume, command.config, command.plain)
        return
    _train(command, ALONE)


def _train_ranks(args: Sequence[str], command: TrainCommand) -> None:
    """Starts the ranks on this machine."""
    _check_no_fleet(command)
    run = command.resume or command.run or new_run_path(Path("runs"), command.game)
    named = command.resume is not None or command.run is not None
    start_ranks([*args, *([] if named else ["--run", str(run)])], command.ranks, run)


def _train_rank(args: Sequence[str], count: int) -> NoReturn:
    """One of the ranks that torchrun started. The first speaks for all; the others say nothing but their own
    errors."""
    first = os.environ["RANK"] == "0"
    try:
        command = parse(list(args))
        if _value_of(args, "--ranks") is not None and command.ranks != count:
            raise PlaymillError(f"--ranks {command.ranks}, and torchrun started {count}; leave --ranks out")
        command = dataclasses.replace(command, ranks=count)
        _check_no_fleet(command)
    except (PlaymillError, SystemExit):
        if first:
            raise
        raise SystemExit(2) from None
    end_with_parent()
    if command.device == "cuda":
        take_card()
    ranks: Ranks = Group("nccl" if command.device == "cuda" else "") if count > 1 else ALONE
    try:
        if first:
            _train(command, ranks)
        else:
            follower = Follower(ranks)
            stop_on_signals(follower.stop)
            follower.run()
    except RankLost:
        # The others end in order: torchrun would take theirs for the failure, and end the one that has it.
        if first:
            raise
    finally:
        ranks.close()
    leave()


def _check_no_fleet(command: TrainCommand, flag: str = "--ranks") -> None:
    fleet = command.resume is not None and is_fleet(command.resume)
    if command.seeds or command.vary or fleet:
        raise PlaymillError(f"a fleet trains all its runs in one process; leave {flag} out")


def _train(command: TrainCommand, ranks: Ranks) -> None:
    """One run, from its folder to its report."""
    console = Console()
    # Before a folder is made. Whoever comes back goes on without a port that somebody else has.
    in_use = partial(console.print, style="yellow") if command.resume is not None else None
    with command.telemetry.open("learner", in_use=in_use) as instruments:
        run = _open(command)
        config = run.config
        seconds = 60.0 * config.minutes if config.minutes and not config.turns else None
        title = f"{config.spec.title} · {run.path}"
        try:
            with Screen(title, config.turns or None, seconds, plain=command.plain or None) as screen:
                trainer = Trainer(run, screen, ranks, command.alive, instruments)
                stop_on_signals(trainer.stop)
                reason = trainer.run()
            _close(run, trainer, reason, console)
        finally:
            run.release()


def parse(args: list[str]) -> TrainCommand:
    """The command, with the recipe's (or the resumed run's) settings as defaults."""
    recipe = args.pop(0) if args and not args[0].startswith("-") else None
    resumed = _value_of(args, "--resume")
    if resumed is not None:
        if recipe is not None:
            raise PlaymillError("a resumed run has its recipe already; leave one of the two out")
        path = Path(resumed)
        base = read_fleet(path).config if is_fleet(path) else read_config(path)
    else:
        base = _base(recipe or DEFAULT_RECIPE, _value_of(args, "--device"))
    prog = f"playmill train {recipe or '[RECIPE]'}"
    command = cast(TrainCommand, parse_arguments(TrainCommand, args, prog, default=TrainCommand.on(base)))
    check_fleet_arguments(args, command.seeds, command.vary)
    if command.resume is not None and command.run is not None:
        raise PlaymillError("--resume names the folder already; leave --run out")
    return command


def _base(recipe: str, device: str | None) -> Train:
    if ":" in recipe:
        return Train(game=recipe)  # somebody else's rules: trained until stopped, unless a budget is set
    if recipe in registry.names():
        # A game by its name: what suits the device, as far as there is a recipe for it.
        names = [f"{recipe}/gpu", f"{recipe}/quick"] if device == "cuda" else [f"{recipe}/quick"]
        found = [name for name in names if name in recipe_names()]
        return load_recipe(found[0]) if found else Train(game=recipe, turns=10_000_000)
    if recipe.endswith(".toml") or recipe in recipe_names():
        return load_recipe(recipe)
    raise unknown("recipe or game", recipe, [*recipe_names(), *registry.names()])


def _value_of(args: Sequence[str], flag: str) -> str | None:
    for i, arg in enumerate(args):
        if arg == flag and i + 1 < len(args):
            return args[i + 1]
        if arg.startswith(f"{flag}="):
            return arg.partition("=")[2]
    return None


def _open(command: TrainCommand) -> RunFolder:
    config = command.config
    if command.resume is None:
        path = command.run or new_run_path(Path("runs"), config.game)
        return create_run(path, config)
    run = open_run(command.resume)
    if config.device == "cuda" and config.ranks != run.config.ranks:
        run.release()
        raise PlaymillError(f"games stay on their cards: go on with --ranks {run.config.ranks}")
    for field in dataclasses.fields(Train):
        old, new = getattr(run.config, field.name), getattr(config, field.name)
        if old != new and field.name not in CHANGEABLE:
            run.release()
            raise PlaymillError(f"{field.name} belongs to what the run is and cannot be changed by --resume")
    if config != run.config:
        write_json(run.path / "config.json", to_dict(config))
    return dataclasses.replace(run, config=config)


def _close(run: RunFolder, trainer: Trainer, reason: str, console: Console) -> None:
    """Ratings, curves, report, and a few lines on what came out."""
    foreign = run.config.spec.foreign
    if reason in ("budget", "plateau") and not foreign:  # ratings and play need rules in this process
        ratings = rate_run(run.path, run.config)
        rows = [dataclasses.asdict(row) for row in ratings]
        (run.path / "ratings.json").write_text(json.dumps(rows, indent=1) + "\n")
    draw_curves(run.path, on_note=lambda text: console.print(text, style="yellow"))
    report = write_report(run.path)
    console.print()
    console.print(
        f"{_ENDINGS.get(reason, reason)} after {trainer.turns:,} turns in {trainer.seconds:,.0f} s."
    )
    for bot, result in trainer.judge.latest.items():
        console.print(
            f"  against {bot:8} wins [bold]{result.win_share:.1%}[/] "
            f"({result.low:.1%} to {result.high:.1%}; fair is {result.fair:.0%})",
            highlight=False,
        )
    for name, value in trainer.judge.extras.items():
        console.print(f"  {name} [bold]{value:.4f}[/]", highlight=False)
    if trainer.utilisation is not None:
        console.print()
        for line in utilisation_lines(trainer.utilisation):
            console.print(f"  {line}", highlight=False, soft_wrap=True)
    console.print(f"\n  report    {report}", highlight=False)
    lines = [
        ("evaluate", f"evaluate {run.path}") if foreign else ("play", f"play {run.path}"),
        *([] if foreign else [("watch", f"watch {run.path}")]),
        ("go on", f"train --resume {run.path}" + _longer(run.config, reason)),
    ]
    for what, line in lines:
        console.print(f"  {what:9} [cyan]{program()} {line}[/]", highlight=False, soft_wrap=True)


_ENDINGS = {"budget": "Done", "plateau": "Stopped on a plateau", "SIGINT": "Stopped", "SIGTERM": "Stopped"}


def _longer(config: Train, reason: str) -> str:
    """What must be added to go on once the budget is spent."""
    if reason != "budget":
        return ""
    return f" --turns {2 * config.turns}" if config.turns else f" --minutes {2 * config.minutes:g}"


def rate_run(path: Path, config: Train, deals: int = 300) -> list[Rating]:
    """The run's policy among the game's bots."""
    loaded = load_policy(path)
    entrants: dict[str, Player] = {bot: bot for bot in loaded.spec.bots}
    entrants[loaded.name] = loaded.policy
    return rate(loaded.spec, entrants, deals=deals, threads=config.threads)
