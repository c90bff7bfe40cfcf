"""Watching games, by keys and without."""

import io
import os
import pty
import re
import select
import subprocess
import sys
import time

import pytest
from rich.console import Console

from playmill.cli.watch import watch
from playmill.cli.watch_pages import Pages
from playmill.games import PlaymillError, registry
from playmill.league.agents import BotAgent, Decision, play_out
from playmill.replays import Replay, ReplayWriter, Timeline

every_game = pytest.mark.parametrize("game", registry.names())
SMALL = {"generals": {"width": 6, "height": 6, "max_ticks": 40}}


def a_game(game, seed=5, **options):
    options = {**SMALL.get(game, {}), **options}
    spec = registry.spec(game, options)
    return play_out(game, options, [BotAgent(spec, spec.bots[-1])], seed)[0]


def seen(replay, keys=None, width=110, **settings):
    console = Console(file=io.StringIO(), width=width)
    script = iter(keys or "")
    read_key = (lambda _wait: next(script)) if keys else None
    watch(Timeline(replay), console, read_key=read_key, **settings)
    return console.file.getvalue()


def shown_on(keys, replay, width=100, height=30, **settings):
    """The last screen of a terminal of that size, line by line."""
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    script = iter(keys)
    watch(Timeline(replay), console, read_key=lambda _wait: next(script), **settings)
    return console.file.getvalue().split("\x1b[2J\x1b[H")[-1].split("\n")


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
    watch(Timeline(record), console, step=0.0)
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
    viewer = (Timeline(record).at(0).seat + 1) % len(record.names)
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
    half = Replay(record.game, record.options, record.seed, record.names, record.actions[:1])
    assert "before the end of the game" in seen(half)


def test_a_seat_that_is_not_there_is_an_error():
    with pytest.raises(PlaymillError, match="seats 0 to 1"):
        seen(a_game("kuhn"), seat=4)


# Keys


def numbers(keys, replay, **settings):
    return [int(page) for page in re.findall(r"move (\d+) of", seen(replay, keys, **settings))]


def test_a_round_is_a_tick():
    replay = a_game("generals")
    assert numbers(["n", "n", "\x1b[6~", "N", "\x1b[5~", "q"], replay) == [0, 2, 4, 6, 4, 2]
    last = len(replay.actions)
    assert numbers(["G", "n", "b", "n", "g", "N", "q"], replay) == [0, last, last, last - 1, last, 0, 0]


def test_a_game_runs_by_itself_until_it_is_paused_and_at_its_own_pace():
    waits, script = [], iter(["p", "", "+", "", "-", "-", "p", "\n", "q"])

    def read_key(wait):
        waits.append(wait)
        return next(script)

    console = Console(file=io.StringIO(), width=110)
    watch(Timeline(a_game("leduc", 7)), console, read_key=read_key)
    assert waits == [None, 0.3, 0.3, 0.15, 0.15, 0.3, 0.6, None, None]
    assert "0.15 s a move" in console.file.getvalue()


def test_a_game_that_runs_stops_at_its_end():
    replay = a_game("kuhn")
    waits = []

    def read_key(wait):
        waits.append(wait)
        return "" if wait is not None else "q"

    console = Console(file=io.StringIO(), width=110, force_terminal=True)
    watch(Timeline(replay), console, step=0.5, read_key=read_key)
    assert waits == [0.5] * len(replay.actions) + [None]


def test_a_key_looks_through_other_eyes():
    text = seen(a_game("generals"), "vvvq")
    sights = re.findall(r"the whole board|as seat \d sees it", text)
    assert sights == ["the whole board", "as seat 0 sees it", "as seat 1 sees it", "the whole board"]


def test_keys_leave_for_other_games_only_where_there_are_some():
    timeline = Timeline(a_game("kuhn"))
    console = Console(file=io.StringIO(), width=110)
    assert watch(timeline, console, read_key=lambda _wait: "]", several=True) == 1
    assert watch(timeline, console, read_key=lambda _wait: "[", several=True) == -1
    script = iter("][q")
    assert watch(timeline, console, read_key=lambda _wait: next(script)) == 0


# Boards


def test_a_board_is_shown_whole_with_letters_totals_and_a_legend():
    text = seen(a_game("generals"), "n" * 12 + "q").split("move 24 of")[-1]
    assert re.search(r"tick 12  alive ab  land \d+ \d+  armies \d+ \d+", text)
    assert "a (defender) · b (defender)" in text
    assert "A general  a land  * city  ^ mountain" in text
    assert "  23  a (defender)" in text
    assert "  24  b (defender)" in text


def test_off_a_terminal_every_board_is_printed_and_never_broken():
    replay = a_game("generals", width=32, height=32, max_ticks=3)
    text = seen(replay, width=40)
    assert [int(tick) for tick in re.findall(r"tick (\d+)", text)] == [0, 1, 2, 3]
    board = [line for line in text.splitlines() if line.startswith("│ ")]
    assert len(board) == 4 * 33
    assert all(len(line.strip("│").split()) == 32 for line in board if "tick" not in line)


def test_a_board_that_does_not_fit_is_cut_and_the_window_can_be_moved():
    replay = a_game("generals", width=32, height=32, max_ticks=3)
    lines = shown_on("q", replay, 60, 20)
    assert len(lines) == 20
    assert all(len(line) <= 60 for line in lines)
    assert lines[-1].startswith("columns 1 to 60 of 1")
    assert "rows 1 to 19 of 37: h" in lines[-1]
    moved = shown_on("lljq", replay, 60, 20)
    assert moved[-1].startswith("columns 41 to 100 of 1")
    assert "rows 7 to 25 of 37" in moved[-1]
    assert shown_on("llllhhhhhhjjjjjjkkkkkkkkkq", replay, 60, 20) == lines
    far = shown_on("l" * 9 + "j" * 9 + "q", replay, 60, 20)
    assert "rows 19 to 37 of 37" in far[-1]


def test_a_board_that_fits_is_not_cut():
    lines = shown_on("q", a_game("generals", max_ticks=3), 100, 30)
    assert lines[-1].startswith("Enter next")
    assert any("╰─ a (defender) · b (defender)" in line for line in lines)


def test_without_colours_nothing_is_lost(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    console.print(Pages(Timeline(a_game("generals"))).page(30))
    text = console.file.getvalue()
    assert not re.search(r"\x1b\[[0-9;]*(3|4)8;", text)
    assert re.search(r"A\d", text)
    assert re.search(r"B\d", text)


# The command


def program(*arguments, **settings):
    command = [sys.executable, "-m", "playmill", "watch", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **settings)


@pytest.fixture(scope="module")
def games(tmp_path_factory):
    path = tmp_path_factory.mktemp("games") / "some.replays"
    with ReplayWriter(path) as writer:
        for game in ("kuhn", "generals", "leduc"):
            writer.add(a_game(game))
    return path


def test_a_file_is_watched_by_number(games):
    first, second = program(games), program(games, "--game", 2, "--seat", 1)
    assert first.stdout.startswith("Kuhn poker, game 1 of 3   seed 5")
    assert second.stdout.startswith("Generals, game 2 of 3   seed 5")
    assert "as seat 1 sees it" in second.stdout
    assert first.stderr == second.stderr == ""


def test_a_file_can_be_listed(games):
    text = program(games, "--list", env={**os.environ, "COLUMNS": "160"}).stdout
    assert re.search(r"│ +2 │ generals +│ width 6 height 6 max_ticks 40 │ +5 │", text)


def test_a_file_that_is_torn_is_watched_with_a_warning(games, tmp_path):
    torn = tmp_path / "torn.replays"
    torn.write_bytes(games.read_bytes()[:-5])
    done = program(torn, "--game", 2)
    assert done.returncode == 0
    assert "a game that was not written to its end; they are left out" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{games}", "--game", "4"], "has games 1 to 3; --game takes one of them, got '4'"),
        (["{games}", "--game", "kuhn"], "has games 1 to 3"),
        (["{folder}/none.replays"], "cannot read .*none.replays: No such file"),
        (["{folder}/empty.replays"], "holds no game yet"),
        (["{folder}/notes.txt"], "not a file of replays"),
        (["greedy", "--list"], "--list is for a file of replays"),
    ],
)
def test_what_cannot_be_watched_is_one_line(games, tmp_path, arguments, message):
    (tmp_path / "empty.replays").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("my notes")
    done = program(*(word.format(games=games, folder=tmp_path) for word in arguments))
    assert done.returncode == 2
    assert re.search(message, done.stderr)
    assert done.stderr.count("\n") == 1


def test_a_fresh_game_can_be_kept(tmp_path):
    path = tmp_path / "mine.replays"
    arguments = ("random", "--game", "kuhn", "--seed", 8, "--replays", path)
    told = program(*arguments).stdout.splitlines()
    assert program(path).stdout.splitlines() == told


def test_on_a_terminal_keys_turn_the_pages(games):
    mine, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
    command = [sys.executable, "-m", "playmill", "watch", str(games)]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        said = b""

        def until(words):
            nonlocal said
            deadline = time.monotonic() + 60
            while words not in said:
                assert time.monotonic() < deadline, said
                if select.select([mine], [], [], 1)[0]:
                    said += os.read(mine, 65536)

        until(b"move 0 of")
        os.write(mine, b"\n")
        until(b"move 1 of")
        os.write(mine, b"]")
        until(b"game 2 of 3")
        os.write(mine, b"\x1b[6~")
        until(b"move 2 of 80")
        assert b"48;2;" in said or b"48;5;" in said, "colours"
        os.write(mine, b"q")
        assert process.wait(20) == 0
    os.close(mine)
