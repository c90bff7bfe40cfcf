"""Two ranks beside one: the same weights from the same batches, and how much faster twice the batch is done.

Ranks are processes of their own with one thread each, as torchrun starts them. Speed: one rank with one batch
against two ranks with two, both alive all the time and measured in turns; a setting in which the network is
nearly all of the work."""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

from benchmarks.bars import Bar, Result
from playmill.algorithms import PPO
from playmill.cli.process import leave
from playmill.policies import Network
from playmill.training.config import Opponents, Train, from_dict, to_dict
from playmill.training.lane import CpuLane, Lane
from playmill.training.ranked import Follower, LeadingLane
from playmill.training.ranks import MEETING_FILE, Group

ROOT = Path(__file__).resolve().parent.parent
SAME = Train(
    game="skull_king",
    games=256,
    steps=32,
    threads=2,
    precision="float32",
    network=Network(hidden=(128, 128)),
    opponents=Opponents(bots=0.2),
    ppo=PPO(minibatch=1024, target_kl=0.02, top_advantages=0.8, weight_average=0.9, regulariser="magnet"),
)
"""One rank with this has the double batch, in two shards; two ranks have a shard each."""
UPDATES = 10
BUSY = Train(
    game="skull_king",
    games=128,
    steps=32,
    threads=1,
    precision="float32",
    network=Network(hidden=(512, 512)),
    ppo=PPO(minibatch=4096),
)
"""The batch of one rank when it is about speed."""
ROUNDS = 30


def measure(say: Callable[[str], None], quick: bool) -> Result:
    same = dataclasses.replace(SAME, games=32, steps=8) if quick else SAME
    updates = 2 if quick else UPDATES
    worst, exact = difference(same, updates)
    say(f"largest difference after {updates} updates: {worst:.3g}; {exact:.1%} of all numbers are equal bits")
    busy = dataclasses.replace(BUSY, network=Network(hidden=(64,))) if quick else BUSY
    speed = rates(say, busy, 2 if quick else ROUNDS)
    bars = [
        Bar("difference", worst, "of a number, relative over 1", 1e-5, at_most=True),
        Bar("two_ranks", max(speed.two) / max(speed.one), "x", 1.7),
    ]
    details: dict[str, Any] = {
        "same_bits": round(exact, 6),
        "median_of_rounds": round(_median_ratio(speed.two, speed.one), 3),
        "by_cpu_seconds": round(speed.by_cpu_seconds, 3),
        "two_strangers": round(max(speed.strangers) / max(speed.one), 3),
        "two_strangers_median": round(_median_ratio(speed.strangers, speed.one), 3),
        "one_rank_turns_per_s": round(max(speed.one)),
        "two_ranks_turns_per_s": round(max(speed.two)),
    }
    return Result(bars, details)


def difference(config: Train, updates: int) -> tuple[float, float]:
    """Between one rank and two after some updates: the largest, and how many numbers have the same bits."""
    with Ranks(dataclasses.replace(config, ranks=2)) as pair:
        pair.update(updates)
        theirs = pair.tensors()
    lane = CpuLane(config, config.spec, None)
    for number in range(updates):
        turn(lane, number)
    mine = lane.tensors()
    lane.close()
    worst = max(float(((mine[k] - theirs[k]).abs() / mine[k].abs().clamp(min=1.0)).max()) for k in mine)
    exact = sum(int((mine[k] == theirs[k]).sum()) for k in mine) / sum(t.numel() for t in mine.values())
    return worst, exact


@dataclasses.dataclass
class Speed:
    """Turns a second, round by round."""

    one: list[float] = dataclasses.field(default_factory=list)
    two: list[float] = dataclasses.field(default_factory=list)
    strangers: list[float] = dataclasses.field(default_factory=list)
    """Two single ranks at once that have nothing to do with each other: what the machine has to give now."""
    by_cpu_seconds: float = 0.0
    """Turns a CPU-second of the busiest rank, two ranks against one: the ratio if nobody were in the way."""


def rates(say: Callable[[str], None], config: Train, rounds: int) -> Speed:
    """One rank with its batch, two with twice as much, and two strangers, in turns about."""
    ppo = dataclasses.replace(config.ppo, minibatch=2 * config.ppo.minibatch)
    double = dataclasses.replace(config, ranks=2, threads=2, games=2 * config.games, ppo=ppo)
    turns = config.games * config.steps
    found, spent = Speed(), [0.0, 0.0]
    with Ranks(config) as one, Ranks(double) as two, Ranks(config) as other:
        for ranks in (one, two, other):
            ranks.update(1)
        for i in range(rounds):
            before = one.cpu_seconds(), two.cpu_seconds()
            found.one.append(turns / one.update(1))
            found.two.append(2 * turns / two.update(1))
            for k, ranks in enumerate((one, two)):
                spent[k] += ranks.cpu_seconds() - before[k]
            for ranks in (one, other):
                ranks.begin(1)
            found.strangers.append(2 * turns / max(one.seconds(), other.seconds()))
            say(
                f"round {i + 1}: {found.one[-1]:,.0f} turns/s with one rank, {found.two[-1]:,.0f} with two; "
                f"two strangers {found.strangers[-1]:,.0f}"
            )
    found.by_cpu_seconds = 2 * spent[0] / spent[1]
    return found


def _median_ratio(many: list[float], few: list[float]) -> float:
    return statistics.median(b / a for a, b in zip(few, many, strict=True))


class Ranks:
    """The processes of a run that update when they are told to."""

    def __init__(self, config: Train) -> None:
        self.config = config
        self._folder = tempfile.TemporaryDirectory()
        self._processes = [self._start(rank) for rank in range(config.ranks)]

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        self._ask("close")
        for process in self._processes:
            process.communicate()
        self._folder.cleanup()

    def update(self, times: int) -> float:
        """Seconds it took."""
        self.begin(times)
        return self.seconds()

    def begin(self, times: int) -> None:
        """Updates without waiting for them."""
        self._tell(f"update {times}")

    def seconds(self) -> float:
        """Waits for what has begun: how long it took."""
        return float(self._answer())

    def cpu_seconds(self) -> float:
        """Of the rank that has worked most."""
        return max(_cpu_seconds(process.pid) for process in self._processes)

    def tensors(self) -> dict[str, Tensor]:
        return safetensors.torch.load_file(self._ask(f"save {self._folder.name}/tensors"))

    def _start(self, rank: int) -> subprocess.Popen[str]:
        told = {"RANK": str(rank), "WORLD_SIZE": str(self.config.ranks), "GLOO_SOCKET_IFNAME": "lo"}
        told |= {MEETING_FILE: f"{self._folder.name}/meeting", "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            [sys.executable, "-m", "benchmarks.ranks", json.dumps(to_dict(self.config))],
            env={**os.environ, **told},
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # as torchrun does; Linux shares a busy machine out among sessions
        )

    def _ask(self, line: str) -> str:
        self._tell(line)
        return self._answer()

    def _tell(self, line: str) -> None:
        into = self._processes[0].stdin
        assert into is not None
        into.write(f"{line}\n")
        into.flush()

    def _answer(self) -> str:
        out = self._processes[0].stdout
        assert out is not None
        answer = out.readline().strip()
        if not answer:
            raise RuntimeError("a rank has ended; its own words are above")
        return answer


def _cpu_seconds(pid: int) -> float:
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(ticks) for ticks in after_name[11:13]) / os.sysconf("SC_CLK_TCK")


def turn(lane: Lane, number: int) -> None:
    if number % 4 == 0:
        lane.seat(number)
    lane.update(number, 0.0)


def answer_as_rank(config: Train) -> None:
    """A process of `Ranks`: the first takes orders from its parent, the others follow it."""
    if config.ranks == 1:
        _obey(CpuLane(config, config.spec, None))
        return
    group = Group()
    if group.rank == 0:
        _obey(LeadingLane(config, config.spec, None, group))
    else:
        Follower(group).run()
    group.close()
    leave()


def _obey(lane: Lane) -> None:
    number = 0
    for line in sys.stdin:
        order, _, value = line.strip().partition(" ")
        answer = value or order
        if order == "update":
            begun = time.perf_counter()
            for _ in range(int(value)):
                turn(lane, number)
                number += 1
            answer = str(time.perf_counter() - begun)
        elif order == "save":
            safetensors.torch.save_file(lane.tensors(), value)
        else:
            lane.close()
        print(answer, flush=True)


if __name__ == "__main__":
    answer_as_rank(from_dict(Train, json.loads(sys.argv[1])))
