"""The terminal game, driven by scripted players."""

import io
import re

import numpy as np
import pytest
from rich.console import Console

from playmill.cli.play import matching, play
from playmill.cli.table_view import is_known, ordinal, place_of
from playmill.games import Game, PlaymillError, UnknownName, registry
from playmill.league.agents import BotAgent, Decision, seat_agents
from playmill.replays import ReplayFile

every_game = pytest.mark.parametrize("game", registry.names())


class Thinker:
    """An agent that says what it thought."""

    name = "thinker"

    def choose(self, game):
        legal = game.legal()
        probabilities = np.zeros(game.spec.actions, np.float32)
        probabilities[legal] = 1 / len(legal)
        return Decision(legal[0], probabilities, 0.25)


class Terminal:
    """A console on paper, and a reader that types a script and then the same line for ever."""

    def __init__(self, *script, then="1"):
        self.script, self.then, self.prompts = list(script), then, []
        self.console = Console(file=io.StringIO(), width=100)

    def read(self, prompt):
        self.prompts.append(prompt)
        line = "n" if "another game" in prompt and not self.script else None
        line = line or (self.script.pop(0) if self.script else self.then)
        if isinstance(line, type):
            raise line
        return line

    @property
    def text(self):
        return self.console.file.getvalue()


SMALL = {"generals": {"width": 6, "height": 6, "max_ticks": 40}}


def sit_down(game, terminal, agents=None, seat=0, seed=3):
    spec = registry.spec(game, SMALL.get(game))
    others = agents or [BotAgent(spec, spec.bots[-1])]
    play(game, spec.options, others, seat, seed, terminal.console, terminal.read)
    return terminal.text


@every_game
@pytest.mark.parametrize("seat", [0, 1, None])
def test_a_whole_game_ends_with_a_summary(game, seat):
    text = sit_down(game, Terminal(), seat=seat)
    assert "place" in text
    assert "reward" in text
    assert re.search(r"You won|You came|Nobody won", text)
    assert text.rstrip().endswith("Goodbye.")
    assert "[/]" not in text


@every_game
def test_moves_may_be_given_in_words(game):
    terminal = Terminal()

    def read(prompt):
        if "another game" in prompt:
            return "n"
        # The last table ends with "╰─ .. ─╯"; a legend may follow, then the moves: " 1) bid 0   2) bid 1".
        moves = terminal.text.rpartition("╯\n")[2]
        return re.search(r"^ *1\) (.*?)(   |$)", moves, re.MULTILINE)[1].strip()

    terminal.read = read
    assert "No move is called" not in sit_down(game, terminal)


@every_game
def test_every_command_answers(game):
    terminal = Terminal("?", "think", "hint", "table", "1", "think")
    text = sit_down(game, terminal, [Thinker()])
    assert "plays that move" in text
    assert "thinker in your place" in text
    assert "expects +0.25 from here" in text
    assert "thinker would play" in text


def test_thinking_shows_what_an_agent_weighed():
    text = sit_down("leduc", Terminal("think", "quit"), [Thinker()], seat=1)
    assert "seat +1 thinker thought" in text
    assert "50%" in text


@pytest.mark.parametrize("leave", ["quit", "q", EOFError, KeyboardInterrupt])
def test_leaving_is_polite(leave):
    assert sit_down("leduc", Terminal(leave)).rstrip().endswith("Goodbye.")


def test_a_wrong_line_is_explained_and_asked_again():
    terminal = Terminal("raze", "99", "0", "", "quit")
    text = sit_down("leduc", terminal)
    assert text.count("No move is called") == 4
    assert len(terminal.prompts) == 5


def test_another_game_is_another_deal_in_another_seat():
    terminal = Terminal(then="1")
    answers = iter(["y", "n"])
    inner = terminal.read
    terminal.read = lambda prompt: next(answers) if "another" in prompt else inner(prompt)
    assert sit_down("kuhn", terminal, seat=None).count("place") == 2


def test_a_game_can_be_saved_and_played_through_again(tmp_path):
    file = tmp_path / "games" / "one.replays"
    terminal = Terminal("save", f"save {file}", "1")
    inner = terminal.read
    answers = iter([f"save {file}", "n"])
    terminal.read = lambda prompt: next(answers) if "another" in prompt else inner(prompt)
    text = sit_down("liars_dice", terminal)
    assert "Give a file" in text
    assert text.count("saved in /") == 2
    saved = ReplayFile(file)
    assert [saved.play(number).over for number in range(len(saved))] == [False, True]
    assert saved[1].replay.names == ("you", "honest")


def test_every_game_played_to_its_end_can_be_kept(tmp_path):
    terminal, answers = Terminal(), iter(["y", "n"])
    read = lambda prompt: next(answers) if "another" in prompt else terminal.read(prompt)  # noqa: E731
    bots = [BotAgent(registry.spec("kuhn"), "random")]
    play("kuhn", {}, bots, 0, 3, terminal.console, read, replays=tmp_path / "mine.replays")
    saved = ReplayFile(tmp_path / "mine.replays")
    assert [saved.play(number).replay.seed for number in range(len(saved))] == [3, 4]


def test_saving_where_it_cannot_be_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    text = sit_down("leduc", Terminal(f"save {tmp_path}/file/deeper.replays", "quit"))
    assert "not saved" in text


def test_moves_are_found_by_number_words_and_beginnings():
    moves = ["map 1", "map 12", "pirate Jade", "escape", "escape", "Tigress", "Tigress as pirate"]
    assert matching("2", moves) == [1]
    assert matching("8", moves) == []
    assert matching("map 1", moves) == [0]
    assert matching("m 12", moves) == [1]
    assert matching("m", moves) == [0, 1]
    assert matching("P J", moves) == [2]
    assert matching("esc", moves) == [3]
    assert matching("tigress", moves) == [5]
    assert matching("tig as", moves) == [6]
    assert matching("", moves) == []
    assert matching("", ["only"]) == [0]


def test_a_secret_bid_is_not_told_before_it_is_shown():
    game = Game("skull_king", {}, 5)
    seats = game.spec.seats
    first, moves = game.copy(), []
    viewer = (game.seat + seats - 1) % seats
    for bidder in range(seats):
        moves.append(game.legal()[0])
        last = bidder == seats - 1
        game.act(moves[-1])
        assert is_known(first, moves, viewer) == last
    text = sit_down("skull_king", Terminal("think", "quit"), seat=2, seed=5)
    assert "decides in secret" in text
    assert "a secret until it is shown" in text


@every_game
def test_a_players_own_move_is_known_to_the_player(game):
    table = Game(game, seed=1)
    assert is_known(table, [table.legal()[-1]], table.seat)


def test_agents_and_seats_must_fit():
    spec = registry.spec("leduc")
    with pytest.raises(UnknownName, match="tight"):
        BotAgent(spec, "tihgt")
    with pytest.raises(PlaymillError, match="got 3"):
        seat_agents([BotAgent(spec, "tight")] * 3, 2)
    with pytest.raises(PlaymillError, match="seats 0 to 1"):
        sit_down("leduc", Terminal(), seat=2)


def test_places_are_shared_by_equals():
    rewards = [1.0, 3.0, 1.0, -5.0]
    assert [place_of(seat, rewards) for seat in range(4)] == [2, 1, 2, 4]
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 22)] == ["1st", "2nd", "3rd", "4th", "11th", "22nd"]


def test_a_board_wider_than_the_window_says_so():
    terminal = Terminal("quit")
    spec = registry.spec("generals", {"width": 32, "height": 8})
    wide = io.StringIO()
    terminal.console = Console(file=wide, width=60, force_terminal=True, color_system=None)
    play("generals", spec.options, [BotAgent(spec, "random")], 0, 3, terminal.console, terminal.read)
    assert re.search(r"the board takes \d+ columns: make the window wider", wide.getvalue())
