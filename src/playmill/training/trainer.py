"""The resident trainer: pool, policy and learner on one device, one update after another.

A run is a function of its config and of what the last checkpoint holds: the order of rows, the
actions drawn and the seating are named by seed and update number, so a run that is killed and
resumed gives the same weights, bit for bit."""

from __future__ import annotations

import copy
import time
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import torch

from playmill.algorithms import seat_returns
from playmill.checkpoints import BackgroundWriter, Checkpoint, Store, read
from playmill.games import PlaymillError
from playmill.league.policies import check_schema, load_weights
from playmill.policies import Policy
from playmill.telemetry.metrics import MetricsLog
from playmill.training.collector import Collector, Stopwatch, seating
from playmill.training.judge import Judge
from playmill.training.learner import Learner
from playmill.training.precision import faster_in_bfloat16
from playmill.training.runs import RunFolder
from playmill.training.shards import Shards
from playmill.training.status import Status


class Listener(Protocol):
    """Who watches a training."""

    def update(self, status: Status) -> None: ...
    def note(self, text: str) -> None: ...


class Trainer:
    """One run, from its last checkpoint (or the start) to its budget's end or `stop()`."""

    def __init__(self, run: RunFolder, listener: Listener) -> None:
        config = run.config
        self.run_folder, self.config, self.listener = run, config, listener
        self.spec = config.spec
        self.shards = Shards(min(config.threads, config.games))
        self.updates = self.turns = self.games_played = 0
        self.seconds = 0.0
        self.past: list[Policy] = []
        self.seated = -1
        self._stopping: str | None = None
        self._checkpoint: str | None = None
        self._saved_at = 0.0

        self.store = Store(run.checkpoints, config.checkpoints.keep, on_warning=listener.note)
        latest = self.store.latest()
        saved = read(latest) if latest is not None else None
        if latest is not None and saved is not None:
            check_schema(self.spec, saved.meta, latest)
        self.bfloat16 = cast(bool, saved.meta["bfloat16"]) if saved is not None else self._choose_precision()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            policy = Policy(self.spec, config.network)
        self.learner = Learner(policy, config.ppo, config.seed, self.bfloat16, self.shards)
        self.collector = Collector(self.spec, config.games, config.steps, config.seed, self.shards)
        self.judge = Judge(config, self.spec, policy)
        if latest is not None and saved is not None:
            self._load(latest, saved)
        self.metrics = MetricsLog(run.path, self.turns if latest is not None else None)
        self.writer = BackgroundWriter(self.store, self._on_saved, self._on_save_error)

    @property
    def policy(self) -> Policy:
        return self.learner.policy

    def stop(self, reason: str) -> None:
        """Ends the training after the update in hand."""
        self._stopping = reason

    def run(self) -> str:
        """Trains; returns why it ended. The last state is saved."""
        begun, before = time.perf_counter(), self.seconds
        self._saved_at = self.seconds
        watch = Stopwatch()
        reason = self._finished()
        while reason is None:
            self._update(watch)
            self.seconds = before + time.perf_counter() - begun
            if self.judge.due(self.turns):
                self._evaluate(final=False)
                watch.lap(None)
                self.seconds = before + time.perf_counter() - begun
            self._save_when_due()
            reason = self._finished()
        self._save(must=True)
        if reason == "budget":
            self._evaluate(final=True)
            self._save(must=True)
        self.writer.close()
        self.metrics.close()
        self.shards.close()
        return reason

    # One update

    def _update(self, watch: Stopwatch) -> None:
        self._seat_opponents()
        watch.seconds.clear()
        started = time.perf_counter()
        rollout = self.collector.collect(self.policy, self.past, self.updates, watch, self.bfloat16)
        returns = seat_returns(rollout, self.config.ppo.gamma, self.config.ppo.lam, self.collector.kernels)
        watch.lap("returns")
        skipped, restored = self.learner.skipped, self.learner.restored
        losses = self.learner.update(rollout, returns, self.updates, self._progress())
        watch.lap("update")
        elapsed = time.perf_counter() - started
        self.updates += 1
        self.turns += rollout.steps * rollout.games
        ended = int(rollout.over.sum())
        self.games_played += ended
        if self.learner.restored > restored:
            self.listener.note(f"update {self.updates}: weights were not finite; the update was undone")
        elif self.learner.skipped > skipped:
            count = self.learner.skipped - skipped
            self.listener.note(f"update {self.updates}: {count} gradient steps were not finite and left out")
        self._report(losses, watch.seconds, elapsed, ended)

    def _seat_opponents(self) -> None:
        """Takes the policy into the past now and then, and seats the opponents anew."""
        opponents = self.config.opponents
        if opponents.past == 0 and opponents.bots == 0:
            return
        version = self.updates // opponents.every
        if version == self.seated:
            return
        if opponents.past and self.updates:
            self.past.append(copy.deepcopy(self.policy).requires_grad_(False))
            del self.past[: -opponents.keep]
        self.seated = version
        seed = int(np.random.SeedSequence((self.config.seed, version)).generate_state(1)[0])
        games = self.config.games
        self.collector.set_drivers(seating(self.spec, opponents, games, len(self.past), seed))

    def _report(self, losses: dict[str, float], phases: dict[str, float], elapsed: float, ended: int) -> None:
        turns = self.config.games * self.config.steps
        shares = {phase: seconds / elapsed for phase, seconds in phases.items()}
        status = Status(
            turns=self.turns,
            updates=self.updates,
            seconds=self.seconds,
            turns_per_s=turns / elapsed,
            games_per_s=ended / elapsed,
            shares=shares,
            losses=losses,
            evaluation=self.judge.latest,
            history=self.judge.history,
            extras=self.judge.extras,
            checkpoint=self._checkpoint,
            eta_s=self._eta(),
        )
        self.listener.update(status)
        values = {f"loss/{name}": value for name, value in losses.items()}
        values |= {f"time/{phase}": share for phase, share in shares.items()}
        values |= {"speed/turns_per_s": status.turns_per_s, "speed/games_per_s": status.games_per_s}
        values |= {"run/seconds": self.seconds, "run/games": float(self.games_played)}
        values |= {
            "guard/skipped": float(self.learner.skipped),
            "guard/restored": float(self.learner.restored),
        }
        values |= {f"self/{name}": mean for name, mean in self.collector.learner_stats().items()}
        self.metrics.write(self.turns, values)

    # Budget

    def _progress(self) -> float:
        """How far the budget is spent, 0 to 1; turns rule when both are given."""
        if self.config.turns:
            return self.turns / self.config.turns
        return self.seconds / (60.0 * self.config.minutes) if self.config.minutes else 0.0

    def _finished(self) -> str | None:
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
        values = self.judge.judge(self.turns, self.seconds, final)
        self.metrics.write(self.turns, values)
        if self.judge.is_best():
            self._save(must=True, best_score=self.judge.score)

    # Saving

    def _save_when_due(self) -> None:
        every = self.config.checkpoints
        by_count = every.every_updates and self.updates % every.every_updates == 0
        by_time = not every.every_updates and self.seconds - self._saved_at >= every.every_s
        if by_count or by_time:
            self._save(must=bool(by_count))

    def _save(self, must: bool, best_score: float | None = None) -> None:
        self._saved_at = self.seconds
        tensors = self.learner.state()
        for i, policy in enumerate(self.past):
            tensors |= {f"past/{i}/{name}": tensor for name, tensor in policy.state_dict().items()}
        network = self.config.network
        meta: dict[str, Any] = {
            "game": self.config.game,
            "options": self.config.options,
            "schema_hash": f"{self.spec.schema.hash:016x}",
            "network": {
                "hidden": list(network.hidden),
                "separate": network.separate,
                "activation": network.activation,
            },
            "seed": self.config.seed,
            "bfloat16": self.bfloat16,
            "updates": self.updates,
            "turns": self.turns,
            "seconds": self.seconds,
            "games_played": self.games_played,
            "seated": self.seated,
            "past": len(self.past),
            "skipped": self.learner.skipped,
            "restored": self.learner.restored,
            "judge": self.judge.state(),
        }
        blobs = self.collector.snapshot()
        self.writer.submit(self.turns, tensors, meta, blobs, must=must, best_score=best_score)

    def _load(self, path: Path, checkpoint: Checkpoint) -> None:
        meta: dict[str, Any] = checkpoint.meta
        self.updates, self.turns = meta["updates"], meta["turns"]
        self.seconds, self.games_played = meta["seconds"], meta["games_played"]
        self.seated = meta["seated"]
        self.learner.skipped, self.learner.restored = meta["skipped"], meta["restored"]
        try:
            self.learner.load_state(checkpoint.tensors)
        except (KeyError, RuntimeError) as error:
            raise PlaymillError(f"{path} does not fit this run's config: {error}") from None
        for i in range(meta["past"]):
            prefix = f"past/{i}/"
            weights = {
                name.removeprefix(prefix): tensor
                for name, tensor in checkpoint.tensors.items()
                if name.startswith(prefix)
            }
            policy = Policy(self.spec, self.config.network).requires_grad_(False)
            load_weights(policy, weights, path)
            self.past.append(policy)
        self.collector.restore(checkpoint.blobs)
        self.judge.load_state(meta["judge"])
        self.store.drop_after(self.turns)
        self._checkpoint = path.name

    def _on_saved(self, path: Path) -> None:
        self._checkpoint = path.name

    def _on_save_error(self, error: Exception) -> None:
        self.listener.note(
            f"the checkpoint could not be saved ({error}); training goes on, the last one stays"
        )

    def _choose_precision(self) -> bool:
        if self.config.precision != "auto":
            return self.config.precision == "bfloat16"
        return faster_in_bfloat16(self.spec, self.config.network, self.config.ppo.minibatch)
