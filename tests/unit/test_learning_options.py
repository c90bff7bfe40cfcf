"""Which rows are learnt from, which weights are kept, and in which view of the board they are learnt."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from playmill import _native
from playmill.algorithms import PPO, Returns, rows_by_advantage, seat_returns
from playmill.checkpoints import fingerprint, write
from playmill.games import PlaymillError, registry
from playmill.league.policies import load_policy
from playmill.policies import Network, Policy
from playmill.training.collector import Collector, Stopwatch
from playmill.training.config import Opponents, Train
from playmill.training.lane import CpuLane
from playmill.training.learner import Learner, kept_of_average
from playmill.training.shards import Shards

UNET = Network((16,), body="unet", channels=4, halvings=1)
VIT = Network((16,), body="vit", attention=1, heads=2, token_width=8)
BOARD = {"width": "5", "height": "5", "max_ticks": "40"}


@pytest.fixture(autouse=True)
def _same_threads_after():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def learner_of(game="leduc", options=None, network=None, **ppo):
    """A small learner and one rollout of its play with returns."""
    spec = registry.spec(game, options)
    cfg = PPO(**{"minibatch": 10**6, "epochs": 1, "lr": 1e-2, **ppo})
    torch.manual_seed(1)
    team = Shards(2)
    policy = Policy(spec, network or Network((16, 16)))
    learner = Learner(policy, cfg, 7, False, team)
    collector = Collector(spec, 40, 24, 3, team, cfg.symmetries)
    rollout = collector.collect(policy, [], 0, Stopwatch())
    return learner, rollout, seat_returns(rollout, cfg.gamma, cfg.lam, _native.Kernels(1))


def weights(policy):
    return torch.cat([p.detach().flatten() for p in policy.parameters()])


# --- top advantages


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(-9, 9), st.booleans()), min_size=1, max_size=40),
    st.sampled_from([0.01, 0.25, 0.5, 0.99, 1.0]),
    st.booleans(),
)
def test_the_rows_kept_are_those_furthest_from_the_mean(drawn, share, centred):
    advantage = torch.tensor([[float(a) for a, _ in drawn]])
    usable = torch.tensor([[good for _, good in drawn]])
    order, kept = rows_by_advantage(advantage, usable, share, centred)
    rows = [i for i, (_, good) in enumerate(drawn) if good]
    mean = np.mean([drawn[i][0] for i in rows]) if rows and centred else 0.0
    wanted = sorted(rows, key=lambda i: (-abs(np.float32(drawn[i][0]) - np.float32(mean)), i))
    assert sorted(order.tolist()) == list(range(len(drawn)))
    assert order[: len(rows)].tolist() == wanted
    assert int(kept) == -(-len(rows) * int(share * 100) // 100)


def test_only_the_rows_kept_are_learnt_from():
    learner, rollout, returns = learner_of(top_advantages=0.25)
    (minibatch,) = learner.minibatches.of(returns, 0, 0, learner.cfg)
    rows = torch.cat(minibatch.rows)
    usable = returns.usable.flatten().nonzero().squeeze(1)
    assert len(rows) == -(-len(usable) // 4)
    gained = returns.advantage.flatten()
    distance = (gained - gained[usable].mean()).abs()
    others = usable[~torch.isin(usable, rows)]
    assert distance[rows].min() >= distance[others].max() - 1e-6

    # Neither policy nor value takes anything from the others.
    target = returns.target.clone()
    target.view(-1)[others] = 1e3
    other = copy.deepcopy(learner.policy)
    learner.update(rollout, returns, 0, 0.0)
    twin = Learner(other, learner.cfg, 7, False, learner.shards)
    twin.update(rollout, Returns(returns.advantage, target, returns.usable), 0, 0.0)
    assert torch.equal(weights(twin.policy), weights(learner.policy))


def test_all_rows_are_the_default():
    learner, _, returns = learner_of()
    (minibatch,) = learner.minibatches.of(returns, 0, 0, learner.cfg)
    rows = torch.cat(minibatch.rows)
    assert torch.equal(rows.sort().values, returns.usable.flatten().nonzero().squeeze(1))


# --- weight averaging


def test_the_average_follows_the_weights():
    learner, rollout, returns = learner_of(weight_average=0.5)
    wanted = weights(learner.policy)
    assert learner.judged is learner.average
    for number in range(12):
        learner.update(rollout, returns, number, 0.0)
        kept = min(0.5, (number + 1) / (number + 10))
        assert kept_of_average(learner.cfg, number) == kept
        wanted = kept * wanted + (1 - kept) * weights(learner.policy)
        torch.testing.assert_close(weights(learner.judged), wanted, atol=1e-6, rtol=1e-5)
    assert (weights(learner.judged) - weights(learner.policy)).norm() > 1e-3


def test_averaging_changes_nothing_of_the_learning():
    plain, rollout, returns = learner_of()
    averaged, *_ = learner_of(weight_average=0.9)
    for number in range(3):
        for learner in (plain, averaged):
            learner.update(rollout, returns, number, 0.0)
    assert torch.equal(weights(plain.policy), weights(averaged.policy))
    assert plain.judged is plain.policy


def config_of(**changes):
    ppo = {"minibatch": 256, "epochs": 2, "weight_average": 0.8, "top_advantages": 0.5, "symmetries": True}
    given = {
        "game": "generals",
        "options": BOARD,
        "games": 24,
        "steps": 12,
        "threads": 2,
        "precision": "float32",
        "network": UNET,
        "opponents": Opponents(past=0.5, bots=0.2, keep=2),
        "ppo": PPO(**{**ppo, **changes.pop("ppo", {})}),
    }
    return Train(**{**given, **changes})


@pytest.mark.parametrize("network", [UNET, VIT], ids=["unet", "vit"])
def test_a_lane_with_all_options_goes_on_from_what_another_saved(network):
    """Invariant: what is killed and resumed is the same run, bit for bit."""
    config = config_of(network=network)
    first, second = (CpuLane(config, config.spec, None) for _ in range(2))
    for number in range(3):
        first.update(number, 0.0)
        first.remember(2)
        first.seat(number)
    meta = {"past": len(first.past), "skipped": 0, "restored": 0}
    second.load(first.tensors(), first.blobs(), meta)
    assert fingerprint(second.tensors()) == fingerprint(first.tensors())
    for number in (3, 4):
        done = [lane.update(number, 0.0) for lane in (first, second)]
        assert done[0].losses == done[1].losses
    assert fingerprint(second.tensors()) == fingerprint(first.tensors())
    assert second.blobs() == first.blobs()
    for lane in (first, second):
        lane.close()


def test_the_average_is_what_is_saved_judged_and_remembered(tmp_path):
    config = config_of()
    lane = CpuLane(config, config.spec, None)
    for number in range(3):
        lane.update(number, 0.0)
    lane.remember(2)
    average, learning = weights(lane.learner.average), weights(lane.learner.policy)
    assert not torch.equal(average, learning)
    assert torch.equal(weights(lane.policy), average)
    assert torch.equal(weights(lane.past[0]), average)
    meta = {
        "game": "generals",
        "options": BOARD,
        "schema_hash": f"{config.spec.schema.hash:016x}",
        "network": dataclasses.asdict(config.network),
    }
    write(tmp_path / "one", lane.tensors(), meta)
    assert torch.equal(weights(load_policy(tmp_path / "one").policy), average)
    lane.close()


# --- symmetries


@pytest.mark.parametrize("network", [UNET, VIT], ids=["unet", "vit"])
def test_a_row_is_learnt_in_the_view_it_was_played_in(network):
    """Then the first pass finds the probabilities that were played with; in another view it would not."""
    learner, *_ = learner_of("generals", BOARD, network, symmetries=True, lr=1e-9)
    with torch.no_grad():
        learner.policy.token_head.weight.mul_(100)  # opinions, so that views differ
    collector = Collector(registry.spec("generals", BOARD), 40, 24, 3, learner.shards, symmetries=True)
    rollout = collector.collect(learner.policy, [], 0, Stopwatch())
    returns = seat_returns(rollout, 1.0, 0.95, collector.kernels)
    found = learner.update(rollout, returns, 0, 0.0)
    assert found["kl"] < 1e-8
    assert found["clip_share"] == 0
    learner.cfg = dataclasses.replace(learner.cfg, symmetries=False)
    assert learner.update(rollout, returns, 0, 0.0)["kl"] > 1e-3


def test_games_and_seats_share_out_the_views():
    policy = Policy(registry.spec("generals", BOARD), UNET)
    games, seats = torch.arange(64).repeat(2), torch.arange(2, dtype=torch.uint8).repeat_interleave(64)
    views = policy.views.of(games, seats)
    assert torch.bincount(views).tolist() == [16] * 8
    assert (views[:64] != views[64:]).all()


def test_symmetries_need_a_network_that_knows_the_board():
    with pytest.raises(PlaymillError) as caught:
        Train(game="generals", ppo=PPO(symmetries=True))
    assert str(caught.value) == "ppo.symmetries are those of a board: they need network.body unet or vit"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"top_advantages": 0.0}, "ppo.top_advantages must be over 0 and at most 1, got 0.0"),
        ({"top_advantages": 1.5}, "ppo.top_advantages must be over 0 and at most 1, got 1.5"),
        ({"weight_average": 1.0}, "ppo.weight_average must be from 0 to below 1, got 1.0"),
        ({"weight_average": -0.1}, "ppo.weight_average must be from 0 to below 1, got -0.1"),
    ],
)
def test_bad_settings_are_one_line(given, says):
    with pytest.raises(PlaymillError) as caught:
        PPO(**given)
    assert str(caught.value) == says
