"""The trainer: turns a lane, update after update, and keeps the budget, the run folder and the judge.

A run is a function of its config and of what the last checkpoint holds: the order of rows, the
actions drawn and the seating are named by seed and update number, so a run that is killed and
resumed gives the same weights, bit for bit."""

from __future__ import annotations

import dataclasses
import time
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from playmill.checkpoints import BackgroundWriter, Checkpoint, CheckpointError, Store, read
from playmill.games import PlaymillError
from playmill.league.policies import check_schema
from playmill.policies import Policy
from playmill.telemetry.alive import Alive
from playmill.telemetry.instruments import NO_INSTRUMENTS, Instruments
from playmill.telemetry.metrics import MetricsLog, read_metrics
from playmill.training.engine_lane import EngineLane
from playmill.training.evaluations import COPIES, Reader
from playmill.training.exchange import run_id
from playmill.training.judge import Judge
from playmill.training.lane import Done, Lane, seating_seed
from playmill.training.meters import TrainerMeters
from playmill.training.ranked import LeadingLane, rank_lane
from playmill.training.ranks import ALONE, Ranks
from playmill.training.runs import RunFolder
from playmill.training.status import Status
from playmill.training.utilisation import Utilisation, utilisation_metrics, write_utilisation

WITHIN_S = 0.5
"""How long something to learn from is waited for before the clock and the signals are looked at."""
LOOK_S = 0.5
"""Between two looks at what an evaluator beside the training found."""
PRESSED_S = 1.0
"""Between two checkpoints that a lane asks for."""
JUDGED_S = 6 * 3600.0
"""The most that an evaluation, and all that comes at the end of a run, may take before it counts as hung."""


class Listener(Protocol):
    """Who watches a training."""

    def update(self, status: Status) -> None: ...
    def note(self, text: str) -> None: ...


class Trainer:
    """One run, from its last checkpoint (or the start) to its budget's end or `stop()`.

    `run` does it all; `begin`, `advance` and `finish` are its parts, for those who turn several
    trainers at once."""

    def __init__(
        self,
        run: RunFolder,
        listener: Listener,
        ranks: Ranks = ALONE,
        alive: Path | None = None,
        instruments: Instruments = NO_INSTRUMENTS,
    ) -> None:
        """`ranks`: of which this is the first. `alive`: the file of its signs of life."""
        config = run.config
        if config.ranks != ranks.count:
            raise PlaymillError(f"{run.path} is for {config.ranks} ranks, and {ranks.count} were started")
        self.run_folder, self.config, self.listener = run, config, listener
        self._tracer, name = instruments.tracer, run_id(run.path) if config.by_engines else run.path.name
        self._meters = TrainerMeters(instruments.meters, config, name)
        self.spec, self.alive = config.spec, Alive(alive)
        self.updates = self.turns = self.games_played = 0
        self.seconds = 0.0
        self.seated = -1
        self._skipped = self._restored = 0
        self.utilisation: Utilisation | None = None
        self._stopping: str | None = None
        self._checkpoint: str | None = None
        self._saves = self._whole = 0
        """Checkpoints that were begun, and the newest of them that is whole."""
        self._failing = False
        self._saved_at = self._begun = self._before = self._told_at = 0.0

        self.store = Store(run.checkpoints, config.checkpoints.keep, on_warning=listener.note)
        latest = self.store.latest()
        saved = read(latest) if latest is not None else None
        if latest is not None and saved is not None:
            check_schema(self.spec, saved.meta, latest)
        self.lane = _lane(run, saved, ranks, instruments)
        self.judge = Judge(config, self.spec, self.policy)
        if latest is not None and saved is not None:
            self._load(latest, saved)
        self.metrics = MetricsLog(run.path, self.turns if latest is not None else None)
        self._beside = Reader(run.path) if config.judged_beside else None
        self._told = _told_of(run.path) if self._beside is not None and latest is not None else set()
        self._looked_at = 0.0
        self.writer = BackgroundWriter(self.store, on_error=self._on_save_error)

    @property
    def policy(self) -> Policy:
        return self.lane.policy

    def stop(self, reason: str) -> None:
        """Ends the training after the update in hand."""
        self._stopping = reason

    def run(self) -> str:
        """Trains; returns why it ended. The last state is saved."""
        self.begin()
        reason = self.finished()
        while reason is None:
            reason = self.advance()
        self.finish(reason)
        return reason

    def begin(self) -> None:
        """Starts the clock."""
        self._begun, self._before = time.perf_counter(), self.seconds
        self._saved_at = self.seconds

    def advance(self) -> str | None:
        """One update, an evaluation and a checkpoint where they are due; why the run is over, if it is."""
        self.alive.sign()
        if not self.lane.ready(WITHIN_S):
            self._clock()
            # Whoever fills the lane may be waiting for the room that only a checkpoint frees.
            self._save_when_pressed()
            self.lane.saved(self._whole)
            return self.finished()
        self._seat_opponents()
        with self._tracer.span("learner.update", links=self.lane.trail, number=self.updates):
            done = self.lane.update(self.updates, self._progress())
        self.updates += 1
        self.turns += self.config.turns_an_update
        self._tell(done)
        self._clock()
        self._take_findings()
        if self.judge.due(self.turns):
            self._evaluate(final=False)
            self._clock()
        self._save_when_due()
        self.lane.saved(self._whole)
        return self.finished()

    def finish(self, reason: str) -> None:
        """Saves the last state; judges it once more when the budget was the reason."""
        self.alive.expect(JUDGED_S)
        if reason in ("budget", "plateau"):
            self.lane.wind_up()
        self._save(must=True)
        if reason == "budget":
            self._evaluate(final=True)
            self._save(must=True)
        if self.utilisation is not None:
            write_utilisation(self.run_folder.path, self.utilisation)
        self.writer.close()
        self.lane.saved(self._whole)
        self.metrics.close()
        self.lane.close()

    def _clock(self) -> None:
        self.seconds = self._before + time.perf_counter() - self._begun

    # One update

    def _seat_opponents(self) -> None:
        """Takes the policy into the past now and then, and seats the opponents anew."""
        opponents = self.config.opponents
        if opponents.past == 0 and opponents.bots == 0:
            return
        version = self.updates // opponents.every
        if version == self.seated:
            return
        if opponents.past and self.updates:
            self.lane.remember(opponents.keep)
        self.seated = version
        self.lane.seat(seating_seed(self.config.seed, version))

    def _tell(self, done: Done | None) -> None:
        """Counts an update and tells whoever watches."""
        if done is None:
            return
        self.games_played += done.games
        self._meters.updated(done.games, done.seconds, done.phases)
        number = done.number + 1
        if done.restored > self._restored:
            self.listener.note(f"update {number}: weights were not finite; the update was undone")
        elif done.skipped > self._skipped:
            count = done.skipped - self._skipped
            self.listener.note(f"update {number}: {count} gradient steps were not finite and left out")
        self._skipped, self._restored = done.skipped, done.restored
        if done.asked_to_end:
            self.stop("SIGTERM")
        if number == self.config.lessons:
            turns, expected = (
                number * self.config.turns_an_update,
                done.losses["teacher_likelihood"],
            )
            self.listener.note(
                f"lessons over at {turns:,} turns; likelihood of the teacher's answers {expected:.1%}"
            )
        now = time.perf_counter()
        if now - self._told_at >= self.lane.tell_every_s:
            self._told_at = now
            self._report(done)

    def _report(self, done: Done) -> None:
        turns = self.config.turns_an_update
        shares = {phase: seconds / done.seconds for phase, seconds in done.phases.items()}
        status = Status(
            turns=(done.number + 1) * turns,
            updates=done.number + 1,
            seconds=self.seconds,
            turns_per_s=turns / done.seconds,
            games_per_s=done.games / done.seconds,
            shares=shares,
            losses=_figures(done),
            evaluation=self.judge.latest,
            history=self.judge.history,
            extras=self.judge.extras,
            checkpoint=self._checkpoint,
            eta_s=self._eta(),
        )
        self.listener.update(status)
        values = {f"loss/{name}": value for name, value in done.losses.items()}
        values |= {f"time/{phase}": share for phase, share in shares.items()}
        values |= {"speed/turns_per_s": status.turns_per_s, "speed/games_per_s": status.games_per_s}
        values |= {"run/seconds": self.seconds, "run/games": float(self.games_played)}
        values |= {"guard/skipped": float(done.skipped), "guard/restored": float(done.restored)}
        values |= {f"self/{name}": mean for name, mean in done.stats.items()}
        if done.utilisation is not None:
            self.utilisation = done.utilisation
            values |= utilisation_metrics(done.utilisation)
        self.metrics.write(status.turns, values)

    # Budget

    def _progress(self) -> float:
        """How far the budget is spent, 0 to 1; turns rule when both are given."""
        if self.config.turns:
            return self.turns / self.config.turns
        return self.seconds / (60.0 * self.config.minutes) if self.config.minutes else 0.0

    def finished(self) -> str | None:
        """Why the run is over, if it is."""
        if self._stopping is not None:
            return self._stopping
        spent = self.config.turns and self.turns >= self.config.turns
        late = self.config.minutes and self.seconds >= 60.0 * self.config.minutes
        if spent or late:
            return "budget"
        return "plateau" if self.judge.plateau() else None

    def _eta(self) -> float | None:
        progress = self._progress()
        if self.config.minutes and not self.config.turns:
            return max(0.0, 60.0 * self.config.minutes - self.seconds)
        return self.seconds * (1.0 - progress) / progress if 0 < progress < 1 and self.seconds else None

    # Judging

    def _evaluate(self, final: bool) -> None:
        self._tell(self.lane.wait())
        self.alive.expect(JUDGED_S)
        try:
            values = self.judge.judge(self.turns, self.seconds, final)
        except PlaymillError as error:
            if not self.spec.foreign:
                raise
            # Somebody else's engines may be gone by now; what was trained is not.
            self.listener.note(f"the policy could not be evaluated: {error}")
            return
        self.metrics.write(self.turns, values)
        self._meters.judged(self.judge.latest)
        if self.judge.is_best():
            self._save(must=True, best_score=self.judge.score)

    def _take_findings(self) -> None:
        """What an evaluator beside the training has found meanwhile."""
        if self._beside is None or self.seconds - self._looked_at < LOOK_S:
            return
        self._looked_at = self.seconds
        for found in self._beside.news():
            values = self.judge.take(found)
            self._meters.judged(self.judge.latest)
            if (found.step, found.opponent) not in self._told:
                self.metrics.write(found.step, values)
            if self.judge.is_best() and self.judge.score is not None:
                copy = self.run_folder.path / COPIES / self.store.path(found.step).name
                self._keep_best(found.step, self.judge.score, copy)

    def _keep_best(self, step: int, score: float, copy: Path) -> None:
        try:
            kept = self.store.keep_best(step, score, copy)
        except (OSError, CheckpointError) as error:
            self._on_save_error(error)
            return
        if not kept:
            self.listener.note(f"step {step} was the best so far, and is gone; checkpoints.keep is too small")

    # Saving

    def _save_when_due(self) -> None:
        every = self.config.checkpoints
        by_count = every.every_updates and self.updates % every.every_updates == 0
        by_time = not every.every_updates and self.seconds - self._saved_at >= every.every_s
        if by_count or by_time:
            self._save(must=bool(by_count))
        else:
            self._save_when_pressed()

    def _save_when_pressed(self) -> None:
        if self.lane.urgent and self.seconds - self._saved_at >= PRESSED_S:
            self._save(must=False)

    def _save(self, must: bool, best_score: float | None = None) -> None:
        self._tell(self.lane.wait())
        self._saved_at = self.seconds
        meta: dict[str, Any] = {
            "game": self.config.game,
            "options": self.config.options,
            "schema_hash": f"{self.spec.schema.hash:016x}",
            "network": dataclasses.asdict(self.config.network),
            "seed": self.config.seed,
            "device": self.config.device,
            "precision": self.lane.precision,
            "updates": self.updates,
            "turns": self.turns,
            "seconds": self.seconds,
            "games_played": self.games_played,
            "seated": self.seated,
            "past": len(self.lane.past),
            "skipped": self._skipped,
            "restored": self._restored,
            "judge": self.judge.state(),
        }
        tensors, blobs = self.lane.tensors(), self.lane.blobs()
        self._saves += 1
        after = partial(self._on_saved, self._saves)
        self.writer.submit(self.turns, tensors, meta, blobs, must=must, best_score=best_score, after=after)

    def _load(self, path: Path, checkpoint: Checkpoint) -> None:
        meta: dict[str, Any] = checkpoint.meta
        self.updates, self.turns = meta["updates"], meta["turns"]
        self.seconds, self.games_played = meta["seconds"], meta["games_played"]
        self.seated = meta["seated"]
        self._skipped, self._restored = meta["skipped"], meta["restored"]
        try:
            self.lane.load(checkpoint.tensors, checkpoint.blobs, meta)
        except (KeyError, RuntimeError) as error:
            raise PlaymillError(f"{path} does not fit this run's config: {error}") from None
        self.judge.load_state(meta["judge"])
        self.store.drop_after(self.turns)
        self._checkpoint = path.name

    def _on_saved(self, number: int, path: Path) -> None:
        self._checkpoint, self._whole = path.name, number
        if self._failing:
            self._failing = False
            self.listener.note(f"checkpoints are saved again: {path.name}")

    def _on_save_error(self, error: Exception) -> None:
        if not self._failing:
            self.listener.note(
                f"the checkpoint could not be saved ({error}); training goes on, the last one stays"
            )
        self._failing = True


def _figures(done: Done) -> dict[str, float]:
    """The loss terms, and on a card how much of it was used."""
    if done.utilisation is None:
        return dict(done.losses)
    whole = done.utilisation.whole
    return {**done.losses, "matrix_share": whole.matrix_share, "memory_share": whole.memory_share}


def _told_of(folder: Path) -> set[tuple[int, str]]:
    """Steps and opponents whose evaluation is among the metrics; no opponent: the exploitability."""
    found = set()
    for row in read_metrics(folder):
        for name in row:
            if name == "eval/exploitability":
                found.add((int(row["step"]), ""))
            elif name.startswith("eval/") and name.endswith("/win_share"):
                found.add((int(row["step"]), name.split("/")[1]))
    return found


def _lane(run: RunFolder, saved: Checkpoint | None, ranks: Ranks, instruments: Instruments) -> Lane:
    """The lane a run is trained on; a resumed one keeps the precision it began with."""
    config, spec = run.config, run.config.spec
    precision = None if saved is None else str(saved.meta["precision"])
    if config.by_engines:
        return EngineLane(config, spec, precision, run.path, instruments)
    if ranks.count > 1:
        return LeadingLane(config, spec, precision, ranks)
    return rank_lane(config, spec, precision, ranks)
