"""V-trace per seat against its plain twin, against the returns without correction, and by hand."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from playmill import _native
from playmill.algorithms import Age, seat_returns, vtrace_returns, vtrace_returns_plain
from playmill.experience import Rollout
from playmill.games import PlaymillError, registry

KERNELS = _native.Kernels(1)


def random_rollout(seed, steps, games, seats, ends=0.12):
    """A rollout whose returns depend on every column they read, with the present policy's values and
    logarithms of probabilities."""
    rng = np.random.default_rng(seed)
    shape = (steps, games)
    empty = Rollout.empty(registry.spec("leduc"), steps, games)
    columns = {
        **empty.__dict__,
        "seat": torch.from_numpy(rng.integers(0, seats, shape).astype(np.uint8)),
        "over": torch.from_numpy((rng.random(shape) < ends).astype(np.uint8)),
        "driver": torch.from_numpy(rng.integers(0, 2, shape).astype(np.uint8)),
        "value": torch.from_numpy(rng.normal(size=shape).astype(np.float32)),
        "log_probability": torch.from_numpy(-rng.exponential(size=shape).astype(np.float32)),
        "rewards": torch.from_numpy(rng.normal(size=(*shape, seats)).astype(np.float32)),
    }
    value = torch.from_numpy(rng.normal(size=shape).astype(np.float32))
    now = torch.from_numpy(-rng.exponential(size=shape).astype(np.float32))
    return Rollout(**columns), value, now


def same(a, b):
    torch.testing.assert_close(a.advantage, b.advantage, atol=2e-4, rtol=2e-4)
    torch.testing.assert_close(a.target, b.target, atol=2e-4, rtol=2e-4)
    torch.testing.assert_close(a.weight, b.weight, atol=2e-4, rtol=2e-4)
    assert torch.equal(a.usable, b.usable)


both = pytest.mark.parametrize(
    "returns_of", [lambda *a: vtrace_returns(*a, KERNELS), vtrace_returns_plain], ids=["native", "plain"]
)


@both
def test_two_seats_worked_by_hand(returns_of):
    """Seats 0, 1, 0, 1; the game ends with the fourth turn. Ratios 1/2, 3, 2, 1/4."""
    rollout, _, _ = random_rollout(0, 4, 1, 2)
    rollout = Rollout(
        **{
            **rollout.__dict__,
            "seat": torch.tensor([[0], [1], [0], [1]], dtype=torch.uint8),
            "over": torch.tensor([[0], [0], [0], [1]], dtype=torch.uint8),
            "driver": torch.zeros(4, 1, dtype=torch.uint8),
            "log_probability": torch.full((4, 1), math.log(0.2)),
            "rewards": torch.tensor([[[1.0, 0]], [[0, 2]], [[0, 0]], [[10, -10]]]),
        }
    )
    value = torch.tensor([[0.5], [-0.5], [1.0], [-1.0]])
    now = torch.tensor([[0.1], [0.6], [0.4], [0.05]]).log()
    found = returns_of(rollout, value, now, 0.9, 0.8, 1.5, 1.25, False)
    aim0 = 1.0 + 1.5 * (10 - 1.0)  # the ratio 2 counts as 1.5
    aim1 = -1.0 + 0.25 * (-10 + 1.0)
    step0, step1 = 1 + 0.9 * 1.0 - 0.5, 2 + 0.9 * -1.0 + 0.5
    first0 = 0.5 + 0.5 * step0 + 0.9 * 0.8 * 0.5 * (aim0 - 1.0)
    first1 = -0.5 + 1.5 * step1 + 0.9 * 0.8 * 1.25 * (aim1 + 1.0)
    torch.testing.assert_close(found.target, torch.tensor([[first0], [first1], [aim0], [aim1]]))
    long0, long1 = step0 + 0.9 * 0.8 * (aim0 - 1.0), step1 + 0.9 * 0.8 * (aim1 + 1.0)
    wanted = [0.5 * long0, 1.5 * long1, 1.5 * 9, 0.25 * -9]
    torch.testing.assert_close(found.advantage.flatten(), torch.tensor(wanted))
    torch.testing.assert_close(found.weight.flatten(), torch.tensor([0.5, 1.5, 1.5, 0.25]))
    assert found.usable.all()
    joint = returns_of(rollout, value, now, 0.9, 0.8, 1.5, 1.25, True)
    # Each with the turn of the other before its own next: 1/2 x 3, 3 x 2, 2 x 1/4, and the last alone.
    torch.testing.assert_close(joint.weight.flatten(), torch.tensor([1.5, 1.5, 0.5, 0.25]))


@both
@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 1.0), (0.9, 0.5), (0.97, 0.0)])
def test_without_age_the_returns_are_those_of_seat_returns(returns_of, gamma, lam):
    rollout, value, _ = random_rollout(3, 25, 14, 3)
    now = Rollout(**{**rollout.__dict__, "value": value})
    plain = seat_returns(now, gamma, lam, KERNELS)
    found = returns_of(rollout, value, rollout.log_probability, gamma, lam, 1.0, 1.0, True)
    torch.testing.assert_close(found.target[plain.usable], plain.target[plain.usable], atol=2e-4, rtol=2e-4)
    assert torch.equal(found.usable, plain.usable)
    torch.testing.assert_close(found.advantage, plain.advantage, atol=2e-4, rtol=2e-4)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    steps=st.integers(1, 20),
    games=st.integers(1, 6),
    seats=st.integers(1, 5),
    ends=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    gamma=st.floats(0.0, 1.0),
    lam=st.floats(0.0, 1.0),
    rho=st.floats(0.1, 3.0),
    c=st.floats(0.1, 1.0),
    others=st.booleans(),
)
def test_the_native_returns_are_the_plain_ones(seed, steps, games, seats, ends, gamma, lam, rho, c, others):
    rollout, value, now = random_rollout(seed, steps, games, seats, ends)
    arguments = (rollout, value, now, gamma, lam, rho, c, others)
    same(vtrace_returns(*arguments, KERNELS), vtrace_returns_plain(*arguments))


def test_threads_change_nothing():
    arguments = (*random_rollout(5, 25, 14, 4), 0.99, 0.95, 1.0, 1.0, True)
    one, three = (vtrace_returns(*arguments, _native.Kernels(threads)) for threads in (1, 3))
    assert torch.equal(one.advantage, three.advantage)
    assert torch.equal(one.target, three.target)
    assert 0 < int(one.usable.sum()) < one.usable.numel()


@both
def test_an_action_the_policy_would_not_take_any_more_teaches_nothing(returns_of):
    rollout, value, now = random_rollout(1, 20, 4, 2)
    found = returns_of(rollout, value, torch.full_like(now, -math.inf), 1.0, 0.95, 1.0, 1.0, True)
    assert not found.advantage.any()
    torch.testing.assert_close(found.target, value)


def test_a_ratio_beyond_all_numbers_counts_as_the_largest():
    rollout, value, _ = random_rollout(2, 20, 4, 2)
    played = Rollout(**{**rollout.__dict__, "log_probability": torch.full_like(value, -200.0)})
    same(
        vtrace_returns(played, value, torch.zeros_like(value), 1.0, 0.95, 1.0, 1.0, False, KERNELS),
        vtrace_returns(played, value, played.log_probability, 1.0, 0.95, 1.0, 1.0, False, KERNELS),
    )


def test_a_seat_that_is_not_there_is_refused():
    rollout, value, now = random_rollout(2, 5, 2, 2)
    rollout.seat[3, 1] = 2
    with pytest.raises(ValueError, match="turn 7: there is no seat 2 among 2"):
        vtrace_returns(rollout, value, now, 1.0, 0.95, 1.0, 1.0, False, KERNELS)
    with pytest.raises(ValueError, match="no seat 2"):
        seat_returns(rollout, 1.0, 0.95, KERNELS)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"correction": "magic"}, "vtrace or none"),
        ({"loss": "hope"}, "ppo or actor_critic"),
        ({"rho": 0.0}, "age.rho must be positive"),
        ({"c": float("inf")}, "age.c must be positive and finite"),
        ({"rho": 0.5}, "age.c must be at most age.rho"),
        ({"most": -1}, "age.most must not be negative"),
        ({"target_every": -1}, "age.target_every must not be negative"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong, says):
    with pytest.raises(PlaymillError, match=says):
        Age(**wrong)
