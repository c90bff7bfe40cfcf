"""Networks of every kind: what they compute, what they cost, and that they learn."""

import copy
import dataclasses
import itertools
import json
import math
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from playmill import _native
from playmill.algorithms import PPO, Returns, seat_returns
from playmill.checkpoints import write
from playmill.games import PlaymillError, registry
from playmill.league.evaluate import evaluate
from playmill.league.policies import load_policy
from playmill.policies import Expand, Network, PackedLinear, Policy, expand, forward_flops
from playmill.pools import NativePool
from playmill.training.collector import Collector, Stopwatch
from playmill.training.config import Train, from_dict, load_recipe, to_dict
from playmill.training.learner import Learner
from playmill.training.precision import faster_in_bfloat16
from playmill.training.shards import Shards

KINDS = {
    "plain": Network((24, 16)),
    "shared": Network((24, 16), separate=False, activation="gelu"),
    "residual": Network((16, 16, 16, 16), residual=True),
    "attention": Network((24, 16), attention=2, heads=2, token_width=16),
    "attention, shared, residual": Network(
        (16, 16), separate=False, residual=True, attention=1, heads=4, token_width=16
    ),
}
every_kind = pytest.mark.parametrize("network", KINDS.values(), ids=KINDS)
with_cards = pytest.mark.parametrize("game", ["skull_king", "liars_dice"])


@pytest.fixture(autouse=True)
def _same_threads_after():
    """Shards hold torch to one thread; the tests after these get theirs back."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def policy_of(game, network, seed=5):
    torch.manual_seed(seed)
    return Policy(registry.spec(game), network)


def rows_of(game, steps=3, games=32):
    """Packed rows of a game in flight."""
    pool = NativePool(game, games, seed=11)
    rows = []
    for _ in range(steps):
        rows.append(pool.turns().observation.copy())
        pool.act(pool.bot_actions("random"))
    return torch.from_numpy(np.concatenate(rows))


# --- what they compute


@with_cards
@every_kind
def test_a_row_gives_logits_and_a_value(game, network):
    spec = registry.spec(game)
    policy, rows = policy_of(game, network), rows_of(game)
    out = policy(rows)
    assert out.logits.shape == (len(rows), spec.actions)
    assert out.value.shape == (len(rows),)
    assert out.logits.dtype == out.value.dtype == torch.float32
    assert out.logits.is_contiguous()
    first = policy.first(rows)
    assert first.shape == (len(rows), policy.first.width)
    again = policy.after_first(first)
    torch.testing.assert_close(again, out, atol=0, rtol=0)
    assert policy(rows[:0]).logits.shape == (0, spec.actions)


@with_cards
@every_kind
def test_play_begins_nearly_uniform_and_values_near_zero(game, network):
    out = policy_of(game, network)(rows_of(game))
    assert out.logits.abs().max() < 0.3
    assert 0 < out.value.abs().max() < 2


@with_cards
@every_kind
def test_rows_do_not_look_at_each_other(game, network):
    policy, rows = policy_of(game, network), rows_of(game)
    whole = policy(rows).logits
    torch.testing.assert_close(policy(rows[7:9]).logits, whole[7:9], atol=1e-5, rtol=1e-4)


@with_cards
@every_kind
def test_every_weight_has_a_gradient(game, network):
    policy = policy_of(game, network)
    out = policy(rows_of(game))
    (out.logits.square().mean() + out.value.square().mean()).backward()
    idle = [name for name, p in policy.named_parameters() if p.grad is None or not p.grad.any()]
    assert idle == []
    assert all(p.grad.isfinite().all() for p in policy.parameters())


@every_kind
def test_bfloat16_layers_are_near_the_float32_ones(network):
    policy, rows = policy_of("skull_king", network), rows_of("skull_king")
    with torch.no_grad():
        exact = policy(rows)
        with torch.autocast("cpu", torch.bfloat16):
            rounded = policy.after_first(policy.first(rows))
    assert rounded.logits.dtype == rounded.value.dtype == torch.float32
    torch.testing.assert_close(rounded.logits, exact.logits, atol=0.02, rtol=0.05)
    torch.testing.assert_close(rounded.value, exact.value, atol=0.05, rtol=0.05)


@every_kind
def test_a_policy_can_be_copied_and_pickled_after_use(network):
    policy, rows = policy_of("liars_dice", network), rows_of("liars_dice")
    out = policy(rows)
    for other in (copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
        torch.testing.assert_close(other(rows), out, atol=0, rtol=0)


def test_expanded_rows_are_the_reference():
    schema, rows = registry.spec("skull_king").schema, rows_of("skull_king")
    layer = Expand(schema)
    torch.testing.assert_close(layer(rows), expand(schema, rows), atol=1e-7, rtol=1e-6)
    torch.testing.assert_close(layer(rows[::2]), expand(schema, rows[::2]), atol=1e-7, rtol=1e-6)
    with pytest.raises(ValueError, match=rf"uint8 \[n, {schema.bytes}\], got torch.float32"):
        layer(rows.float())


# --- the plain network, which other code takes apart


def as_it_always_was(spec, hidden, trunks):
    """The plain network's weights, drawn in the order that seeds have always meant."""
    first = PackedLinear(spec.schema, trunks * hidden[0])
    layers = [[nn.Linear(a, b) for a, b in itertools.pairwise(hidden)] for _ in range(trunks)]
    heads = nn.Linear(hidden[-1], spec.actions), nn.Linear(hidden[-1], 1)
    for trunk in layers:
        for layer in trunk:
            nn.init.orthogonal_(layer.weight, gain=2.0**0.5)
    nn.init.orthogonal_(heads[0].weight, gain=0.01)
    nn.init.orthogonal_(heads[1].weight, gain=0.1)
    out = {"first.weight": first.weight}
    out |= {f"trunks.{i}.{j}.weight": la.weight for i, t in enumerate(layers) for j, la in enumerate(t)}
    return {**out, "action_head.weight": heads[0].weight, "value_head.weight": heads[1].weight}


PLAIN = [
    ("skull_king", Network(), [51431.628172, 2314.825441, 2319.708888, 10.058812, 0.918131]),
    ("kuhn", Network((64, 64)), [310.96239, 576.364571, 580.802154, 0.126536, 0.635252]),
    (
        "leduc",
        Network((32, 32, 16), separate=False, activation="tanh"),
        [164.33721, 205.511263, 101.982058, 0.097851, 0.304013],
    ),
]


@pytest.mark.parametrize(("game", "network", "golden"), PLAIN, ids=[p[0] for p in PLAIN])
def test_a_seed_names_the_same_plain_weights_for_ever(game, network, golden):
    spec = registry.spec(game)
    torch.manual_seed(3)
    wanted = as_it_always_was(spec, network.hidden, 2 if network.separate else 1)
    state = policy_of(game, network, seed=3).state_dict()
    biases = {name.replace("weight", "bias") for name in wanted}
    assert set(state) == set(wanted) | biases
    assert not any(state[name].any() for name in biases)
    for name, weight in wanted.items():
        assert torch.equal(state[name], weight.detach()), name
    sums = [float(state[name].double().abs().sum()) for name in wanted]
    assert sums == pytest.approx(golden, rel=1e-5)


def test_which_networks_are_plain():
    assert Network().plain
    assert Network((1024, 1024, 512), separate=False).plain
    assert not Network(activation="tanh").plain
    assert not Network((8, 8), residual=True).plain
    assert not Network(attention=1).plain


def test_a_residual_layer_adds_to_what_it_reads():
    policy, rows = policy_of("leduc", KINDS["residual"]), rows_of("leduc")
    hidden = policy.first(rows).chunk(2, dim=1)[0]
    for norm, layer in zip(policy.norms[0][:-1], policy.trunks[0], strict=True):
        hidden = hidden + layer(torch.relu(norm(hidden)))
    logits = policy.action_head(torch.relu(policy.norms[0][-1](hidden)))
    torch.testing.assert_close(policy(rows).logits, logits, atol=0, rtol=0)
    assert len(policy.trunks[0]) == 3


# --- what they cost


@with_cards
@every_kind
def test_the_cost_is_what_torch_counts(game, network):
    spec, policy = registry.spec(game), policy_of(game, network)
    first = torch.zeros(2, policy.first.width)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        policy.after_first(first)
    counted = counter.get_total_flops() // 2
    if isinstance(policy.first, PackedLinear):
        counted += 2 * policy.first.weight.numel()
    assert forward_flops(spec, network) == counted


def test_the_table_in_the_docs_is_right():
    spec = registry.spec("skull_king")
    page = (Path(__file__).resolve().parents[2] / "docs" / "networks.md").read_text()
    told = re.findall(r"^\| `(skull_king/\w+)` \| .+? \| ([\d,]+) \| ([\d.]+) M \|", page, re.MULTILINE)
    assert {name for name, *_ in told} == {f"skull_king/{n}" for n in ("quick", "wide", "deep", "attention")}
    for name, weights, flops in told:
        network = load_recipe(name).network
        count = sum(p.numel() for p in Policy(spec, network).parameters())
        assert count == int(weights.replace(",", ""))
        assert forward_flops(spec, network) == pytest.approx(float(flops) * 1e6, rel=0.02)


# --- they learn


def learner_of(game, network, shards, **ppo):
    spec = registry.spec(game)
    cfg = PPO(**{"minibatch": 256, "epochs": 2, "lr": 5e-3, "entropy": 0.0, **ppo})
    policy, team = policy_of(game, network), Shards(shards)
    learner = Learner(policy, cfg, 7, False, team)
    rollout = Collector(spec, 48, 24, 3, team).collect(policy, [], 0, Stopwatch())
    return learner, rollout, seat_returns(rollout, cfg.gamma, cfg.lam, _native.Kernels(1))


@every_kind
def test_updates_lower_the_loss(network):
    """Values that the rows decide are learnt, and the action that gains is taken more often."""
    game = "liars_dice" if network.attention else "leduc"
    learner, rollout, returns = learner_of(game, network, 2, regulariser="average", kl_weight=0.0)
    floats = expand(registry.spec(game).schema, rollout.flat(rollout.observation))
    generator = torch.Generator().manual_seed(1)
    target = torch.sin(floats @ torch.randn(floats.shape[1], generator=generator))
    gained = (rollout.action % 2 == 1).float()
    graded = Returns(gained - gained.mean(), target.view_as(gained), returns.usable)
    losses = [learner.update(rollout, graded, number, 0.0) for number in range(12)]
    assert losses[-1]["value"] < 0.5 * losses[0]["value"]
    assert losses[-1]["policy"] < 1.2 * losses[0]["policy"] < 0
    assert learner.skipped == learner.restored == 0


@every_kind
def test_shards_take_the_same_step_as_one(network):
    game = "liars_dice" if network.attention else "leduc"
    one, rollout, returns = learner_of(game, network, 1, minibatch=10**6)
    two, *_ = learner_of(game, network, 2, minibatch=10**6)
    one.update(rollout, returns, 0, 0.0)
    two.update(rollout, returns, 0, 0.0)
    for a, b in zip(one.parameters, two.parameters, strict=True):
        torch.testing.assert_close(a, b, atol=2e-4, rtol=1e-3)


@every_kind
def test_the_choice_of_precision_takes_any_network(network, monkeypatch):
    flags = frozenset({"avx512_bf16"})
    monkeypatch.setattr("playmill.training.precision._cpu_flags", lambda: flags)
    assert faster_in_bfloat16(registry.spec("liars_dice"), network, 32) in (True, False)


# --- checkpoints and settings


def saved(path, policy, spec, network):
    meta = {
        "game": spec.name,
        "options": {},
        "schema_hash": f"{spec.schema.hash:016x}",
        "network": json.loads(json.dumps(network)),
    }
    write(path, {f"policy/{n}": t for n, t in policy.state_dict().items()}, meta)
    return load_policy(path).policy


@every_kind
def test_a_policy_comes_back_from_a_checkpoint_and_plays(network, tmp_path):
    spec, rows = registry.spec("liars_dice"), rows_of("liars_dice")
    policy = policy_of("liars_dice", network)
    other = saved(tmp_path / "one", policy, spec, dataclasses.asdict(network))
    assert other.network == network
    torch.testing.assert_close(other(rows), policy(rows), atol=0, rtol=0)
    assert 0 <= evaluate(spec, other, "random", deals=8, threads=2).win_share <= 1


def test_a_checkpoint_from_before_there_were_other_networks_still_loads(tmp_path):
    spec, policy = registry.spec("kuhn"), policy_of("kuhn", Network((8, 8)))
    old = {"hidden": [8, 8], "separate": True, "activation": "relu"}
    assert saved(tmp_path / "old", policy, spec, old).network == Network((8, 8))


@every_kind
def test_settings_come_back_from_json(network):
    config = Train(network=network)
    assert from_dict(Train, json.loads(json.dumps(to_dict(config)))) == config


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"hidden": ()}, "network.hidden needs one or more positive widths, got ()"),
        (
            {"hidden": (64, 32), "residual": True},
            "network.residual needs two or more equal widths, got (64, 32)",
        ),
        ({"hidden": (64,), "residual": True}, "network.residual needs two or more equal widths, got (64,)"),
        ({"attention": -1}, "network.attention must not be negative, got -1"),
        ({"heads": 0}, "network.token_width must be a multiple of network.heads, got 64 and 0"),
        ({"heads": 5}, "network.token_width must be a multiple of network.heads, got 64 and 5"),
        ({"token_width": 0}, "network.token_width must be a multiple of network.heads, got 0 and 4"),
    ],
)
def test_bad_settings_are_one_line(given, says):
    with pytest.raises(PlaymillError) as caught:
        Network(**given)
    assert str(caught.value) == says


@pytest.mark.parametrize("name", ["wide", "deep", "attention"])
def test_a_recipe_for_a_gpu_also_trains_here(name):
    recipe = load_recipe(f"skull_king/{name}")
    assert recipe.device == "cuda"
    learner, rollout, returns = learner_of("skull_king", recipe.network, 2, minibatch=600)
    losses = learner.update(rollout, returns, 0, 0.0)
    assert all(math.isfinite(value) for value in losses.values())
