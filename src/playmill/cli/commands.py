"""The commands besides `train`, each a function whose arguments are the command line."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.util
import json
import math
import os
import platform
import sys
from pathlib import Path
from typing import Annotated

import torch
import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from playmill import __version__
from playmill.cli.play import play
from playmill.cli.watch import Step, watch
from playmill.cli.watch_file import watch_file
from playmill.games import GameSpec, PlaymillError, registry, unknown
from playmill.league.agents import Agent, BotAgent, play_out
from playmill.league.evaluate import Evaluation, Player, evaluate
from playmill.league.evaluate_remote import evaluate_remote
from playmill.league.policies import load_policy
from playmill.league.policy_agent import PolicyAgent
from playmill.league.ratings import Rating, rate
from playmill.pools.lanes import cuda_lane
from playmill.replays import ReplayWriter, Timeline
from playmill.training.config import recipe_names
from playmill.training.exchange import left_behind


def evaluate_command(
    who: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN|CHECKPOINT|BOT")],
    against: tuple[str, ...] = (),
    deals: int = 1000,
    game: str = "skull_king",
    sample: bool = False,
    ratings: bool = False,
    seed: int = 1,
    threads: int | None = None,
    replays: Path | None = None,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """How strong a run, a checkpoint or a bot is: duplicate deals, rotated seats, 95 % intervals.

    Args:
        who: A run, a checkpoint folder, or a bot of the game.
        against: Bots, runs or checkpoints to meet, one kind at a time; all bots when none is named.
        deals: Deals; each is played once from every seat.
        game: The game, when only bots are named.
        sample: Draw actions from the policy instead of taking the likeliest.
        ratings: Elo-style ratings of all of them on mixed tables as well.
        seed: Names the deals.
        threads: Threads; all cores by default.
        replays: Append every game to this file, for `playmill watch`; those of --ratings are not among them.
        as_json: Print one JSON object instead of tables.
    """
    threads = threads or len(os.sched_getaffinity(0))
    torch.set_num_threads(1)  # every thread plays games of its own
    player, spec, name = _player(who, game)
    others = {n: _player(n, spec.name)[0] for n in (against or spec.bots)}
    if spec.foreign and (ratings or replays is not None):
        raise PlaymillError(f"{spec.name} is played by engines: leave --ratings and --replays out")
    with contextlib.ExitStack() as stack:
        writer = stack.enter_context(ReplayWriter(replays)) if replays is not None else None
        results = {
            n: evaluate_remote(
                spec, player, other, deals=deals, seed=seed, sample=sample, engines=threads, within=math.inf
            )
            if spec.foreign
            else evaluate(
                spec,
                player,
                other,
                deals=deals,
                seed=seed,
                threads=threads,
                sample=sample,
                replays=writer,
                names=(name, n),
            )
            for n, other in others.items()
        }
    rated = rate(spec, {**others, name: player}, deals=deals, seed=seed, threads=threads) if ratings else []
    if as_json:
        print(
            json.dumps(
                {
                    "player": name,
                    "game": spec.name,
                    "options": spec.options,
                    "against": {n: dataclasses.asdict(r) for n, r in results.items()},
                    "ratings": [dataclasses.asdict(r) for r in rated],
                }
            )
        )
        return
    console = Console()
    console.print(_evaluation_table(f"{name} · {spec.title}", results))
    by_cards = {n: r for n, r in results.items() if r.bid_made_by_cards}
    if by_cards:
        console.print(_bids_table(by_cards))
    if rated:
        console.print(_ratings_table(rated))


def play_command(
    who: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="[RUN|CHECKPOINT|BOT]")] = "greedy",
    game: str = "skull_king",
    options: dict[str, str] | None = None,
    seat: int | None = None,
    seed: int | None = None,
    sample: bool = False,
    replays: Path | None = None,
) -> None:
    """Play against an agent in the terminal.

    Args:
        who: A run, a checkpoint folder, or a bot: it sits in all the other seats.
        game: The game, when the opponent is a bot.
        options: Options of the game against a bot, as `--options players 3`.
        seat: Your seat; any by default.
        seed: Names the deal.
        sample: The agent draws its moves instead of taking the likeliest.
        replays: Append every game played to its end to this file.
    """
    agent, spec = _agent(who, game, options, sample)
    play(spec.name, spec.options, [agent], seat, seed, Console(), replays=replays)


def watch_command(
    what: Annotated[
        tyro.conf.Positional[str], tyro.conf.arg(metavar="[REPLAYS|RUN|CHECKPOINT|BOT]")
    ] = "greedy",
    against: tuple[str, ...] = (),
    game: str = "",
    options: dict[str, str] | None = None,
    seed: int = 0,
    seat: int | None = None,
    delay: float | None = None,
    replays: Path | None = None,
    list_games: Annotated[bool, tyro.conf.arg(name="list")] = False,
) -> None:
    """Watch a game move by move: one from a file of replays, or a fresh one between agents.

    Args:
        what: A file of replays, or who plays: a run, a checkpoint folder or a bot.
        against: Who sits in the other seats; the same agent by default.
        game: The game, when only bots play; of a file, the number of the game, from 1.
        options: Options of the game, when only bots play.
        seed: Names the deal.
        seat: Show what this seat sees; all there is by default.
        delay: Seconds between two moves; by default a key is waited for.
        replays: Also append the game to this file.
        list_games: Say what games a file holds, and stop.
    """
    step: Step = "key" if delay is None else delay
    if Path(what).is_file() or Path(what).suffix == ".replays":
        watch_file(Path(what), game, Console(), step=step, seat=seat, list_games=list_games)
        return
    if list_games:
        raise PlaymillError(f"--list is for a file of replays, and '{what}' is none")
    first, spec = _agent(what, game or "skull_king", options, sample=False)
    others = [_agent(name, spec.name, options, sample=False)[0] for name in against] or [first]
    table = [first, *(others[i % len(others)] for i in range(spec.seats - 1))]
    replay, thoughts = play_out(spec.name, spec.options, table, seed)
    if replays is not None:
        with ReplayWriter(replays) as writer:
            writer.add(replay)
    watch(Timeline(replay), Console(), step=step, seat=seat, thoughts=thoughts)


def games_command(
    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="[NAME]")] = "",
) -> None:
    """The games there are; with a name, its options, bots and observation."""
    console = Console()
    if name:
        _describe(registry.spec(name), console)
        return
    table = Table(title="Games", title_justify="left")
    for column in ("name", "title", "seats", "actions", "bots", "packed bytes"):
        table.add_column(column)
    for each in registry.names():
        spec = registry.spec(each)
        row = (str(spec.seats), str(spec.actions), ", ".join(spec.bots), str(spec.schema.bytes))
        table.add_row(each, spec.title, *row)
    console.print(table)
    console.print(f"Recipes: {', '.join(recipe_names())}", highlight=False)
    console.print("`playmill games NAME` shows a game's options.", highlight=False)


def doctor_command() -> None:
    """What this machine has, which lanes exist, and what is missing."""
    console = Console(highlight=False)
    console.print(f"playmill {__version__}, Python {platform.python_version()}, torch {torch.__version__}")
    console.print(f"{_cpu_name()}, {len(os.sched_getaffinity(0))} cores for this process")
    console.print("[green]✓[/] CPU lane: native games, resident training")
    cuda = cuda_lane()
    mark = "[green]✓[/]" if cuda.available else "[yellow]–[/]"
    console.print(f"{mark} CUDA lane: {escape(cuda.reason)}", soft_wrap=True)
    if cuda.available and not torch.cuda.is_available():
        console.print(f"[yellow]–[/] torch {torch.__version__} is for the CPU alone: install torch for CUDA")
    for module, purpose, extra in _OPTIONAL:
        if importlib.util.find_spec(module):
            console.print(f"[green]✓[/] {module}: {purpose}")
        else:
            console.print(f"[yellow]–[/] {module}: {purpose}; missing, `pip install 'playmill\\[{extra}]'`")
    for folder in left_behind():
        console.print(f"[yellow]–[/] {folder} is of a run that is gone; `rm -r {folder}` frees its memory")
    console.print(f"games: {', '.join(registry.names())}")
    console.print(f"recipes: {', '.join(recipe_names()) or 'none found'}")


_OPTIONAL = (
    ("matplotlib", "curves.png", "report"),
    ("tensorboard", "TensorBoard events", "report"),
    ("pettingzoo", "the PettingZoo adapter", "pettingzoo"),
    ("pyspiel", "exact exploitability, benchmarks", "openspiel"),
    ("sb3_contrib", "the MaskablePPO benchmark", "bench"),
    ("grpc", "the batch game service", "serve"),
)


def bench_command(
    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")],
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
    quick: bool = False,
    save: bool = False,
    settings: dict[str, float] | None = None,
) -> None:
    """Measure. The last line printed is one JSON object with the numbers and their bars.

    Args:
        name: Which benchmark; they lie in benchmarks/.
        as_json: Print nothing but the JSON line.
        quick: A short version that only shows that it works.
        save: Write the result to benchmarks/results/ as well.
        settings: For `service`, the load: --settings agents 4 games 250 rate 100 think 0 seconds 10.
    """
    root = Path(__file__).resolve().parents[3]
    if not (root / "benchmarks" / "__init__.py").exists():
        raise PlaymillError("the benchmarks come with the checkout: clone it and `make setup` there")
    sys.path.insert(0, str(root))
    suite = importlib.import_module("benchmarks")
    if name not in suite.NAMES:
        raise unknown("benchmark", name, suite.NAMES)
    suite.run(name, quiet=as_json, quick=quick, save=save, settings=settings or {})


def _player(who: str, game: str) -> tuple[Player, GameSpec, str]:
    """A bot by name, or a policy by path."""
    if not Path(who).exists():
        spec = registry.spec(game)
        if who in spec.bots:
            return who, spec, who
        if "/" not in who:
            raise unknown(f"run, checkpoint or bot of {game}", who, spec.bots)
    loaded = load_policy(Path(who))
    return loaded.policy, loaded.spec, loaded.name


def _agent(who: str, game: str, options: dict[str, str] | None, sample: bool) -> tuple[Agent, GameSpec]:
    player, spec, name = _player(who, game)
    if isinstance(player, str):
        spec = registry.spec(game, options)
        return BotAgent(spec, player), spec
    if options:
        raise PlaymillError("a trained agent knows the game it was trained on; leave --options out")
    return PolicyAgent(player, name, sample), spec


def _evaluation_table(title: str, results: dict[str, Evaluation]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in ("against", "win share", "95 %", "fair", "score", "theirs", "bids made", "games"):
        table.add_column(column, justify="left" if column == "against" else "right")
    for name, r in results.items():
        score = "" if r.score is None else f"{r.score:.1f}"
        theirs = "" if r.opponent_score is None else f"{r.opponent_score:.1f}"
        made = "" if r.bid_made is None else f"{r.bid_made:.1%}"
        span = f"{r.low:.3f} – {r.high:.3f}"
        table.add_row(name, f"{r.win_share:.3f}", span, f"{r.fair:.3f}", score, theirs, made, f"{r.games:,}")
    return table


def _bids_table(results: dict[str, Evaluation]) -> Table:
    cards = sorted({c for r in results.values() for c in r.bid_made_by_cards})
    table = Table(title="Bids made, by cards in hand", title_justify="left")
    table.add_column("against")
    for c in cards:
        table.add_column(str(c), justify="right")
    for name, r in results.items():
        table.add_row(name, *(f"{r.bid_made_by_cards[c]:.0%}" for c in cards))
    return table


def _ratings_table(ratings: list[Rating]) -> Table:
    table = Table(title="Ratings (the first bot is 1000; 400 points are ten to one)", title_justify="left")
    for column in ("name", "rating", "95 %", "games"):
        table.add_column(column, justify="left" if column == "name" else "right")
    for r in ratings:
        table.add_row(r.name, f"{r.rating:.0f}", f"{r.low:.0f} – {r.high:.0f}", f"{r.games:,}")
    return table


def _describe(spec: GameSpec, console: Console) -> None:
    console.print(f"[bold]{spec.title}[/] ({spec.name}): {spec.seats} seats, {spec.actions} actions")
    console.print(f"decisions: {', '.join(spec.roles)}", highlight=False)
    console.print(f"bots: {', '.join(spec.bots)}", highlight=False)
    if spec.option_specs:
        table = Table(title="Options", title_justify="left")
        for column in ("name", "values", "default", "meaning"):
            table.add_column(column)
        for o in spec.option_specs:
            values = ", ".join(o.choices) if o.choices else f"{o.low} to {o.high}"
            table.add_row(o.name, values, o.default_text, o.help)
        console.print(table)
    fields = Table(
        title=f"Observation: {spec.schema.bytes} bytes, {spec.schema.features} features, "
        f"schema {spec.schema.hash:016x}",
        title_justify="left",
    )
    for column in ("field", "rows", "columns", "encoding", "scale"):
        fields.add_column(column)
    for f in spec.schema.fields:
        kind = f.encoding.name.lower() + (f" of {f.size}" if f.size else "")
        fields.add_row(f.name, str(f.rows), str(f.columns), kind, f"{f.scale:g}")
    console.print(fields)


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "CPU")
