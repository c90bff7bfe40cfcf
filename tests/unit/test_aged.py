"""Learning from rows that an older policy played: what is corrected, what is kept, what is dropped."""

import copy
import dataclasses

import numpy as np
import pytest
import torch

from playmill.algorithms import PPO, Age, Returns, seat_returns
from playmill.experience.ring import RingSender, ring_folder
from playmill.experience.segment import Identity, Segment, encode
from playmill.games import registry
from playmill.policies import Network, Policy, masked_log_softmax, unpack_bits
from playmill.training.aged import AgedLearner, loss_settings
from playmill.training.collector import Collector, Stopwatch
from playmill.training.config import load_recipe
from playmill.training.engine_lane import EngineLane
from playmill.training.learner import Learner
from playmill.training.minibatches import Minibatches
from playmill.training.ranks import ALONE
from playmill.training.shards import Shards

PPO_ = PPO(epochs=2, minibatch=256, lam=0.7, lr=1e-2, normalise=True)


def a_policy(seed=0):
    torch.manual_seed(seed)
    return Policy(registry.spec("leduc"), Network(hidden=(16,)))


def a_learner(ppo=PPO_, age=None, seed=0, bfloat16=False):
    ppo = ppo if age is None else loss_settings(ppo, age)
    return Learner(a_policy(seed), ppo, 0, bfloat16, Shards(1))


def played_by(policy, number=0):
    collector = Collector(registry.spec("leduc"), 32, 24, 3, Shards(1))
    return collector.collect(policy, [], number, Stopwatch())


def weights(policy):
    return torch.cat([p.detach().flatten() for p in policy.parameters()])


def test_on_fresh_rows_the_update_is_the_plain_one():
    plain, aged = a_learner(), AgedLearner(a_learner(), Age())
    for number in range(3):
        rollout = played_by(plain.policy, number)
        returns = seat_returns(rollout, PPO_.gamma, PPO_.lam, plain.kernels)
        plain.update(rollout, returns, number, 0.0)
        found = aged.update(rollout, number, 0.0)
        assert found["ratio"] == pytest.approx(1.0, abs=1e-3)
    moved = (weights(plain.policy) - weights(a_policy())).norm()
    assert (weights(plain.policy) - weights(aged.learner.policy)).norm() < 0.02 * moved


def test_the_actor_critic_gradient_is_the_policy_gradient():
    """Of old rows: the weighed advantage times the gradient of the action's log-probability, averaged."""
    ppo = PPO(normalise=False, entropy=0.0, value_weight=0.0, max_grad_norm=1e9, minibatch=10**6, lam=0.7)
    age = Age(loss="actor_critic")
    learner, rollout = a_learner(ppo, age), played_by(a_policy(5))
    assert learner.cfg.epochs == 1
    seen = {}
    update = learner.update
    learner.update = lambda r, returns, *rest: seen.update(returns=returns) or update(r, returns, *rest)
    before = copy.deepcopy(learner.policy)
    AgedLearner(learner, age).update(rollout, 0, 0.0)

    rows = seen["returns"].usable.flatten()
    out = before(rollout.flat(rollout.observation)[rows])
    legal = unpack_bits(rollout.flat(rollout.legal)[rows], out.logits.shape[1])
    action = rollout.action.flatten()[rows].long()[:, None]
    logs = masked_log_softmax(out.logits, legal).gather(1, action).squeeze(1)
    loss = -(seen["returns"].advantage.flatten()[rows] * logs).mean()
    wanted = torch.autograd.grad(loss, list(before.parameters()), allow_unused=True)
    for parameter, gradient in zip(learner.policy.parameters(), wanted, strict=True):
        expected = torch.zeros_like(parameter) if gradient is None else gradient
        torch.testing.assert_close(parameter.grad, expected, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("correction", ["vtrace", "none"])
def test_what_ppo_compares_with(correction):
    """With V-trace the policy before the update; without, the one that played."""
    learner, rollout = a_learner(), played_by(a_policy(5))
    seen = {}
    learner.update = lambda r, *_: seen.update(rollout=r) or {}
    found = AgedLearner(learner, Age(correction)).update(rollout, 0, 0.0)
    same = torch.equal(seen["rollout"].log_probability, rollout.log_probability)
    assert same == (correction == "none")
    assert 0.0 < found["ratio_cut"] < 1.0


def test_opponents_have_not_moved():
    """Rows of past policies and bots have no ratio, whatever the learner thinks of them."""
    learner, rollout = a_learner(), played_by(a_policy(5))
    rollout.driver[:] = (rollout.seat == 1).to(torch.uint8)
    seen = {}
    learner.update = lambda r, returns, *_: seen.update(rollout=r, returns=returns) or {}
    AgedLearner(learner, Age(others=True)).update(rollout, 0, 0.0)
    joint = seen["returns"]
    AgedLearner(learner, Age(others=False)).update(rollout, 0, 0.0)
    mine = rollout.driver == 0
    assert torch.equal(joint.weight[joint.usable], seen["returns"].weight[joint.usable])
    assert torch.equal(seen["rollout"].log_probability[~mine], rollout.log_probability[~mine])
    assert not joint.usable[~mine].any()


def test_a_target_network_follows_from_time_to_time_and_is_saved():
    age = Age(target_every=2)
    aged = AgedLearner(a_learner(), age)
    first = weights(aged.target)
    aged.update(played_by(aged.learner.policy), 0, 0.0)
    assert torch.equal(weights(aged.target), first)
    second = AgedLearner(a_learner(seed=9), age)
    second.load(aged.tensors())
    assert torch.equal(weights(second.target), first)
    for each in (aged, second):
        each.update(played_by(a_policy(5), 1), 1, 0.0)
        assert torch.equal(weights(each.target), weights(each.learner.policy))
    assert torch.equal(weights(second.learner.policy), weights(aged.learner.policy))


def test_rows_that_count_for_nothing_stay_at_nothing():
    advantage, weight = torch.randn(8, 5), torch.rand(8, 5)
    weight[:4] = 0.0
    returns = Returns(advantage * weight, advantage, torch.ones(8, 5, dtype=torch.bool), weight)
    (found,) = Minibatches(0, Shards(1), ALONE).of(returns, 0, 0, PPO())
    counted = weight.flatten()[found.rows[0]]
    assert not found.advantage[0][counted == 0].any()
    assert found.advantage[0].sum().abs() < 1e-4
    nothing = dataclasses.replace(returns, advantage=0 * advantage, weight=0 * weight)
    (found,) = Minibatches(0, Shards(1), ALONE).of(nothing, 0, 0, PPO())
    assert not found.advantage[0].any()


def test_accumulated_gradients_are_those_of_the_whole():
    rollout, ends = played_by(a_policy(5)), []
    for parts in (1, 3):
        aged = AgedLearner(a_learner(dataclasses.replace(PPO_, accumulate=parts)), Age())
        aged.update(rollout, 0, 0.0)
        ends.append(weights(aged.learner.policy))
    torch.testing.assert_close(ends[0], ends[1], atol=1e-4, rtol=1e-3)


def test_bfloat16_sees_what_it_learns_with():
    learner = a_learner(bfloat16=True)
    found = AgedLearner(learner, Age()).update(played_by(learner.policy), 0, 0.0)
    assert found["ratio"] == pytest.approx(1.0, abs=0.02)
    assert learner.skipped == learner.restored == 0


@pytest.fixture
def lane(tmp_path):
    config = load_recipe("leduc/engines")
    actors = dataclasses.replace(config.actors, count=0, segments=2)
    ppo = dataclasses.replace(config.ppo, minibatch=32, accumulate=2)
    config = dataclasses.replace(config, steps=16, threads=1, actors=actors, ppo=ppo, precision="bfloat16")
    made = EngineLane(config, config.spec, None, tmp_path)
    yield made
    made.close()


def send(lane, sender, sequence, version):
    """A segment as an actor with weights of that version would send it."""
    rollout = played_by(lane.policy)
    shape = lane.exchange.shape
    columns = {
        name: getattr(rollout, name)[: shape.steps, sequence].numpy()
        for name in Segment._fields
        if name not in ("identity", "version", "traceparent")
    }
    identity = Identity(lane.exchange.run, 0, 1, sequence)
    versions = np.full(shape.steps, version, np.uint32)
    assert sender.send(identity, encode(Segment(identity, version=versions, **columns), shape), 1.0)


def test_the_engine_lane_drops_what_is_too_old(lane):
    lane.ready(0.0)
    lane.version = 20
    sender = RingSender(ring_folder(lane.exchange.run), lane.exchange.run, 0, 1, 1 << 20)
    most = lane.config.age.most
    for sequence, version in enumerate([20 - most - 1, 20 - most, 20]):
        send(lane, sender, sequence, version)
    for _ in range(20):
        if lane.ready(0.2):
            break
    assert lane.ledger.dropped == {"old": 1}
    done = lane.update(0, 0.0)
    assert (done.losses["dropped_old"], done.losses["age_most"]) == (1.0, most)
    assert done.skipped == done.restored == 0
    sender.close()
