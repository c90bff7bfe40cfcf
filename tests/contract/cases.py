"""The games and options every pool is tried with, and how one step of a pool is taken."""

import numpy as np
import pytest

from playmill.games import registry
from playmill.pools import FIRST_BOT

CASES = [(name, {}) for name in registry.names()] + [
    ("skull_king", {"players": 2}),
    ("skull_king", {"players": 8, "deck": "70", "powers": "off"}),
    ("skull_king", {"players": 3, "schedule": "past_your_bedtime", "scoring": "cannonball"}),
    ("skull_king", {"players": 5, "scoring": "rascal", "harry": "at_once", "win_bonus": 100}),
    ("generals", {"preset": "source", "width": 9, "height": 7, "max_ticks": 120, "maps": 50}),
    ("generals", {"preset": "competition", "width": 15, "height": 15, "max_ticks": 200, "shaping": 50}),
    ("generals", {"width": 24, "height": 18, "players": 5, "order": "smaller", "max_ticks": 150}),
]


def _named(cases):
    return ["-".join([name, *(f"{k}={v}" for k, v in options.items())]) for name, options in cases]


every_case = pytest.mark.parametrize(("game", "options"), CASES, ids=_named(CASES))
every_game = pytest.mark.parametrize("game", registry.names())


def masks(pool, turns):
    """Legal actions as bools, [N, A]."""
    return np.unpackbits(turns.legal, axis=1, count=pool.spec.actions, bitorder="little").astype(bool)


def copies(arrays):
    return tuple(array.copy() for array in arrays)


def play(pool, bot="random"):
    """One step: what was shown, answered and brought about, as copies."""
    turns = copies(pool.turns())
    actions = pool.bot_actions(bot).copy()
    return (*turns, actions, *copies(pool.act(actions)))


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def same_stats(a, b):
    """Equal counts; equal means but for the order in which shares were added up."""
    flat = [{(d, s): cell for d, by_name in x.items() for s, cell in by_name.items()} for x in (a, b)]
    return flat[0].keys() == flat[1].keys() and all(
        count == flat[1][key][1] and mean == pytest.approx(flat[1][key][0], rel=1e-9, abs=1e-12)
        for key, (mean, count) in flat[0].items()
    )


def goes_on_identically(make):
    """A pool restored from a snapshot, itself or another made alike, plays on as the first did."""
    pool = make()
    drivers = np.zeros((pool.games, pool.spec.seats), np.uint8)
    drivers[::2, 1:] = FIRST_BOT + len(pool.spec.bots) - 1
    pool.set_drivers(drivers)
    for _ in range(30):
        play(pool)
    saved = pool.snapshot()
    ahead = [play(pool) for _ in range(60)]
    stats = pool.stats()
    other = make()
    other.restore(saved)
    assert all(same(play(other), step) for step in ahead)
    assert same_stats(other.stats(), stats)
    pool.restore(saved)
    assert pool.snapshot() == saved
    assert same(play(pool), ahead[0])
