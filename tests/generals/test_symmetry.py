"""What no rule may favour: a side of the board, or a seat.

Turning the board over changes nothing, whatever the order of moves: no rule knows left from right.
Renaming the seats changes nothing but who goes first when all else is equal. So it holds

-   with `smaller` and `priority` in every tick without a tie for the order,
-   with `alternating` from a tick of the other parity, where growth does not depend on that,
-   with `seat` never: there the lower seat goes first, always.

Each table is a referee and an engine that plays along, so that what holds for one holds for both.
"""

import random

import numpy as np
import pytest

from .images import WAYS, Image, untied
from .players import PLAYERS
from .referee import Referee, Rules
from .staging import play, scattered, shown, stage
from .twin import Twin

ORDERS = ("seat", "alternating", "smaller", "priority")
COMMON = {"build": "yes", "fog_obstacles": "yes", "capture_share": "half", "shaping": 50, "max_ticks": 40}


def alike(one: Referee, other: Referee, image: Image, besides: tuple[str, ...] = ()) -> None:
    """`other` is the image of `one`, in truth and as every seat sees it."""
    expected = image.board(one.board)
    assert other.board.squares == expected.squares, f"{one.text()}\n{other.text()}"
    assert one.over == other.over
    for seat in one.seats:
        views = image.view(one.observe(seat)), other.observe(image.seats[seat])
        for name in views[0]:
            if name not in besides:
                assert np.array_equal(views[0][name], views[1][name]), f"'{name}' of seat {seat}"
        legal = {image.action(one.board, action) for action in one.legal(seat)}
        assert other.legal(image.seats[seat]) == legal


def answers(table: Referee, dice: random.Random) -> dict[int, int]:
    return {seat: PLAYERS[dice.choice([*PLAYERS])](table, seat, dice) for seat in table.asked}


def run(
    one: Referee, other: Referee, image: Image, dice: random.Random, besides: tuple[str, ...] = ()
) -> int:
    """Plays both to the end; how many moves were made."""
    moves = 0
    tied = one.rules.order in ("smaller", "priority") and image.seats != tuple(one.seats)
    alike(one, other, image, besides)
    while not one.over:
        actions = answers(one, dice)
        if tied:
            actions = untied(one, actions)
        moves += sum(action < one.board.passing for action in actions.values())
        image_actions = image.actions(one.board, actions)
        rewards, others = one.tick(actions), other.tick(image_actions)
        assert rewards == pytest.approx([others[image.seats[seat]] for seat in one.seats])
        alike(one, other, image, besides)
    return moves


def tables(dice: random.Random, image: Image, order: str, **options: int) -> tuple[Twin, Twin]:
    players = len(image.seats)
    rules = Rules.of(COMMON | {"players": players, "order": order} | options)
    board = scattered(dice, dice.randint(3, 7), dice.randint(3, 7), players)
    return Twin(rules, board), Twin(rules, image.board(board))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("way", WAYS)
def test_turning_the_board_over_changes_nothing(way: str, order: str) -> None:
    moves = 0
    for seed in range(4):
        dice = random.Random(seed)
        image = Image(way, tuple(range(2 + seed)))
        moves += run(*tables(dice, image, order), image, dice)
    assert moves > 50


@pytest.mark.parametrize("order", ["smaller", "priority"])
@pytest.mark.parametrize("players", [2, 3, 5])
def test_renaming_the_seats_changes_nothing_without_a_tie_for_the_order(players: int, order: str) -> None:
    moves = 0
    for seed in range(6):
        dice = random.Random(seed)
        image = Image(dice.choice(WAYS), tuple((seat + 1) % players for seat in range(players)))
        moves += run(*tables(dice, image, order), image, dice, besides=("before",))
    assert moves > 50


def test_with_two_alternating_seats_change_their_names_from_a_tick_of_the_other_parity() -> None:
    for seed in range(10):
        dice = random.Random(seed)
        image = Image(dice.choice(WAYS), (1, 0))
        one, other = tables(dice, image, "alternating", city_period=1, land_period=1, max_ticks=100)
        one.board.tick = 1
        one = one.again()
        for _ in range(30):
            if one.over:
                break
            actions = answers(one, dice)
            image_actions = image.actions(one.board, actions)
            rewards, others = one.tick(actions), other.tick(image_actions)
            assert rewards == pytest.approx(others[::-1])
            alike(one, other, image, besides=("tick",))


def test_by_seat_the_lower_seat_is_favoured() -> None:
    table = stage("A1 a3 . b3 B1", order="seat")
    play(table, "1,0 right", "3,0 left")
    assert shown(table) == "A1 a1 a0 b1 B1", "its image would be A1 a1 b0 b1 B1"
