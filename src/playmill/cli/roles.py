"""The processes of the engine lane, one command each, and the ledger of a run."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import tyro

from playmill.checkpoints import Store, read
from playmill.cli.process import end_with_parent
from playmill.experience.ledger import Ledger
from playmill.games import PlaymillError
from playmill.training.engine_lane import LEDGER
from playmill.training.exchange import Exchange, run_id
from playmill.training.roles import answer, play
from playmill.training.runs import read_config

Run = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]


def actor_command(run: Run, number: int = 0, parent: int = 0) -> None:
    """Play games for a run: engines, decisions, segments to the learner. `playmill train` starts its own.

    Args:
        run: Folder of the run.
        number: Which actor this is; no two at one time have the same.
        parent: Ends with that process.
    """
    config = read_config(run)
    if not config.by_engines:
        raise PlaymillError(f"{run} is played in the learner's process; it has no actors")
    if number < 0:
        raise PlaymillError(f"--number must be 0 or more, got {number}")
    done = play(run, number, stopped_by_signal(parent)).counts
    print(f"{done.turns:,} turns, {done.games:,} games, {done.segments:,} segments handed over")


def policy_command(run: Run, parent: int = 0) -> None:
    """Decide for all actors of a machine (`actors.inference = "process"`); `playmill train` starts its own.

    Args:
        run: Folder of the run.
        parent: Ends with that process.
    """
    answer(run, stopped_by_signal(parent))


def ledger_command(run: Run, as_json: Annotated[bool, tyro.conf.arg(name="json")] = False) -> None:
    """What became of all experience: produced = trained + dropped + in flight. Exit code 1 if it is not so.

    Args:
        run: Folder of the run.
        as_json: Print one JSON object instead of a table.
    """
    config = read_config(run)
    if not config.by_engines:
        raise PlaymillError(
            f"{run} is played in the learner's process; nothing travels, and no ledger is kept"
        )
    exchange = Exchange(config, run_id(run), run)
    receiver = exchange.receiver(look=True)
    try:
        produced, waiting = receiver.produced(), list(receiver.waiting())
    finally:
        receiver.close()
    proof = _saved_ledger(run, exchange.run).prove(produced, waiting)
    if as_json:
        names = ("produced", "trained", "dropped", "in_flight", "lost", "twice")
        told = {name: proof.total(name) for name in names}
        print(json.dumps({**told, "reasons": proof.dropped, "holds": proof.holds}))
    else:
        print(proof.table())
    if not proof.holds:
        raise SystemExit(1)


def _saved_ledger(run: Path, name: str) -> Ledger:
    """Of the newest checkpoint; an empty one before the first."""
    latest = Store(run / "checkpoints", keep=1).latest()
    if latest is None:
        return Ledger(name)
    return Ledger.from_state(json.loads(read(latest).blobs[LEDGER])["ledger"])


def stopped_by_signal(parent: int) -> Callable[[], bool]:
    """Whether a signal came, or the process that started this one is gone."""
    told: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda found, _frame: told.append(found))
    if parent:
        end_with_parent()
        if os.getppid() != parent:
            told.append(signal.SIGTERM)  # it was gone before we could ask
    return lambda: bool(told)
