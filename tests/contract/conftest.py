"""What tests of bad input watch: games that nobody is to touch."""

import numpy as np
import pytest

from playmill.serving import House, Limits, LocalClient
from tests.contract.servers import step


@pytest.fixture(scope="module")
def witness():
    """A house with games that nobody is to touch."""
    house = House(Limits(games=2000, rows=500, message=1 << 20, streams=8))
    games = LocalClient(house).create("skull_king", 10)
    step(LocalClient(house), games, np.random.default_rng(0))
    return house, games


@pytest.fixture(scope="module")
def before(witness):
    """What their seats see."""
    house, games = witness
    return [LocalClient(house).states(games, seat).observation.copy() for seat in range(4)]
