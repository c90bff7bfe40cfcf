"""The rules of play by name, on hand-made boards, for referee and engine alike (see `stage`)."""

import pytest

from .staging import action, may, play, shown, stage
from .twin import Twin

# Moves and battles


@pytest.mark.parametrize(
    ("army", "half", "left", "arrived"),
    [
        (6, "", 1, 5),
        (6, "half", 3, 3),
        (7, "half", 4, 3),
        (2, "", 1, 1),
        (2, "half", 1, 1),
        (3, "half", 2, 1),
    ],
)
def test_all_but_one_march_or_the_smaller_half(army: int, half: str, left: int, arrived: int) -> None:
    table = stage(f"a{army} . A1 B1")
    play(table, f"0,0 right {half}".strip())
    assert shown(table) == f"a{left} a{arrived} A1 B1"


def test_own_armies_add_up() -> None:
    table = stage("a5 a3 A1 B1")
    play(table, "0,0 right")
    assert shown(table) == "a1 a7 A1 B1"


@pytest.mark.parametrize(
    ("defence", "after"),
    [("b3", "a1 a1"), ("b4", "a1 b0"), ("b5", "a1 b1"), ("*4", "a1 *0"), ("*3", "a1 a*1")],
)
def test_the_larger_army_keeps_the_difference_and_a_tie_leaves_the_owner_none(
    defence: str, after: str
) -> None:
    table = stage(f"a5 {defence} A1 . B1")
    play(table, "0,0 right")
    assert shown(table) == f"{after} A1 . B1"


def test_one_attacker_takes_an_empty_square() -> None:
    table = stage("a2 b0 A1 . B1")
    play(table, "0,0 right")
    assert shown(table) == "a1 a1 A1 . B1"


def test_a_tie_at_a_general_does_not_take_it() -> None:
    table = stage("A5 B4")
    assert play(table, "0,0 right") == [0, 0]
    assert shown(table) == "A1 B0"
    assert table.alive == [True, True]


def test_arrivals_stop_at_65535() -> None:
    table = stage("a60000 a60000 A1 B1")
    play(table, "0,0 right")
    assert shown(table) == "a1 a65535 A1 B1"


def test_what_may_be_done() -> None:
    table = stage("a2 ^ B1 / a1 a3 . / A0 . *9".replace(" / ", "\n"))
    assert may(table, 0, "pass")
    assert may(table, 0, "0,0 down")
    assert may(table, 0, "0,0 down half")
    assert may(table, 0, "1,1 right")
    assert not may(table, 0, "0,0 right"), "a mountain"
    assert not may(table, 0, "0,0 up"), "off the board"
    assert not may(table, 0, "0,1 up"), "an army of one"
    assert not may(table, 0, "2,0 down"), "another's"
    assert len(table.legal(0)) == 1 + 2 + 6
    assert table.legal(1) == {table.board.passing}


def test_a_row_does_not_go_on_in_the_next() -> None:
    table = stage("A1 a5\nB1 .")
    assert not may(table, 0, "1,0 right")


def test_a_move_that_is_not_legal_is_refused() -> None:
    table = stage("A5 . B1")
    with pytest.raises(ValueError, match="not legal"):
        play(table, "0,0 up")
    with pytest.raises(ValueError, match="are asked"):
        table.tick({0: table.board.passing})


# The order of moves


def test_a_move_from_a_square_that_was_lost_is_not_made() -> None:
    table = stage("A1 a9 b4 B1", order="seat")
    play(table, "1,0 right", "2,0 left")
    assert shown(table) == "A1 a1 a4 B1"


def test_a_move_from_a_square_left_with_one_is_not_made() -> None:
    table = stage("A1 a5 b5 b1 B1", order="seat")
    play(table, "1,0 right", "2,0 right")
    assert shown(table) == "A1 a1 b1 b1 B1"


def test_armies_are_counted_when_the_move_is_made() -> None:
    table = stage("A1 a4 b9 b0 B1", order="seat")
    play(table, "1,0 right", "2,0 right half")
    assert shown(table) == "A1 a1 b3 b3 B1", "half of the six that are left"


def test_with_smaller_armies_are_counted_before_any_move() -> None:
    table = stage("A1 a4 b9 b0 B1", order="smaller")
    play(table, "1,0 right", "2,0 right half")
    assert shown(table) == "A1 a1 b2 b4 B1", "half of the nine there were"


def test_with_smaller_as_many_march_as_are_left_but_one() -> None:
    table = stage("A1 a6 b9 b0 B1", order="smaller")
    play(table, "1,0 right", "2,0 right")
    assert shown(table) == "A1 a1 b1 b3 B1"


def test_by_seat_the_lower_always_goes_first() -> None:
    table = stage("A1 a3 . b3 B1", order="seat")
    for _ in range(2):
        assert table.before(0) == 0
        assert table.before(1) == 1
        play(table)
    play(table, "1,0 right", "3,0 left")
    assert shown(table) == "A1 a1 a0 b1 B1"


@pytest.mark.parametrize(("wait", "middle"), [(0, "a0"), (1, "b0"), (2, "a0"), (3, "b0")])
def test_alternating_is_reversed_on_every_second_tick(wait: int, middle: str) -> None:
    table = stage("A1 a3 . b3 B1", order="alternating")
    for _ in range(wait):
        play(table)
    assert [table.before(0), table.before(1)] == [wait % 2, 1 - wait % 2]
    play(table, "1,0 right", "3,0 left")
    assert shown(table) == f"A1 a1 {middle} b1 B1"


def test_smaller_goes_by_what_would_march_not_by_what_stands() -> None:
    table = stage("A1 a8 . b6 B1", order="smaller")
    play(table, "1,0 right half", "3,0 left")
    assert shown(table) == "A1 a4 b1 b1 B1", "four before five"


def test_smaller_breaks_a_tie_for_the_lower_seat() -> None:
    table = stage("A1 a8 . b5 B1", order="smaller")
    play(table, "1,0 right half", "3,0 left")
    assert shown(table) == "A1 a4 a0 b1 B1"


def order_of(table: Twin, *orders: str) -> list[int]:
    """The seats in the order their moves are made; the engine shows by the board that it has the same."""
    play(table.again(), *orders)
    moves = [table._move(seat, action(table.board, order)) for seat, order in enumerate(orders)]
    return [move.seat for move in table.in_order(moves)]


def test_priority_own_squares_then_attacks_then_generals() -> None:
    table = stage(
        "A9 B1 b9 b1 c9 .\n.  .  .  .  .  C1",
        order="priority",
    )
    assert order_of(table, "0,0 right", "2,0 right", "4,0 right") == [1, 2, 0]


def test_priority_among_equals_the_larger_army_then_the_lower_seat() -> None:
    board = "a{} . b{} . c{} .\nA1 . B1 . C1 ."
    ways = ("0,0 right", "2,0 right", "4,0 right half")
    assert order_of(stage(board.format(3, 5, 9), order="priority"), *ways) == [2, 1, 0]
    assert order_of(stage(board.format(5, 5, 5), order="priority"), *ways) == [0, 1, 2]


def test_priority_counts_an_own_general_as_an_own_square() -> None:
    table = stage("A1 a2 . b9 . B1", order="priority")
    assert order_of(table, "1,0 left", "3,0 right") == [0, 1]


def test_priority_waits_for_a_move_to_its_square() -> None:
    board = "A1 a3 b9 . B1"
    assert order_of(stage(board, order="priority"), "1,0 right", "2,0 right") == [0, 1]
    # Without the other's move onto its square the larger army goes first.
    assert order_of(stage(board, order="priority"), "1,0 left", "2,0 right") == [0, 1]
    assert order_of(stage("A1 a3 . b9 . B1", order="priority"), "1,0 right", "3,0 right") == [1, 0]


def test_priority_a_chain_waits_for_its_end() -> None:
    table = stage("a2 b5 c9 . .\nA1 . B1 . C1", order="priority")
    assert order_of(table, "0,0 right", "1,0 right", "2,0 right") == [0, 1, 2]


def test_priority_moves_that_change_places_do_not_wait() -> None:
    table = stage("A1 a3 b9 B1", order="priority")
    assert order_of(table, "1,0 right", "2,0 left") == [1, 0]
    play(table, "1,0 right", "2,0 left")
    assert shown(table) == "A1 b5 b1 B1"


def test_priority_one_who_changes_places_may_wait_for_a_third() -> None:
    table = stage("A1 a3 b9 c4 .\n.  .  B1 .  C1", order="priority")
    assert order_of(table, "1,0 right", "2,0 left", "3,0 left") == [2, 1, 0]
    assert order_of(table, "1,0 right", "2,0 left", "3,0 right") == [1, 2, 0]


def test_priority_a_ring_starts_with_the_first_in_the_order() -> None:
    # Each goes to the square of the next: all are held up, and the largest army breaks the ring.
    table = stage("a3 b5 . A1\nd9 c7 . B1\n. . C1 D1", order="priority")
    ring = ("0,0 right", "1,0 down", "1,1 left", "0,1 up")
    # d goes first, which frees a; a frees b, and b frees c.
    assert order_of(table, *ring) == [3, 0, 1, 2]
    play(table, *ring)
    assert shown(table) == "d5 b1 . A1 / c1 c1 . B1 / . . C1 D1"


def test_priority_a_free_move_goes_before_a_ring() -> None:
    table = stage("a3 b5 . A1\nd9 c7 . B1\n. . C1 D1\ne2 . . E1", order="priority")
    assert order_of(table, "0,0 right", "1,0 down", "1,1 left", "0,1 up", "0,3 right") == [4, 3, 0, 1, 2]


def test_priority_is_judged_before_any_move() -> None:
    """Seat 0 takes seat 1's general first; seat 2's attack on that square stays one on a general."""
    table = stage("a9 B1 c7 C1\nA1 . d2 d1\n. . . D1", order="priority")
    orders = {0: "0,0 right", 2: "2,0 left", 3: "2,1 left"}
    moves = [table._move(seat, action(table.board, order)) for seat, order in orders.items()]
    assert [move.seat for move in table.in_order(moves)] == [3, 0, 2]


def test_priority_a_fall_in_the_midst_does_not_change_the_order() -> None:
    """Seat 4 takes the general of seat 2, whose move goes on holding up seat 3's."""
    table = stage("a3 b9 . . A1\nd5 c7 . . B1\n. D1 . e9 C1\n. . . . E1", order="priority")
    ring = ("0,0 right", "1,0 down", "1,1 left", "0,1 up", "3,2 right")
    assert order_of(table, *ring) == [4, 1, 2, 3, 0]
    play(table, *ring)
    assert shown(table) == "d1 b1 . . A1 / d1 b1 . . B1 / . D1 . e1 e*7 / . . . . E1"


# A general falls


def test_with_full_share_the_captor_gets_every_army() -> None:
    table = stage("A9 B3 b7 b*5 b0 C1", capture_share="full")
    assert play(table, "0,0 right") == [0, -1, 0]
    assert shown(table) == "A1 a*5 a7 a*5 a0 C1"
    assert table.alive == [True, False, True]


def test_with_half_share_halves_are_rounded_up() -> None:
    table = stage("A9 B3 b7 b*5 b0 b1 b2 C1", capture_share="half")
    play(table, "0,0 right")
    assert shown(table) == "A1 a*5 a4 a*3 a0 a1 a1 C1", (
        "the general's square keeps what is left of the attack"
    )


def test_moves_of_one_who_is_out_are_not_made() -> None:
    table = stage("A9 B3 b7 . C1", order="seat", capture_share="full")
    play(table, "0,0 right", "2,0 right")
    assert shown(table) == "A1 a*5 a7 . C1"


@pytest.mark.parametrize(
    ("wait", "rewards", "after"), [(0, [1, -1], "a9 A1 . a*7 a1"), (1, [-1, 1], "b1 b*7 . B1 b9")]
)
def test_when_two_go_for_each_others_general_the_first_to_move_wins(
    wait: int, rewards: list[float], after: str
) -> None:
    table = stage("b9 A1 . B1 a9", order="alternating", capture_share="full")
    for _ in range(wait):
        play(table)
    assert play(table, "4,0 left", "0,0 right") == rewards
    assert shown(table) == after


def test_who_is_out_is_not_asked_again() -> None:
    table = stage("A9 B3 b7 . C1")
    play(table, "0,0 right")
    assert table.asked == [0, 2]
    assert table.legal(1) == set()
    assert play(table, "pass", "2,0 right", "pass") == [0, 0, 0]


def test_a_fallen_general_is_a_city_and_grows_as_one() -> None:
    table = stage("A9 B3 . C1", city_period=1)
    play(table, "0,0 right")
    assert shown(table) == "A2 a*6 . C2"


def test_squares_of_the_fallen_can_be_taken_in_the_same_tick() -> None:
    table = stage("A9 B3 b2 c9 C1", order="seat", capture_share="full")
    play(table, "0,0 right", "pass", "3,0 left")
    assert shown(table) == "A1 a*5 c6 c1 C1"


# Growth


def test_generals_and_owned_cities_grow_with_the_city_period() -> None:
    table = stage("A1 a*3 a5 *9 . b2 B1", city_period=2, regrowth="no")
    play(table)
    assert shown(table) == "A1 a*3 a5 *9 . b2 B1"
    play(table)
    assert shown(table) == "A2 a*4 a5 *9 . b2 B2"


def test_all_land_grows_with_the_land_period() -> None:
    table = stage("A1 a*3 a5 *9 . b0 B1", land_period=2, land_growth="all")
    play(table)
    play(table)
    assert shown(table) == "A2 a*4 a6 *9 . b1 B2"


def test_only_ground_grows_with_the_land_period() -> None:
    table = stage("A1 a*3 a5 *9 . b0 B1", land_period=2, land_growth="ground")
    play(table)
    play(table)
    assert shown(table) == "A1 a*3 a6 *9 . b1 B1"


def test_both_kinds_of_growth_add_up() -> None:
    table = stage("A1 a*3 a5 B1", city_period=1, land_period=1, land_growth="all")
    play(table)
    assert shown(table) == "A3 a*5 a6 B3"


def test_regrowth_stops_at_40() -> None:
    table = stage("A1 *38 *39 *40 *45 B1", city_period=1, regrowth="yes")
    play(table)
    assert shown(table) == "A2 *39 *40 *40 *45 B2"
    play(table)
    assert shown(table) == "A3 *40 *40 *40 *45 B3"


def test_growth_stops_at_65535() -> None:
    table = stage("A65534 a*65535 a65535 B1", city_period=1, land_period=1, land_growth="all")
    play(table)
    assert shown(table) == "A65535 a*65535 a65535 B3"


def test_armies_grow_after_the_moves_of_the_last_tick_too() -> None:
    table = stage("A9 B3", city_period=1)
    assert play(table, "0,0 right") == [1, -1]
    assert shown(table) == "A2 a*6"


def test_growth_counts_from_the_first_tick() -> None:
    table = stage("A1 B1", city_period=2, land_period=50)
    assert table.observe(0)["growth"].tolist() == [2, 50]
    play(table)
    assert table.observe(0)["growth"].tolist() == [1, 49]
    play(table)
    assert table.observe(0)["growth"].tolist() == [2, 48]
