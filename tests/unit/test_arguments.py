"""A wrong command line gets one clear line, whatever the parser draws around it."""

import subprocess
import sys

import pytest

from playmill.cli.arguments import call_with_arguments, one_line, parse_arguments
from playmill.cli.train import parse
from playmill.games import PlaymillError


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--ppo.lrr", "3"], r"--ppo\.lrr.*did you mean --ppo\.lr\?"),
        (["--games", "3.5"], r"--games.*'3\.5'"),
        (["--precision", "flot32"], r"'flot32'.*'float32'"),
        (["--options", "players"], r"--options"),
        (
            ["kuhn/quick", "--ppo.clip", "wide"],
            r"--ppo\.clip.*'wide'.*`playmill train kuhn/quick --help` says more",
        ),
    ],
)
def test_a_wrong_setting_is_one_line_that_names_it(args, says, capfd):
    with pytest.raises(PlaymillError, match=says) as caught:
        parse(args)
    text = str(caught.value)
    assert "\n" not in text
    assert not set(text) & set("│╭╰─")
    assert capfd.readouterr() == ("", "")


def test_the_program_ends_with_two_and_says_it_once():
    command = [sys.executable, "-m", "playmill", "evaluate", "greedy", "--aginst", "hard"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "did you mean --against?" in done.stderr


def test_help_is_help(capfd):
    with pytest.raises(SystemExit) as caught:
        parse(["--help"])
    assert not caught.value.code
    assert "--ppo.lr" in capfd.readouterr().out


def test_a_command_keeps_its_own_words_and_its_own_exit(capfd):
    def command(name: str, times: int = 1) -> None:
        """Says a name."""
        print(name * times, file=sys.stderr)
        raise SystemExit(5)

    with pytest.raises(SystemExit) as caught:
        call_with_arguments(command, ["--name", "hey", "--times", "2"], "playmill hello")
    assert caught.value.code == 5
    assert capfd.readouterr().err == "heyhey\n"


def test_words_without_a_box_are_one_line_too():
    assert one_line("Something\nis wrong.\n") == "something is wrong"
    assert one_line("") == "the arguments are wrong"


def test_right_arguments_are_what_they_say():
    def pair(left: int, right: str = "r") -> tuple[int, str]:
        """Two things."""
        return left, right

    assert parse_arguments(pair, ["--left", "3"], "playmill pair") == (3, "r")
