"""Whether the tests on the card run at all."""

import pytest

from tests.conftest import NEEDED, card_problem


def test_the_tests_on_the_card_run_here():
    if card_problem() and not NEEDED:
        pytest.skip(f"all tests marked `cuda` are left out: {card_problem()}")
    assert not card_problem()
