"""The whole circle on the card: it learns, it keeps to its settings, its opponents play, and what it saves
is what it goes on from."""

import dataclasses
import gc
import math
import re

import pytest
import torch

from playmill.algorithms import PPO, rows_by_advantage
from playmill.games import PlaymillError
from playmill.league.exploitability import InformationStates
from playmill.policies import Network
from playmill.training.config import Opponents, Teacher, Train
from playmill.training.cuda.lane import CudaLane
from playmill.training.judge import exact_exploitability
from playmill.training.learner import kept_of_average

pytestmark = pytest.mark.cuda

FUSED = Network(hidden=(128, 128))
TORCH = Network(hidden=(48, 24))


@pytest.fixture(autouse=True)
def _room_for_the_next():
    yield
    gc.collect()
    torch.cuda.empty_cache()


def settings(network=FUSED, precision="bfloat16", ppo=None, **more):
    """A small run; `ppo` changes its learning."""
    rates = {"minibatch": 512, "epochs": 2, "lr": 1e-3, "lr_schedule": "constant", "entropy": 0.05}
    given = {"game": "kuhn", "games": 256, "steps": 16, "threads": 1, "device": "cuda", **more}
    return Train(network=network, precision=precision, ppo=PPO(**{**rates, **(ppo or {})}), **given)


def make(config):
    return CudaLane(config, config.spec, None)


def run(lane, updates, first=0):
    """So many updates; what each of them told, in order."""
    told = [lane.update(number, 0.0) for number in range(first, first + updates)]
    told.append(lane.wait())
    return [done for done in told if done is not None]


def flat(lane):
    torch.cuda.synchronize()
    return lane.player.flat.cpu().clone()


def apart(a, b):
    return float((a - b).norm() / b.norm())


# Learning


@pytest.mark.parametrize(
    ("network", "precision"),
    [
        (Network(hidden=(128,)), "bfloat16"),
        (FUSED, "float16"),
        (Network(hidden=(128, 128), separate=False), "bfloat16"),
        (TORCH, "float32"),
        (TORCH, "bfloat16"),
        (TORCH, "float16"),
    ],
    ids=["fused", "fused-float16", "fused-shared", "torch-float32", "torch-bfloat16", "torch-float16"],
)
def test_exploitability_falls(network, precision):
    pytest.importorskip("pyspiel")
    states = InformationStates("kuhn")
    lane = make(settings(network, precision))
    before = exact_exploitability(lane.policy, states)
    told, after = [], []
    for first in range(0, 100, 20):  # the last weights swing: the best of a few looks
        told += run(lane, 20, first)
        after.append(exact_exploitability(lane.policy, states))
    assert before > 0.35  # nearly uniform play has 0.458
    assert min(after) < 0.3
    assert all(math.isfinite(value) for done in told for value in done.losses.values())


def test_updates_are_told_in_order_and_one_late():
    lane = make(settings())
    assert lane.update(0, 0.0) is None
    first = lane.update(1, 0.0)
    assert first.number == 0
    last = lane.wait()
    assert last.number == 1
    assert lane.wait() is None
    for done in (first, last):
        assert done.seconds > 0
        assert done.phases.keys() == {"rollout", "update"}
        assert sum(done.phases.values()) == pytest.approx(done.seconds, rel=1e-3)
        assert 0.4 < done.losses["entropy"] < math.log(2) + 1e-3
        assert done.losses["epochs"] == 2
        assert done.losses["lr"] == 1e-3
        assert 256 * 16 / 4 < done.games < 256 * 16 / 1.5  # games of kuhn have two or three turns
        assert abs(done.stats["score"]) < 0.5
        assert 2 <= done.stats["turns"] <= 3
        assert (done.skipped, done.restored) == (0, 0)


def test_games_that_ended_and_rows_used_are_those_of_the_rollout():
    lane = make(settings(game="leduc"))
    (done,) = run(lane, 1)
    rollout, learnable = lane.collector.rollout, lane.collector.learnable
    assert done.games == int(rollout.over.sum())
    usable = int(learnable.usable.sum())
    assert lane.control.parse(lane.control.tensor.cpu())["usable"] == usable
    assert 0.8 * 256 * 16 < usable < 256 * 16
    assert lane.control.parse(lane.control.tensor.cpu())["steps"] == 2 * (usable // 512)
    legal = (rollout.legal[..., 0].int() >> rollout.action) & 1
    assert legal.all()
    assert (rollout.log_probability <= 0).all()


VARIANTS = {
    "accumulate": settings(ppo={"accumulate": 2}),
    "accumulate-torch": settings(TORCH, ppo={"accumulate": 4}),
    "average": settings(ppo={"regulariser": "average", "kl_weight": 0.5}),
    "magnet": settings(ppo={"regulariser": "magnet", "magnet_every": 3}),
    "magnet-torch": settings(TORCH, "float32", ppo={"regulariser": "magnet"}),
    "top-advantages": settings(ppo={"top_advantages": 0.25}),
    "top-advantages-torch": settings(TORCH, ppo={"top_advantages": 0.5, "normalise": False}),
    "weight-average": settings(ppo={"weight_average": 0.9}),
    "weight-average-torch": settings(TORCH, "float32", ppo={"weight_average": 0.9}),
    "not-normalised": settings(ppo={"normalise": False}),
    "residual": settings(Network(hidden=(64, 64, 64), residual=True)),
    "attention": settings(
        Network(hidden=(64,), attention=1, heads=2, token_width=16), game="skull_king", games=64
    ),
    "attention-float16": settings(
        Network(hidden=(64,), attention=1, heads=2, token_width=16), "float16", game="skull_king", games=64
    ),
    "skull-king": settings(Network(hidden=(256, 128)), game="skull_king", games=512),
    "eight-players": settings(game="skull_king", options={"players": "8"}, games=128, steps=40),
    "odd-numbers": settings(games=333, steps=7, ppo={"minibatch": 100}),
    "one-minibatch": settings(games=64, steps=4, ppo={"minibatch": 10**6}),
    "two-streams": settings(games=5000, steps=4, ppo={"minibatch": 4096}),
    "opponents": settings(opponents=Opponents(past=0.4, bots=0.3, keep=2), games=512),
    "teacher": settings(game="leduc", teacher=Teacher("tight", 3 * 256 * 16)),
    "teacher-torch": settings(TORCH, "float32", game="liars_dice", teacher=Teacher("honest", 3 * 256 * 16)),
    "teacher-two-streams": settings(
        game="leduc", games=5000, steps=8, ppo={"minibatch": 4096}, teacher=Teacher("tight", 3 * 40_000)
    ),
    "teacher-top-advantages": settings(
        game="leduc", ppo={"top_advantages": 0.25, "accumulate": 2}, teacher=Teacher("tight", 3 * 256 * 16)
    ),
    "teacher-opponents": settings(
        game="skull_king",
        games=512,
        opponents=Opponents(past=0.4, bots=0.3, keep=2),
        teacher=Teacher("greedy", 3 * 512 * 16),
    ),
    "teacher-board": settings(
        Network((16,), body="unet", channels=8, halvings=1),
        game="generals",
        options={"width": "6", "height": "6", "max_ticks": "40"},
        games=128,
        ppo={"symmetries": True},
        teacher=Teacher("expander", 3 * 128 * 16),
    ),
}


@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS.keys())
def test_every_kind_of_run_learns_under_a_graph(config):
    lane = make(config)
    if config.opponents.past:
        lane.remember(config.opponents.keep)
        lane.seat(1)
    start = flat(lane)
    told = run(lane, 5)
    assert [done.number for done in told] == [0, 1, 2, 3, 4]
    assert all(math.isfinite(value) for done in told for value in done.losses.values())
    weights = flat(lane)
    assert torch.isfinite(weights).all()
    assert 1e-4 < apart(weights, start) < 1.0
    if config.precision != "float16":
        assert told[-1].skipped == 0
    assert sum(done.games for done in told) > 0


def test_parts_of_a_minibatch_take_the_same_step():
    """In float32, where the order of sums is all that differs."""
    whole, parts = (make(settings(TORCH, "float32", ppo={"accumulate": n})) for n in (1, 4))
    a, b = run(whole, 1)[0], run(parts, 1)[0]
    assert torch.equal(whole.collector.rollout.action, parts.collector.rollout.action)
    for name, value in a.losses.items():
        assert b.losses[name] == pytest.approx(value, rel=1e-2, abs=1e-4), name
    assert apart(flat(parts), flat(whole)) < 1e-3


@pytest.mark.parametrize("network", [FUSED, TORCH], ids=["fused", "torch"])
def test_the_average_follows_and_the_magnet_waits(network):
    lane = make(settings(network, ppo={"regulariser": "average", "average_decay": 0.9}))
    start = flat(lane)
    run(lane, 1)
    wanted = start + 0.1 * (flat(lane) - start)
    torch.testing.assert_close(lane.learner.magnet.flat.cpu(), wanted, rtol=1e-4, atol=1e-6)
    small, whole = lane.learner.magnet.small.cpu(), lane.learner.magnet.flat.cpu()
    assert torch.equal(small, whole.to(small.dtype))

    lane = make(settings(network, ppo={"regulariser": "magnet", "magnet_every": 2}))
    start = flat(lane)
    run(lane, 1)
    assert torch.equal(lane.learner.magnet.flat.cpu(), start)
    run(lane, 1, first=1)
    assert torch.equal(lane.learner.magnet.flat.cpu(), flat(lane))


@pytest.mark.parametrize("network", [FUSED, TORCH], ids=["fused", "torch"])
def test_the_averaged_weights_are_what_is_judged_saved_and_remembered(network):
    opponents = Opponents(past=0.4, keep=2)
    lane = make(settings(network, ppo={"weight_average": 0.9}, opponents=opponents))
    wanted = flat(lane)
    for number in range(3):
        run(lane, 1, first=number)
        kept = kept_of_average(lane.config.ppo, number)
        wanted = kept * wanted + (1 - kept) * flat(lane)
    lane.remember(2)
    torch.cuda.synchronize()
    average = lane.learner.average
    torch.testing.assert_close(average.flat.cpu(), wanted, rtol=1e-4, atol=1e-6)
    assert torch.equal(average.small.cpu(), average.flat.cpu().to(average.small.dtype))
    assert lane.policy is average.policy
    assert torch.equal(lane._past[0].flat, average.flat)
    tensors = lane.tensors()
    saved = {"policy": average, "learning": lane.player}
    for prefix, player in saved.items():
        for name, view in player.views(player.flat).items():
            assert torch.equal(tensors[f"{prefix}/{name}"], view.cpu()), name
    other = make(lane.config)
    other.load(*state_of(lane))
    for mine, theirs in ((other.player, lane.player), (other.learner.average, average)):
        assert torch.equal(mine.flat, theirs.flat)
        assert torch.equal(mine.small, theirs.small)


@pytest.mark.parametrize("normalise", [True, False])
def test_the_rows_learnt_from_are_those_with_the_largest_advantages(normalise):
    ppo = {"top_advantages": 0.25, "normalise": normalise, "minibatch": 100}
    lane = make(settings(game="leduc", ppo=ppo))
    run(lane, 1)
    learnable = lane.collector.learnable
    advantage, usable = learnable.advantage.cpu(), learnable.usable.cpu()
    order, kept = rows_by_advantage(advantage, usable, 0.25, normalise)
    numbers = lane.control.parse(lane.control.tensor.cpu())
    assert numbers["usable"] == int(kept) == -(-int(usable.sum()) // 4)
    assert numbers["steps"] == 2 * (int(kept) // 100)
    # The mean is summed in another order: rows that lie equally far from it may change places.
    mean = float((advantage.double() * usable).sum() / usable.sum()) if normalise else 0.0
    distance = (advantage - mean).abs()
    found = learnable.rows.cpu().long()
    torch.testing.assert_close(distance[found[: int(kept)]], distance[order[: int(kept)]])
    assert torch.equal(found.sort().values, torch.arange(len(found)))


def test_a_magnet_holds_the_policy_back():
    distance = {}
    for weight in (0.0, 5.0):
        changes = {"regulariser": "magnet", "kl_weight": weight, "epochs": 8, "lr": 1e-2, "entropy": 0.0}
        distance[weight] = run(make(settings(ppo=changes)), 1)[0].losses["magnet"]
    assert 0 < distance[5.0] < 0.5 * distance[0.0]


def test_the_target_kl_stops_the_passes():
    free, stopped = (
        run(make(settings(ppo={"epochs": 20, "lr": 3e-2, "target_kl": kl})), 1)[0].losses
        for kl in (0.0, 0.01)
    )
    assert free["epochs"] == 20
    assert 1 <= stopped["epochs"] < 20


# Opponents


def test_past_policies_and_bots_sit_where_they_were_seated_and_answer():
    """Two past policies that always pass and always bet; blocks of theirs straddle the two streams."""
    opponents = Opponents(past=0.7, bots=0.2, keep=3)
    lane = make(settings(games=4096, steps=8, opponents=opponents))
    assert len(lane.collector.parts) == 2
    assert any(block.start < 2048 < block.stop for block in lane.collector.past_rows)
    lane.seat(5)
    run(lane, 1)
    rollout = lane.collector.rollout
    assert not rollout.driver.any()  # none to sit there yet

    for _ in range(2):
        lane.remember(3)
    assert len(lane.past) == 2
    torch.cuda.synchronize()
    for player, bias in zip(lane._past, ([9.0, -9.0], [-9.0, 9.0]), strict=False):
        with torch.no_grad():
            player.policy.action_head.weight.zero_()
            player.policy.action_head.bias.copy_(torch.tensor(bias))
        player.refresh()
    torch.cuda.synchronize()
    lane.seat(6)
    run(lane, 1, first=1)
    driver, action = rollout.driver.cpu(), rollout.action.cpu()
    for number, block in enumerate(lane.collector.past_rows[:2], start=1):
        seen = set(driver[:, block].flatten().tolist())
        assert seen == {0, number}
        mine = driver == number
        assert (action[mine] == number - 1).all()
        torch.testing.assert_close(
            rollout.log_probability.cpu()[mine], torch.zeros(int(mine.sum())), atol=1e-3, rtol=0
        )
    elsewhere = torch.ones(4096, dtype=torch.bool)
    for block in lane.collector.past_rows[:2]:
        elsewhere[block] = False
    assert not driver[:, elsewhere].any()  # bots play inside; the third past policy is not there yet
    assert 0.2 < action[driver == 0].float().mean() < 0.8
    usable = lane.collector.learnable.usable.cpu().reshape(8, 4096)
    assert not usable[driver != 0].any()
    assert usable[driver == 0].float().mean() > 0.5

    # Where bots sit, the learner has one seat: its turns come in one seat alone.
    seats = rollout.seat.cpu()[:, : round(4096 * 0.2)]
    assert (seats == seats[0]).all()


def test_the_oldest_past_policy_makes_room():
    lane = make(settings(opponents=Opponents(past=0.5, keep=2)))
    kept = []
    for number in range(4):
        run(lane, 1, first=number)
        lane.remember(2)
        kept.append(flat(lane))
    torch.cuda.synchronize()
    assert len(lane.past) == 2
    for player, wanted in zip(lane._past, kept[-2:], strict=True):
        assert torch.equal(player.flat.cpu(), wanted)
        assert torch.equal(player.small.cpu(), wanted.to(torch.bfloat16))


# Going on


def state_of(lane):
    return lane.tensors(), lane.blobs(), {"past": len(lane.past), "skipped": 0, "restored": 0}


@pytest.mark.parametrize("network", [FUSED, TORCH], ids=["fused", "torch"])
@pytest.mark.parametrize("precision", ["bfloat16", "float16", "float32"])
def test_a_lane_goes_on_from_what_another_saved(network, precision):
    opponents = Opponents(past=0.4, bots=0.2, keep=2)
    # Rows for four minibatches and a half: a few rows more or less make no difference.
    config = settings(network, precision, {"regulariser": "average", "minibatch": 700}, opponents=opponents)
    first, second = make(config), make(config)
    for number in range(4):
        run(first, 1, first=number)
        first.remember(2)
        first.seat(number)
    saved = state_of(first)
    second.load(*saved)
    again = state_of(second)
    assert saved[0].keys() == again[0].keys()
    for name, tensor in saved[0].items():
        assert torch.equal(tensor, again[0][name]), name
    assert saved[1] == again[1]
    assert saved[0]["adam/action_head.bias/step"] > 0
    a, b = run(first, 1, first=4)[0], run(second, 1, first=4)[0]
    exact = first.collector.parts[0].layers.__class__.__name__ == "TorchLayers"
    # The native layers may choose other algorithms, whose sums are rounded otherwise.
    same = (first.collector.rollout.action == second.collector.rollout.action).float().mean()
    assert same == 1.0 if exact else same > 0.98
    assert b.games == (a.games if exact else pytest.approx(a.games, rel=0.05))
    assert apart(flat(second), flat(first)) < (1e-6 if exact else 1e-2)


@pytest.mark.parametrize(("network", "precision"), [(TORCH, "float32"), (FUSED, "bfloat16")])
def test_two_lanes_at_once_learn_what_each_would_alone(network, precision):
    configs = [settings(network, precision, seed=seed) for seed in (3, 4)]
    alone = []
    for config in configs:
        lane = make(config)
        run(lane, 4)
        alone.append(flat(lane))
    together = [make(config) for config in configs]
    for number in range(4):
        for lane in together:
            lane.update(number, 0.0)
    for lane in together:
        lane.wait()
    assert apart(alone[0], alone[1]) > 0.1
    for lane, wanted in zip(together, alone, strict=True):
        assert apart(flat(lane), wanted) < (1e-6 if precision == "float32" else 2e-2)


# Room


def suggested(config):
    """What the error says to lower, and to what."""
    with pytest.raises(PlaymillError, match="the card's memory is too small for this run") as caught:
        run(make(config), 1)
    text = str(caught.value)
    assert "\n" not in text
    setting, now, to = re.search(r"lower (--[\w.]+) \(now ([\d,]+)\) to ([\d,]+)", text).groups()
    return setting, int(now.replace(",", "")), int(to.replace(",", ""))


def test_too_many_games_for_the_card_are_told_how_many_fit():
    config = settings(game="skull_king", games=50_000_000, steps=512)
    setting, now, fits = suggested(config)
    assert (setting, now) == ("--games", 50_000_000)
    assert 1000 < fits < now


def test_too_large_a_minibatch_for_the_card_is_told_what_fits():
    wide = Network(hidden=(2048, 2048, 2048))
    config = settings(wide, game="skull_king", games=8192, steps=2048, ppo={"minibatch": 2**24})
    setting, now, fits = suggested(config)
    assert (setting, now) == ("--ppo.minibatch", 2**24)
    assert 1000 < fits < now
    smaller = dataclasses.replace(config, steps=16, ppo=dataclasses.replace(config.ppo, minibatch=4096))
    assert run(make(smaller), 1)[0].number == 0  # the card is as good as before
