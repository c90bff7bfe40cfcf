"""Boards in words: the engine starts from what it shows, and says what is wrong with the rest."""

import re

import pytest
from rich.text import Text

from playmill.games import Game, PlaymillError

from .board import parse_board, plain

OPEN = "A5 . . .\n. ^ *40 .\n. a*7 . b3\n. . . B9"


def later(seed: int, ticks: int, **options: int | str) -> Game:
    game = Game("generals", options, seed)
    for _ in range(ticks):
        last = -1
        while game.seat > last:
            last = game.seat
            game.act(game.bot("hunter"))
            assert not game.over
    return game


@pytest.mark.parametrize(
    ("players", "side", "ticks"), [(2, 4, 3), (2, 20, 400), (3, 12, 100), (8, 13, 150), (8, 32, 300)]
)
def test_the_engine_starts_from_what_it_shows(players: int, side: int, ticks: int) -> None:
    before = later(3, ticks, players=players, width=side, height=side)
    after = Game.from_text("generals", before.table_text(-1))
    assert after.table_text(-1) == before.table_text(-1)
    assert after.seat == before.seat
    assert after.legal() == before.legal()
    assert after.spec.options == {"width": side, "height": side, "players": players}


def test_a_game_from_a_text_goes_on_as_the_one_it_shows() -> None:
    one = later(5, 60, width=8, height=8)
    other = Game.from_text("generals", one.table_text(-1))
    while not one.over:
        action = one.bot("expander")
        assert one.act(action).tolist() == other.act(action).tolist()
        assert one.table_text(-1) == other.table_text(-1)
    assert other.over


def test_nobody_remembers_anything_from_before() -> None:
    game = Game.from_text("generals", OPEN)
    assert plain(game.table_text(1)).splitlines()[1:] == ["? ? ? ?", "? ?^ *40 .", "? ?^ . b3", "? ? . B9"]


def test_options_go_with_a_board() -> None:
    game = Game.from_text("generals", "tick 3\n" + OPEN, {"preset": "source"})
    assert parse_board(game.table_text(-1)).tick == 3
    for _ in range(2):
        game.act(4 * 4 * 8)
    assert plain(game.table_text(-1)).splitlines()[1] == "A6 . . ."


def test_who_has_no_general_is_out() -> None:
    head = "tick 9  alive ac  land 1 0 1 0  armies 3 0 4 0\n"
    game = Game.from_text("generals", head + ". . . . . .\n" * 5 + "A3 . . C4 . .\n")
    assert game.spec.seats == 4
    assert game.seat == 0
    game.act(game.legal()[-1])
    assert game.seat == 2


def test_columns_are_in_line_whatever_the_armies() -> None:
    text = "A5 . . .\n. ^ *40 .\n. a*12345 . b3\n. . . B65535"
    for seat in (-1, 0, 1):
        shown = Text.from_markup(Game.from_text("generals", text).table_text(seat)).plain.splitlines()[1:]
        ends = [[match.end() for match in re.finditer(r"\S+", row)] for row in shown]
        assert ends == [ends[0]] * 4


def test_colours_name_both_letters_and_ground() -> None:
    table = Text.from_markup(Game.from_text("generals", OPEN).table_text(-1))
    styles = {table.plain[span.start : span.end].strip(): str(span.style) for span in table.spans}
    assert styles["b3"] == "#ffffff on #1f5fbf"
    assert styles["A5"] == "bold #b5242b on #ffffff", "a general stands out"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no board"),
        ("tick 3", "no board"),
        ("tick x\n" + OPEN, "line 1, column 6: 'tick' must be followed by a number"),
        ("tick\n" + OPEN, "line 1, column 1: 'tick'"),
        ("tick 1000\n" + OPEN, "tick 1000: the game ends at max_ticks, 1000"),
        (OPEN.replace("a*7", "x7"), "line 3, column 3: no square is written 'x7'"),
        (OPEN.replace("a*7", "7"), "line 3, column 3: no square is written '7'"),
        (OPEN.replace("a*7", "A*7"), r"line 3, column 3: no square is written 'A\*7'"),
        (OPEN.replace("a*7", "a"), "line 3, column 3: no square is written 'a'"),
        (OPEN.replace("a*7", "a7'"), "line 3, column 3: no square is written"),
        (OPEN.replace("a*7", "a70000"), "line 3, column 3: an army is at most 65535, got 70000"),
        (OPEN.replace("a*7", "a999999999999"), "line 3, column 3: no square is written"),
        (OPEN.replace("a*7", "A7"), "line 3, column 3: its owner has a general already, on line 1, column 1"),
        (OPEN.replace("a*7", ". ."), "line 3, column 1: a row of 5 squares; those above have 4"),
        (OPEN.replace("B9", "b9"), "line 3, column 9: its owner has no general"),
        (OPEN.replace("B9", ".").replace("b3", "."), "two generals at least .* the board has 1"),
        ("A1 B1", "option height must be from 4 to 32, got 1"),
        (OPEN.replace("a*7", "c7"), "3 players need a board of at least 24 squares, got 16"),
    ],
)
def test_a_wrong_board_is_refused_and_its_place_named(text: str, message: str) -> None:
    with pytest.raises(PlaymillError, match=message):
        Game.from_text("generals", text)


def test_options_that_do_not_fit_the_board_are_refused() -> None:
    with pytest.raises(PlaymillError, match="the board has 4 columns, the options say 5"):
        Game.from_text("generals", OPEN, {"width": 5})
    with pytest.raises(PlaymillError, match="the board has 4 rows, the options say 6"):
        Game.from_text("generals", OPEN, {"height": 6})
    rows = ". . . . . .\n" * 3 + "A3 . . C4 . ."
    with pytest.raises(PlaymillError, match="line 4, column 8: seat c, but there are 2 players"):
        Game.from_text("generals", rows, {"players": 2})


def test_games_without_a_board_say_so() -> None:
    with pytest.raises(PlaymillError, match="kuhn: this game cannot start from a text"):
        Game.from_text("kuhn", "anything")
    with pytest.raises(PlaymillError, match="no game is called"):
        Game.from_text("chess", "anything")
    with pytest.raises(ValueError, match="no seat -1"):
        Game("kuhn").table_text(-1)
