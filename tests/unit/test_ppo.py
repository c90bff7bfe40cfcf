"""The loss, the returns and the learner's guards, each against a plain computation of what it means."""

import math

import numpy as np
import pytest
import torch

from playmill import _native
from playmill.algorithms import (
    PPO,
    Batch,
    Returns,
    fused_ppo_loss,
    ppo_loss,
    seat_returns,
    seat_returns_plain,
)
from playmill.checkpoints import fingerprint
from playmill.experience import Rollout
from playmill.games import PlaymillError, registry
from playmill.policies import Network, Policy, PolicyOutput, masked_log_softmax
from playmill.training.collector import Collector, Stopwatch
from playmill.training.learner import Learner, scheduled
from playmill.training.shards import Shards

ACTIONS = 11
KERNELS = _native.Kernels(1)


def random_batch(rows=40, seed=0):
    """Rows with one to all actions legal, an action among them, and ratios on both sides of the clip."""
    rng = np.random.default_rng(seed)
    legal = rng.random((rows, ACTIONS)) < rng.random((rows, 1))
    legal[np.arange(rows), rng.integers(0, ACTIONS, rows)] = True
    action = np.array([rng.choice(np.flatnonzero(row)) for row in legal])
    logits = torch.from_numpy(rng.normal(0, 2, (rows, ACTIONS)).astype(np.float32))
    logs = masked_log_softmax(logits, torch.from_numpy(legal)).numpy()[np.arange(rows), action]
    batch = Batch(
        observation=torch.zeros(rows, 1, dtype=torch.uint8),
        legal=torch.from_numpy(np.packbits(legal, axis=1, bitorder="little")),
        action=torch.from_numpy(action),
        log_probability=torch.from_numpy((logs + rng.normal(0, 0.3, rows)).astype(np.float32)),
        advantage=torch.from_numpy(rng.normal(0, 1, rows).astype(np.float32)),
        target=torch.from_numpy(rng.normal(0, 1, rows).astype(np.float32)),
    )
    value = torch.from_numpy(rng.normal(0, 1, rows).astype(np.float32))
    magnet = torch.from_numpy(rng.normal(0, 2, (rows, ACTIONS)).astype(np.float32))
    return batch, logits, value, magnet, legal


def plain_loss(batch, logits, value, magnet, legal, cfg, entropy_weight):
    """The same, one row after another, in Python's own floats."""

    def log_probabilities(row, allowed):
        top = max(float(row[a]) for a in allowed)
        total = math.log(sum(math.exp(float(row[a]) - top) for a in allowed)) + top
        return {a: float(row[a]) - total for a in allowed}

    sums = dict.fromkeys(("policy", "value", "entropy", "kl", "magnet", "clip_share"), 0.0)
    for i in range(len(logits)):
        allowed = np.flatnonzero(legal[i])
        logs = log_probabilities(logits[i], allowed)
        held = log_probabilities(magnet[i], allowed)
        ratio = math.exp(logs[int(batch.action[i])] - float(batch.log_probability[i]))
        clipped = min(max(ratio, 1 - cfg.clip), 1 + cfg.clip)
        gain = float(batch.advantage[i])
        sums["policy"] -= min(ratio * gain, clipped * gain)
        sums["value"] += 0.5 * (float(value[i]) - float(batch.target[i])) ** 2
        sums["entropy"] -= sum(math.exp(p) * p for p in logs.values())
        sums["kl"] += ratio - 1 - math.log(ratio)
        sums["magnet"] += sum(math.exp(p) * (p - held[a]) for a, p in logs.items())
        sums["clip_share"] += clipped != ratio
    means = {name: total / len(logits) for name, total in sums.items()}
    means["total"] = means["policy"] + cfg.value_weight * means["value"] - entropy_weight * means["entropy"]
    means["total"] += cfg.kl_weight * means["magnet"]
    return means


@pytest.mark.parametrize("seed", range(3))
def test_the_loss_is_the_sum_of_its_rows(seed):
    cfg = PPO(clip=0.2, value_weight=0.7, kl_weight=0.3)
    batch, logits, value, magnet, legal = random_batch(seed=seed)
    wanted = plain_loss(batch, logits, value, magnet, legal, cfg, 0.05)
    loss = ppo_loss(batch, PolicyOutput(logits, value), cfg, 0.05, magnet)
    for name, number in wanted.items():
        assert float(getattr(loss, name)) == pytest.approx(number, abs=2e-5), name
    without = ppo_loss(batch, PolicyOutput(logits, value), cfg, 0.05)
    assert float(without.magnet) == 0.0
    assert float(without.total) == pytest.approx(wanted["total"] - 0.3 * wanted["magnet"], abs=2e-5)


@pytest.mark.parametrize("with_magnet", [False, True])
def test_the_fused_loss_is_the_plain_loss_with_the_same_gradient(with_magnet):
    cfg = PPO(clip=0.15, value_weight=0.7, kl_weight=0.3)
    batch, logits, value, magnet, _ = random_batch(rows=300, seed=5)
    held = magnet if with_magnet else None
    results = []
    for loss_of in (ppo_loss, lambda *a: fused_ppo_loss(*a, KERNELS)):
        out = PolicyOutput(logits.clone().requires_grad_(), value.clone().requires_grad_())
        loss = loss_of(batch, out, cfg, 0.05, held)
        (3.0 * loss.total).backward()
        results.append((loss, out))
    (plain, a), (fused, b) = results
    for name in plain._fields:
        pair = (float(getattr(loss, name).detach()) for loss in (fused, plain))
        assert next(pair) == pytest.approx(next(pair), abs=2e-5), name
    torch.testing.assert_close(b.logits.grad, a.logits.grad, atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(b.value.grad, a.value.grad, atol=1e-7, rtol=1e-5)


@pytest.mark.parametrize("fused", [False, True])
def test_a_single_legal_action_gives_finite_gradients_and_no_push(fused):
    batch, _, value, magnet, _ = random_batch(rows=6)
    one = np.zeros((6, ACTIONS), bool)
    one[np.arange(6), batch.action] = True
    batch = batch._replace(
        legal=torch.from_numpy(np.packbits(one, axis=1, bitorder="little")), log_probability=torch.zeros(6)
    )
    logits = torch.full((6, ACTIONS), 50.0).requires_grad_()
    out = PolicyOutput(logits, value)
    if fused:
        loss = fused_ppo_loss(batch, out, PPO(), 0.1, magnet, KERNELS)
    else:
        loss = ppo_loss(batch, out, PPO(), 0.1, magnet)
    loss.total.backward()
    assert float(loss.entropy) == 0.0
    assert float(loss.magnet) == pytest.approx(0.0, abs=1e-6)
    assert torch.isfinite(loss.total)
    torch.testing.assert_close(logits.grad, torch.zeros_like(logits))


def test_illegal_actions_get_no_probability_and_no_gradient():
    legal = torch.tensor([[True, False, True], [False, True, False]])
    logits = torch.tensor([[1.0, 99.0, 1.0], [0.0, -5.0, 3.0]], requires_grad=True)
    logs = masked_log_softmax(logits, legal)
    assert logs.dtype == torch.float32
    torch.testing.assert_close(logs.exp(), torch.tensor([[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]))
    assert (logs[~legal] == -torch.inf).all()
    logs[legal].sum().backward()
    assert torch.isfinite(logits.grad).all()
    assert not logits.grad[~legal].any()


# Returns


def rollout_of(seat, over, value, rewards, driver=None):
    """A rollout of given columns; the others are zeros."""
    steps, games, seats = np.shape(rewards)
    empty = Rollout.empty(registry.spec("skull_king", {"players": max(seats, 2)}), steps, games)
    columns = {**empty.__dict__}
    columns["seat"] = torch.tensor(seat, dtype=torch.uint8)
    columns["over"] = torch.tensor(over, dtype=torch.uint8)
    columns["value"] = torch.tensor(value, dtype=torch.float32)
    columns["rewards"] = torch.tensor(np.asarray(rewards), dtype=torch.float32)
    if driver is not None:
        columns["driver"] = torch.tensor(driver, dtype=torch.uint8)
    return Rollout(**columns)


both = pytest.mark.parametrize(
    "returns_of", [lambda *a: seat_returns(*a, KERNELS), seat_returns_plain], ids=["native", "plain"]
)


@both
def test_two_seats_worked_by_hand(returns_of):
    """Seats 0, 1, 0, 1; the game ends with the fourth turn; gamma 0.9, lambda 0.8."""
    rollout = rollout_of(
        seat=[[0], [1], [0], [1]],
        over=[[0], [0], [0], [1]],
        value=[[0.5], [-0.5], [1.0], [-1.0]],
        rewards=[[[1, 0]], [[0, 2]], [[0, 0]], [[10, -10]]],
    )
    found = returns_of(rollout, 0.9, 0.8)
    last0 = 0 + 10 - 1.0  # paid by its own turn and by the end
    last1 = -10 + 1.0
    first0 = 1 + 0 + 0.9 * 1.0 - 0.5 + 0.9 * 0.8 * last0
    first1 = 2 + 0 + 0.9 * -1.0 + 0.5 + 0.9 * 0.8 * last1
    wanted = torch.tensor([[first0], [first1], [last0], [last1]])
    torch.testing.assert_close(found.advantage, wanted)
    torch.testing.assert_close(found.target, wanted + rollout.value)
    assert found.usable.all()


@both
def test_the_last_turn_of_a_game_that_goes_on_is_left_out(returns_of):
    rollout = rollout_of(
        seat=[[0], [1], [0], [0]],
        over=[[0], [0], [0], [0]],
        value=[[1.0], [2.0], [3.0], [4.0]],
        rewards=[[[1, 1]], [[1, 1]], [[1, 1]], [[1, 1]]],
    )
    found = returns_of(rollout, 1.0, 0.0)
    assert found.usable.flatten().tolist() == [True, False, True, False]
    assert found.advantage.flatten().tolist() == [2 + 3 - 1, 0, 1 + 4 - 3, 0]


@both
def test_only_the_learners_turns_are_used(returns_of):
    rollout = rollout_of(
        seat=[[0], [1], [0], [1]],
        over=[[0], [1], [0], [1]],
        value=[[0.0]] * 4,
        rewards=np.ones((4, 1, 2)),
        driver=[[0], [3], [1], [0]],
    )
    assert returns_of(rollout, 1.0, 1.0).usable.flatten().tolist() == [True, False, False, True]


@pytest.mark.parametrize("seats", [2, 3, 5])
@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 0.95), (0.9, 0.5), (1.0, 1.0), (0.97, 0.0)])
def test_the_native_returns_are_the_plain_ones(seats, gamma, lam):
    rng = np.random.default_rng(seats)
    shape = (25, 14)
    rollout = rollout_of(
        seat=rng.integers(0, seats, shape),
        over=rng.random(shape) < 0.12,
        value=rng.normal(size=shape),
        rewards=rng.normal(size=(*shape, seats)),
        driver=rng.integers(0, 2, shape),
    )
    native, plain = seat_returns(rollout, gamma, lam, KERNELS), seat_returns_plain(rollout, gamma, lam)
    torch.testing.assert_close(native.advantage, plain.advantage, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(native.target, plain.target, atol=1e-4, rtol=1e-4)
    assert torch.equal(native.usable, plain.usable)
    assert 0 < int(native.usable.sum()) < native.usable.numel()
    threads = seat_returns(rollout, gamma, lam, _native.Kernels(3))
    assert torch.equal(native.advantage, threads.advantage)


# The learner


@pytest.fixture(autouse=True)
def _same_threads_after():
    """Shards hold torch to one thread; the tests after these get theirs back."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def learner_of(game="leduc", shards=1, **settings):
    """A small learner and one rollout of its play with returns."""
    spec = registry.spec(game)
    cfg = PPO(**{"minibatch": 256, "epochs": 1, "lr": 1e-2, **settings})
    torch.manual_seed(1)
    team = Shards(shards)
    policy = Policy(spec, Network(hidden=(16, 16)))
    learner = Learner(policy, cfg, 7, False, team)
    collector = Collector(spec, 48, 24, 3, team)
    rollout = collector.collect(policy, [], 0, Stopwatch())
    return learner, rollout, seat_returns(rollout, cfg.gamma, cfg.lam, KERNELS)


def weights(learner):
    return {name: p.detach().clone() for name, p in learner.policy.named_parameters()}


def moved(before, after):
    return max(float((before[name] - after[name]).abs().max()) for name in before)


def test_an_update_moves_the_weights_and_reports_its_terms():
    learner, rollout, returns = learner_of(epochs=2)
    before = weights(learner)
    losses = learner.update(rollout, returns, 0, 0.0)
    assert moved(before, weights(learner)) > 1e-3
    assert losses["epochs"] == 2.0
    assert 0 < losses["entropy"] < math.log(3)
    assert losses["lr"] == 1e-2
    assert learner.skipped == learner.restored == 0


def test_updates_raise_the_probability_of_what_gained():
    learner, rollout, returns = learner_of(entropy=0.0, value_weight=0.0, normalise=False, epochs=4)
    best = (rollout.action == 2).float()  # raising gains one, all else nothing
    graded = Returns(best, best, returns.usable)

    def raising():
        with torch.no_grad():
            logits = learner.policy(rollout.flat(rollout.observation)).logits
        legal = rollout.flat(rollout.legal)[:, 0]
        rows = (legal & 4) > 0
        return float(torch.softmax(logits[rows], -1)[:, 2].mean())

    before = raising()
    for number in range(5):
        learner.update(rollout, graded, number, 0.0)
    assert raising() > before + 0.1


@pytest.mark.parametrize("accumulate", [2, 5, 1000])
def test_accumulated_gradients_take_the_same_step(accumulate):
    whole, rollout, returns = learner_of()
    parts, *_ = learner_of(accumulate=accumulate)
    a = whole.update(rollout, returns, 0, 0.0)
    b = parts.update(rollout, returns, 0, 0.0)
    assert moved(weights(whole), weights(parts)) < 1e-4
    for name in a:
        assert b[name] == pytest.approx(a[name], abs=1e-4), name


@pytest.mark.parametrize("regulariser", ["none", "average"])
def test_the_plain_loss_takes_the_same_step(regulariser):
    """What a learner on a card goes by."""
    fused, rollout, returns = learner_of(regulariser=regulariser, epochs=2)
    plain, *_ = learner_of(regulariser=regulariser, epochs=2)
    assert fused.fused
    plain.fused = False
    a = fused.update(rollout, returns, 0, 0.0)
    b = plain.update(rollout, returns, 0, 0.0)
    assert moved(weights(fused), weights(plain)) < 1e-4
    for name in a:
        assert b[name] == pytest.approx(a[name], abs=1e-4), name


@pytest.mark.parametrize("regulariser", ["none", "average", "magnet"])
def test_shards_take_the_same_step_and_the_same_bits_every_time(regulariser):
    # All rows in one minibatch: a shard draws the order of its own rows, and with it who meets whom.
    settings = {"regulariser": regulariser, "kl_weight": 1.0, "epochs": 3, "minibatch": 10**6}
    one, rollout, returns = learner_of(**settings)
    one.update(rollout, returns, 0, 0.0)
    prints = set()
    for _ in range(3):
        two, *_ = learner_of(shards=2, **settings)
        two.update(rollout, returns, 0, 0.0)
        prints.add(fingerprint(two.state()))
    assert len(prints) == 1
    assert moved(weights(one), weights(two)) < 1e-4


def test_the_order_of_rows_is_named_by_seed_update_and_epoch():
    learner, _, returns = learner_of()

    def order(number, epoch, seed=7):
        learner.minibatches.seed = seed
        return torch.cat(
            [torch.cat(m.rows) for m in learner.minibatches.of(returns, number, epoch, learner.cfg)]
        )

    usable = returns.usable.flatten().nonzero().squeeze(1)
    assert torch.equal(order(0, 0), order(0, 0))
    assert torch.equal(order(0, 0).sort().values, usable)
    for other in (order(1, 0), order(0, 1), order(0, 0, seed=8)):
        assert not torch.equal(order(0, 0), other)


def test_every_shard_gives_its_part_of_every_minibatch():
    learner, rollout, returns = learner_of(shards=3)
    games = [set(range(part.start, part.stop)) for part in learner.shards.slices(rollout.games)]
    found = list(learner.minibatches.of(returns, 0, 0, learner.cfg))
    usable = returns.usable.flatten().nonzero().squeeze(1)
    assert torch.equal(torch.cat([torch.cat(m.rows) for m in found]).sort().values, usable)
    for minibatch in found:
        assert minibatch.whole == sum(len(mine) for mine in minibatch.rows)
        for mine, part in zip(minibatch.rows, games, strict=True):
            assert len(mine) > 60
            assert set((mine % rollout.games).tolist()) <= part
    orders = [torch.cat([m.rows[i] for m in found]) // rollout.games for i in range(3)]
    assert not torch.equal(orders[0][:50], orders[1][:50])


def test_normalised_advantages_have_mean_zero_and_deviation_one():
    learner, _, returns = learner_of()
    for minibatch in learner.minibatches.of(returns, 0, 0, learner.cfg):
        advantage = torch.cat(minibatch.advantage)
        assert float(advantage.mean()) == pytest.approx(0.0, abs=1e-5)
        assert float(advantage.std(correction=0)) == pytest.approx(1.0, abs=1e-4)


def test_the_target_kl_stops_the_passes():
    learner, rollout, returns = learner_of(epochs=20, lr=3e-2, target_kl=0.01)
    stopped = learner.update(rollout, returns, 0, 0.0)
    free, *_ = learner_of(epochs=20, lr=3e-2)
    went_on = free.update(rollout, returns, 0, 0.0)
    assert went_on["epochs"] == 20
    assert 1 <= stopped["epochs"] < 20
    assert stopped["kl"] < went_on["kl"]


def test_the_gradient_is_clipped():
    learner, rollout, returns = learner_of(max_grad_norm=1e-3, minibatch=10**6)
    learner.update(rollout, returns, 0, 0.0)
    norm = torch.stack([p.grad.norm() for p in learner.policy.parameters()]).norm()
    assert float(norm) == pytest.approx(1e-3, rel=1e-3)


def test_a_step_that_is_not_finite_is_left_out_and_counted():
    learner, rollout, returns = learner_of(epochs=1)
    before = fingerprint(learner.state())
    steps = len(list(learner.minibatches.of(returns, 0, 0, learner.cfg)))
    poisoned = Returns(torch.full_like(returns.advantage, torch.nan), returns.target, returns.usable)
    losses = learner.update(rollout, poisoned, 0, 0.0)
    assert learner.skipped == steps > 1
    assert learner.restored == 0
    assert fingerprint(learner.state()) == before
    assert all(math.isfinite(value) for value in losses.values())


def test_one_bad_row_costs_one_step_of_the_pass():
    learner, rollout, returns = learner_of(epochs=1)
    steps = len(list(learner.minibatches.of(returns, 0, 0, learner.cfg)))
    target = returns.target.clone()
    row = returns.usable.flatten().nonzero()[0]
    target.view(-1)[row] = torch.inf
    before = weights(learner)
    learner.update(rollout, Returns(returns.advantage, target, returns.usable), 0, 0.0)
    assert learner.skipped == 1 < steps
    assert moved(before, weights(learner)) > 1e-3
    assert all(torch.isfinite(p).all() for p in learner.policy.parameters())


def test_weights_that_are_not_finite_are_put_back_with_the_optimiser():
    learner, rollout, returns = learner_of()
    learner.update(rollout, returns, 0, 0.0)
    before = fingerprint(learner.state())
    step = learner.optimiser.step

    def broken():
        step()
        with torch.no_grad():
            learner.policy.action_head.bias[0] = torch.nan

    learner.optimiser.step = broken
    learner.update(rollout, returns, 1, 0.0)
    learner.optimiser.step = step
    assert learner.restored == 1
    assert fingerprint(learner.state()) == before
    learner.update(rollout, returns, 2, 0.0)
    assert learner.restored == 1
    assert fingerprint(learner.state()) != before


def test_the_state_comes_back_bit_for_bit():
    learner, rollout, returns = learner_of(regulariser="average")
    learner.update(rollout, returns, 0, 0.0)
    saved = learner.state()
    learner.update(rollout, returns, 1, 0.1)
    ahead = fingerprint(learner.state())
    other, *_ = learner_of(regulariser="average")
    other.load_state(saved)
    assert fingerprint(other.state()) == fingerprint(saved)
    other.update(rollout, returns, 1, 0.1)
    assert fingerprint(other.state()) == ahead


def test_the_average_follows_the_weights_by_its_decay():
    learner, rollout, returns = learner_of(regulariser="average", average_decay=0.9)
    start = weights(learner)
    learner.update(rollout, returns, 0, 0.0)
    after = weights(learner)
    for name, average in learner.magnet.named_parameters():
        torch.testing.assert_close(average, 0.9 * start[name] + 0.1 * after[name])


def test_the_magnet_stays_until_it_is_refreshed():
    learner, rollout, returns = learner_of(regulariser="magnet", magnet_every=3)
    start = weights(learner)
    for number in range(2):
        learner.update(rollout, returns, number, 0.0)
        assert moved(start, dict(learner.magnet.named_parameters())) == 0.0
    learner.update(rollout, returns, 2, 0.0)
    assert moved(weights(learner), dict(learner.magnet.named_parameters())) == 0.0
    assert moved(start, dict(learner.magnet.named_parameters())) > 0.0


@pytest.mark.parametrize("regulariser", ["average", "magnet"])
def test_a_regulariser_holds_the_policy_back(regulariser):
    distance = {}
    for weight in (0.0, 5.0):
        learner, rollout, returns = learner_of(regulariser=regulariser, kl_weight=weight, epochs=8)
        distance[weight] = learner.update(rollout, returns, 0, 0.0)["magnet"]
    assert 0 < distance[5.0] < 0.5 * distance[0.0]


def test_without_a_regulariser_there_is_no_magnet():
    learner, rollout, returns = learner_of()
    assert learner.magnet is None
    assert learner.update(rollout, returns, 0, 0.0)["magnet"] == 0.0
    assert not any(name.startswith("magnet/") for name in learner.state())


@pytest.mark.parametrize(
    ("schedule", "halfway", "end"), [("constant", 1.0, 1.0), ("linear", 0.6, 0.2), ("cosine", 0.6, 0.2)]
)
def test_schedules_go_from_start_to_end(schedule, halfway, end):
    cfg = PPO(lr=2e-3, lr_end=0.2, lr_schedule=schedule, entropy=0.1, entropy_end=0.5)
    for progress, share, entropy in [
        (0.0, 1.0, 0.1),
        (0.5, halfway, 0.075),
        (1.0, end, 0.05),
        (1.7, end, 0.05),
    ]:
        assert scheduled(cfg, progress) == pytest.approx((2e-3 * share, entropy))
    quarter = {"constant": 1.0, "linear": 0.8, "cosine": 0.2 + 0.8 * 0.5 * (1 + math.cos(math.pi / 4))}
    assert scheduled(cfg, 0.25)[0] == pytest.approx(2e-3 * quarter[schedule])


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("epochs", 0, "ppo.epochs must be at least 1, got 0"),
        ("minibatch", 0, "ppo.minibatch must be at least 1"),
        ("gamma", 1.1, "ppo.gamma must be from 0 to 1, got 1.1"),
        ("lam", -0.1, "ppo.lam must be from 0 to 1"),
        ("clip", 0.0, "ppo.clip must be positive"),
        ("lr", -1.0, "ppo.lr must be positive"),
        ("entropy", -0.1, "ppo.entropy must not be negative"),
        ("accumulate", 0, "ppo.accumulate must be at least 1"),
    ],
)
def test_settings_out_of_range_are_refused(setting, value, says):
    with pytest.raises(PlaymillError, match=says):
        PPO(**{setting: value})
