"""The command line: `playmill train | evaluate | play | watch | serve | bench | games | doctor`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.markup import escape

from playmill.checkpoints import CheckpointError
from playmill.cli import commands
from playmill.cli.arguments import call_with_arguments
from playmill.cli.launch import agent_command, join_command, launch_command
from playmill.cli.roles import actor_command, evaluator_command, ledger_command, policy_command
from playmill.cli.serve import serve_command
from playmill.cli.train import train_command
from playmill.games import IllegalAction, PlaymillError, unknown
from playmill.telemetry import TelemetryError

DESCRIPTION = "Turns the rules of a turn-based game into a strong agent."

COMMANDS: dict[str, Callable[..., object]] = {
    "evaluate": commands.evaluate_command,
    "play": commands.play_command,
    "watch": commands.watch_command,
    "bench": commands.bench_command,
    "games": commands.games_command,
    "doctor": commands.doctor_command,
    "actor": actor_command,
    "policy": policy_command,
    "evaluator": evaluator_command,
    "ledger": ledger_command,
    "launch": launch_command,
    "join": join_command,
    "agent": agent_command,
}

HELP = """usage: playmill COMMAND ...

Turns the rules of a turn-based game into a strong agent.

  train     [RECIPE]  train an agent by self-play       playmill train skull_king/quick
  evaluate  RUN       how strong it is, with intervals  playmill evaluate runs/skull_king-1
  play      [RUN]     play against it in the terminal   playmill play runs/skull_king-1
  watch     [RUN]     watch it play, or a replay        playmill watch runs/skull_king-1
  serve               games for other programs, by gRPC or shared memory
  actor     RUN       play games for a run, beside or away from its learner
  policy    RUN       decide for all actors of a machine
  evaluator RUN       evaluate a run's checkpoints beside its training
  ledger    RUN       what became of all experience     playmill ledger runs/leduc-1
  launch    FILE      train on several machines         playmill launch cluster.toml
  join      FILE ROLE take part in a cluster, as one role
  agent               run a machine's part of a cluster; launch starts it over ssh
  bench     NAME      measure, and print one JSON line  playmill bench pool --json
  games     [NAME]    the games there are, their options and bots
  doctor              what this machine has, and what is missing

`playmill COMMAND --help` says what each takes."""


def main(argv: Sequence[str] | None = None) -> None:
    """Runs a command; errors a user can put right are one line and exit code 2."""
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        _dispatch(args)
    except (PlaymillError, CheckpointError, IllegalAction, TelemetryError) as error:
        text = str(error) if isinstance(error, IllegalAction) else escape(str(error))
        Console(stderr=True).print(f"[bold red]playmill:[/] {text}", highlight=False, soft_wrap=True)
        raise SystemExit(2) from None
    except BrokenPipeError:
        raise SystemExit(0) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _dispatch(args: list[str]) -> None:
    if not args or args[0] in ("-h", "--help", "help"):
        print(HELP)
        return
    name, rest = args[0], args[1:]
    if name == "--version":
        from playmill import __version__

        print(f"playmill {__version__}")
    elif name == "train":
        train_command(rest)
    elif name == "serve":
        serve_command(rest)
    elif name in COMMANDS:
        call_with_arguments(COMMANDS[name], rest, f"playmill {name}")
    else:
        raise unknown("command", name, ["train", "serve", *COMMANDS])
