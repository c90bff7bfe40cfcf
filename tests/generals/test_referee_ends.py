"""Building, the end of a game, scores, presets and the text form, for referee and engine alike."""

import pytest

from .board import parse_board, plain
from .referee import Rules
from .staging import may, play, shown, stage

# Building


def test_a_city_costs_35_far_from_everything() -> None:
    table = stage("A1 . . . . . . a35 a34 B1", build="yes")
    assert may(table, 0, "build 7,0")
    assert not may(table, 0, "build 8,0")
    play(table, "build 7,0")
    assert shown(table) == "A1 . . . . . . a*0 a34 B1"


@pytest.mark.parametrize(("x", "cost"), [(1, 47), (2, 45), (6, 37), (7, 35)])
def test_a_city_costs_more_near_an_own_general(x: int, cost: int) -> None:
    board = ["A1"] + ["."] * 8 + ["B1"]
    board[x] = "a100"
    table = stage(" ".join(board), build="yes")
    assert table.build_cost(0, x) == cost
    play(table, f"build {x},0")
    assert shown(table).split()[x] == f"a*{100 - cost}"


def test_every_own_city_adds_to_the_cost_but_not_those_of_others() -> None:
    table = stage("a*1 a90 A1\n*9 ^ .\nb*5 . B1", build="yes")
    assert table.build_cost(0, 1) == 35 + 12 + 12


def test_mountains_do_not_lengthen_the_distance() -> None:
    table = stage("A1 ^ a90\n. ^ B1", build="yes")
    assert table.build_cost(0, 2) == 35 + 10


@pytest.mark.parametrize("where", ["0,0", "1,0", "3,0", "4,0", "5,0"])
def test_only_own_ground_can_be_built_on(where: str) -> None:
    table = stage("A99 a*99 a99 . *99 b99 B1", build="yes")
    assert may(table, 0, "build 2,0")
    assert not may(table, 0, f"build {where}")


def test_nothing_is_built_without_the_option() -> None:
    table = stage("A1 a99 B1", build="no")
    assert max(table.legal(0)) == table.board.passing


def test_builds_come_before_moves() -> None:
    table = stage("A1 a9 b90 . . . . . . B1", build="yes", order="seat", city_period=1)
    play(table, "1,0 right", "build 2,0")
    assert shown(table).split()[1:3] == ["a1", f"b*{90 - 35 - 8 + 1}"]


# The end


def test_the_last_one_alive_has_won() -> None:
    table = stage("A9 B3 . C1", capture_share="full")
    assert play(table, "0,0 right") == [0, -1, 0]
    assert play(table, "1,0 right") == [0, 0, 0]
    assert not table.over
    assert play(table, "2,0 right") == [1, 0, -1]
    assert table.over
    assert table.scores == [1, -1, -1]


def test_at_max_ticks_it_is_a_draw_and_nobody_is_asked() -> None:
    table = stage("A9 . B3", max_ticks=2)
    assert play(table) == [0, 0]
    assert not table.over
    assert play(table) == [0, 0]
    assert table.over
    assert table.asked == []
    assert table.legal(0) == set()


def test_a_win_in_the_last_tick_is_a_win() -> None:
    table = stage("A9 B3", max_ticks=1)
    assert play(table, "0,0 right") == [1, -1]
    assert table.over


def test_who_is_out_keeps_the_loss_in_a_draw() -> None:
    table = stage("A9 B3 . C1", max_ticks=2)
    play(table, "0,0 right")
    play(table)
    assert table.over
    assert table.scores == [0, -1, 0]


def test_a_draw_costs_everybody_still_alive() -> None:
    table = stage("A9 B3 . C1", max_ticks=2, draw=30)
    play(table, "0,0 right")
    assert play(table) == pytest.approx([-0.3, 0, -0.3])
    assert table.scores == pytest.approx([-0.3, -1, -0.3])


def test_a_win_in_the_last_tick_is_no_draw() -> None:
    table = stage("A9 B3", max_ticks=1, draw=30)
    assert play(table, "0,0 right") == pytest.approx([1, -1])


def test_shaping_pays_the_gain_in_lead() -> None:
    table = stage("A6 a2 . b3 B1", shaping=50)
    before = play(table)  # armies 8 to 4, land 2 to 2
    lead = 0.5 * (8 - 4) / 12
    assert before == pytest.approx([0.5 * lead, -0.5 * lead])
    after = play(table, "1,0 right")  # land 3 to 2
    gain = 0.5 * (3 - 2) / 5
    assert after == pytest.approx([0.5 * gain, -0.5 * gain])


def test_shaping_adds_up_to_nothing_over_a_game() -> None:
    table = stage("A6 a2 . b3 B1", shaping=100, max_ticks=3)
    for orders in (("1,0 right",), ("pass", "3,0 left"), ("pass",)):
        play(table, *orders)
    assert table.over
    assert table.scores == pytest.approx([0, 0])


def test_shaping_adds_up_to_nothing_for_one_who_goes_out() -> None:
    table = stage("A9 B3 b7 . c9 C1", shaping=100)
    play(table)
    play(table, "0,0 right")
    assert table.scores[1] == pytest.approx(-1)


def test_shaping_compares_with_all_living_others_together() -> None:
    table = stage("A6 . B3 . C1", shaping=100)
    rewards = play(table)
    assert rewards[0] == pytest.approx(0.5 * (6 - 4) / 10 + 0.5 * (1 - 2) / 3)
    assert rewards[2] == pytest.approx(0.5 * (1 - 9) / 10 + 0.5 * (1 - 2) / 3)


# Presets and text


def test_an_option_that_is_set_stands_above_its_preset() -> None:
    rules = Rules.of({"preset": "generalsio", "order": "smaller", "players": 3})
    assert (rules.order, rules.city_period, rules.capture_share, rules.players) == ("smaller", 2, "half", 3)


def test_a_board_is_written_as_it_was_read() -> None:
    text = "tick 12  alive ab  land 3 2  armies 10 12\n^ . *40 A0\na7 a*3 B5 b7"
    assert stage(text).text() == text


def test_markup_is_no_part_of_a_board() -> None:
    marked = "tick 3  alive ab  land 1 1  armies 7 2\n[red]A7[/] [bold]^[/]\n. [bold blue]B2[/]"
    assert plain(marked).splitlines()[1:] == ["A7 ^", ". B2"]
    assert parse_board(marked).tick == 3
