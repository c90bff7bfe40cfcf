"""The engine lane's learner on the card: it agrees with the CPU's."""

import copy

import pytest
import torch

from playmill.algorithms import PPO, Age
from playmill.games import registry
from playmill.policies import Network, Policy
from playmill.training.aged import AgedLearner
from playmill.training.collector import Collector, Stopwatch
from playmill.training.learner import Learner
from playmill.training.shards import Shards

pytestmark = pytest.mark.cuda


@pytest.mark.parametrize("target_every", [0, 2])
def test_updates_on_the_card_are_those_of_the_cpu(target_every):
    spec = registry.spec("leduc")
    torch.manual_seed(1)
    policy = Policy(spec, Network(hidden=(32, 32)))
    played = copy.deepcopy(policy)
    with torch.no_grad():
        for parameter in played.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    rollout = Collector(spec, 64, 16, 3, Shards(1)).collect(played, [], 0, Stopwatch())
    cfg = PPO(minibatch=256, epochs=2, regulariser="average", weight_average=0.9)
    age = Age(target_every=target_every)
    found = []
    for device in ("cpu", "cuda"):
        mine = copy.deepcopy(policy).to(device)
        aged = AgedLearner(Learner(mine, cfg, 7, False, Shards(1)), age)
        for number in range(3):
            losses = aged.update(rollout, number, 0.1 * number)
        again = AgedLearner(Learner(copy.deepcopy(policy).to(device), cfg, 7, False, Shards(1)), age)
        again.load({name: tensor.cpu() for name, tensor in aged.tensors().items()})
        again.update(rollout, 3, 0.3)
        losses = aged.update(rollout, 3, 0.3)
        for name, tensor in aged.tensors().items():
            assert torch.equal(tensor, again.tensors()[name]), name
        found.append((losses, {name: tensor.cpu() for name, tensor in aged.tensors().items()}))
    (on_cpu, cpu), (on_card, card) = found
    for name, value in on_cpu.items():
        assert on_card[name] == pytest.approx(value, abs=2e-3), name
    for name, tensor in cpu.items():
        torch.testing.assert_close(card[name], tensor, atol=2e-3, rtol=2e-2, msg=name)
