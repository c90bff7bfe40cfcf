"""Networks over boards on the card: the policy of the CPU, its gradients, under a graph, in every view."""

import dataclasses
import gc
import math

import pytest
import torch

from playmill.algorithms import PPO
from playmill.policies import Network, Policy
from playmill.training.config import Opponents, Train
from playmill.training.cuda.lane import CudaLane
from playmill.training.cuda.layers import TorchLayers, captured, make_layers
from tests.unit.test_boards import generals, rows_of

pytestmark = pytest.mark.cuda

BODIES = {
    "unet": Network((32, 16), body="unet", channels=16),
    "unet, shared": Network((32,), body="unet", channels=16, halvings=1, blocks=2, separate=False),
    "vit": Network((32, 16), body="vit", attention=2, heads=2, token_width=32),
    "vit of squares, shared": Network(
        (32,), body="vit", attention=1, heads=2, token_width=32, patch=1, separate=False
    ),
}
every_body = pytest.mark.parametrize("network", BODIES.values(), ids=BODIES)
sizes = pytest.mark.parametrize(("height", "width", "players"), [(10, 10, 2), (7, 9, 3), (5, 4, 2)])
ROWS = 96


@pytest.fixture(autouse=True)
def _room_for_the_next():
    yield
    gc.collect()
    torch.cuda.empty_cache()


class Setup:
    """Torch's layers over a board, a player, rows of games in flight, and gradients of the heads."""

    def __init__(self, spec, network, precision="float32"):
        self.spec = spec
        packed, _ = rows_of(spec, steps=ROWS // 8)
        self.packed = packed.cuda()
        torch.manual_seed(5)
        self.policy = Policy(spec, network)  # stays on the CPU
        with torch.no_grad():
            for head in (self.policy.action_head, self.policy.token_head):
                head.weight.mul_(50)
        self.layers = make_layers(spec, network, precision, ROWS, True)
        assert isinstance(self.layers, TorchLayers)
        twin = Policy(spec, network)
        twin.load_state_dict(self.policy.state_dict())
        self.player = self.layers.place(twin)
        self.heads = torch.zeros(ROWS, self.layers.stride, device="cuda")
        self.gradients = torch.zeros_like(self.player.flat)
        generator = torch.Generator().manual_seed(8)
        self.slope = torch.randn(ROWS, spec.actions + 1, generator=generator) / ROWS
        self.layers.slope[:, : spec.actions + 1] = self.slope.cuda()

    def step(self, view=None):
        self.layers.forward(self.player, self.packed, None, ROWS, self.heads, view)
        self.layers.backward(self.player, ROWS, False, self.gradients)

    def by_cpu(self, view=None):
        """Heads and gradients of the same policy on the CPU."""
        out = self.policy(self.packed.cpu(), view)
        heads = (out.logits, out.value)
        slopes = (self.slope[:, : self.spec.actions], self.slope[:, self.spec.actions])
        gradients = torch.autograd.grad(heads, list(self.policy.parameters()), slopes)
        return torch.cat((out.logits, out.value[:, None]), 1).detach(), gradients

    def compare(self, view, near, slope_near=None):
        """`slope_near`: for gradients, where it is not ten times as much."""
        heads, gradients = self.by_cpu(view)
        assert error(self.heads[:, : self.spec.actions + 1], heads) < near
        for (name, found), wanted in zip(self.player.views(self.gradients).items(), gradients, strict=True):
            assert error(found, wanted) < (slope_near or 10 * near), name


def error(found, wanted):
    wanted = wanted.to(found.device)
    return float((found - wanted).norm() / wanted.norm().clamp(min=1e-9))


@every_body
@sizes
@pytest.mark.parametrize("turned", [False, True], ids=["plain", "turned"])
@pytest.mark.parametrize(
    ("activation", "slope_near"),
    [
        ("gelu", 1e-3),
        # Another order of additions may put an input on the other side of the kink, and with it a slope:
        # two ways to convolve on the CPU differ by up to 0.02.
        ("relu", 0.03),
    ],
)
def test_the_card_computes_the_policy_of_the_cpu_and_its_gradient(
    network, height, width, players, turned, activation, slope_near
):
    network = dataclasses.replace(network, activation=activation)
    setup = Setup(generals(height, width, players), network)
    view = torch.arange(ROWS) % setup.spec.board.symmetries if turned else None
    setup.step(None if view is None else view.cuda())
    setup.compare(view, 1e-4, slope_near)


@every_body
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_lower_precision_stays_near(network, precision):
    setup = Setup(generals(10, 10), network, precision)
    setup.step()
    assert setup.heads.dtype == torch.float32
    setup.compare(None, 0.03)


@every_body
def test_a_graph_follows_new_rows_views_and_weights(network):
    setup = Setup(generals(9, 10), network, "bfloat16")
    view = torch.zeros(ROWS, dtype=torch.long, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        setup.step(view)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with captured(graph):
            setup.step(view)
        with torch.no_grad():
            setup.player.flat.mul_(0.9)
        setup.packed.copy_(setup.packed.flip(0))
        view.copy_(torch.arange(ROWS, device="cuda") % 4)
        graph.replay()
        torch.cuda.synchronize()
        replayed = setup.heads.clone(), setup.gradients.clone()
        setup.step(view)
        torch.cuda.synchronize()
    assert error(replayed[0], setup.heads) < 1e-5
    assert error(replayed[1], setup.gradients) < 1e-5


@every_body
def test_the_same_rows_give_the_same_bits(network):
    setup = Setup(generals(10, 10), network, "bfloat16")
    setup.step()
    before = setup.heads.clone(), setup.gradients.clone()
    for _ in range(3):
        setup.step()
        assert torch.equal(setup.heads, before[0])
        assert torch.equal(setup.gradients, before[1])


@every_body
def test_a_board_is_learnt_under_a_graph_and_resumed(network):
    config = Train(
        game="generals",
        options={"width": "7", "height": "6", "max_ticks": "60"},
        games=256,
        steps=16,
        threads=1,
        device="cuda",
        network=network,
        opponents=Opponents(past=0.4, bots=0.2, keep=2),
        ppo=PPO(minibatch=700, symmetries=True, top_advantages=0.5, weight_average=0.9),
    )
    first, second = (CudaLane(config, config.spec, None) for _ in range(2))
    for number in range(3):
        first.update(number, 0.0)
        first.wait()
        first.remember(2)
        first.seat(number)
    meta = {"past": len(first.past), "skipped": 0, "restored": 0}
    second.load(first.tensors(), first.blobs(), meta)
    for lane in (first, second):
        lane.update(3, 0.0)
        done = lane.wait()
        assert all(math.isfinite(value) for value in done.losses.values())
    assert torch.equal(first.collector.rollout.action, second.collector.rollout.action)
    assert torch.equal(first.player.flat, second.player.flat)
    assert torch.equal(first.learner.average.flat, second.learner.average.flat)
