"""A change of any rule shows here as a readable difference; `make golden` writes the files anew."""

from __future__ import annotations

import pytest

from playmill.games import registry
from tests.golden.transcript import FOLDER, GAMES, transcript


@pytest.mark.parametrize("name", GAMES)
def test_the_game_is_played_as_recorded(name: str) -> None:
    assert transcript(name) == (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def test_every_native_game_has_a_transcript() -> None:
    assert {game for game, *_ in GAMES.values()} == set(registry.names())
