"""Evaluates a run's checkpoints in a process of its own, the newest first, while the learner goes on."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from playmill.checkpoints import Store, lock_folder
from playmill.games import PlaymillError
from playmill.league.exploitability import TINY, InformationStates, openspiel_installed
from playmill.league.policies import LoadedPolicy, load_policy
from playmill.telemetry.meters import NO_METERS, Meters
from playmill.training.evaluations import COPIES, Found, Reader, append
from playmill.training.judge import exact_exploitability, meet
from playmill.training.meters import tell_wins
from playmill.training.runs import read_config

LOOK_S = 0.5
"""Between two looks for a new checkpoint."""
RETRY_S = 10.0
"""After engines or the disk failed."""
COPIES_KEPT = 3


class Evaluator:
    """What is done stands in the run's evaluations.jsonl, so one that was killed goes on where it was."""

    def __init__(
        self,
        folder: Path,
        threads: int = 1,
        say: Callable[[str], None] = print,
        meters: Meters = NO_METERS,
    ) -> None:
        self.folder, self.threads, self.say = folder, threads, say
        self.config = read_config(folder)
        self._meters = meters
        self.store = Store(folder / "checkpoints", keep=1, on_warning=lambda _text: None)
        self.copies = folder / COPIES
        self.done: set[int] = set()
        self._reader = Reader(folder)
        self._states: InformationStates | None = None

    def run(self, stopped: Callable[[], bool]) -> None:
        """Until `stopped`. Of several evaluators of a run one works; the others wait to take its place."""
        self.copies.mkdir(exist_ok=True)
        while not stopped():
            try:
                lock = lock_folder(self.copies)
            except PlaymillError:
                time.sleep(LOOK_S)
                continue
            with lock:
                self._work(stopped)

    def _work(self, stopped: Callable[[], bool]) -> None:
        while not stopped():
            try:
                if self.step() is None:
                    time.sleep(LOOK_S)
            except (PlaymillError, OSError) as error:
                self.say(f"will be tried again: {error}")
                _sleep(RETRY_S, stopped)

    def step(self) -> int | None:
        """Evaluates the newest checkpoint that was not; its step, or None where there is none."""
        last = self.config.bots[-1] if self.config.bots else ""
        self.done |= {found.step for found in self._reader.news() if found.opponent == last}
        for step in reversed(self.store.steps()):
            if step not in self.done and (copy := self._copy(step)) is not None:
                self._evaluate(step, copy)
                return step
        return None

    def _copy(self, step: int) -> Path | None:
        """The checkpoint as this process's own: the run may delete it at any time. None: it did, or it is
        damaged."""
        source, target = self.store.path(step), self.copies / self.store.path(step).name
        shutil.rmtree(target, ignore_errors=True)
        try:
            shutil.copytree(source, target, copy_function=_link)
            return target
        except (shutil.Error, FileNotFoundError):
            shutil.rmtree(target, ignore_errors=True)
            return None

    def _evaluate(self, step: int, copy: Path) -> None:
        try:
            loaded = load_policy(copy)
        except PlaymillError as error:
            if not self.config.spec.foreign:
                self.done.add(step)
                self.say(f"step {step} is left out: {error}")
                return
            raise
        found = self._found(step, loaded)
        append(self.folder, found)
        self.done.add(step)
        tell_wins(self._meters, {one.opponent: one.result for one in found if one.result is not None})
        for one in found:
            if one.result is not None:
                result = one.result
                shares = f"{result.win_share:.1%} ({result.low:.1%} to {result.high:.1%})"
                self.say(f"step {step}: {shares} against {one.opponent}, {one.took:.1f} s")
        for old in sorted(self.copies.glob("step-*"))[:-COPIES_KEPT]:
            shutil.rmtree(old, ignore_errors=True)

    def _found(self, step: int, loaded: LoadedPolicy) -> list[Found]:
        config, seconds = self.config, float(loaded.meta["seconds"])
        lines = []
        if config.evaluation.exploitability and loaded.spec.name in TINY and openspiel_installed():
            began = time.perf_counter()
            self._states = self._states or InformationStates(loaded.spec.name)
            value = exact_exploitability(loaded.policy, self._states)
            lines.append(Found(step, seconds, "", time.perf_counter() - began, exploitability=value))
        for bot in config.bots:
            began = time.perf_counter()
            deals = config.evaluation.deals
            result = meet(config, loaded.spec, loaded.policy, bot, deals, self.threads)
            lines.append(Found(step, seconds, bot, time.perf_counter() - began, result))
        return lines


def _link(source: str, target: str) -> None:
    """Another name for the same bytes; a copy where there are no such names."""
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copy2(source, target)


def _sleep(seconds: float, stopped: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and not stopped():
        time.sleep(LOOK_S)
