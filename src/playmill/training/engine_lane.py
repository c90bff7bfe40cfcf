"""The engine lane's learner: segments of actors come in, weights go out. It waits for no game.

Segments are acknowledged after the checkpoint whose ledger holds them. What was delivered and not
acknowledged comes again after a crash; what the ledger knows is not trained again."""

from __future__ import annotations

import copy
import dataclasses
import json
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from playmill.experience import Rollout
from playmill.experience.channel import Delivery
from playmill.experience.ledger import Ledger
from playmill.experience.segment import BadSegment, Identity, Segment, decode
from playmill.games import GameSpec, PlaymillError
from playmill.policies import Policy
from playmill.telemetry.instruments import NO_INSTRUMENTS, Instruments
from playmill.training.actors import ActorCrew
from playmill.training.aged import AgedLearner, loss_settings
from playmill.training.config import Train
from playmill.training.demand import LOOK_S, Demand
from playmill.training.exchange import Exchange, run_id
from playmill.training.lane import Done, choose_precision, new_policy, past_policy, past_tensors
from playmill.training.learner import Learner
from playmill.training.meters import LaneMeters
from playmill.training.reused import Reused
from playmill.training.shards import Shards

LEDGER = "ledger.json"
PRESSED = 0.5
"""Share of the channel's room from which on a checkpoint is due: it frees room."""
STARVED_S = 5.0
"""After so long without a segment a checkpoint is due as well: the broker may be full of what it frees."""
LATE_S, LATE_AT_ONCE = 5.0, 1024
"""The most seconds that are spent on what is still under way when the run ends, and segments at once."""
COLUMNS = [field.name for field in dataclasses.fields(Rollout)]


class EngineLane:
    """A learner, the channel to it, and the actors it has started."""

    tell_every_s = 0.0

    def __init__(
        self,
        config: Train,
        spec: GameSpec,
        precision: str | None,
        folder: Path,
        instruments: Instruments = NO_INSTRUMENTS,
    ) -> None:
        """`folder`: of the run. `precision`: as a checkpoint has it, or None to choose."""
        self.config, self.spec = config, spec
        self._meters, self._tracer = LaneMeters(instruments.meters), instruments.tracer
        self.precision = precision or choose_precision(config, spec)
        # On a card one thread takes all rows: it is the card that is shared out.
        self.shards = Shards(min(config.threads, config.actors.segments) if config.device == "cpu" else 1)
        ppo, policy = loss_settings(config.ppo, config.age), new_policy(config, spec).to(config.device)
        bfloat16 = self.precision == "bfloat16"
        self.learner = Learner(policy, ppo, config.seed, bfloat16, self.shards)
        self.aged = AgedLearner(self.learner, config.age)
        fresh = config.actors.segments
        self.rollout = Rollout.empty(spec, config.steps, fresh + config.replay.reused(fresh))
        self.reused = Reused(config.replay, self.rollout, fresh, config.seed) if config.replay.share else None
        self.exchange = Exchange(config, run_id(folder), folder)
        self.ledger = Ledger(self.exchange.run)
        with ExitStack() as stack:
            stack.callback(self.shards.close)
            self.publisher = stack.enter_context(closing(self.exchange.publisher()))
            self.past_publisher = stack.enter_context(closing(self.exchange.publisher("past")))
            self.receiver = stack.enter_context(closing(self.exchange.receiver()))
            self._demand: Demand | None = None
            if (board := self.exchange.board()) is not None:
                self._demand = stack.enter_context(closing(Demand(config.actors, board)))
            self._open = stack.pop_all()
        self.version = 0
        """Of the weights that were published last."""
        self._past: list[Policy] = []
        self._batch: dict[Identity, tuple[Delivery, Segment]] = {}
        self._spent: list[Delivery] = []
        """Those of the ledger, not acknowledged."""
        self._saving: dict[int, list[Delivery]] = {}
        """Those that wait for a checkpoint under way, by its number."""
        self._saves = 0
        self._over = False
        self._came_at = time.monotonic()
        self._waited = 0.0
        self._actors: ActorCrew | None = None
        self._folder = folder

    @property
    def policy(self) -> Policy:
        return self.learner.judged

    @property
    def past(self) -> list[Policy]:
        return self._past

    @property
    def urgent(self) -> bool:
        """Whether the channel fills up with what only a checkpoint can free."""
        if not self._spent:
            return False
        return time.monotonic() - self._came_at > STARVED_S or self.receiver.backlog().share > PRESSED

    @property
    def trail(self) -> list[str]:
        return [segment.traceparent for _, segment in self._batch.values() if segment.traceparent]

    def ready(self, within: float) -> bool:
        """Takes in what has come; whether there is enough for an update."""
        if self._actors is None:
            self._publish()
            self._publish_past()
            self._actors = self._open.enter_context(closing(ActorCrew(self.config, self._folder)))
        self._actors.look_after()
        kept = self.reused.replay.bytes if self.reused is not None else 0
        self._meters.look(self.receiver, kept, self._actors.restarts)
        began = time.perf_counter()
        wanted = self.config.actors.segments - len(self._batch)
        while wanted and (left := began + within - time.perf_counter()) > 0:
            for delivery in self._receive(wanted, left):
                self._came_at = time.monotonic()
                self._take(delivery)
            wanted = self.config.actors.segments - len(self._batch)
        self._waited += time.perf_counter() - began
        return wanted == 0

    def _receive(self, wanted: int, within: float) -> list[Delivery]:
        """What has come; where actors play by assignment, more is asked for."""
        if self._demand is None:
            return self.receiver.receive(wanted, within)
        began = time.perf_counter()
        found = self.receiver.receive(wanted, min(within, LOOK_S))
        if len(found) < wanted:
            self._demand.waited(time.perf_counter() - began)
        self._demand.look(self.receiver.backlog)
        return found

    def update(self, number: int, progress: float) -> Done:
        began = time.perf_counter()
        identities, ages = list(self._batch), self._fill()
        losses = self._learn(number, progress)
        self.ledger.train(identities)
        self._spent += [delivery.spent() for delivery, _ in self._batch.values()]
        self._batch.clear()
        learnt = time.perf_counter()
        self._publish()
        self._meters.trained(len(identities), self.version)
        phases = {"waiting": self._waited, "update": learnt - began, "weights": time.perf_counter() - learnt}
        self._waited = 0.0
        games = int(self._fresh.over.sum())
        dropped = {f"dropped_{reason}": float(n) for reason, n in self.ledger.dropped.items()}
        return Done(
            number=number,
            seconds=sum(phases.values()),
            phases=phases,
            losses={**losses, "age": float(ages.mean()), "age_most": float(ages.max()), **dropped},
            stats=self._stats(games),
            games=games,
            skipped=self.learner.skipped,
            restored=self.learner.restored,
        )

    @property
    def _fresh(self) -> Rollout:
        """The segments that are new, without those that were drawn again."""
        if self.reused is None:
            return self.rollout
        return self.rollout.first_games(self.config.actors.segments)

    def _learn(self, number: int, progress: float) -> dict[str, float]:
        """From the new segments, and from old ones where there is a buffer of them."""
        if self.reused is None:
            return self.aged.update(self.rollout, number, progress)
        weights = self.reused.draw(number)
        rollout = self.rollout if weights is not None else self._fresh
        losses = self.aged.update(rollout, number, progress, weights)
        self.reused.learnt(self.aged.surprise, self.version)
        return losses

    def wait(self) -> None:
        return None

    def remember(self, keep: int) -> None:
        self._past.append(copy.deepcopy(self.policy).requires_grad_(False))
        del self._past[:-keep]
        self._publish_past()

    def seat(self, seed: int) -> None:
        """Actors seat their own games, when new past policies come."""

    def tensors(self) -> dict[str, Tensor]:
        return {**self.aged.tensors(), **past_tensors(self.past)}

    def blobs(self) -> dict[str, bytes]:
        self._saves += 1
        self._saving[self._saves], self._spent = self._spent, []
        state = {"version": self.version, "ledger": self.ledger.state()}
        return {LEDGER: json.dumps(state).encode()}

    def saved(self, number: int) -> None:
        """Later ledgers hold what earlier ones did: all up to that checkpoint's is acknowledged."""
        for done in [waiting for waiting in self._saving if waiting <= number]:
            self.receiver.acknowledge(self._saving.pop(done))

    def wind_up(self) -> None:
        """Ends the actors. What they had handed over, and nobody will train, is dropped as `late`."""
        if self._demand is not None:
            self._demand.withdraw()
        if self._actors is not None:
            self._actors.close()
        for delivery, _ in self._batch.values():
            self._drop(delivery, "late")
        self._batch.clear()
        until = time.monotonic() + LATE_S
        while time.monotonic() < until and (late := self.receiver.receive(LATE_AT_ONCE, LATE_S / 10)):
            for delivery in late:
                if self.ledger.seen(delivery.identity):
                    self._spent.append(delivery.spent())
                else:
                    self._drop(delivery, "late")
        self._over = True

    def load(
        self, tensors: Mapping[str, Tensor], blobs: Mapping[str, bytes], meta: Mapping[str, Any]
    ) -> None:
        self.aged.load(tensors)
        self.learner.skipped, self.learner.restored = meta["skipped"], meta["restored"]
        home, past = self.learner.device, range(meta["past"])
        self._past = [past_policy(self.config, self.spec, tensors, i).to(home) for i in past]
        state = json.loads(blobs[LEDGER])
        self.ledger, self.version = Ledger.from_state(state["ledger"]), state["version"]
        if self.ledger.run != self.exchange.run:
            raise PlaymillError(
                f"the checkpoint's ledger is of the run {self.ledger.run}, and this folder's id is "
                f"{self.exchange.run}; copy a run with its file `id`"
            )

    def close(self) -> None:
        """What lies in memory stays for the run's next process, unless the run is over and all is settled."""
        self._open.close()
        if self._over and not self._saving and not self._spent:
            self.exchange.clear()

    def _take(self, delivery: Delivery) -> None:
        """A delivery goes into the batch, or into the ledger as dropped; known ones are only acknowledged."""
        identity, came_ns = delivery.identity, time.time_ns() if self._tracer.on else 0
        if self.ledger.seen(identity) or identity in self._batch:
            self._spent.append(delivery.spent())
            return
        try:
            segment = decode(delivery.message, self.exchange.shape, self.exchange.run)
            if segment.identity != identity:
                raise BadSegment(f"it says it is {segment.identity}, and came as {identity}")
        except BadSegment as error:
            self.receiver.refuse(delivery, str(error))
            self._drop(delivery, "bad")
            return
        if segment.traceparent:
            self._tracer.record("channel.receive", came_ns, segment.traceparent)
        if self.version - int(segment.version.min()) > self.config.age.most:
            self._drop(delivery, "old")
            return
        self._batch[identity] = (delivery, segment)

    def _drop(self, delivery: Delivery, reason: str) -> None:
        self.ledger.drop([delivery.identity], reason)
        self._meters.dropped(reason)
        self._spent.append(delivery.spent())

    def _fill(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Copies the batch into the rollout; how many versions old each segment is."""
        ages = np.empty(len(self._batch), np.int64)
        for i, (_, segment) in enumerate(self._batch.values()):
            for name in COLUMNS:
                getattr(self.rollout, name).numpy()[:, i] = getattr(segment, name)
            ages[i] = self.version - int(segment.version.min())
        return ages

    def _stats(self, games: int) -> dict[str, float]:
        """How long games are and what each seat gains in one, from the segments of an update."""
        if not games:
            return {}
        gained = self._fresh.rewards.sum(dim=(0, 1)) / games
        seats = {f"reward_seat_{seat}": float(mean) for seat, mean in enumerate(gained)}
        return {"turns_a_game": self.config.turns_an_update / games, **seats}

    def _publish(self) -> None:
        self.version = max(self.version, self.publisher.newest()) + 1
        with self._tracer.span("weights.publish", version=self.version):
            self.publisher.publish(self.version, arrays(self.learner.policy))

    def _publish_past(self) -> None:
        if not self._past:
            return
        tensors = {f"{i}/{name}": a for i, p in enumerate(self._past) for name, a in arrays(p).items()}
        self.past_publisher.publish(self.past_publisher.newest() + 1, tensors)


def arrays(policy: Policy) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
    """The weights of a policy on the CPU, by name."""
    return {name: p.detach().cpu().contiguous().numpy() for name, p in policy.named_parameters()}
