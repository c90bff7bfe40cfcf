"""Networks over boards: planes, the order of actions, symmetries, and that they learn."""

import copy
import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from playmill import _native
from playmill.algorithms import PPO, Batch, ppo_loss, seat_returns
from playmill.checkpoints import write
from playmill.games import ActionGroup, Board, Game, PlaymillError, Schema, registry
from playmill.games.generals_codec import EXPERIENCE, Codec, Order
from playmill.league.evaluate import evaluate
from playmill.league.policies import load_policy
from playmill.league.policy_agent import PolicyAgent
from playmill.policies import Network, Policy, forward_flops, patch_features, plane_features
from playmill.policies.boards import BoardActions, UNet
from playmill.pools import NativePool
from playmill.training.collector import Collector, Stopwatch
from playmill.training.config import Train, from_dict, to_dict
from playmill.training.learner import Learner
from playmill.training.precision import faster_in_bfloat16
from playmill.training.shards import Shards

BODIES = {
    "unet": Network((24, 16), body="unet", channels=8),
    "unet, shared, two blocks": Network(
        (16, 16), body="unet", channels=8, halvings=1, blocks=2, separate=False, residual=True
    ),
    "unet of patches": Network((16,), body="unet", channels=8, halvings=1, patch=2, separate=False),
    "unet of one size": Network((16,), body="unet", channels=8, halvings=0, activation="gelu"),
    "vit": Network((24, 16), body="vit", attention=2, heads=2, token_width=16),
    "vit of squares, shared": Network(
        (16,), body="vit", attention=1, heads=4, token_width=16, patch=1, separate=False
    ),
}
every_body = pytest.mark.parametrize("network", BODIES.values(), ids=BODIES)
SIZES = [(4, 4, 2), (6, 6, 2), (5, 9, 3), (10, 10, 2), (7, 7, 4), (32, 31, 8)]
every_size = pytest.mark.parametrize(("height", "width", "players"), SIZES)


@pytest.fixture(autouse=True)
def _same_threads_after():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def generals(height=6, width=6, players=2, **more):
    return registry.spec("generals", {"height": height, "width": width, "players": players, **more})


def rows_of(spec, steps=24, games=8):
    """Packed rows and legal masks of games in flight."""
    pool = NativePool(spec, games, seed=11)
    rows, legal = [], []
    for _ in range(steps):
        turns = pool.turns()
        rows.append(turns.observation.copy())
        legal.append(np.unpackbits(turns.legal, axis=1, count=spec.actions, bitorder="little"))
        pool.act(pool.bot_actions("expander"))
    return torch.from_numpy(np.concatenate(rows)), np.concatenate(legal).astype(bool)


def policy_of(spec, network, seed=5):
    torch.manual_seed(seed)
    return Policy(spec, network)


# --- planes


def expanded(spec, rows):
    """The slow reference."""
    return torch.from_numpy(spec.schema.expand(rows.numpy()))


@every_size
def test_planes_are_the_fields_over_the_board(height, width, players):
    spec = generals(height, width, players)
    rows, _ = rows_of(spec, steps=3, games=4)
    unet = UNet(spec, 8, 1, 1, torch.relu, True)
    planes = unet._planes(policy_of(spec, BODIES["unet"]).first(rows))
    raw = spec.schema.unpack(rows.numpy())
    flags = ("visible", "explored", "own", "others", "city", "general", "mountain", "obstacle")
    wanted = [plane.reshape(-1, height, width) for name in flags for plane in raw[name].swapaxes(0, 1)]
    wanted += [np.log2(1 + raw["army"]) / 16, raw["age"] / 255]
    scalars = expanded(spec, rows)[:, -(4 + 3 * players) :].numpy()
    wanted += [np.broadcast_to(s[:, None, None], (len(rows), height, width)) for s in scalars.T]
    assert planes.shape[1] % 8 == 0
    assert planes.shape[1] - len(wanted) < 8
    np.testing.assert_allclose(planes[:, : len(wanted)], np.stack(wanted, 1), rtol=1e-5)
    assert planes.is_contiguous(memory_format=torch.channels_last)


@every_size
@pytest.mark.parametrize("patch", [1, 2, 3])
def test_patches_hold_their_squares_and_repeat_the_edge(height, width, players, patch):
    spec = generals(height, width, players)
    features, planes = patch_features(spec, patch), plane_features(spec)
    high, wide = -(-height // patch), -(-width // patch)
    assert features.count == high * wide
    assert features.rest == planes.rest
    tokens = np.array(features.tokens).reshape(high, wide, len(planes.planes), patch, patch)
    whole = tokens.transpose(2, 0, 3, 1, 4).reshape(-1, high * patch, wide * patch)
    board = np.array(planes.planes).reshape(-1, height, width)
    more = ((0, 0), (0, high * patch - height), (0, wide * patch - width))
    np.testing.assert_array_equal(whole, np.pad(board, more, mode="edge"))


def test_a_schema_may_have_planes_of_any_encoding():
    fields = [
        ("turn", 1, 1, 1, 0, 1.0, ""),
        ("flags", 0, 2, 12, 0, 1.0, ""),  # a bit for every square, twice
        ("rows", 0, 3, 4, 0, 1.0, ""),  # bits, row by row
        ("kind", 5, 3, 4, 2, 1.0, ""),  # two categories
        ("hand", 0, 1, 11, 0, 1.0, ""),
        ("some", 1, 3, 4, 0, 1.0, "turn"),  # not all of it is live
    ]
    board = Board(3, 4, (ActionGroup(True, "."),))
    spec = dataclasses.replace(generals(), schema=Schema.from_native(fields, 0), board=board)
    features = plane_features(spec)
    starts = [(1, 1), (13, 1), (25, 1), (37, 2), (38, 2)]
    assert features.planes == tuple(tuple(range(a, a + 12 * step, step)) for a, step in starts)
    assert features.rest == (0, *range(61, 61 + 11 + 12))
    bare = dataclasses.replace(spec, schema=Schema.from_native(fields[:1], 0))
    with pytest.raises(PlaymillError, match="no field of its observation lies over it"):
        plane_features(bare)


# --- actions


@every_size
def test_the_groups_are_all_actions(height, width, players):
    for preset in ("source", "competition"):
        spec = generals(height, width, players, preset=preset)
        board = spec.board
        assert (board.height, board.width) == (height, width)
        assert board.squares * board.square_actions + board.single_actions == spec.actions
        assert board.square_actions == (9 if preset == "competition" else 8)


def test_a_game_of_cards_has_no_board():
    assert registry.spec("skull_king").board is None
    with pytest.raises(PlaymillError) as caught:
        Train(game="kuhn", network=BODIES["unet"])
    assert str(caught.value) == (
        "network.body unet and vit are for games on a board, and kuhn has none; take layers"
    )


@pytest.mark.parametrize("patch", [1, 2, 3])
@pytest.mark.parametrize("preset", ["source", "competition"])
def test_logits_by_square_come_in_the_order_of_the_codec(patch, preset):
    """The logit of square, direction and half stands where the codec has that order."""
    spec = generals(5, 7, preset=preset)
    actions, codec = BoardActions(spec.board, patch), Codec(7, 5, EXPERIENCE)
    kinds, high, wide = spec.board.square_actions, -(-5 // patch), -(-7 // patch)
    numbers = torch.zeros(high * patch, wide * patch, kinds)
    for y, x, kind in np.ndindex(5, 7, kinds):
        numbers[y, x, kind] = 100 * (7 * y + x) + kind
    tokens = numbers.view(high, patch, wide, patch, kinds).transpose(1, 2).reshape(1, high * wide, -1)
    whole = torch.zeros(1, actions.of_board)
    whole[:, kinds:] = -1.0
    logits = actions.join(tokens, whole)[0]
    assert logits.shape == (spec.actions,)
    assert logits[codec.passing] == -1
    for square, half, direction in np.ndindex(35, 2, 4):
        action = codec.decode(Order(square * 4 + direction, bool(half)))
        assert logits[action] == 100 * square + 4 * half + direction
    builds = logits[codec.passing + 1 :]
    assert builds.tolist() == ([100 * square + 8 for square in range(35)] if kinds == 9 else [])


def test_what_the_whole_board_says_is_added_to_every_square():
    spec = generals(5, 6)
    actions = BoardActions(spec.board, 1)
    whole = torch.arange(9.0)[None]
    logits = actions.join(torch.zeros(1, 30, 8), whole)[0]
    assert logits[:-1].view(30, 8).tolist() == [list(range(8))] * 30
    assert logits[-1] == 8


@pytest.mark.parametrize(("halvings", "step"), [(0, 3), (1, 2)])
def test_a_moved_board_moves_the_logits(halvings, step):
    """Away from edges what is somewhere else is played somewhere else; halving keeps that for even steps."""
    spec = generals(32, 32)
    policy = policy_of(spec, Network((16,), body="unet", channels=8, halvings=halvings))
    features = plane_features(spec)
    generator = torch.Generator().manual_seed(3)
    patch = torch.rand(len(features.planes), 4, 4, generator=generator)

    def logits_at(top, left):
        board = torch.zeros(len(features.planes), 32, 32)
        board[:, top : top + 4, left : left + 4] = patch
        floats = torch.full((1, spec.schema.features), 0.3)
        floats[:, torch.tensor(features.planes).flatten()] = board.flatten()
        with torch.no_grad():
            logits = policy.after_first(floats).logits[0]
        around = logits[:-1].view(32, 32, 8)[top - 2 : top + 6, left - 2 : left + 6]
        return around, logits[-1]

    here, passing = logits_at(14, 14)
    there, also = logits_at(14 - step, 14 + step)
    torch.testing.assert_close(there, here, atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(also, passing, atol=1e-6, rtol=1e-4)
    assert (here[:, 1:] - here[:, :-1]).abs().max() > 1e-3


# --- symmetries


def legal_by_hand(planes, board):
    """Moves out of own squares with an army of two or more to a neighbour that is no mountain, and the pass;
    from planes own, mountain and army [N, height, width]."""
    own, mountain, army = planes
    n = len(own)
    free = np.pad(~mountain, ((0, 0), (1, 1), (1, 1)))
    to = [free[:, :-2, 1:-1], free[:, 2:, 1:-1], free[:, 1:-1, :-2], free[:, 1:-1, 2:]]
    moves = np.stack([(own & (army > 1)) & there for there in to * 2], axis=-1)
    return np.concatenate([moves.reshape(n, board.squares * 8), np.ones((n, 1), bool)], axis=1)


@pytest.mark.parametrize(("height", "width"), [(6, 6), (5, 8)])
def test_in_every_view_the_legal_moves_are_those_of_the_board_seen(height, width):
    spec = generals(height, width)
    rows, legal = rows_of(spec)
    policy, board = policy_of(spec, BODIES["unet"]), spec.board
    assert board.symmetries == (8 if height == width else 4)
    fields = {f.name: f.feature for f in spec.schema.fields}
    turned = set()
    for number in range(board.symmetries):
        view = torch.full((len(rows),), number)
        seen = policy.views.seen(policy.first(rows), view)
        own, mountain, army = (
            seen[:, fields[name] : fields[name] + board.squares].numpy().reshape(-1, height, width)
            for name in ("own", "mountain", "army")
        )
        armies = np.rint(2.0 ** (16 * army) - 1)
        mask = legal_by_hand((own > 0, mountain > 0, armies), board)
        told = policy.views.told(torch.from_numpy(mask.astype(np.float32)), view).numpy() > 0
        np.testing.assert_array_equal(told, legal)
        turned.add(mask.tobytes())
    assert len(turned) == board.symmetries


def test_views_are_the_whole_group():
    for board in (generals(6, 6).board, generals(5, 8).board):
        squares, actions = board.square_views(), board.action_views()
        assert len(np.unique(squares, axis=0)) == board.symmetries
        np.testing.assert_array_equal(squares[0], np.arange(board.squares))
        for view in actions:
            assert sorted(view.tolist()) == list(range(board.squares * 8 + 1))
            assert view[-1] == board.squares * 8
        both = {tuple(a[b]) for a in squares for b in squares}
        assert both == {tuple(a) for a in squares}


@every_body
def test_a_view_changes_what_is_seen_and_not_what_an_action_is(network):
    """A policy in a view plays as one that reads the board turned, and names its moves on the board."""
    spec = generals(5, 5, preset="competition")
    rows, _ = rows_of(spec, steps=4)
    policy = policy_of(spec, network)
    view = torch.arange(len(rows)) % 8
    with torch.no_grad():
        out, plain = policy(rows, view), policy(rows)
        by_hand = policy.after_first(policy.views.seen(policy.first(rows), view))
    for row in range(len(rows)):
        places = policy.views.actions[view[row]]
        torch.testing.assert_close(out.logits[row], by_hand.logits[row][places], atol=0, rtol=0)
    same = view == 0
    torch.testing.assert_close(out.logits[same], plain.logits[same], atol=1e-6, rtol=1e-5)
    assert not torch.allclose(out.logits[~same], plain.logits[~same], atol=1e-5)


# --- what they compute and cost


@every_body
@every_size
def test_a_row_gives_logits_and_a_value(network, height, width, players):
    spec = generals(height, width, players)
    rows, _ = rows_of(spec, steps=2, games=3)
    policy = policy_of(spec, network)
    out = policy(rows)
    assert out.logits.shape == (len(rows), spec.actions)
    assert out.value.shape == (len(rows),)
    assert out.logits.dtype == out.value.dtype == torch.float32
    assert out.logits.is_contiguous()
    assert out.logits.abs().max() < 0.3
    assert 0 < out.value.abs().max() < 2
    torch.testing.assert_close(policy(rows[1:2]).logits, out.logits[1:2], atol=1e-5, rtol=1e-4)


@every_body
def test_every_weight_has_a_gradient(network):
    spec = generals(5, 6)
    policy = policy_of(spec, network)
    out = policy(rows_of(spec)[0])
    (out.logits.square().mean() + out.value.square().mean()).backward()
    idle = [name for name, p in policy.named_parameters() if p.grad is None or not p.grad.any()]
    assert idle == []
    assert all(p.grad.isfinite().all() for p in policy.parameters())


@every_body
def test_bfloat16_is_near_float32(network):
    spec = generals(7, 6)
    policy, (rows, _) = policy_of(spec, network), rows_of(spec)
    with torch.no_grad():
        exact = policy(rows)
        with torch.autocast("cpu", torch.bfloat16):
            rounded = policy.after_first(policy.first(rows))
    assert rounded.logits.dtype == rounded.value.dtype == torch.float32
    torch.testing.assert_close(rounded.logits, exact.logits, atol=0.02, rtol=0.05)
    torch.testing.assert_close(rounded.value, exact.value, atol=0.05, rtol=0.05)


@every_body
@pytest.mark.parametrize(("height", "width", "players"), SIZES[:4])
def test_the_cost_is_what_torch_counts(network, height, width, players):
    spec = generals(height, width, players)
    policy = policy_of(spec, network)
    first = torch.zeros(2, policy.first.width)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        policy.after_first(first)
    assert forward_flops(spec, network) == counter.get_total_flops() // 2


def test_the_table_in_the_docs_is_right():
    spec = generals(10, 10)
    page = (Path(__file__).resolve().parents[2] / "docs" / "networks.md").read_text()
    told = re.findall(
        r"^\| (U-Net|transformer).*? \| `(.+?)` \| ([\d,]+) \| ([\d.]+) M \|", page, re.MULTILINE
    )
    assert len(told) == 6
    for kind, settings, weights, flops in told:
        words = settings.replace("--network.", "").split()
        given = dict(zip(words[::2], map(int, words[1::2]), strict=True))
        network = Network(body="unet" if kind == "U-Net" else "vit", separate=False, **given)
        count = sum(p.numel() for p in Policy(spec, network).parameters())
        assert count == int(weights.replace(",", ""))
        assert forward_flops(spec, network) == pytest.approx(float(flops) * 1e6, rel=0.01)


# --- they learn


def learner_of(spec, network, shards, **ppo):
    cfg = PPO(**{"minibatch": 256, "epochs": 1, "lr": 5e-3, "entropy": 0.0, **ppo})
    policy, team = policy_of(spec, network), Shards(shards)
    learner = Learner(policy, cfg, 7, False, team)
    rollout = Collector(spec, 24, 24, 3, team).collect(policy, [], 0, Stopwatch())
    return learner, rollout, seat_returns(rollout, cfg.gamma, cfg.lam, _native.Kernels(1))


@every_body
def test_a_value_that_the_board_decides_is_learnt(network):
    spec = generals(5, 5)
    learner, rollout, returns = learner_of(spec, network, 2, epochs=2)
    land = expanded(spec, rollout.flat(rollout.observation))[:, spec.schema.fields[2].feature :][:, :25]
    target = land.sum(1).view_as(returns.target) / 5
    graded = dataclasses.replace(returns, target=target)
    losses = [learner.update(rollout, graded, number, 0.0) for number in range(8)]
    assert losses[-1]["value"] < 0.3 * losses[0]["value"]
    assert learner.skipped == learner.restored == 0


@every_body
def test_a_step_is_the_one_of_the_plain_optimiser(network):
    """Gradients of convolutions lie in another order than their weights; no weight may get a neighbour's."""
    spec = generals(5, 6)
    learner, rollout, returns = learner_of(spec, network, 2, minibatch=4096, max_grad_norm=1e9)
    other = copy.deepcopy(learner.policy)
    plain = torch.optim.Adam(other.parameters(), lr=5e-3, eps=1e-5, foreach=False)
    (minibatch,) = learner.minibatches.of(returns, 0, 0, learner.cfg)
    rows, advantage = torch.cat(minibatch.rows), torch.cat(minibatch.advantage)
    batch = Batch(
        rollout.flat(rollout.observation)[rows],
        rollout.flat(rollout.legal)[rows],
        rollout.flat(rollout.action)[rows].long(),
        rollout.flat(rollout.log_probability)[rows],
        advantage,
        returns.target.flatten()[rows],
    )
    ppo_loss(batch, other(batch.observation), learner.cfg, 0.0).total.backward()
    before = [p.detach().clone() for p in learner.parameters]
    plain.step()
    learner.update(rollout, returns, 0, 0.0)
    for was, a, b in zip(before, learner.parameters, other.parameters(), strict=True):
        # Adam's first step is about the sign of the gradient: one near 0 may round either way.
        near = ((a - was) - (b - was)).abs() < 5e-4
        assert near.float().mean() > 0.97


@every_body
def test_the_choice_of_precision_takes_any_body(network, monkeypatch):
    flags = frozenset({"avx512_bf16"})
    monkeypatch.setattr("playmill.training.precision._cpu_flags", lambda: flags)
    assert faster_in_bfloat16(generals(), network, 32) in (True, False)


# --- checkpoints and settings


@every_body
def test_a_policy_comes_back_from_a_checkpoint_and_plays(network, tmp_path):
    options = {"height": "5", "width": "6", "max_ticks": "30"}
    spec = registry.spec("generals", options)
    policy, (rows, _) = policy_of(spec, network), rows_of(spec, steps=2)
    meta = {
        "game": "generals",
        "options": options,
        "schema_hash": f"{spec.schema.hash:016x}",
        "network": json.loads(json.dumps(dataclasses.asdict(network))),
    }
    write(tmp_path / "one", {f"policy/{n}": t for n, t in policy.state_dict().items()}, meta)
    loaded = load_policy(tmp_path / "one")
    assert loaded.policy.network == network
    torch.testing.assert_close(loaded.policy(rows), policy(rows), atol=0, rtol=0)
    assert 0 <= evaluate(spec, loaded.policy, "expander", deals=2, threads=2).win_share <= 1
    game = Game("generals", options, seed=4)
    assert PolicyAgent(loaded.policy, "unet").choose(game).action in game.legal()


@every_body
def test_settings_come_back_from_json(network):
    config = Train(game="generals", network=network)
    assert from_dict(Train, json.loads(json.dumps(to_dict(config)))) == config
    assert not network.plain


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"body": "vit"}, "with network.body vit network.attention must be 1 or more, got 0"),
        ({"body": "unet", "attention": 2}, "with network.body unet network.attention must be 0, got 2"),
        ({"channels": 0}, "network.channels must be at least 1, got 0"),
        ({"halvings": -1}, "network.halvings must be at least 0, got -1"),
        ({"blocks": 0}, "network.blocks must be at least 1, got 0"),
        ({"patch": -1}, "network.patch must be at least 0, got -1"),
    ],
)
def test_bad_settings_are_one_line(given, says):
    with pytest.raises(PlaymillError) as caught:
        Network(**given)
    assert str(caught.value) == says
