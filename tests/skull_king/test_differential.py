"""The engine against the referee: every turn, every seat's view, every score."""

import pytest

from .driver import Case, SideBySide
from .fuzz import play

pytestmark = pytest.mark.integration
FUZZ_SEED = 20261
GAMES = 400


@pytest.mark.parametrize("first", range(0, GAMES, 50))
def test_engine_and_referee_agree(first: int) -> None:
    seen = play(first, 50, FUZZ_SEED)
    assert seen["games"] == 50


def test_the_fuzz_reaches_every_kind_of_decision() -> None:
    seen = play(0, 30, FUZZ_SEED + 1)
    for what in ("bid", "play", "rosie", "discard", "wager", "harry", "krakens", "whales", "alliances"):
        assert seen[what] > 0, f"thirty fuzzed games without {what}"


@pytest.mark.parametrize("players", range(2, 9))
def test_the_default_game_agrees(players: int) -> None:
    for seed in range(3):
        SideBySide(Case({"players": players}, seed, ("greedy",) * players)).play_out()
