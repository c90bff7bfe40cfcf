"""What a seat sees and remembers, by name, on hand-made boards, for referee and engine alike."""

import pytest

from .board import parse_board
from .referee import Referee
from .staging import play, shown, stage, viewed


def at(table: Referee, seat: int, name: str) -> list[int]:
    return table.observe(seat)[name].reshape(-1).tolist()


def test_a_seat_sees_the_eight_squares_around_its_own() -> None:
    table = stage("A1 . . .\n. *9 . .\n. . ^ B1")
    assert table.observe(0)["visible"].tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]]
    assert viewed(table, 0) == "A1 . ? ? / . *9 ? ? / ? ? ? ?"
    assert viewed(table, 1) == "? ? ? ? / ? ? . . / ? ? ^ B1"


def test_sight_ends_at_the_edge_of_the_board() -> None:
    table = stage("A1 . . .\n. . . .\n. . . B1\n. . . .")
    assert table.observe(1)["visible"].tolist() == [[0, 0, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1]]


def test_what_is_out_of_sight_is_remembered_as_it_was() -> None:
    """Seat 0 loses a square beside seat 1's and remembers what it saw from there."""
    table = stage("A1 . . a2 b9 B5 b4", order="seat")
    assert viewed(table, 0) == "A1 . . a2 b9 ? ?"
    play(table, "pass", "4,0 left")
    # The lost square is nobody's, as far as is known.
    assert viewed(table, 0) == "A1 . .' .' b9' ? ?"
    assert at(table, 0, "age") == [0, 0, 1, 1, 1, 255, 255]


def test_a_lost_square_is_neither_own_nor_anothers() -> None:
    table = stage("A1 . . a2 b9 B5", order="seat")
    play(table, "pass", "4,0 left")
    assert at(table, 0, "own") == [1, 0, 0, 0, 0, 0]
    assert at(table, 0, "explored") == [1, 1, 1, 1, 1, 0]
    assert at(table, 0, "visible") == [1, 1, 0, 0, 0, 0]
    assert at(table, 0, "army") == [1, 0, 0, 2, 9, 0]
    assert table.observe(0)["others"].tolist() == [[[0, 0, 0, 0, 1, 0]]]


def test_seen_again_a_square_is_young_again() -> None:
    table = stage("A9 . . a2 b9 B5", order="seat")
    play(table, "pass", "4,0 left")
    play(table)
    assert at(table, 0, "age") == [0, 0, 2, 2, 2, 255]
    play(table, "0,0 right")
    assert at(table, 0, "age") == [0, 0, 0, 3, 3, 255]
    play(table, "1,0 right")
    assert viewed(table, 0) == "A1 a1 a7 b6 b9' ?"


def test_age_stops_at_255() -> None:
    table = stage("A9 . . a2 b9 B5", order="seat", max_ticks=1000)
    play(table, "pass", "4,0 left")
    for _ in range(253):
        play(table)
    assert at(table, 0, "age") == [0, 0, 254, 254, 254, 255]
    for _ in range(3):
        play(table)
    assert at(table, 0, "age") == [0, 0, 255, 255, 255, 255]
    assert at(table, 0, "explored") == [1, 1, 1, 1, 1, 0]


def test_a_square_never_seen_is_nothing() -> None:
    table = stage("A9 . b*7 ^ B5", fog_obstacles="no")
    for name in ("explored", "own", "others", "city", "general", "mountain", "obstacle", "army"):
        assert at(table, 0, name)[2:] == [0, 0, 0], name
    assert at(table, 0, "age")[2:] == [255, 255, 255]


def test_obstacles_in_fog_are_known_but_not_which() -> None:
    table = stage("A9 ^ *40 b*7 ^ . B5", fog_obstacles="yes")
    assert viewed(table, 0) == "A9 ^ ?^ ?^ ?^ ? ?"
    assert at(table, 0, "obstacle") == [0, 0, 1, 1, 1, 0, 0]
    assert at(table, 0, "mountain") == [0, 1, 0, 0, 0, 0, 0]
    assert at(table, 0, "city") == [0] * 7


def test_an_obstacle_once_seen_is_what_it_was() -> None:
    table = stage("A9 . ^ *3\n. . . .\nB1 . . .", fog_obstacles="yes")
    assert at(table, 0, "obstacle") == [0, 0, 1, 1] + [0] * 8
    play(table, "0,0 right")
    assert at(table, 0, "obstacle") == [0, 0, 0, 1] + [0] * 8
    assert at(table, 0, "mountain") == [0, 0, 1, 0] + [0] * 8


def test_a_city_built_out_of_sight_is_an_obstacle_from_then_on() -> None:
    table = stage("A9 . . b99 . . . . . . B5", fog_obstacles="yes", build="yes")
    assert at(table, 0, "obstacle")[3] == 0
    play(table, "pass", "build 3,0")
    assert at(table, 0, "obstacle")[3] == 1


def test_a_city_built_where_one_has_looked_is_remembered_as_ground() -> None:
    table = stage("A9 . a1 b99 . . . . . . . B5", fog_obstacles="yes", build="yes", order="seat")
    play(table, "pass", "3,0 left half")
    assert viewed(table, 0).startswith("A9 . .' b99' ")
    play(table, "pass", "build 3,0")
    assert at(table, 0, "obstacle")[3] == 0
    assert at(table, 0, "city")[3] == 0


# Generals that fall


FALL = "a9 B3 b7 b2\nA1 .  .  .\n.  .  .  .\n.  .  c2 C1"


def test_everyone_who_knew_a_fallen_general_remembers_a_city() -> None:
    table = stage(FALL, capture_share="full")
    play(table, "0,0 right")
    assert shown(table).startswith("a1 a*5 a7 a2")
    assert at(table, 0, "city")[1] == 1
    assert at(table, 0, "general")[1] == 0
    assert at(table, 1, "city")[1] == 1, "the one who is out knew it too"
    assert at(table, 1, "general")[1] == 0
    assert at(table, 2, "city")[1] == 0, "never seen"


def test_a_remembered_general_that_falls_is_remembered_as_nobodys_city() -> None:
    table = stage("a9 B3 c2 b9 . .\nA1 ^ ^ ^ ^ C1", order="seat", capture_share="full")
    play(table, "pass", "3,0 left")
    assert viewed(table, 2).startswith("? B3' .' b9' . .")
    play(table, "0,0 right")
    assert viewed(table, 2).startswith("? *3' .' .' . .")
    assert at(table, 2, "general") == [0] * 11 + [1]
    assert at(table, 2, "city")[1] == 1
    assert at(table, 2, "army")[1:4] == [3, 2, 9], "armies are remembered all the same"
    assert table.observe(2)["others"].sum() == 0


def test_who_is_out_sees_nothing_and_owns_nothing() -> None:
    table = stage(FALL, capture_share="full")
    play(table, "0,0 right")
    view = table.observe(1)
    assert view["visible"].sum() == view["own"].sum() == view["others"][0].sum() == 0
    assert view["age"].reshape(-1).tolist()[:4] == [1, 1, 1, 1]
    assert view["alive"].tolist() == [0, 1, 1]
    assert viewed(table, 1).split(" / ")[0] == "a9' *3' .' .'"


def test_a_fallen_general_never_seen_is_an_obstacle() -> None:
    table = stage(FALL, capture_share="full", fog_obstacles="yes")
    assert at(table, 2, "obstacle")[1] == 0
    play(table, "0,0 right")
    assert at(table, 2, "obstacle")[1] == 1


# Numbers for everyone


def test_others_are_counted_from_the_seat() -> None:
    table = stage("A1 b2 c3 . .\n. B1 C1 . .")
    first, second, third = (
        table.observe(seat)["others"].reshape(2, -1)[:, 1:3].tolist() for seat in range(3)
    )
    assert first == [[1, 0], [0, 0]], "c3 is out of sight"
    assert second == [[0, 1], [0, 0]]
    assert third == [[0, 0], [1, 0]]


def test_land_armies_and_the_living_are_public() -> None:
    table = stage("A1 a2 . . B5\n. . . . C7", capture_share="full")
    view = table.observe(1)
    assert view["land"].tolist() == [1, 1, 2]
    assert view["armies"].tolist() == [5, 7, 3]
    assert view["alive"].tolist() == [1, 1, 1]
    play(table, "pass", "pass", "4,1 up")
    view = table.observe(2)
    assert view["land"].tolist() == [2, 2, 0]
    assert view["alive"].tolist() == [1, 1, 0]
    assert viewed(table, 0) != viewed(table, 1)
    assert table.view_text(0).splitlines()[0] == table.text().splitlines()[0]


def test_armies_in_all_are_shown_up_to_65535() -> None:
    table = stage("A1 a65535 B5")
    assert table.observe(1)["armies"].tolist() == [5, 65535]


def test_before_counts_the_living_only() -> None:
    table = stage("A1 . B1 c9 C1 . D1", order="seat")
    assert [table.before(seat) for seat in range(4)] == [0, 1, 2, 3]
    play(table, "pass", "pass", "3,0 left")
    assert [table.before(seat) for seat in range(4)] == [0, 1, 1, 2]


@pytest.mark.parametrize("order", ["seat", "smaller", "priority"])
def test_before_is_the_lower_seats_where_nothing_is_reversed(order: str) -> None:
    table = stage("A1 . B1 . C1", order=order)
    play(table)
    assert [table.before(seat) for seat in range(3)] == [0, 1, 2]


def test_a_tick_is_counted_for_everyone() -> None:
    table = Referee(stage("A1 B1").rules, parse_board("tick 7  alive ab  land 1 1  armies 1 1\nA1 B1"))
    play(table)
    assert table.observe(0)["tick"].tolist() == [8]
