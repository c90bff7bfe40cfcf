"""Lessons: a scripted bot answers beside the policy, and the policy learns its answers."""

import copy
import dataclasses
import json
import math

import numpy as np
import pytest
import torch

from playmill import _native
from playmill.algorithms import PPO, seat_returns
from playmill.checkpoints import Store, fingerprint, read
from playmill.cli.train import parse
from playmill.games import PlaymillError, UnknownName
from playmill.league.evaluate import evaluate
from playmill.policies import Network, masked_log_softmax, unpack_bits
from playmill.training.collector import Collector, Stopwatch
from playmill.training.config import Checkpoints, Evaluation, Opponents, Teacher, Train
from playmill.training.lane import CpuLane
from playmill.training.runs import create_run, open_run
from playmill.training.shards import Shards
from playmill.training.teacher import lesson, teacher_logs
from playmill.training.trainer import Trainer
from tests.contract.lessons import check_lesson

BOARD = {"width": "5", "height": "5", "max_ticks": "40"}
UNET = Network((16,), body="unet", channels=4, halvings=1)
TURNS = 32 * 16


@pytest.fixture(autouse=True)
def _same_threads_after():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


class Listener:
    """Keeps what it is told."""

    def __init__(self):
        self.notes, self.losses = [], []

    def update(self, status):
        self.losses.append(dict(status.losses))

    def note(self, text):
        self.notes.append(text)


def config_of(updates=2, bot="greedy", **changes):
    """A small run with that many lessons."""
    ppo = {"minibatch": 128, "epochs": 2, "lr": 3e-3, **changes.pop("ppo", {})}
    given = {
        "game": "skull_king",
        "options": {"players": "3"},
        "games": 32,
        "steps": 16,
        "threads": 2,
        "precision": "float32",
        "network": Network((32,)),
        "teacher": Teacher(bot, updates * TURNS) if updates else Teacher(),
        "evaluation": Evaluation(every=0, deals=2, final_deals=2),
        "checkpoints": Checkpoints(every_updates=1),
    }
    return Train(**{**given, **changes}, ppo=PPO(**ppo))


def lane_of(config):
    return CpuLane(config, config.spec, None)


# --- what is learnt


def test_a_taught_policy_does_what_its_teacher_would_and_beats_random():
    config = config_of(60, games=64, network=Network((64,)), ppo={"minibatch": 256, "epochs": 4})
    lane = lane_of(config)
    likelihood = [lane.update(n, 0.0).losses["teacher_likelihood"] for n in range(config.lessons)]
    assert likelihood[0] < 0.36  # about uniform over what is legal
    assert np.mean(likelihood[-5:]) > 0.46
    won = evaluate(config.spec, lane.policy, "random", deals=60)
    assert won.low > 0.6  # a fair share is a third
    lane.close()


def test_a_bot_without_secrets_is_learnt_almost_entirely():
    config = config_of(10, "tight", game="leduc", options={}, ppo={"epochs": 6, "minibatch": 64})
    lane = lane_of(config)
    for number in range(config.lessons):
        told = lane.update(number, 0.0).losses
    assert told["teacher_likelihood"] > 0.9
    lane.close()


@pytest.mark.parametrize("network", [Network((32,)), UNET], ids=["layers", "unet"])
def test_every_network_learns_on_a_board(network):
    symmetries = network.body == "unet"
    config = config_of(
        6, "expander", game="generals", options=BOARD, network=network, ppo={"symmetries": symmetries}
    )
    lane = lane_of(config)
    told = [lane.update(number, 0.0).losses["teacher_likelihood"] for number in range(6)]
    assert told[-1] > 1.5 * told[0]
    lane.close()


# --- what is played and written down


@pytest.mark.parametrize("bot", ["random", "greedy"])
def test_games_are_played_as_always_and_the_answers_are_the_bots(bot):
    config = config_of()
    spec, team = config.spec, Shards(1)
    lane = lane_of(config)
    policy = lane.policy
    plain, taught = (Collector(spec, 40, 24, 3, team) for _ in range(2))
    played = plain.collect(policy, [], 0, Stopwatch())
    lessons = taught.collect(policy, [], 0, Stopwatch(), teacher=bot)
    assert plain.snapshot() == taught.snapshot()
    likely = check_lesson(spec, bot, plain.seeds[0], played, lessons, policy, 1e-4)
    logs, count = teacher_logs(lessons)
    assert math.exp(logs / count) == pytest.approx(likely, rel=1e-4)
    lane.close()


def test_turns_of_past_policies_keep_their_own_actions():
    config = config_of(opponents=Opponents(past=0.6, bots=0.2, keep=1))
    lanes = [lane_of(config), lane_of(dataclasses.replace(config, teacher=Teacher()))]
    for lane in lanes:
        lane.remember(1)
        lane.seat(3)
        lane.update(0, 0.0)
    taught, plain = (lane.collector.rollout for lane in lanes)
    past = plain.driver == 1
    assert 0 < past.sum() < past.numel()
    assert torch.equal(taught.driver, plain.driver)
    assert torch.equal(taught.action[past], plain.action[past])
    assert torch.equal(taught.log_probability[past], plain.log_probability[past])
    assert (taught.action[~past] != plain.action[~past]).any()
    for lane in lanes:
        lane.close()


# --- the update


def test_a_lesson_raises_every_answer_and_takes_values_from_the_real_returns():
    config = config_of(ppo={"top_advantages": 0.25, "target_kl": 1e-9, "epochs": 3, "entropy": 0.5})
    lane = lane_of(config)
    rollout = lane.collector.collect(lane.policy, [], 0, Stopwatch(), teacher="greedy")
    returns = seat_returns(rollout, 1.0, 0.95, _native.Kernels(1))
    rows = returns.usable.flatten()
    targets = returns.target.flatten()[rows]

    def agreement():
        with torch.no_grad():
            out = lane.policy(rollout.flat(rollout.observation)[rows])
        legal = unpack_bits(rollout.flat(rollout.legal)[rows], config.spec.actions)
        logs = masked_log_softmax(out.logits, legal)
        said = logs.gather(1, rollout.action.flatten()[rows].long()[:, None])
        return float(said.mean()), float((out.value - targets).square().mean())

    before = agreement()
    told = lane.learner.update(rollout, returns, 0, 0.0, taught=True)
    after = agreement()
    assert after[0] > before[0] + 0.05
    assert after[1] < before[1]
    assert told["entropy_weight"] == 0.0
    assert told["lr"] == config.ppo.lr
    assert told["epochs"] == 3  # neither a target of KL nor a share of the rows applies
    assert lane.learner.optimiser.state[lane.learner.parameters[0]]["step"] == 3 * round(len(targets) / 128)
    lane.close()


def test_a_lesson_changes_these_settings_alone():
    given = PPO(clip=0.1, entropy=0.3, top_advantages=0.5, target_kl=0.1, lr=0.5, regulariser="magnet")
    wanted = dataclasses.replace(
        given, clip=1.0, entropy=0.0, normalise=False, top_advantages=1.0, target_kl=0.0
    )
    assert lesson(given) == wanted


def test_after_the_lessons_the_run_is_one_without_a_teacher():
    config = config_of(2, ppo={"top_advantages": 0.5})
    taught, plain = lane_of(config), lane_of(dataclasses.replace(config, teacher=Teacher()))
    for number in range(2):
        assert "teacher_likelihood" in taught.update(number, 0.0).losses
    plain.load(copy.deepcopy(taught.tensors()), taught.blobs(), {"past": 0, "skipped": 0, "restored": 0})
    for number in (2, 3):
        mine, theirs = taught.update(number, 0.0).losses, plain.update(number, 0.0).losses
        assert mine == theirs
        assert "teacher_likelihood" not in mine
        assert mine["entropy_weight"] > 0
    assert fingerprint(taught.tensors()) == fingerprint(plain.tensors())
    for lane in (taught, plain):
        lane.close()


# --- runs


def test_a_run_that_stops_in_the_middle_of_its_lessons_goes_on_the_same(tmp_path):
    config = config_of(3, turns=5 * TURNS, opponents=Opponents(past=0.3, bots=0.2, keep=2, every=2))
    whole = create_run(tmp_path / "whole", config)
    told = Listener()
    Trainer(whole, told).run()
    whole.release()

    part = create_run(tmp_path / "part", config)
    first = Trainer(part, Listener())
    first.begin()
    first.advance()
    first.advance()
    first.finish("SIGINT")
    part.release()
    again = open_run(tmp_path / "part")
    assert again.config == config
    heard = Listener()
    second = Trainer(again, heard)
    assert second.turns == 2 * TURNS
    second.run()
    again.release()
    saved = [read(Store(tmp_path / name / "checkpoints", keep=1).latest()) for name in ("whole", "part")]
    assert fingerprint(saved[0].tensors) == fingerprint(saved[1].tensors)
    assert saved[0].blobs == saved[1].blobs

    for listener in (told, heard):
        (note,) = listener.notes
        assert note.startswith(f"lessons over at {3 * TURNS:,} turns; likelihood of the teacher's answers ")
    assert ["teacher_likelihood" in losses for losses in told.losses] == [True] * 3 + [False] * 2
    lines = [json.loads(line) for line in (tmp_path / "part" / "metrics.jsonl").read_text().splitlines()]
    taught = [line["step"] for line in lines if "loss/teacher_likelihood" in line]
    assert taught == [TURNS, 2 * TURNS, 3 * TURNS]


# --- settings


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"bot": "hard"}, "teacher.bot hard needs teacher.turns: how many turns of the run are lessons"),
        ({"turns": 1000}, "teacher.turns needs teacher.bot: which bot teaches"),
        ({"bot": "hard", "turns": -1}, "teacher.turns must not be negative, got -1"),
    ],
)
def test_bad_settings_are_one_line(given, says):
    with pytest.raises(PlaymillError) as caught:
        Teacher(**given)
    assert str(caught.value) == says


def test_the_teacher_is_a_bot_of_the_game_within_the_budget():
    with pytest.raises(UnknownName, match="no bot of skull_king is called 'hrd'; did you mean 'hard'"):
        Train(teacher=Teacher("hrd", 1000))
    with pytest.raises(PlaymillError) as caught:
        Train(turns=1000, teacher=Teacher("hard", 1001))
    assert str(caught.value) == "teacher.turns (1001) must not be over the run's turns (1000)"
    assert Train(turns=1000, teacher=Teacher("hard", 1000)).lessons == 1
    assert Train(minutes=1, teacher=Teacher("hard", 10**9)).lessons > 1


@pytest.mark.parametrize(("turns", "lessons"), [(0, 0), (1, 1), (TURNS, 1), (TURNS + 1, 2)])
def test_an_update_that_begins_within_the_turns_is_a_lesson(turns, lessons):
    teacher = Teacher("greedy", turns) if turns else Teacher()
    assert config_of(teacher=teacher).lessons == lessons


def test_the_command_line_names_the_teacher():
    assert parse(["skull_king", "--teacher.bot", "hard", "--teacher.turns", "5000"]).teacher == Teacher(
        "hard", 5000
    )
