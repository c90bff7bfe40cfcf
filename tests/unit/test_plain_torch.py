"""The plain loop that the CUDA lane is compared with does what ours does: same rows, returns and loss."""

import numpy as np
import pytest
import torch

from benchmarks.plain_torch import PlainPPO, Rows, Tables, clipped_loss, draw, measure_plain, seat_advantages
from playmill.algorithms import PPO, Batch, ppo_loss, seat_returns_plain
from playmill.experience import Rollout
from playmill.games import Encoding, PlaymillError, Schema
from playmill.policies import expand


def small(**settings):
    sizes = {"games": 24, "steps": 40, "hidden": (32, 16), "threads": 1, "minibatch": 128}
    return PlainPPO("cpu", **{**sizes, **settings})


@pytest.fixture(scope="module")
def played():
    """A loop that has filled its columns once, and not yet learnt from them."""
    loop = small()
    packed = []
    expanding = loop.tables.expand
    loop.tables.expand = lambda rows, out: (packed.append(rows.clone()), expanding(rows, out))
    loop._collect()
    return loop, torch.cat(packed).reshape(loop.steps, loop.games, -1)


def columns(loop, packed):
    """What the loop has played, as our rollout."""
    empty = Rollout.empty(loop.spec, loop.steps, loop.games)
    legal = np.packbits(loop.legal.numpy(), axis=-1, bitorder="little")
    legal = np.pad(legal, ((0, 0), (0, 0), (0, loop.spec.legal_bytes - legal.shape[-1])))
    own = {
        "observation": packed,
        "legal": torch.from_numpy(legal),
        "seat": loop.host_seat,
        "action": loop.action.int(),
        "log_probability": loop.log_probability,
        "value": loop.expected,
        "rewards": loop.host_rewards,
        "over": loop.host_over,
    }
    return Rollout(**{**empty.__dict__, **own})


def test_the_tables_expand_as_the_reference_does(played):
    loop, packed = played
    wanted = expand(loop.spec.schema, packed.flatten(0, 1))
    out = torch.empty_like(wanted)
    loop.tables.expand(packed.flatten(0, 1), out)
    torch.testing.assert_close(out, wanted, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(loop.features.flatten(0, 1), wanted.bfloat16(), rtol=0, atol=0)


def test_the_tables_read_every_value_of_a_byte():
    fields = [("bits", Encoding.BITS, 2, 11, 0, 1.0, ""), ("kind", Encoding.CATEGORY, 2, 1, 7, 1.0, "")]
    fields += [("small", Encoding.U8, 3, 1, 0, 0.5, ""), ("signed", Encoding.I16, 2, 2, 0, 0.25, "")]
    schema = Schema.from_native(fields, 0)
    rows = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (500, schema.bytes), np.uint8))
    out = torch.empty(500, schema.features)
    Tables(schema, torch.device("cpu")).expand(rows, out)
    torch.testing.assert_close(out, expand(schema, rows), rtol=0, atol=0)


def test_the_tables_refuse_what_they_do_not_know():
    schema = Schema.from_native([("far", Encoding.LOG16, 1, 1, 0, 1.0, "")], 0)
    with pytest.raises(PlaymillError, match="far"):
        Tables(schema, torch.device("cpu"))


def test_its_advantages_are_ours(played):
    loop, packed = played
    wanted = seat_returns_plain(columns(loop, packed), loop.cfg.gamma, loop.cfg.lam)
    advantage, usable = loop._returns()
    assert torch.equal(usable, wanted.usable)
    assert 0 < int(usable.sum()) < usable.numel()
    torch.testing.assert_close(advantage, wanted.advantage, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 0.95), (0.9, 0.5), (0.97, 0.0)])
def test_advantages_of_any_order_of_seats_are_ours(played, gamma, lam):
    loop, packed = played
    rng = np.random.default_rng(1)
    shape = (loop.steps, loop.games)
    over = torch.from_numpy(rng.random(shape) < 0.12)
    seat = torch.from_numpy(rng.integers(0, 4, shape))
    value = torch.from_numpy(rng.normal(size=shape).astype(np.float32))
    rewards = torch.from_numpy(rng.normal(size=(*shape, 4)).astype(np.float32))
    own = {"over": over.byte(), "seat": seat.byte(), "value": value, "rewards": rewards}
    rollout = Rollout(**{**columns(loop, packed).__dict__, **own})
    wanted = seat_returns_plain(rollout, gamma, lam)
    advantage, usable = seat_advantages(rewards, over, seat, value, gamma, lam)
    assert torch.equal(usable, wanted.usable)
    torch.testing.assert_close(advantage, wanted.advantage, atol=1e-4, rtol=1e-4)


def test_illegal_actions_are_never_drawn_and_legal_ones_as_often_as_they_should():
    torch.manual_seed(0)
    legal = torch.zeros(20_000, 7, dtype=torch.bool)
    legal[:, [1, 4, 6]] = True
    logits = torch.full((20_000, 7), 80.0)  # what is illegal is what the network wants most
    logits[:, [1, 4, 6]] = torch.tensor([0.0, 1.0, -60.0])
    action, log_probability = draw(logits, legal)
    assert set(action.tolist()) == {1, 4}
    share = 1 / (1 + np.exp(-1.0))
    assert float((action == 4).float().mean()) == pytest.approx(share, abs=0.015)
    torch.testing.assert_close(
        log_probability, torch.where(action == 4, np.log(share), np.log(1 - share)).float()
    )
    one = torch.eye(7, dtype=torch.bool)
    assert draw(torch.zeros(7, 7), one)[0].tolist() == list(range(7))


def test_what_it_played_was_legal_and_is_what_it_stored(played):
    loop, _ = played
    assert bool(loop.legal.gather(2, loop.action[..., None]).all())
    assert bool(loop.log_probability.le(0).all())
    assert torch.equal(loop.host_action, loop.action[-1].int())


def test_its_loss_is_ours(played):
    loop, packed = played
    rollout = columns(loop, packed)
    index = torch.randperm(loop.steps * loop.games)[:200]
    generator = torch.Generator().manual_seed(2)
    advantage, target, moved = (torch.randn(200, generator=generator) for _ in range(3))
    logs = loop.log_probability.flatten()[index] + 0.3 * moved
    action = loop.action.flatten()[index]
    features = loop.features.flatten(0, 1)[index]
    rows = Rows(features, loop.legal.flatten(0, 1)[index], action, logs, advantage, target)
    legal = rollout.flat(rollout.legal)[index]
    batch = Batch(rollout.flat(rollout.observation)[index], legal, action, logs, advantage, target)
    cfg = PPO(entropy=0.03, value_weight=0.7)
    with loop._autocast():
        out = loop.forward(features)
    theirs, ours = clipped_loss(rows, out, cfg), ppo_loss(batch, out, cfg, cfg.entropy).total
    torch.testing.assert_close(theirs, ours)
    found = torch.autograd.grad(theirs, loop.weights, retain_graph=True)
    wanted = torch.autograd.grad(ours, loop.weights)
    for mine, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, other)


@pytest.mark.parametrize("groups", [1, 2])
def test_an_update_learns_and_says_where_its_time_went(groups):
    loop = small(groups=groups, epochs=2)
    before = [weight.detach().clone() for weight in loop.weights]
    done = loop.update()
    assert done["turns"] == 24 * 40
    assert set(done["phases"]) == {"engine", "network", "returns", "update"}
    assert sum(done["phases"].values()) == pytest.approx(done["seconds"], rel=0.05)
    assert all(bool(weight.isfinite().all()) for weight in loop.weights)
    assert any(not torch.equal(a, b) for a, b in zip(before, loop.weights, strict=True))


def test_games_must_fill_the_groups():
    with pytest.raises(PlaymillError, match="multiple of groups"):
        small(games=25)


def test_the_rate_is_turns_over_seconds():
    rates = measure_plain("cpu", updates=2, loop=small(games=8, steps=16))
    assert rates["updates"] == 2
    assert rates["turns"] == 2 * 8 * 16
    assert rates["turns_per_s"] == pytest.approx(rates["turns"] / rates["seconds"])
    assert sum(rates["shares"].values()) == pytest.approx(1, rel=0.05)
    short = measure_plain("cpu", seconds=1e-9, loop=small(games=8, steps=16))
    assert short["updates"] == 1
