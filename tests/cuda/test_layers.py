"""The layers on the card, forwards and backwards: beside the same sums in plain torch with the same
roundings, and beside the policy module itself."""

import numpy as np
import pytest
import torch

from playmill.games import registry
from playmill.policies import Network, Policy, expand
from playmill.pools.lanes import need_cuda
from playmill.training.cuda.control import Control
from playmill.training.cuda.layers import (
    TYPES,
    FusedLayers,
    TorchLayers,
    is_fused,
    make_layers,
    stream_now,
)
from tests.unit.test_expansion import real_rows

pytestmark = pytest.mark.cuda

NETWORKS = [
    Network(hidden=(128,)),
    Network(hidden=(128,), separate=False),
    Network(hidden=(256, 128)),
    Network(hidden=(128, 256), separate=False),
    Network(hidden=(128, 256, 128)),
    Network(hidden=(128, 128, 128, 128)),
    Network(hidden=(256, 128, 128, 128), separate=False),
    Network(hidden=(1280, 128)),
]
networks = pytest.mark.parametrize(
    "network", NETWORKS, ids=lambda n: "-".join(map(str, n.hidden)) + ("" if n.separate else "-shared")
)


class Raw:
    """Memory of the native layers, for torch to take over."""

    def __init__(self, address, shape, typestr):
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": typestr,
            "data": (address, False),
            "strides": None,
            "version": 3,
        }


def lively_policy(spec, network):
    """A policy whose heads and biases matter from the start."""
    torch.manual_seed(5)
    policy = Policy(spec, network)
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0.0, 0.2)
            elif "head" in name:
                parameter.normal_(0.0, parameter.shape[1] ** -0.5)
    return policy


class Setup:
    """Native layers, a player, packed rows of a game, and gradients of the heads."""

    def __init__(self, network, precision, game="skull_king", rows=512):
        self.spec, self.network, self.precision, self.rows = registry.spec(game), network, precision, rows
        _, packed = real_rows(game, steps=-(-rows // 32))
        self.packed = torch.from_numpy(packed[:rows]).cuda()
        self.layers = FusedLayers(self.spec, network, precision, rows, True)
        self.player = self.layers.place(lively_policy(self.spec, network))
        self.heads = torch.full((rows, self.layers.stride), 3.0, device="cuda")
        self.gradients = torch.zeros_like(self.player.flat)
        width = self.spec.actions + 1
        generator = torch.Generator().manual_seed(8)
        upstream = torch.zeros(rows, self.layers.stride)
        upstream[:, :width] = torch.randn(rows, width, generator=generator) / rows
        self.upstream = upstream.to(TYPES[precision]).cuda()
        slot = torch.as_tensor(Raw(self.layers.gradient, (rows, self.layers.stride), "<i2"), device="cuda")
        slot.view(TYPES[precision]).copy_(self.upstream)
        # The first calls try cuBLASLt's algorithms, and spoil what is added to.
        self.forward()
        for add in (False, True):
            self.backward(add)

    def forward(self, index=None):
        self.layers.forward(self.player, self.packed, index, self.rows, self.heads)
        torch.cuda.synchronize()
        return self.heads.clone()

    def backward(self, add=False):
        self.layers.backward(self.player, self.rows, add, self.gradients)
        torch.cuda.synchronize()
        return {name: view.clone() for name, view in self.player.views(self.gradients).items()}

    def split(self, heads):
        """Logits and value, side by side."""
        return heads[:, : self.spec.actions + 1]


def by_hand(setup):
    """Heads and gradients in float32, rounded where the native layers store their results."""

    def rounded(tensor):
        return tensor.to(TYPES[setup.precision]).float()

    weights = {name: rounded(p.detach()) for name, p in setup.player.policy.named_parameters()}
    trunks, layers = setup.network.trunks, len(setup.network.hidden)
    inputs = rounded(expand(setup.spec.schema, setup.packed))
    first = rounded(torch.relu(inputs @ weights["first.weight"] + weights["first.bias"]))
    hidden = [list(first.chunk(trunks, 1))]
    for i in range(layers - 1):
        names = [f"trunks.{t}.{i}" for t in range(trunks)]
        hidden.append(
            [
                rounded(torch.relu(h @ weights[f"{n}.weight"].T + weights[f"{n}.bias"]))
                for n, h in zip(names, hidden[-1], strict=True)
            ]
        )
    outputs = (("action_head", hidden[-1][0]), ("value_head", hidden[-1][-1]))
    heads = torch.cat([h @ weights[f"{n}.weight"].T + weights[f"{n}.bias"] for n, h in outputs], 1)

    up = setup.upstream.float()
    slopes_up = {"action_head": up[:, : setup.spec.actions], "value_head": up[:, [setup.spec.actions]]}
    found, slopes = {}, [torch.zeros_like(h) for h in hidden[-1]]
    for (name, h), t in zip(outputs, (0, -1), strict=True):
        found[f"{name}.weight"] = slopes_up[name].T @ h
        found[f"{name}.bias"] = slopes_up[name].sum(0)
        slopes[t] = slopes[t] + slopes_up[name] @ weights[f"{name}.weight"]
    for i in reversed(range(layers)):
        slopes = [rounded(s) * (h > 0) for s, h in zip(slopes, hidden[i], strict=True)]
        if i == 0:
            both = torch.cat(slopes, 1)
            found["first.weight"], found["first.bias"] = inputs.T @ both, both.sum(0)
            break
        for t, slope in enumerate(slopes):
            name = f"trunks.{t}.{i - 1}"
            found[f"{name}.weight"], found[f"{name}.bias"] = slope.T @ hidden[i - 1][t], slope.sum(0)
        slopes = [s @ weights[f"trunks.{t}.{i - 1}.weight"] for t, s in enumerate(slopes)]
    return heads, found


def error(found, wanted):
    """How far off, as a share of what was wanted."""
    found, wanted = found.detach().float(), wanted.detach().float()
    return float((found - wanted).norm() / wanted.norm().clamp(min=1e-12))


@networks
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize(("game", "rows"), [("skull_king", 512), ("leduc", 301)])
def test_the_native_layers_are_the_sums_by_hand(network, precision, game, rows):
    setup = Setup(network, precision, game, rows)
    heads, wanted = by_hand(setup)
    found = setup.forward()
    assert error(setup.split(found), heads) < 5e-3
    assert not found[:, setup.spec.actions + 1 :].any()  # padding
    gradients = setup.backward()
    assert gradients.keys() == wanted.keys() == dict(setup.player.policy.named_parameters()).keys()
    for name, gradient in wanted.items():
        assert error(gradients[name], gradient) < 2e-2, name


@networks
def test_the_native_layers_are_the_policy(network):
    setup = Setup(network, "bfloat16")
    heads, gradients = setup.split(setup.forward()), setup.backward()
    policy = setup.player.policy
    parameters = dict(policy.named_parameters())
    up = setup.upstream.float()
    slopes = (up[:, : setup.spec.actions], up[:, setup.spec.actions])
    for autocast in (True, False):
        with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
            logits, value = policy(setup.packed)
        plain = torch.cat([logits, value[:, None]], 1)
        assert error(heads[:, :-1], plain[:, :-1]) < 2e-2
        assert error(heads[:, -1], plain[:, -1]) < 2e-2
        wanted = torch.autograd.grad((logits, value), list(parameters.values()), slopes)
        # Looser than the heads: a unit near zero that rounds to the other side has another slope.
        for name, gradient in zip(parameters, wanted, strict=True):
            assert error(gradients[name], gradient) < 0.15, name


def test_rows_can_be_picked_by_number_and_left_out():
    setup = Setup(Network(hidden=(256, 128)), "bfloat16")
    index = torch.from_numpy(np.random.default_rng(0).integers(0, 512, 512).astype(np.int32)).cuda()
    picked = setup.forward(index)
    everything = setup.packed
    setup.packed = everything[index.long()].contiguous()
    assert torch.equal(setup.forward(), picked)
    setup.packed = everything
    left_out = index.clone()
    left_out[::3] = -1
    found = setup.forward(left_out)
    assert torch.equal(found[left_out >= 0], picked[left_out >= 0])


@networks
def test_gradients_are_added_where_that_is_asked(network):
    setup = Setup(network, "bfloat16")
    setup.forward()
    once = setup.backward()
    twice = setup.backward(add=True)
    again = setup.backward()
    for name, gradient in once.items():
        assert error(twice[name], 2.0 * gradient) < 1e-4, name
        assert torch.equal(again[name], gradient), name


def test_fewer_rows_than_there_is_room_for_and_never_more():
    setup = Setup(Network(hidden=(128, 128)), "bfloat16")
    whole = setup.forward()
    part = torch.zeros(100, setup.layers.stride, device="cuda")
    setup.layers.forward(setup.player, setup.packed, None, 100, part)
    torch.cuda.synchronize()
    assert error(part, whole[:100]) < 5e-3
    with pytest.raises(ValueError, match="more rows than there is room for"):
        setup.layers.forward(setup.player, setup.packed, None, 513, setup.heads)


def test_layers_for_inference_have_no_way_back():
    setup = Setup(Network(hidden=(128,)), "bfloat16")
    layers = FusedLayers(setup.spec, setup.network, "bfloat16", 64, False)
    with pytest.raises(ValueError, match="made for inference"):
        layers.backward(setup.player, 64, False, setup.gradients)


@pytest.mark.parametrize("hidden", [(128,), (384, 128), (512, 512, 256), (1024, 1024)], ids=str)
@pytest.mark.parametrize("separate", [True, False])
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize("rows", [1, 600, 9000])
def test_both_ways_back_give_the_same_gradients(hidden, separate, precision, rows):
    setup = Setup(Network(hidden=hidden, separate=separate), precision, rows=rows)
    found = [setup.backward(), setup.backward()]
    setup.layers.native.streamed = False
    setup.backward()  # tries algorithms
    for name, gradient in setup.backward().items():
        assert error(found[0][name], gradient) < 4e-3, name
        assert torch.equal(found[0][name], found[1][name]), name


def test_widths_the_native_layers_cannot_do_go_to_torch():
    assert is_fused(Network(hidden=(256, 128)), "bfloat16")
    assert not is_fused(Network(hidden=(256, 100)), "bfloat16")
    assert not is_fused(Network(hidden=(256, 128)), "float32")
    assert not is_fused(Network(hidden=(128, 128), residual=True), "bfloat16")
    assert not is_fused(Network(hidden=(128,), activation="tanh"), "bfloat16")
    spec = registry.spec("leduc")
    assert isinstance(make_layers(spec, Network(hidden=(100,)), "bfloat16", 8, True), TorchLayers)
    with pytest.raises(ValueError, match="multiples of 128"):
        FusedLayers(spec, Network(hidden=(100,)), "bfloat16", 8, True)


# Weights


def adam(player, layers, gradients, control, mean, square):
    native = need_cuda()
    norms = torch.zeros(native.adam_blocks(), dtype=torch.float64, device="cuda")
    control.write(live=1)
    native.adam_step(
        control.address,
        len(player.flat),
        player.flat.data_ptr(),
        0 if player.small is player.flat else player.small.data_ptr(),
        layers.gradient_precision,
        gradients.data_ptr(),
        mean.data_ptr(),
        square.data_ptr(),
        layers.head_cells,
        0.5,
        False,
        0,
        0,
        norms.data_ptr(),
        stream_now(),
    )
    torch.cuda.synchronize()


@networks
def test_gaps_between_the_weights_stay_zero_and_all_weights_move(network):
    setup = Setup(network, "bfloat16")
    player, control = setup.player, Control("bfloat16")
    need_cuda().begin_update(control.address, 1e-2, 0.0, stream_now())
    mean, square = torch.zeros_like(player.flat), torch.zeros_like(player.flat)
    places = player.views(torch.arange(len(player.flat), device="cuda"))
    gaps = torch.ones(len(player.flat), dtype=torch.bool, device="cuda")
    for place in places.values():
        gaps[place.flatten()] = False
    assert gaps.any()
    before = {name: p.detach().clone() for name, p in player.policy.named_parameters()}
    for _ in range(4):
        setup.forward()
        setup.backward()
        adam(player, setup.layers, setup.gradients, control, mean, square)
    for tensor in (player.flat, player.small, mean, square):
        assert not tensor[gaps].any()
    assert torch.equal(player.small, player.flat.to(torch.bfloat16))
    for name, parameter in player.policy.named_parameters():  # the policy's own parameters, no copies
        moved = (parameter.detach() != before[name]).float().mean()
        # What belongs to features that never lit up and units that never fired has no gradient.
        assert moved > (0.1 if name == "first.weight" else 0.5), name
    assert error(setup.split(setup.forward()), by_hand(setup)[0]) < 5e-3


@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
def test_a_twin_has_the_same_weights_in_memory_of_its_own(precision):
    spec, network = registry.spec("leduc"), Network(hidden=(128, 128))
    player = make_layers(spec, network, precision, 8, False).place(lively_policy(spec, network))
    twin = player.twin()
    assert torch.equal(twin.flat, player.flat)
    assert torch.equal(twin.small, player.small)
    with torch.no_grad():
        player.policy.action_head.weight += 1.0
    player.refresh()
    assert not torch.equal(twin.flat, player.flat)
    assert not torch.equal(twin.small, player.small)
    twin.copy_from(player)
    assert torch.equal(twin.policy.action_head.weight, player.policy.action_head.weight)
    assert torch.equal(twin.small, player.small)


@pytest.mark.parametrize(
    "network",
    [
        Network(hidden=(48, 24), activation="tanh"),
        Network(hidden=(64, 64, 64), residual=True, separate=False),
        Network(hidden=(64,), attention=1, heads=2, token_width=16),
    ],
    ids=["tanh", "residual", "attention"],
)
def test_torchs_layers_are_the_policy_and_its_gradient(network):
    spec = registry.spec("skull_king")
    _, packed = real_rows("skull_king", steps=4)
    packed = torch.from_numpy(packed[:96]).cuda()
    layers = make_layers(spec, network, "float32", 96, True)
    player = layers.place(lively_policy(spec, network))
    assert isinstance(layers, TorchLayers)
    heads, gradients = torch.zeros(96, layers.stride, device="cuda"), torch.zeros_like(player.flat)
    layers.slope[:, : spec.actions + 1] = torch.randn(96, spec.actions + 1, device="cuda")
    index = torch.arange(95, -1, -1, dtype=torch.int32, device="cuda")
    layers.forward(player, packed, index, 96, heads)
    logits, value = player.policy(packed.flip(0))
    torch.testing.assert_close(heads[:, : spec.actions], logits.detach())
    torch.testing.assert_close(heads[:, spec.actions], value.detach())
    layers.backward(player, 96, False, gradients)
    parameters = dict(player.policy.named_parameters())
    slopes = (layers.slope[:, : spec.actions], layers.slope[:, spec.actions])
    wanted = torch.autograd.grad((logits, value), list(parameters.values()), slopes)
    for view, gradient in zip(player.views(gradients).values(), wanted, strict=True):
        assert error(view, gradient) < 1e-4
    layers.forward(player, packed, index, 96, heads)
    once = gradients.clone()
    layers.backward(player, 96, True, gradients)
    assert error(gradients, 2.0 * once) < 1e-4
