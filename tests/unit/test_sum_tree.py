"""The native sum tree against its plain twin, and what it draws against the exact probabilities."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playmill import _native

MASK = 2**64 - 1
WIDE = 4  # sixteen children of a node, and these by fours


def mix64(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def plain_strata(seed, counter, count):
    """A place in each of `count` equal strata of [0, 1)."""
    key = mix64(
        mix64(seed + 0x9E3779B97F4A7C15 & MASK) ^ (counter * 0xD1342543DE82EF95 + 0x632BE59BD9B4E019 & MASK)
    )
    draws = []
    for _ in range(2 * count):
        key = key + 0x9E3779B97F4A7C15 & MASK
        draws.append(mix64(key) >> 32)
    units = [
        ((high >> 5 << 26) | low >> 6) / 2**53 for high, low in zip(draws[::2], draws[1::2], strict=True)
    ]
    return [(k + unit) / count for k, unit in enumerate(units)]


class PlainTree:
    """The same tree in lists: level 0 is the leaves, every other the sums of four below."""

    def __init__(self, leaves):
        self.weights = [0.0] * leaves

    def levels(self):
        levels = [self.weights]
        while len(levels[-1]) > WIDE:
            below = levels[-1]
            levels.append([self.sum(below[i : i + WIDE]) for i in range(0, len(below), WIDE)])
        return levels

    @staticmethod
    def sum(numbers):
        total = 0.0  # one after another: Python's own sum compensates for rounding
        for number in numbers:
            total += number
        return total

    def sample(self, seed, counter, count):
        levels = self.levels()
        total = self.sum(levels[-1])
        drawn = []
        for share in plain_strata(seed, counter, count):
            place, node = share * total, 0
            for level in reversed(levels):
                children = level[node * WIDE : (node + 1) * WIDE]
                begins = [self.sum(children[:i]) for i in range(len(children) + 1)]
                child = next((i for i in range(len(children)) if place < begins[i + 1]), None)
                if child is None:  # behind the end by rounding: in the last that has any weight
                    child = max(i for i, weight in enumerate(children) if weight > 0)
                    place = children[child]
                else:
                    place -= begins[child]
                node = node * WIDE + child
            drawn.append(node)
        return drawn


def native_sample(tree, seed, counter, count, beta=0.0):
    leaves, importance = np.empty(count, np.int64), np.empty(count, np.float32)
    tree.sample(seed, counter, beta, leaves, importance)
    return leaves, importance


weights = st.one_of(st.just(0.0), st.floats(2.0**-100, 2.0**100, width=32), st.floats(0.125, 8.0, width=32))


@settings(max_examples=60, deadline=None)
@given(data=st.data(), leaves=st.sampled_from([1, 2, 15, 16, 17, 255, 256, 257, 300, 4097]))
def test_the_native_tree_is_the_plain_one(data, leaves):
    native, plain = _native.SumTree(leaves), PlainTree(leaves)
    for _ in range(data.draw(st.integers(1, 4))):
        chosen = data.draw(st.lists(st.integers(0, leaves - 1), min_size=1, max_size=40))
        given = data.draw(st.lists(weights, min_size=len(chosen), max_size=len(chosen)))
        native.set(np.array(chosen, np.int64), np.array(given, np.float32))
        for leaf, weight in zip(chosen, given, strict=True):
            plain.weights[leaf] = float(np.float32(weight))
    assert native.total == PlainTree.sum(plain.levels()[-1])
    if native.total == 0.0:
        with pytest.raises(ValueError, match="nothing to draw"):
            native_sample(native, 0, 0, 1)
        return
    seed, counter, count = (
        data.draw(st.integers(low, high)) for low, high in ((0, MASK), (0, MASK), (1, 100))
    )
    drawn, _ = native_sample(native, seed, counter, count)
    assert drawn.tolist() == plain.sample(seed, counter, count)
    assert all(plain.weights[leaf] > 0 for leaf in drawn)


def test_sums_depend_on_the_leaves_alone():
    rng = np.random.default_rng(0)
    worn, fresh = _native.SumTree(5000), _native.SumTree(5000)
    for _ in range(300):
        some = rng.integers(0, 5000, 200)
        worn.set(some, np.exp(rng.normal(0, 12, 200)).astype(np.float32))
    last = rng.random(5000).astype(np.float32)
    for tree, order in ((worn, rng.permutation(5000)), (fresh, np.arange(5000))):
        tree.set(order, last[order])
    assert worn.total == fresh.total == pytest.approx(last.sum(dtype=np.float64))
    assert np.array_equal(native_sample(worn, 1, 2, 999)[0], native_sample(fresh, 1, 2, 999)[0])


def test_leaves_come_as_often_as_their_weight_says():
    rng = np.random.default_rng(1)
    leaves, rounds, count = 400, 400, 250
    weight = (rng.random(leaves) ** 3 + 0.02).astype(np.float32)
    tree = _native.SumTree(leaves)
    tree.set(np.arange(leaves), weight)
    found = np.zeros(leaves)
    for counter in range(rounds):
        np.add.at(found, native_sample(tree, 42, counter, count)[0], 1)
    expected = weight.astype(np.float64) / weight.sum(dtype=np.float64) * rounds * count
    chi_square = float(((found - expected) ** 2 / expected).sum())
    # Strata make it more even than independent draws, whose mean is the number of leaves - 1.
    assert chi_square < leaves - 1 + 4 * math.sqrt(2 * (leaves - 1))
    # and every draw lies in its own stratum
    bounds = np.cumsum(weight, dtype=np.float64) / weight.sum(dtype=np.float64)
    drawn, _ = native_sample(tree, 7, 0, count)
    assert np.all(bounds[drawn] >= np.arange(count) / count - 1e-9)
    assert np.all(bounds[drawn] - weight[drawn] / weight.sum() <= (np.arange(count) + 1) / count + 1e-6)


def test_importance_is_that_of_the_paper():
    rng = np.random.default_rng(2)
    weight = (rng.random(1000) + 0.01).astype(np.float32)
    tree = _native.SumTree(1000)
    tree.set(np.arange(1000), weight)
    for beta in (0.0, 0.4, 1.0):
        leaves, importance = native_sample(tree, 3, 4, 200, beta)
        wanted = (1000 * weight[leaves].astype(np.float64) / tree.total) ** -beta
        np.testing.assert_allclose(importance, wanted / wanted.max(), rtol=1e-5)


def test_strata_are_the_plain_ones():
    out = np.empty(33)
    _native.strata(123, 2**63 + 5, out)
    assert out.tolist() == plain_strata(123, 2**63 + 5, 33)


def test_what_cannot_be_is_refused_and_changes_nothing():
    tree = _native.SumTree(20)
    tree.set(np.arange(20), np.ones(20, np.float32))
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="weight 1 must be finite"):
            tree.set(np.array([3, 4]), np.array([9.0, bad], np.float32))
    for leaf in (-1, 20):
        with pytest.raises(ValueError, match=f"no leaf {leaf} among 20"):
            tree.set(np.array([3, leaf]), np.array([9.0, 9.0], np.float32))
    with pytest.raises(ValueError, match="weights must have 2"):
        tree.set(np.array([3, 4]), np.ones(3, np.float32))
    with pytest.raises(ValueError, match="importance must have 5"):
        tree.sample(0, 0, 0.0, np.empty(5, np.int64), np.empty(4, np.float32))
    with pytest.raises(ValueError, match="at least one leaf"):
        _native.SumTree(0)
    assert tree.total == 20.0
