"""How a run is shared out among ranks, and what is refused."""

import os

import pytest
import torch

from playmill.algorithms import PPO
from playmill.cli.ranks import _ending
from playmill.cli.train import train_command
from playmill.games import PlaymillError
from playmill.policies import Network
from playmill.training.config import Train
from playmill.training.ranked import LeadingLane, pack, unpack
from playmill.training.ranks import ALONE, Alone, take_card, world_size
from playmill.training.runs import create_run
from playmill.training.trainer import Trainer


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"ranks": 0}, "ranks must be at least 1, got 0"),
        (
            {"ranks": 3, "threads": 3, "games": 100},
            "games (100) cannot be shared out evenly among 3 ranks; take a multiple of 3, as --games 102",
        ),
        (
            {"ranks": 4, "threads": 2, "games": 100},
            "threads (2) cannot be shared out evenly among 4 ranks; take a multiple of 4, as --threads 4",
        ),
        (
            {"ranks": 2, "threads": 1, "games": 101, "device": "cuda"},
            "games (101) cannot be shared out evenly among 2 ranks; take a multiple of 2, as --games 102",
        ),
    ],
)
def test_what_cannot_be_shared_out_is_refused(given, says):
    with pytest.raises(PlaymillError) as caught:
        Train(game="kuhn", **given)
    assert str(caught.value) == says


@pytest.mark.parametrize("more", [["--seeds", "0", "1"], ["--vary", "ppo.lr=1e-3,2e-3"]])
def test_a_fleet_has_no_ranks(more):
    with pytest.raises(PlaymillError, match="leave --ranks out"):
        train_command(["kuhn", "--ranks", "2", "--threads", "2", *more])


def test_a_run_of_several_ranks_is_not_trained_by_one(tmp_path):
    run = create_run(tmp_path / "run", Train(game="kuhn", ranks=2, threads=2))
    with pytest.raises(PlaymillError, match="is for 2 ranks, and 1 were started"):
        Trainer(run, None)
    run.release()


@pytest.mark.parametrize(
    ("shown", "place", "card"),
    [
        (None, "0", "0"),
        (None, "3", "3"),
        ("4,7", "1", "7"),
        ("GPU-ab, GPU-cd", "1", "GPU-cd"),
        ("5", None, "5"),
    ],
)
def test_a_rank_takes_the_card_of_its_place(monkeypatch, shown, place, card):
    for name, value in (("CUDA_VISIBLE_DEVICES", shown), ("LOCAL_RANK", place)):
        monkeypatch.setenv(name, value or "")  # whatever it was comes back after the test
        if value is None:
            monkeypatch.delenv(name)
    take_card()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == card


def test_a_rank_without_a_card_is_refused(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(PlaymillError, match="CUDA_VISIBLE_DEVICES=4,7 has no card for rank 2"):
        take_card()


def test_the_environment_names_the_rank(monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert world_size() is None
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert world_size() == 4
    for bad in ("1", "0", "-1", "two", ""):
        monkeypatch.setenv("WORLD_SIZE", bad)
        with pytest.raises(PlaymillError, match="name no rank"):
            world_size()


def test_ranks_must_be_as_many_as_were_started(monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(PlaymillError, match="--ranks 4, and torchrun started 2; leave --ranks out"):
        train_command(["kuhn", "--ranks", "4", "--threads", "4"])
    monkeypatch.setenv("RANK", "1")  # the first has said it
    with pytest.raises(SystemExit):
        train_command(["kuhn", "--ranks", "4", "--threads", "4"])


@pytest.mark.parametrize(
    ("codes", "says"),
    [
        ({0: 2, 1: -9}, "rank 1 of 3 was ended by SIGKILL"),
        ({0: -15, 2: -9, 1: -15}, "rank 2 of 3 was ended by SIGKILL"),
        ({0: 2, 1: 1}, "rank 1 of 3 failed (exit code 1)"),
    ],
)
def test_the_rank_that_failed_is_named(codes, says, tmp_path):
    assert _ending(codes, 3, tmp_path).startswith(says)


def test_a_rank_alone_has_nothing_to_add():
    tensor = torch.arange(3.0)
    ALONE.sum(tensor)
    assert tensor.tolist() == [0, 1, 2]
    assert ALONE.same(b"x") == b"x"
    assert ALONE.gather(b"x") == [b"x"]


def test_blobs_travel_whole():
    blobs = {"a": b"", "b": b"\n\x00{}", "c": bytes(range(256))}
    assert unpack(pack(blobs)) == blobs
    assert unpack(pack({})) == {}


def test_ranks_that_have_drifted_apart_are_not_saved():
    class Drifted(Alone):
        def gather(self, data):
            return [data, pack({"pool-1.bin": b"", "fingerprint": b"another"})]

    config = Train(
        game="kuhn", games=4, steps=4, threads=1, precision="float32", network=Network(hidden=(8,)), ppo=PPO()
    )
    lane = LeadingLane(config, config.spec, None, Drifted())
    with pytest.raises(PlaymillError, match="weights are not the same any more"):
        lane.blobs()
    lane.close()
