"""The same seed, drivers and actions give the same games on the card as on the CPU, bit for bit; the same
logits give the same draws."""

import os

import numpy as np
import pytest

from benchmarks.sameness import Pair, compare_pools
from playmill import _native
from playmill.games import registry
from playmill.pools import FIRST_BOT, NativePool
from playmill.pools.cuda import CudaPool, DeviceArray
from tests.contract.cases import every_case, every_game, same_stats

pytestmark = pytest.mark.cuda

GAMES = int(os.environ.get("PLAYMILL_SAME_GAMES", "2000"))
KERNELS = _native.Kernels(1)


@every_case
def test_whole_games_are_the_same_bit_for_bit(game, options):
    found = compare_pools(registry.spec(game, options), GAMES, 4096, 11)
    assert found["difference"] is None
    assert found["games_equal"]
    assert found["stats_equal"]
    assert found["games"] >= GAMES
    assert found["turns"] > found["games"]


def test_a_difference_would_be_seen():
    """The comparison itself: pools of two seeds are told apart at once."""
    pair = Pair(registry.spec("leduc"), 300, 1)
    pair.card = CudaPool("leduc", 300, seed=2)
    assert pair.step().startswith("step 1, game ")
    assert not pair.games_equal()


@every_case
def test_games_of_named_seeds_are_the_same_and_count_alike(game, options):
    seeds = np.random.default_rng(5).integers(0, 2**64, 1000, dtype=np.uint64)
    pair = Pair(registry.spec(game, options), 1000, 3)
    drivers = np.zeros((1000, pair.spec.seats), np.uint8)
    drivers[::3, 1:] = FIRST_BOT + len(pair.spec.bots) - 1
    for pool in (pair.cpu, pair.card):
        pool.set_drivers(drivers)
        pool.reset(seeds)
        pool.clear_stats()
    for _ in range(60):
        assert pair.step() is None
    assert pair.games_equal()
    assert pair.stats_equal()


@every_game
def test_more_games_than_a_block_and_odd_numbers_of_them_are_the_same(game):
    for size in (1, 127, 129, 1025):
        pair = Pair(registry.spec(game), size, size)
        for _ in range(50):
            assert pair.step() is None
        assert pair.games_equal()


def address(array, row=0):
    """Where a row of an array lies on the card."""
    facts = array.__cuda_array_interface__
    return facts["data"][0] + row * int(np.prod(array.shape[1:])) * array.dtype.itemsize


class Stepped:
    """A pool on the card that is stepped in parts, by drawn or random actions, beside one on the CPU."""

    def __init__(self, game, games, options=None):
        self.cpu = NativePool(game, games, options=options, seed=9)
        self.card = CudaPool(game, games, options=options, seed=9)
        self.spec, self.games = self.cpu.spec, games
        drivers = np.zeros((games, self.spec.seats), np.uint8)
        drivers[::2, 0] = FIRST_BOT + len(self.spec.bots) - 1
        self.cpu.set_drivers(drivers)
        self.card.set_drivers(drivers)
        self.shown = [self.card.empty_turns() for _ in range(2)]
        self.card.turns(self.shown[0])
        self.outcome = self.card.empty_outcome()
        self.stride = (self.spec.actions + 8) // 8 * 8
        self.heads = DeviceArray((games, self.stride), "float32")
        self.action = DeviceArray((games,), "int32")
        self.log_probability, self.value = (DeviceArray((games,), "float32") for _ in range(2))
        self.first_draw = DeviceArray((8,), "uint8")

    def parts(self):
        """First game and number of games of each part."""
        middle = self.games // 3 // 16 * 16
        return [(0, middle), (middle, self.games - middle)] if middle else [(0, self.games)]

    def drawn(self, heads, seed, first_draw, draw, greedy):
        self.heads.fill(heads)
        self.first_draw.fill(np.array([first_draw], np.uint64).view(np.uint8))
        now, then = self.shown
        for first, count in self.parts():
            self.card.native.step(
                first,
                count,
                address(self.heads, first),
                self.stride,
                address(now.legal, first),
                seed,
                address(self.first_draw),
                draw,
                greedy,
                address(self.action, first),
                address(self.log_probability, first),
                address(self.value, first),
                address(self.outcome.rewards, first),
                address(self.outcome.over, first),
                [address(column, first) for column in then],
                0,
            )
        self.shown.reverse()

    def random(self):
        for first, count in self.parts():
            self.card.native.step_random(
                first,
                count,
                address(self.outcome.rewards, first),
                address(self.outcome.over, first),
                [address(column, first) for column in self.shown[1]],
                0,
            )
        self.shown.reverse()

    def compare_turns(self):
        for mine, theirs in zip(self.cpu.turns(), self.shown[0], strict=True):
            np.testing.assert_array_equal(mine, np.asarray(theirs))

    def compare_outcome(self, actions):
        for mine, theirs in zip(self.cpu.act(actions), self.outcome, strict=True):
            np.testing.assert_array_equal(mine, np.asarray(theirs))


def random_heads(rng, games, actions, stride):
    """Logits of every kind, one kind a row: mild, steep, all alike, far apart, beyond what e^x can say."""
    size = rng.choice([0.0, 0.01, 2.0, 40.0, 1e4, 1e20], (games, 1))
    heads = rng.normal(size=(games, stride)) * size
    heads += rng.choice([0.0, -300.0, 300.0], (games, 1))
    ties = rng.random(games) < 0.1
    heads[ties, :actions] = np.round(heads[ties, :actions] / 20.0) * 20.0
    never = rng.random((games, stride)) < 0.05
    heads[never] = -1e30  # a logit that is never drawn
    heads[:, actions:] = rng.normal(size=(games, stride - actions))
    return heads.astype(np.float32)


@every_case
@pytest.mark.parametrize("greedy", [False, True], ids=["drawn", "greedy"])
def test_the_same_logits_give_the_same_actions(game, options, greedy):
    games, rng = 3000, np.random.default_rng(3)
    both = Stepped(game, games, options)
    actions, logs = np.zeros(games, np.int32), np.zeros(games, np.float32)
    single = 0
    for step in range(25):
        both.compare_turns()
        legal = both.cpu.turns().legal
        single += int((np.unpackbits(legal, axis=1).sum(axis=1) == 1).sum())
        heads = random_heads(rng, games, both.spec.actions, both.stride)
        logits = np.ascontiguousarray(heads[:, : both.spec.actions])
        KERNELS.sample(logits, legal, 77, 2**40 + step, greedy, actions, logs)
        chosen = np.where(
            actions < 0, [np.flatnonzero(np.unpackbits(r, bitorder="little"))[0] for r in legal], actions
        )
        both.drawn(heads, 77, 2**40, step, greedy)
        np.testing.assert_array_equal(np.asarray(both.action), chosen)
        np.testing.assert_allclose(np.asarray(both.log_probability), logs, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(np.asarray(both.value), heads[:, both.spec.actions])
        both.compare_outcome(chosen)
    # Two games always leave a choice, and so does a board on which generals begin with an army.
    assert single > 100 or game in ("kuhn", "leduc") or options.get("preset") == "source"
    assert same_stats(both.cpu.stats(), both.card.stats())


def test_draws_are_named_by_seed_number_and_game():
    """Another seed or another number draws otherwise; the same ones draw the same."""
    found = []
    for seed, first, draw in [(1, 0, 5), (1, 0, 5), (2, 0, 5), (1, 0, 6), (1, 3, 2)]:
        both = Stepped("skull_king", 500)
        both.drawn(np.zeros((500, both.stride), np.float32), seed, first, draw, False)
        found.append(np.asarray(both.action).tolist())
    assert found[0] == found[1] == found[4]  # 0 + 5 and 3 + 2 are one number
    assert found[0] != found[2]
    assert found[0] != found[3]


@every_case
def test_bots_asked_part_by_part_answer_as_on_the_cpu_and_change_nothing(game, options):
    both = Stepped(game, 700, options)
    kinds = DeviceArray((700,), "uint8")
    for step in range(40):
        kind = step % len(both.spec.bots)
        kinds.fill(np.full(700, kind, np.uint8))
        before = both.card.snapshot()
        for first, count in both.parts():
            both.card.native.script(first, count, address(kinds, first), address(both.action, first), 0)
        both.compare_turns()
        np.testing.assert_array_equal(np.asarray(both.action), both.cpu.bot_actions(both.spec.bots[kind]))
        assert both.card.snapshot() == before
        both.random()
        both.compare_outcome(both.cpu.bot_actions("random"))


@every_case
def test_random_steps_are_the_random_bots(game, options):
    both = Stepped(game, 700, options)
    for _ in range(80):
        both.compare_turns()
        both.random()
        both.compare_outcome(both.cpu.bot_actions("random"))
    both.compare_turns()
    assert same_stats(both.cpu.stats(), both.card.stats())
