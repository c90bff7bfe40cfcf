"""What no rule may favour: a side of the board, or a seat.

Turning the board over changes nothing, whatever the order of moves: no rule knows left from right.
Renaming the seats changes nothing but who goes first when all else is equal. So it holds

-   with `smaller` and `priority` in every tick without a tie for the order,
-   with `alternating` from a tick of the other parity, where growth does not depend on that,
-   with `seat` never: there the lower seat goes first, always.

The engine cannot be given a board. On a small one without mountains and cities, though, many seeds
give boards that are images of each other; those games are played side by side.
"""

import random
from collections.abc import Iterator

import numpy as np
import pytest

from playmill.games import Game

from .board import parse_board
from .images import WAYS, Image, untied
from .players import PLAYERS
from .referee import Referee, Rules
from .staging import play, scattered, shown, stage

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


def tables(dice: random.Random, image: Image, order: str, **options: int) -> tuple[Referee, Referee]:
    players = len(image.seats)
    rules = Rules.of(COMMON | {"players": players, "order": order} | options)
    board = scattered(dice, dice.randint(3, 7), dice.randint(3, 7), players)
    return Referee(rules, board), Referee(rules, image.board(board))


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
        one = Referee(one.rules, one.board)
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


# The engine

SMALL = {"players": 2, "width": 4, "height": 4, "mountains": 0, "cities": 0, "distance": 1, "start_army": 30}
SEEDS = 150


def pairs(options: dict[str, int | str], seats: tuple[int, int]) -> Iterator[tuple[int, int, Image]]:
    """Seeds whose boards are images of each other."""
    boards = {seed: parse_board(Game("generals", options, seed).table_text(-1)) for seed in range(SEEDS)}
    images = [Image(way, seats) for way in WAYS if (way, seats) != ("as it is", (0, 1))]
    for seed, board in boards.items():
        for image in images:
            goal = image.board(board).squares
            other = next((s for s in range(seed + 1, SEEDS) if boards[s].squares == goal), None)
            if other is not None:
                yield seed, other, image


def side_by_side(
    options: dict[str, int | str], pair: tuple[int, int, Image], ticks: int, shift: bool = False
) -> None:
    """Plays a game and its image; with `shift` everyone passes once in the image before it starts."""
    seed, image_seed, image = pair
    one, other = Game("generals", options, seed), Game("generals", options, image_seed)
    dice = random.Random(seed)
    besides = {"tick", "growth"} if shift else set() if image.seats == (0, 1) else {"before"}
    if shift:
        for _ in range(2):
            other.act(4 * 4 * 8)
    for _ in range(ticks):
        if one.over or other.over:
            assert one.over == other.over
            break
        # A table made anew each tick: it lends its knowledge of the rules, not of the past.
        table = Referee(Rules.of(options), parse_board(one.table_text(-1)))
        actions = answers(table, dice)
        if options["order"] in ("smaller", "priority") and image.seats != (0, 1):
            actions = untied(table, actions)
        gains = rewards_of(one, actions)
        image_gains = rewards_of(other, image.actions(table.board, actions))
        assert gains == pytest.approx([image_gains[seat] for seat in image.seats], abs=1e-5)
        squares = image.board(parse_board(one.table_text(-1))).squares
        assert parse_board(other.table_text(-1)).squares == squares
        for seat in range(2):
            views = [unpacked(one, seat), unpacked(other, image.seats[seat])]
            for name, values in image.view(views[0]).items():
                if name not in besides:
                    assert np.array_equal(values, views[1][name]), f"'{name}' of seat {seat}, {pair}"


def rewards_of(game: Game, actions: dict[int, int]) -> list[float]:
    rewards = [0.0, 0.0]
    for _, action in sorted(actions.items()):
        rewards = game.act(action).tolist()
    return rewards


def unpacked(game: Game, seat: int) -> dict[str, np.ndarray]:
    """The observation with its boards as [4, 4]."""
    view = game.spec.schema.unpack(game.observe(seat))
    return {n: v.reshape(4, 4) if v.size == 16 else v.reshape(-1) for n, v in view.items()}


@pytest.mark.parametrize("order", ORDERS)
def test_the_engine_does_not_know_left_from_right(order: str) -> None:
    options = SMALL | {"order": order, "build": "yes", "max_ticks": 40, "shaping": 50}
    found = list(pairs(options, (0, 1)))
    assert len(found) > 20
    for pair in found[:20]:
        side_by_side(options, pair, 40)


@pytest.mark.parametrize("order", ["smaller", "priority"])
def test_the_engine_does_not_favour_a_seat_without_a_tie_for_the_order(order: str) -> None:
    options = SMALL | {"order": order, "build": "yes", "max_ticks": 40, "shaping": 50}
    found = list(pairs(options, (1, 0)))
    assert len(found) > 20
    for pair in found[:20]:
        side_by_side(options, pair, 40)


def test_the_engine_alternates_fairly() -> None:
    options = SMALL | {"order": "alternating", "city_period": 50, "land_period": 50, "max_ticks": 500}
    found = list(pairs(options, (1, 0)))
    assert len(found) > 20
    for pair in found[:20]:
        side_by_side(options, pair, 40, shift=True)
