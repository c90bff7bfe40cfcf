"""What the pool on the CPU promises beside the contract: its threads, and arrays on the host."""

import numpy as np
import pytest

from playmill.games import PlaymillError
from playmill.pools import NativePool
from playmill.pools.native import Turns
from tests.contract.cases import every_case, every_game, goes_on_identically, play, same


def make(game, games=16, options=None, **more):
    return NativePool(game, games, options=options or {}, **more)


@every_game
def test_actions_too_large_for_the_engine_are_not_wrapped_round(game):
    pool = make(game, 4)
    pool.turns()
    wide = pool.bot_actions().astype(np.int64)
    before = pool.snapshot()
    wide[2] += 2**32
    with pytest.raises(ValueError, match="row 2"):
        pool.act(wide)
    assert pool.snapshot() == before


@every_game
@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        (lambda good: good[:-1], ValueError, r"shape \(8,\).*\(7,\)"),
        (lambda good: good[:, None], ValueError, r"shape \(8,\).*\(8, 1\)"),
        (lambda _: 0, ValueError, r"shape \(8,\).*\(\)"),
        (lambda good: good.astype(np.float64), TypeError, "integers, got float64"),
        (lambda good: good.astype(bool), TypeError, "integers, got bool"),
        (lambda good: good.astype(str), TypeError, "integers, got <U"),
    ],
)
def test_actions_of_the_wrong_shape_or_type_change_nothing(game, wrong, error, says):
    pool = make(game, 8)
    pool.turns()
    good = pool.bot_actions().copy()
    before = pool.snapshot()
    with pytest.raises(error, match=says):
        pool.act(wrong(good))
    assert pool.snapshot() == before
    pool.act(good.tolist())  # lists of the right length are welcome


@every_game
def test_foreign_arrays_are_refused(game):
    pool = make(game, 4)
    rows = pool.empty_turns()
    before = pool.snapshot()
    with pytest.raises(ValueError, match="observation must have 4 along axis 0, got 3"):
        pool.turns(Turns(rows.observation[:3].copy(), *rows[1:]))
    with pytest.raises(TypeError):
        pool.turns(Turns(rows.observation.astype(np.int32), *rows[1:]))
    assert pool.snapshot() == before


@every_game
def test_the_caller_may_bring_the_arrays(game):
    mine, theirs = make(game, 6, seed=4), make(game, 6, seed=4)
    turns, outcome = mine.empty_turns(), mine.empty_outcome()
    for _ in range(20):
        assert mine.turns(turns) is turns
        assert same(turns, theirs.turns())
        actions = mine.bot_actions().copy()
        assert mine.act(actions, outcome) is outcome
        theirs.bot_actions()
        assert same(outcome, theirs.act(actions))


@every_case
def test_the_number_of_threads_changes_nothing(game, options):
    pools = [make(game, 21, options, seed=7, threads=threads) for threads in (1, 2, 3)]
    for _ in range(60):
        steps = [play(pool, pool.spec.bots[-1]) for pool in pools]
        assert same(steps[0], steps[1])
        assert same(steps[0], steps[2])


@every_case
def test_a_restored_pool_of_threads_goes_on_identically(game, options):
    goes_on_identically(lambda: make(game, 12, options, seed=6, threads=2))


@every_game
def test_a_snapshot_of_other_threads_is_refused(game):
    pool = make(game, 4, seed=1)
    before = pool.snapshot()
    with pytest.raises(PlaymillError, match="another pool"):
        pool.restore(make(game, 4, seed=1, threads=2).snapshot())
    assert pool.snapshot() == before


def test_a_pool_needs_threads():
    with pytest.raises(PlaymillError, match="at least one thread, got 0"):
        make("kuhn", 1, threads=0)
