"""The resident lane on one NVIDIA card: games, policy, rollout, returns and update stay there. The host
replays two graphs, one for a rollout and one for a minibatch, and reads numbers an update late."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from playmill.games import GameSpec, PlaymillError
from playmill.policies import Policy
from playmill.pools.cuda import CardFull
from playmill.pools.lanes import need_cuda
from playmill.training.config import Train
from playmill.training.cuda.collector import CudaCollector, Told, block_seating
from playmill.training.cuda.control import Control
from playmill.training.cuda.layers import make_layers
from playmill.training.cuda.learner import CudaLearner
from playmill.training.cuda.room import out_of_room
from playmill.training.lane import Done, Resident, new_policy, past_policy, past_tensors
from playmill.training.learner import LOSS_TERMS
from playmill.training.ranks import ALONE, Ranks
from playmill.training.utilisation import Ceilings, measure_ceilings, utilisation, work_per_turn


@dataclass
class _Update:
    """The numbers of one update on their way to the host."""

    number: int
    rates: tuple[float, float]
    control: Tensor
    rollout: Told
    begun: torch.cuda.Event
    played: torch.cuda.Event
    learnt: torch.cuda.Event


class CudaLane(Resident):
    """Everything on the card, on a stream of its own."""

    tell_every_s = 0.1  # small runs make hundreds of updates a second; writing each would hold the card up

    def __init__(self, config: Train, spec: GameSpec, precision: str | None, ranks: Ranks = ALONE) -> None:
        """`precision`: as a checkpoint has it, or None to choose."""
        self.config, self.spec, self.ranks = config, spec, ranks
        self.games = config.games // ranks.count
        self.asked_to_end = False
        self.native = need_card()
        self.precision = precision or ("bfloat16" if config.precision == "auto" else config.precision)
        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._filled = 0
        self._waiting: _Update | None = None
        self._usable: dict[int, int] = {}  # rows to learn from, by the number of the update
        self._work = work_per_turn(spec, config.network)
        self._ceilings = ceilings()
        try:
            with torch.cuda.stream(self.stream):
                self._build()
        except (torch.OutOfMemoryError, self.native.OutOfDeviceMemory, CardFull) as error:
            raise out_of_room(config, spec, str(error)) from None

    def _build(self) -> None:
        config, spec, ppo = self.config, self.spec, self.config.ppo
        self.control = Control(self.precision)
        minibatch = min(max(1, ppo.minibatch // self.ranks.count), self.games * config.steps)
        rows = max(1, minibatch // ppo.accumulate)
        layers = make_layers(spec, config.network, self.precision, rows, True)
        self.player = layers.place(new_policy(config, spec))
        self.learner = CudaLearner(
            spec, self.player, layers, ppo, config.seed, self.control, minibatch, self.ranks
        )
        keep = config.opponents.keep if config.opponents.past else 0
        self._past = [self.player.twin() for _ in range(keep)]
        self.collector = CudaCollector(
            spec,
            self.games,
            config.steps,
            rank_seed(config.seed, self.ranks.rank),
            player=self.player,
            control=self.control,
            ppo=ppo,
            past=self._past,
            past_share=config.opponents.past,
            teacher=config.teacher.bot,
        )
        # Two sets, in turns: one is filled while the other is read.
        told = (self.control.tensor, self.collector.told.numbers)
        self._pinned = [[_pinned_like(tensor) for tensor in told] for _ in range(2)]
        torch.cuda.synchronize()

    @property
    def policy(self) -> Policy:
        return self.learner.judged.policy

    @property
    def past(self) -> list[Policy]:
        return [player.policy for player in self._past[: self._filled]]

    def update(self, number: int, progress: float) -> Done | None:
        try:
            with torch.cuda.stream(self.stream):
                told = self._enqueue(number, progress)
        except (torch.OutOfMemoryError, self.native.OutOfDeviceMemory) as error:
            raise out_of_room(self.config, self.spec, str(error)) from None
        before, self._waiting = self._waiting, told
        return self._read(before)

    def wait(self) -> Done | None:
        before, self._waiting = self._waiting, None
        done = self._read(before)
        self.stream.synchronize()
        return done

    def remember(self, keep: int) -> None:
        with torch.cuda.stream(self.stream):
            if self._filled == keep:
                for older, newer in zip(self._past, self._past[1:], strict=False):
                    older.copy_from(newer)
                self._filled -= 1
            self._past[self._filled].copy_from(self.learner.judged)
            self._filled += 1

    def seat(self, seed: int) -> None:
        opponents, blocks = self.config.opponents, self.collector.past_rows
        named = rank_seed(seed, self.ranks.rank)
        drivers = block_seating(self.spec, opponents, self.games, blocks, self._filled, named)
        with torch.cuda.stream(self.stream):
            self.collector.set_drivers(drivers)

    def tensors(self) -> dict[str, Tensor]:
        with torch.cuda.stream(self.stream):
            past = {name: tensor.cpu().contiguous() for name, tensor in past_tensors(self.past).items()}
            return {**self.learner.state(), **past}

    def blobs(self) -> dict[str, bytes]:
        with torch.cuda.stream(self.stream):
            return {
                self._named("pool"): self.collector.pool.snapshot(),
                self._named("control"): self.control.dump(),
                "usable.json": json.dumps(sorted(self._usable.items())).encode(),
            }

    def load(
        self, tensors: Mapping[str, Tensor], blobs: Mapping[str, bytes], meta: Mapping[str, Any]
    ) -> None:
        with torch.cuda.stream(self.stream):
            self.learner.load_state(dict(tensors))
            for i in range(meta["past"]):
                policy = past_policy(self.config, self.spec, tensors, i)
                weights = dict(policy.named_parameters())
                for name, view in self._past[i].views(self._past[i].flat).items():
                    view.copy_(weights[name].detach())
                self._past[i].refresh()
            self._filled = meta["past"]
            self.collector.pool.restore(blobs[self._named("pool")])
            self.collector.look()
            self.control.load(blobs[self._named("control")])
            self._usable = dict(json.loads(blobs["usable.json"]))
            self.stream.synchronize()

    def close(self) -> None:
        self.stream.synchronize()

    def _named(self, what: str) -> str:
        """A file of the checkpoint that is this rank's."""
        return f"{what}-{self.ranks.rank}.bin" if self.ranks.rank else f"{what}.bin"

    def _enqueue(self, number: int, progress: float) -> _Update:
        begun, played, learnt = (_event() for _ in range(3))
        collector, learner = self.collector, self.learner
        taught = number < self.config.lessons
        begun.record(self.stream)
        collector.collect(taught)
        played.record(self.stream)
        collector.told.asked_to_end.fill_(self.asked_to_end)
        self.ranks.sum(collector.told.numbers)
        rollout, learnable, usable = collector.rollout, collector.learnable, self._rows(number)
        rates = learner.update(rollout, learnable, usable, number, progress, taught)
        control, told = self._pinned[number % 2]
        control.copy_(self.control.tensor, non_blocking=True)
        told.copy_(collector.told.numbers, non_blocking=True)
        learnt.record(self.stream)
        return _Update(number, rates, control, Told(self.spec, told), begun, played, learnt)

    def _rows(self, number: int) -> int:
        """About how many rows this update has to learn from: as many as the one two before it, whose count is
        here for sure. The first is waited for, and the first after the lessons, which take all rows."""
        lessons = self.config.lessons
        for known in [n for n in self._usable if n < number - 2 or n < lessons <= number]:
            del self._usable[known]
        if not self._usable:
            self._usable[number] = int(self.collector.told.usable)
        return self._usable[min(self._usable)]

    def _read(self, told: _Update | None) -> Done | None:
        if told is None:
            return None
        told.learnt.synchronize()
        numbers = self.control.parse(told.control)
        self._usable[told.number] = int(told.rollout.usable)
        steps = max(int(numbers["steps"]), 1)
        losses = {
            name: float(total) / steps for name, total in zip(LOSS_TERMS, numbers["terms"], strict=True)
        }
        losses |= {"lr": told.rates[0], "entropy_weight": told.rates[1], "epochs": float(numbers["passes"])}
        losses["gradient_norm"] = float(numbers["gradient_norm"])
        if told.number < self.config.lessons:
            losses["teacher_likelihood"] = told.rollout.likelihood()
        phases = {
            "rollout": told.begun.elapsed_time(told.played) * 1e-3,
            "update": told.played.elapsed_time(told.learnt) * 1e-3,
        }
        turns = self.games * self.config.steps
        used = utilisation(
            self._work,
            phases,
            turns,
            steps * self.learner.minibatch / turns,
            self._ceilings,
            games=self.games,
            minibatch=self.learner.minibatch,
        )
        return Done(
            number=told.number,
            seconds=told.begun.elapsed_time(told.learnt) * 1e-3,
            phases=phases,
            losses=losses,
            stats=told.rollout.stats(),
            games=int(told.rollout.games),
            skipped=int(numbers["skipped"]),
            restored=0,  # a step whose gradient is not finite is never taken: weights stay finite
            utilisation=used,
            asked_to_end=bool(told.rollout.asked_to_end),
        )


def rank_seed(seed: int, rank: int) -> int:
    """Names what is random on one rank; the first has the run's own."""
    return seed if rank == 0 else int(np.random.SeedSequence((seed, rank)).generate_state(1, np.uint64)[0])


def need_card() -> Any:
    """playmill._cuda, with a card and a torch that can use it; otherwise one line on what is missing."""
    module = need_cuda()
    if not torch.cuda.is_available():
        raise PlaymillError(
            f"--device cuda: this torch ({torch.__version__}) is built for the CPU alone; "
            "install torch for CUDA, or train on the CPU with --device cpu"
        )
    return module


def need_cards(count: int) -> None:
    """As many cards on this machine; otherwise one line on what is missing."""
    need_card()
    found = torch.cuda.device_count()
    if found < count:
        raise PlaymillError(
            f"{count} ranks on cards need {count} of them, and this machine has {found}; "
            f"take --ranks {found}, or start ranks on several machines with torchrun (docs/ranks.md)"
        )


@functools.cache
def ceilings() -> Ceilings:
    """What this card can do: measured once in a process."""
    return measure_ceilings("cuda")


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _pinned_like(tensor: Tensor) -> Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
