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
from playmill.training.cuda.collector import CudaCollector, block_seating
from playmill.training.cuda.control import Control
from playmill.training.cuda.layers import make_layers
from playmill.training.cuda.learner import CudaLearner
from playmill.training.cuda.room import out_of_room
from playmill.training.lane import Done, Resident, new_policy, past_policy, past_tensors
from playmill.training.learner import LOSS_TERMS
from playmill.training.utilisation import Ceilings, measure_ceilings, utilisation, work_per_turn


@dataclass
class _Told:
    """The numbers of one update on their way to the host."""

    number: int
    rates: tuple[float, float]
    control: Tensor
    tallies: Tensor
    likelihood: Tensor
    begun: torch.cuda.Event
    played: torch.cuda.Event
    learnt: torch.cuda.Event


class CudaLane(Resident):
    """Everything on the card, on a stream of its own."""

    tell_every_s = 0.1  # small runs make hundreds of updates a second; writing each would hold the card up

    def __init__(self, config: Train, spec: GameSpec, precision: str | None) -> None:
        """`precision`: as a checkpoint has it, or None to choose."""
        self.config, self.spec = config, spec
        self.native = need_card()
        self.precision = precision or ("bfloat16" if config.precision == "auto" else config.precision)
        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._filled = 0
        self._waiting: _Told | None = None
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
        minibatch = min(ppo.minibatch, config.games * config.steps)
        rows = max(1, minibatch // ppo.accumulate)
        layers = make_layers(spec, config.network, self.precision, rows, True)
        self.player = layers.place(new_policy(config, spec))
        self.learner = CudaLearner(spec, self.player, layers, ppo, config.seed, self.control, minibatch)
        keep = config.opponents.keep if config.opponents.past else 0
        self._past = [self.player.twin() for _ in range(keep)]
        self.collector = CudaCollector(
            spec,
            config.games,
            config.steps,
            config.seed,
            player=self.player,
            control=self.control,
            ppo=ppo,
            past=self._past,
            past_share=config.opponents.past,
            teacher=config.teacher.bot,
        )
        # Two sets, in turns: one is filled while the other is read.
        told = (self.control.tensor, self.collector.tallies, self.collector.likelihood)
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
        drivers = block_seating(self.spec, opponents, self.config.games, blocks, self._filled, seed)
        with torch.cuda.stream(self.stream):
            self.collector.set_drivers(drivers)

    def tensors(self) -> dict[str, Tensor]:
        with torch.cuda.stream(self.stream):
            past = {name: tensor.cpu().contiguous() for name, tensor in past_tensors(self.past).items()}
            return {**self.learner.state(), **past}

    def blobs(self) -> dict[str, bytes]:
        with torch.cuda.stream(self.stream):
            return {
                "pool.bin": self.collector.pool.snapshot(),
                "control.bin": self.control.dump(),
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
            self.collector.pool.restore(blobs["pool.bin"])
            self.collector.look()
            self.control.load(blobs["control.bin"])
            self._usable = dict(json.loads(blobs["usable.json"]))
            self.stream.synchronize()

    def close(self) -> None:
        self.stream.synchronize()

    def _enqueue(self, number: int, progress: float) -> _Told:
        begun, played, learnt = (_event() for _ in range(3))
        collector, learner = self.collector, self.learner
        taught = number < self.config.lessons
        begun.record(self.stream)
        collector.collect(taught)
        played.record(self.stream)
        rollout, learnable, usable = collector.rollout, collector.learnable, self._rows(number)
        rates = learner.update(rollout, learnable, usable, number, progress, taught)
        control, tallies, likelihood = self._pinned[number % 2]
        control.copy_(self.control.tensor, non_blocking=True)
        tallies.copy_(collector.tallies, non_blocking=True)
        likelihood.copy_(collector.likelihood, non_blocking=True)
        learnt.record(self.stream)
        return _Told(number, rates, control, tallies, likelihood, begun, played, learnt)

    def _rows(self, number: int) -> int:
        """About how many rows this update has to learn from: as many as the one two before it, whose count is
        here for sure. The first is waited for, and the first after the lessons, which take all rows."""
        lessons = self.config.lessons
        for known in [n for n in self._usable if n < number - 2 or n < lessons <= number]:
            del self._usable[known]
        if not self._usable:
            self._usable[number] = int(self.control.parse(self.control.tensor.cpu())["usable"])
        return self._usable[min(self._usable)]

    def _read(self, told: _Told | None) -> Done | None:
        if told is None:
            return None
        told.learnt.synchronize()
        numbers = self.control.parse(told.control)
        self._usable[told.number] = int(numbers["usable"])
        steps = max(int(numbers["steps"]), 1)
        losses = {
            name: float(total) / steps for name, total in zip(LOSS_TERMS, numbers["terms"], strict=True)
        }
        losses |= {"lr": told.rates[0], "entropy_weight": told.rates[1], "epochs": float(numbers["passes"])}
        losses["gradient_norm"] = float(numbers["gradient_norm"])
        if told.number < self.config.lessons:
            losses["teacher_likelihood"] = float(told.likelihood)
        phases = {
            "rollout": told.begun.elapsed_time(told.played) * 1e-3,
            "update": told.played.elapsed_time(told.learnt) * 1e-3,
        }
        turns = self.config.games * self.config.steps
        used = utilisation(
            self._work,
            phases,
            turns,
            steps * self.learner.minibatch / turns,
            self._ceilings,
            games=self.config.games,
            minibatch=self.learner.minibatch,
        )
        return Done(
            number=told.number,
            seconds=told.begun.elapsed_time(told.learnt) * 1e-3,
            phases=phases,
            losses=losses,
            stats=self._stats(told.tallies),
            games=int(numbers["games"]),
            skipped=int(numbers["skipped"]),
            restored=0,  # a step whose gradient is not finite is never taken: weights stay finite
            utilisation=used,
        )

    def _stats(self, tallies: Tensor) -> dict[str, float]:
        """Means of the learner's statistics; cells are (double sum, 64-bit count)."""
        cells = tallies[: len(self.spec.stats)]
        counts = cells.numpy().view(np.uint64)[:, 1]
        named = zip(self.spec.stats, cells[:, 0].tolist(), counts.tolist(), strict=True)
        return {name: total / count for name, total, count in named if count}


def need_card() -> Any:
    """playmill._cuda, with a card and a torch that can use it; otherwise one line on what is missing."""
    module = need_cuda()
    if not torch.cuda.is_available():
        raise PlaymillError(
            f"--device cuda: this torch ({torch.__version__}) is built for the CPU alone; "
            "install torch for CUDA, or train on the CPU with --device cpu"
        )
    return module


@functools.cache
def ceilings() -> Ceilings:
    """What this card can do: measured once in a process."""
    return measure_ceilings("cuda")


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _pinned_like(tensor: Tensor) -> Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
