"""The library of tricks and rounds, played once a session."""

from itertools import count

import pytest

from .driver import Case
from .library import Recorder, Round, Trick

TRICKS = 4000


@pytest.fixture(scope="session")
def recorded() -> list[Recorder]:
    games: list[Recorder] = []
    for number in count():
        games.append(Recorder(Case.numbered(number, fuzz_seed=3)).record())
        if sum(len(game.tricks) for game in games) >= TRICKS:
            break
    return games


@pytest.fixture(scope="session")
def tricks(recorded: list[Recorder]) -> list[Trick]:
    """Finished tricks whose outcome the engine showed."""
    return [trick for game in recorded for trick in game.tricks if trick.won is not None]


@pytest.fixture(scope="session")
def rounds(recorded: list[Recorder]) -> list[Round]:
    return [round for game in recorded for round in game.rounds]
