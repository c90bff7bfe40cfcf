"""Records of games, and watching them."""

import io
import json

import pytest
from rich.console import Console

from playmill.cli.watch import watch
from playmill.games import PlaymillError, registry
from playmill.league.agents import BotAgent, Decision
from playmill.league.records import Record, load_record, play_out, positions, save_record

every_game = pytest.mark.parametrize("game", registry.names())


def a_game(game, seed=5):
    spec = registry.spec(game)
    return play_out(game, {}, [BotAgent(spec, spec.bots[-1])], seed)[0]


def seen(record, keys=None, **settings):
    console = Console(file=io.StringIO(), width=110)
    script = iter(keys or "")
    watch(record, console, read_key=(lambda: next(script)) if keys else None, **settings)
    return console.file.getvalue()


@every_game
def test_a_record_survives_the_disk(game, tmp_path):
    record = a_game(game)
    save_record(tmp_path / "game.json", record)
    assert load_record(tmp_path / "game.json") == record
    assert positions(record)[-1].over
    assert a_game(game) == record


@every_game
@pytest.mark.parametrize("seat", [None, 0, 1])
def test_off_a_terminal_every_move_is_told(game, seat):
    record = a_game(game)
    text = seen(record, seat=seat)
    for number in range(1, len(record.actions) + 1):
        assert f"{number:>4}  " in text
    assert "place" in text
    assert "[/]" not in text


def test_keys_turn_the_pages():
    record = a_game("leduc")
    pages = seen(record, "\n b2\nq").split("move ")[1:]
    assert [int(page.split()[0]) for page in pages] == [0, 1, 2, 1, 1, 2]


def test_arrows_turn_the_pages_too():
    keys = ["\x1b[C", "\x1b[B", "\x1b[D", "\x1b[A", "\x1b"]
    pages = seen(a_game("leduc"), keys).split("move ")[1:]
    assert [int(page.split()[0]) for page in pages] == [0, 1, 2, 1, 0]


def test_on_a_terminal_the_game_runs_by_itself_with_a_delay():
    record, console = a_game("leduc"), Console(file=io.StringIO(), width=90, force_terminal=True)
    watch(record, console, step=0.0)
    assert console.file.getvalue().count("seed 5") == len(record.actions) + 1


def test_jumping_past_the_end_and_back_past_the_start_stays_in_the_game():
    record = a_game("leduc")
    pages = seen(record, "b99\nxq").split("move ")[1:]
    last = len(record.actions)
    assert [int(page.split()[0]) for page in pages] == [0, 0, 0, 0, last, last]


def test_one_seat_does_not_see_the_other_hands():
    record = a_game("leduc")
    assert "seat +1 card" in seen(record)
    assert "seat +1 card" not in seen(record, seat=0)


def test_one_seat_does_not_hear_of_secret_moves():
    record = a_game("skull_king")
    viewer = (positions(record)[0].seat + 1) % len(record.names)
    assert "decides in secret" not in seen(record)
    assert "   1  seat +3 (greedy)  decides in secret" in seen(record, seat=viewer)
    assert "   1  seat +3 (greedy)  bid" in seen(record, "4\nq", seat=viewer)


def test_thoughts_are_shown_where_they_are_known():
    record = a_game("leduc")
    thoughts = [Decision(a, [0.25, 0.5, 0.25], 0.5) for a in record.actions]
    assert "expects +0.50" in seen(record, thoughts=thoughts)
    with pytest.raises(PlaymillError, match="but 1 thoughts"):
        seen(record, thoughts=thoughts[:1])


def test_a_delay_passes_between_the_moves(monkeypatch):
    naps = []
    monkeypatch.setattr("time.sleep", naps.append)
    record = a_game("kuhn")
    seen(record, step=0.5)
    assert naps == [0.5] * len(record.actions)


def test_an_unfinished_game_says_so():
    record = a_game("leduc")
    half = Record(record.game, record.options, record.seed, record.names, record.actions[:1])
    assert "before the end of the game" in seen(half)


GOOD = {"format": 1, "game": "kuhn", "options": {}, "seed": 1, "names": ["a", "b"], "actions": [0, 0]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "format 2"),
        ({"game": "kuhnn"}, "did you mean 'kuhn'"),
        ({"game": 3}, "'game' must be a str"),
        ({"options": {"players": 9}}, "option"),
        ({"options": {"players": [9]}}, "'options' must map"),
        ({"seed": -1}, "'seed' must be from 0"),
        ({"seed": True}, "'seed' must be a int"),
        ({"names": ["a"]}, "2 seats"),
        ({"names": ["a", 2]}, "list of strings"),
        ({"actions": [0, "1"]}, "whole numbers"),
        ({"actions": [0, 7]}, "move 2 of the record"),
        ({"actions": [0, 0, 0]}, "move 3 of the record"),
    ],
)
def test_a_bad_record_says_what_is_wrong(tmp_path, change, message):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(GOOD | change))
    with pytest.raises(PlaymillError, match=message):
        load_record(path)


def test_what_is_no_record_says_so(tmp_path):
    path = tmp_path / "bad.json"
    with pytest.raises(PlaymillError, match="cannot read"):
        load_record(path)
    path.write_text("{")
    with pytest.raises(PlaymillError, match="not JSON"):
        load_record(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(PlaymillError, match="not JSON"):
        load_record(path)
    path.write_text("[]")
    with pytest.raises(PlaymillError, match="no 'format'"):
        load_record(path)
    path.write_text(json.dumps(GOOD))
    assert load_record(path).actions == (0, 0)


def test_a_seat_that_is_not_there_is_an_error():
    with pytest.raises(PlaymillError, match="seats 0 to 1"):
        seen(a_game("kuhn"), seat=4)
