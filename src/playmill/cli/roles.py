"""The processes of the engine lane, one command each, and the ledger of a run."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import torch
import tyro

from playmill.checkpoints import CheckpointError, Store, read
from playmill.cli.process import end_with_parent
from playmill.experience.ledger import Ledger, Proof
from playmill.games import PlaymillError
from playmill.telemetry.alive import Alive
from playmill.training.engine_lane import LEDGER
from playmill.training.evaluator import Evaluator
from playmill.training.exchange import Exchange, run_id
from playmill.training.meters import introduce
from playmill.training.roles import answer, play, warn
from playmill.training.runs import read_config
from playmill.training.trainer import JUDGED_S

Run = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]


def actor_command(run: Run, number: int = 0, parent: int = 0, alive: Path | None = None) -> None:
    """Play games for a run: engines, decisions, segments to the learner. `playmill train` starts its own.

    Args:
        run: Folder of the run.
        number: Which actor this is; no two at one time have the same.
        parent: Ends with that process.
        alive: Touch this file once a second, for those who restart what hangs.
    """
    config = read_config(run)
    if not config.by_engines:
        raise PlaymillError(f"{run} is played in the learner's process; it has no actors")
    if number < 0:
        raise PlaymillError(f"--number must be 0 or more, got {number}")
    done = play(run, number, stopped_by_signal(parent, alive)).counts
    print(json.dumps({**dataclasses.asdict(done), "cpu_s": time.process_time()}))


def policy_command(run: Run, parent: int = 0, alive: Path | None = None) -> None:
    """Decide for all actors of a machine (`actors.inference = "process"`); `playmill train` starts its own.

    Args:
        run: Folder of the run.
        parent: Ends with that process.
        alive: Touch this file once a second, for those who restart what hangs.
    """
    answer(run, stopped_by_signal(parent, alive))


def evaluator_command(
    run: Run, threads: int = 1, nice: int = 10, parent: int = 0, alive: Path | None = None
) -> None:
    """Evaluate every new checkpoint of a run beside its training, the newest first, until it is stopped;
    results go to evaluations.jsonl. `playmill train` starts its own where games are played by engines.

    Args:
        run: Folder of the run.
        threads: Threads, or for games of other programs engine processes.
        nice: How much it stands back for other processes, 0 to 19.
        parent: Ends with that process.
        alive: Touch this file between two evaluations, for those who restart what hangs.
    """
    if threads < 1 or not 0 <= nice <= 19:
        raise PlaymillError("--threads must be at least 1, and --nice from 0 to 19")
    if parent:
        end_with_parent()
        if os.getppid() != parent:
            return
    os.nice(nice)
    torch.set_num_threads(1)
    config, signs = read_config(run), Alive(alive)

    def stopped() -> bool:
        """What is not finished is nobody's loss: no signal is waited for."""
        signs.expect(JUDGED_S)
        return False

    with config.telemetry.open("evaluator", in_use=warn) as instruments:
        introduce(instruments.meters, run_id(run), config.game, "evaluator")
        Evaluator(run, threads, lambda text: print(text, flush=True), instruments.meters).run(stopped)


def ledger_command(run: Run, as_json: Annotated[bool, tyro.conf.arg(name="json")] = False) -> None:
    """What became of all experience: produced = trained + dropped + in flight. Exit code 1 if it is not so.

    Args:
        run: Folder of the run.
        as_json: Print one JSON object instead of a table.
    """
    proof = prove(run)
    if as_json:
        names = ("produced", "trained", "dropped", "in_flight", "lost", "twice")
        told = {name: proof.total(name) for name in names}
        print(json.dumps({**told, "reasons": proof.dropped, "holds": proof.holds}))
    else:
        print(proof.table())
    if not proof.holds:
        raise SystemExit(1)


def prove(run: Path) -> Proof:
    """The proof of a run as it is now; it disturbs nobody who works on it."""
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
    return _saved_ledger(run, exchange.run).prove(produced, waiting)


def _saved_ledger(run: Path, name: str) -> Ledger:
    """Of the newest checkpoint; an empty one before the first."""
    store = Store(run / "checkpoints", keep=1)
    while (latest := store.latest()) is not None:
        try:
            return Ledger.from_state(json.loads(read(latest).blobs[LEDGER])["ledger"])
        except CheckpointError:
            if store.latest() == latest:
                raise
            # A newer one took its place meanwhile.
    return Ledger(name)


def stopped_by_signal(parent: int, alive: Path | None = None) -> Callable[[], bool]:
    """Whether a signal came, or the process that started this one is gone. Who asks again and again lives."""
    told: list[int] = []
    signs = Alive(alive)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda found, _frame: told.append(found))
    if parent:
        end_with_parent()
        if os.getppid() != parent:
            told.append(signal.SIGTERM)  # it was gone before we could ask

    def stopped() -> bool:
        signs.sign()
        return bool(told)

    return stopped
