"""Lessons on the card: games are those of a run without, answers are the bot's, and they are learnt."""

import copy
import dataclasses

import pytest
import torch

from playmill.algorithms import PPO, seat_returns_plain
from playmill.experience import Rollout
from playmill.league.evaluate import evaluate
from playmill.policies import Network
from playmill.training.config import Evaluation, Opponents, Teacher, Train
from playmill.training.cuda.lane import CudaLane
from playmill.training.runs import create_run, open_run
from playmill.training.trainer import Trainer
from tests.contract.lessons import check_lesson
from tests.cuda.test_lane import FUSED, TORCH, apart, flat, make, run, settings, state_of
from tests.cuda.test_runs import Listener

pytestmark = pytest.mark.cuda

TURNS = 256 * 16


def taught_and_plain(config):
    """A lane with lessons and one without, alike in all else."""
    return make(config), make(dataclasses.replace(config, teacher=Teacher()))


def on_host(rollout):
    torch.cuda.synchronize()
    return Rollout(*(column.cpu() for column in rollout.all()))


@pytest.mark.parametrize(
    ("game", "options", "bot", "games", "network"),
    [
        ("skull_king", {}, "hard", 256, TORCH),
        ("skull_king", {}, "random", 256, TORCH),
        ("leduc", {}, "tight", 4352, TORCH),  # two streams
        ("generals", {"width": "6", "height": "6"}, "expander", 64, TORCH),
        (
            "generals",
            {"width": "6", "height": "6"},
            "hunter",
            64,
            Network((16,), body="unet", channels=8, halvings=1),
        ),
    ],
)
def test_games_are_played_as_always_and_the_answers_are_the_bots(game, options, bot, games, network):
    config = settings(
        network, "float32", game=game, options=options, games=games, teacher=Teacher(bot, 16 * games)
    )
    taught, plain = taught_and_plain(config)
    before = copy.deepcopy(taught.player.policy).cpu()
    (told,) = run(taught, 1)
    run(plain, 1)
    lessons, played = on_host(taught.collector.rollout), on_host(plain.collector.rollout)
    assert taught.collector.pool.snapshot() == plain.collector.pool.snapshot()
    likely = check_lesson(config.spec, bot, config.seed, played, lessons, before, 1e-3)
    assert told.losses["teacher_likelihood"] == pytest.approx(likely, rel=1e-3)


def test_turns_of_past_policies_keep_their_own_actions():
    config = settings(
        TORCH, "float32", game="leduc", opponents=Opponents(past=0.6, keep=1), teacher=Teacher("tight", TURNS)
    )
    lanes = taught_and_plain(config)
    for lane in lanes:
        lane.remember(1)
        lane.seat(3)
        run(lane, 1)
    taught, plain = (on_host(lane.collector.rollout) for lane in lanes)
    past = plain.driver == 1
    assert 0 < past.sum() < past.numel()
    assert torch.equal(taught.driver, plain.driver)
    assert torch.equal(taught.action[past], plain.action[past])
    assert torch.equal(taught.log_probability[past], plain.log_probability[past])
    assert (taught.action[~past] != plain.action[~past]).any()


def test_values_are_learnt_from_the_games_that_were_played():
    config = settings(TORCH, "float32", game="leduc", teacher=Teacher("tight", TURNS))
    lane = make(config)
    run(lane, 1)
    wanted = seat_returns_plain(on_host(lane.collector.rollout), config.ppo.gamma, config.ppo.lam)
    learnable = lane.collector.learnable
    assert torch.equal(learnable.usable.cpu().bool(), wanted.usable.flatten())
    torch.testing.assert_close(learnable.advantage.cpu(), wanted.advantage.flatten(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("network", "precision"),
    [(FUSED, "bfloat16"), (FUSED, "float16"), (TORCH, "float32")],
    ids=["fused", "fused-float16", "torch"],
)
def test_a_taught_policy_does_what_its_teacher_would_and_beats_random(network, precision):
    config = settings(
        network,
        precision,
        {"minibatch": 512, "epochs": 4, "lr": 3e-3, "target_kl": 1e-9, "top_advantages": 0.5},
        game="skull_king",
        teacher=Teacher("greedy", 20 * TURNS),
    )
    lane = make(config)
    told = run(lane, 20)
    likelihood = [done.losses["teacher_likelihood"] for done in told]
    assert likelihood[-1] > likelihood[0] + 0.15
    assert {(done.losses["entropy_weight"], done.losses["epochs"]) for done in told} == {(0.0, 4.0)}
    usable = int(lane.collector.learnable.usable.sum())
    assert lane.control.parse(lane.control.tensor.cpu())["usable"] == usable  # all of them, not half
    assert evaluate(config.spec, lane.policy, "random", deals=200).low > 0.6  # a fair share is a quarter


@pytest.mark.parametrize(
    ("network", "precision"), [(FUSED, "bfloat16"), (TORCH, "float32")], ids=["fused", "torch"]
)
def test_after_the_lessons_the_run_is_one_without_a_teacher(network, precision):
    # Rows for four minibatches and a half: a few rows more or less make no difference.
    config = settings(
        network, precision, {"minibatch": 850}, game="leduc", teacher=Teacher("tight", 2 * TURNS)
    )
    taught, plain = taught_and_plain(config)
    assert all("teacher_likelihood" in done.losses for done in run(taught, 2))
    plain.load(*state_of(taught))
    mine, theirs = run(taught, 2, first=2), run(plain, 2, first=2)
    for done in (*mine, *theirs):
        assert "teacher_likelihood" not in done.losses
        assert done.losses["entropy_weight"] == pytest.approx(config.ppo.entropy)
    exact = precision == "float32"
    assert apart(flat(taught), flat(plain)) < (1e-6 if exact else 5e-2)
    if exact:
        assert [done.games for done in mine] == [done.games for done in theirs]


def test_rows_are_counted_anew_after_the_lessons():
    """Lessons take all rows; what follows takes a quarter, from its first update on."""
    ppo = {"top_advantages": 0.25, "minibatch": 100}
    lane = make(settings(game="leduc", ppo=ppo, teacher=Teacher("tight", 3 * TURNS)))
    for number in range(6):
        run(lane, 1, first=number)
        numbers = lane.control.parse(lane.control.tensor.cpu())
        usable = int(lane.collector.learnable.usable.sum())
        taken = usable if number < 3 else -(-usable // 4)
        assert numbers["usable"] == taken
        assert numbers["steps"] == pytest.approx(2 * (taken // 100), abs=2)


@pytest.mark.parametrize("network", [FUSED, TORCH], ids=["fused", "torch"])
def test_a_lane_goes_on_in_the_middle_of_its_lessons(network):
    precision = "float32" if network is TORCH else "bfloat16"
    config = settings(
        network,
        precision,
        {"regulariser": "average", "minibatch": 700},
        game="leduc",
        opponents=Opponents(past=0.4, bots=0.2, keep=2),
        teacher=Teacher("tight", 3 * TURNS),
    )
    first, second = make(config), make(config)
    for number in range(2):
        run(first, 1, first=number)
        first.remember(2)
        first.seat(number)
    second.load(*state_of(first))
    for number in (2, 3):  # the last lesson, and what follows it
        a, b = run(first, 1, first=number)[0], run(second, 1, first=number)[0]
        assert ("teacher_likelihood" in a.losses) == ("teacher_likelihood" in b.losses) == (number < 3)
    assert apart(flat(second), flat(first)) < (1e-6 if precision == "float32" else 5e-2)


def test_a_run_with_lessons_tells_when_they_are_over_and_goes_on(tmp_path):
    config = Train(
        game="leduc",
        games=256,
        steps=16,
        threads=1,
        device="cuda",
        turns=5 * TURNS,
        network=Network(hidden=(128,)),
        ppo=PPO(minibatch=512),
        teacher=Teacher("tight", 3 * TURNS),
        evaluation=Evaluation(every=0, final_deals=20, exploitability=False),
    )
    folder = create_run(tmp_path / "run", dataclasses.replace(config, turns=4 * TURNS))
    listener = Listener()
    assert Trainer(folder, listener).run() == "budget"
    folder.release()
    (note,) = listener.notes
    assert note.startswith(f"lessons over at {3 * TURNS:,} turns; likelihood of the teacher's answers ")
    again = open_run(tmp_path / "run")
    later = Listener()
    trainer = Trainer(dataclasses.replace(again, config=config), later)
    assert isinstance(trainer.lane, CudaLane)
    trainer.run()
    again.release()
    assert (trainer.updates, later.notes) == (5, [])
