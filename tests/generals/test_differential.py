"""The engine against the referee: every tick, every seat's view, every reward."""

import pytest

from .driver import Case, SideBySide
from .fuzz import play

pytestmark = pytest.mark.integration
FUZZ_SEED = 20261
GAMES = 120
KINDS = (
    "attacks",
    "builds",
    "changes of place",
    "draws",
    "falls",
    "halves",
    "moves from under attack",
    "wins",
)


@pytest.mark.parametrize("first", range(0, GAMES, 20))
def test_engine_and_referee_agree(first: int) -> None:
    assert play(first, 20, FUZZ_SEED)["games"] == 20


def test_the_fuzz_reaches_every_kind_of_event() -> None:
    seen = play(0, 20, FUZZ_SEED + 1)
    for what in KINDS:
        assert seen[what] > 0, f"twenty fuzzed games without {what}"


@pytest.mark.parametrize("preset", ["source", "generalsio", "competition"])
def test_a_preset_as_it_is_agrees(preset: str) -> None:
    for seed in range(2):
        SideBySide(Case({"preset": preset, "max_ticks": 60}, seed, ("hunter", "raider"))).play_out()


def test_armies_stop_growing_together() -> None:
    """One seat gathers the growth of a whole board on a square, until there is more than can be."""
    growth = {"city_period": 1, "land_period": 1, "land_growth": "all", "start_army": 1000}
    land = {"width": 12, "height": 12, "mountains": 0, "cities": 0, "max_ticks": 3000}
    table = SideBySide(Case(growth | land, 3, ("gatherer", "asleep"), whim=0))
    table.check_position()
    while table.seen["large armies"] < 5 and not table.referee.over:
        table.tick()
    assert table.seen["large armies"] == 5
