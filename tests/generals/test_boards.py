"""New boards of the engine are what the options say."""

from itertools import combinations

import pytest

from playmill.games import Game

from .board import Board, parse_board
from .players import walk
from .rules import PRESETS, Rules

SEEDS = range(30)


def fresh(seed: int, **options: int | str) -> Board:
    return parse_board(Game("generals", options, seed).table_text(-1))


def kinds(board: Board, kind: str) -> list[int]:
    return [number for number, square in enumerate(board.squares) if square.kind == kind]


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("players", [2, 3, 4])
def test_every_seat_starts_with_its_general_alone(preset: str, players: int) -> None:
    for seed in SEEDS:
        board = fresh(seed, preset=preset, players=players)
        assert board.tick == 0
        for seat in range(players):
            (general,) = board.owned(seat)
            assert board.squares[general].kind == "general"
            assert board.squares[general].army == Rules.of({"preset": preset}).start_army
        assert len(kinds(board, "general")) == players


@pytest.mark.parametrize("preset", PRESETS)
def test_generals_stand_apart_with_a_way_between_them(preset: str) -> None:
    for seed in SEEDS:
        board = fresh(seed, preset=preset, width=32, height=32)  # room enough
        for one, other in combinations(kinds(board, "general"), 2):
            # The text leaves open whether steps go round mountains; round them they are never fewer.
            assert walk(board, [one])[other] >= Rules.of({"preset": preset}).distance


@pytest.mark.parametrize("preset", PRESETS)
def test_mountains_and_cities_are_as_many_as_said(preset: str) -> None:
    rules = Rules.of({"preset": preset})
    boards = [fresh(seed, preset=preset, width=24, height=24) for seed in SEEDS]
    squares = sum(len(board.squares) for board in boards)
    mountains = sum(len(kinds(board, "mountain")) for board in boards)
    cities = sum(len(kinds(board, "city")) for board in boards)
    # Pockets that are closed off may be filled up.
    assert 100 * mountains / squares == pytest.approx(rules.mountains, abs=2)
    assert 1000 * cities / squares == pytest.approx(rules.cities, abs=3)


@pytest.mark.parametrize("preset", PRESETS)
def test_new_cities_have_an_army_in_range(preset: str) -> None:
    rules = Rules.of({"preset": preset})
    boards = [fresh(seed, preset=preset, width=24, height=24, cities=100) for seed in SEEDS]
    armies = {board.squares[number].army for board in boards for number in kinds(board, "city")}
    assert armies == set(range(rules.city_army, rules.city_army + rules.city_army_spread + 1))


def test_a_seed_is_a_board_for_ever() -> None:
    boards = [fresh(seed) for seed in SEEDS]
    assert boards == [fresh(seed) for seed in SEEDS]
    assert len({str(board) for board in boards}) > len(SEEDS) - 2
