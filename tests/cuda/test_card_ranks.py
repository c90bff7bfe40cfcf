"""Several cards as one learner. Where there is one card alone its ranks share it, over gloo, and NCCL is
asked in a world of one."""

import gc
import json
import os
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from playmill.algorithms import PPO
from playmill.cli.train import train_command
from playmill.games import PlaymillError
from playmill.policies import Network
from playmill.training.config import Opponents, Teacher, Train, to_dict
from playmill.training.cuda.lane import CudaLane, rank_seed
from playmill.training.ranks import ALONE, MEETING_FILE, Group
from tests.integration.program import train

pytestmark = pytest.mark.cuda

FUSED = Network(hidden=(128, 128))
TORCH = Network(hidden=(48, 24))

# What a rank of the tests does: so many updates, maybe from a state that another pair of ranks left.
RANK = """
import json, sys
from pathlib import Path
from safetensors.torch import load_file, save_file
import playmill.training.cuda.lane as cuda
from playmill.training.config import Train, from_dict
from playmill.training.ranked import Follower, LeadingLane, pack, unpack
from playmill.training.ranks import Group

task = json.loads(sys.argv[1])
if task["alike"]:
    cuda.rank_seed = lambda seed, rank: seed
ranks = Group("gloo")
config = from_dict(Train, task["config"])
folder = Path(task["folder"])
if ranks.rank:
    Follower(ranks).run()
else:
    lane = LeadingLane(config, config.spec, None, ranks)
    first = task["first"]
    if first:
        blobs = unpack((folder / f"blobs-{first}").read_bytes())
        lane.load(load_file(folder / f"tensors-{first}"), blobs, {"past": 0, "skipped": 0, "restored": 0})
    told = []
    for number in range(first, task["last"]):
        if number == task["seat"]:
            lane.seat(5)
        told.append(lane.update(number, 0.0))
    told.append(lane.wait())
    save_file(lane.tensors(), folder / f"tensors-{task['last']}")
    (folder / f"blobs-{task['last']}").write_bytes(pack(lane.blobs()))
    rows = [[done.games, done.stats, done.losses] for done in told if done is not None]
    (folder / "told.json").write_text(json.dumps(rows))
    lane.close()
ranks.close()
"""


@pytest.fixture(autouse=True)
def _room_for_the_next():
    yield
    gc.collect()
    torch.cuda.empty_cache()


def settings(ranks, games, minibatch, network=FUSED, precision="bfloat16", ppo=None, **more):
    rates = {"minibatch": minibatch, "epochs": 2, "lr": 1e-3, "lr_schedule": "constant", **(ppo or {})}
    given = {"game": "leduc", "games": games, "steps": 16, "threads": 1, "device": "cuda", "ranks": ranks}
    return Train(network=network, precision=precision, ppo=PPO(**rates), **{**given, **more})


def by_two(folder, config, last, first=0, alike=False, seat=-1):
    """Two processes on one card; the weights they came to."""
    (folder / "meeting").unlink(missing_ok=True)
    task = {"config": to_dict(config), "folder": str(folder), "first": first, "last": last}
    words = [sys.executable, "-c", RANK, json.dumps({**task, "alike": alike, "seat": seat})]
    shared = {**os.environ, "WORLD_SIZE": "2", MEETING_FILE: str(folder / "meeting")}
    shared |= {"GLOO_SOCKET_IFNAME": "lo"}
    started = [subprocess.Popen(words, env={**shared, "RANK": str(rank)}) for rank in range(2)]
    assert [process.wait(120) for process in started] == [0, 0]
    return load_file(folder / f"tensors-{last}"), json.loads((folder / "told.json").read_text())


def alone(config, updates, ranks=ALONE):
    lane = CudaLane(config, config.spec, None, ranks)
    told = [lane.update(number, 0.0) for number in range(updates)]
    told.append(lane.wait())
    return lane.tensors(), [done for done in told if done is not None]


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


class Mirrored:
    """A rank whose twin does what it does; its sums go over NCCL, in a world of one."""

    rank, count = 0, 2

    def __init__(self):
        self.group = Group("nccl")

    def sum(self, *tensors):
        self.group.sum(*tensors)
        for tensor in tensors:
            tensor.mul_(2)


@pytest.fixture
def mirrored(tmp_path, monkeypatch):
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "1"), (MEETING_FILE, str(tmp_path / "alone"))):
        monkeypatch.setenv(name, value)
    ranks = Mirrored()
    yield ranks
    ranks.group.close()


@pytest.mark.parametrize(
    ("network", "precision", "ppo"),
    [
        (FUSED, "bfloat16", {}),
        (FUSED, "bfloat16", {"accumulate": 2, "regulariser": "average"}),
        (FUSED, "bfloat16", {"minibatch": 100_000}),
        (FUSED, "bfloat16", {"top_advantages": 0.25, "target_kl": 0.01}),
        (TORCH, "float32", {"normalise": False}),
    ],
)
def test_two_cards_with_the_same_games_learn_what_one_does(mirrored, network, precision, ppo):
    """Twice the rows, each counting half: every number is the same, to the bit."""
    half = {**ppo, "minibatch": ppo["minibatch"] // 2} if "minibatch" in ppo else ppo
    together, told = alone(settings(2, 512, 1024, network, precision, ppo), 6, mirrored)
    one, expected = alone(settings(1, 256, 512, network, precision, half), 6)
    assert same(together, one)
    for mine, theirs in zip(told, expected, strict=True):
        assert mine.games == 2 * theirs.games
        assert mine.stats == theirs.stats
        assert mine.losses == pytest.approx(theirs.losses, rel=1e-6)


def test_lessons_are_those_of_all_cards(mirrored):
    teacher = Teacher(bot="tight", turns=3 * 512 * 16)
    together, told = alone(settings(2, 512, 1024, teacher=teacher), 5, mirrored)
    half = Teacher(bot="tight", turns=3 * 256 * 16)
    one, expected = alone(settings(1, 256, 512, teacher=half), 5)
    assert same(together, one)
    likely = [[done.losses.get("teacher_likelihood") for done in run] for run in (told, expected)]
    assert likely[0] == likely[1]
    assert [found is not None for found in likely[0]] == [True] * 3 + [False] * 2


def test_two_processes_are_one_learner(tmp_path):
    opponents = Opponents(bots=0.5)
    config = settings(2, 512, 1024, opponents=opponents)
    found, told = by_two(tmp_path, config, 6, alike=True, seat=0)
    lane = CudaLane(config := settings(1, 256, 512, opponents=opponents), config.spec, None)
    lane.seat(5)
    for number in range(6):
        lane.update(number, 0.0)
    lane.wait()
    assert same(found, lane.tensors())
    assert len(told) == 6


def test_ranks_play_games_of_their_own_and_stay_together(tmp_path):
    """Ranks with other games learn from both, have the same weights (or `blobs` would end the run), and go on
    from what they saved as if they had never stopped."""
    config = settings(2, 512, 1024)
    assert rank_seed(3, 0) == 3 != rank_seed(3, 1)
    for name in ("whole", "parts", "alike"):
        (tmp_path / name).mkdir()
    whole, told = by_two(tmp_path / "whole", config, 6)
    by_two(tmp_path / "parts", config, 3)
    resumed, _ = by_two(tmp_path / "parts", config, 6, first=3)
    assert same(whole, resumed)
    alike, others = by_two(tmp_path / "alike", config, 6, alike=True)
    assert not same(whole, alike)
    assert told[0][0] != others[0][0]


def test_more_ranks_than_cards_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cards = torch.cuda.device_count()
    ranks, games = str(cards + 1), str(16 * (cards + 1))
    with pytest.raises(
        PlaymillError, match=f"need {ranks} of them, and this machine has {cards}; take --ranks"
    ):
        train_command(["kuhn", "--device", "cuda", "--ranks", ranks, "--games", games])
    assert not (tmp_path / "runs").exists()


@pytest.mark.skipif("torch.cuda.device_count() < 2", reason="there is one card")
def test_a_run_on_two_cards(tmp_path):
    run = tmp_path / "run"
    code, text = train("leduc --games 512 --turns 200000 --ranks 2 --device cuda", run)
    assert code == 0, text
    code, text = train(f"--resume {run} --ranks 1", run)
    assert code == 2
    assert "games stay on their cards: go on with --ranks 2" in text
