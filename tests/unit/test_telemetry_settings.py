"""Who of a run shows its metrics where, and with which token."""

import dataclasses
import http.client
import socket
import subprocess
import sys
import time

import pytest

from playmill.cli.main import main
from playmill.cli.train import parse
from playmill.games import PlaymillError
from playmill.telemetry import TelemetryError, instruments
from playmill.telemetry.instruments import NO_INSTRUMENTS
from playmill.training.config import Train, from_dict, to_dict
from playmill.training.runs import CHANGEABLE
from playmill.training.telemetry_settings import PORT, TOKEN, Telemetry

GOOD = "a-token-of-the-tests"


@pytest.fixture(autouse=True)
def no_token(monkeypatch):
    monkeypatch.delenv(TOKEN, raising=False)
    monkeypatch.delenv(PORT, raising=False)
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    return port if port <= 55_000 else free_port()


def test_nothing_is_opened_unless_asked_for():
    assert Train(game="kuhn").telemetry == Telemetry()
    assert Telemetry().open("learner") is NO_INSTRUMENTS
    assert not NO_INSTRUMENTS.meters.on
    assert not NO_INSTRUMENTS.tracer.on
    with NO_INSTRUMENTS:
        pass


def test_off_loads_neither_library():
    code = (
        "import sys, playmill.training.telemetry_settings as t; t.Telemetry().open('actor'); "
        "sys.exit(any(name in sys.modules for name in ('prometheus_client', 'opentelemetry')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_process_of_a_machine_has_a_port_of_its_own():
    settings = Telemetry(port=9400)
    assert [settings.listen(role) for role in ("learner", "evaluator", "policy")] == [
        "127.0.0.1:9400",
        "127.0.0.1:9401",
        "127.0.0.1:9402",
    ]
    assert [settings.listen("actor", number) for number in (0, 7)] == ["127.0.0.1:9410", "127.0.0.1:9417"]
    assert Telemetry(port=9400, bind="::1").listen("learner") == "[::1]:9400"
    with pytest.raises(PlaymillError, match="actor 20000 has no port"):
        Telemetry(port=50_000).listen("actor", 20_000)


def test_a_pod_may_say_which_port(monkeypatch):
    monkeypatch.setenv(PORT, "9410")
    assert Telemetry(port=9400).listen("actor", 77) == "127.0.0.1:9410"
    assert Telemetry().listen("actor", 77) == ""
    for wrong in ("0", "x", "99999", "-1"):
        monkeypatch.setenv(PORT, wrong)
        with pytest.raises(PlaymillError, match="must be a port"):
            Telemetry(port=9400).listen("learner")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"port": -1}, "port"),
        ({"port": 60_000}, "port"),
        ({"traces": -0.1}, "traces"),
        ({"traces": 2.0}, "traces"),
    ],
)
def test_settings_are_checked(wrong, says):
    with pytest.raises(PlaymillError, match=f"telemetry.{says} must be from 0 to"):
        Telemetry(**wrong)


def test_the_command_line_has_them_and_a_resumed_run_may_change_them():
    command = parse(["kuhn", "--telemetry.port", "9400", "--telemetry.traces", "0.1"])
    assert command.telemetry == Telemetry(port=9400, traces=0.1)
    assert from_dict(Train, to_dict(command.config)) == command.config
    assert "telemetry" in CHANGEABLE


def test_a_fleet_has_no_metrics(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(
            [
                "train",
                "kuhn",
                "--seeds",
                "0",
                "1",
                "--telemetry.port",
                "9400",
                "--run",
                str(tmp_path / "fleet"),
            ]
        )
    assert "leave --telemetry out" in capsys.readouterr().err
    assert not (tmp_path / "fleet").exists()


def test_the_token_comes_from_the_variable_a_file_or_systemd(tmp_path, monkeypatch):
    assert Telemetry().token() == ""
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert Telemetry().token() == ""
    for place in (tmp_path / "metrics_token", tmp_path / "own"):
        place.write_text(f"{GOOD}-{place.name}\n")
        place.chmod(0o600)
    assert Telemetry().token() == f"{GOOD}-metrics_token"
    assert Telemetry(token_file=str(tmp_path / "own")).token() == f"{GOOD}-own"
    monkeypatch.setenv(TOKEN, GOOD)
    assert Telemetry(token_file=str(tmp_path / "own")).token() == GOOD


@pytest.mark.parametrize(
    "token", ["short", "with spaces in between", "line\nbreaks in the middle", "ä" * 20, "x" * 600]
)
def test_tokens_that_no_header_takes_are_refused(token, monkeypatch):
    monkeypatch.setenv(TOKEN, token)
    with pytest.raises(PlaymillError, match="16 to 512 letters"):
        Telemetry().token()


def test_a_token_that_everybody_can_read_is_refused(tmp_path):
    (tmp_path / "token").write_text(GOOD)
    (tmp_path / "token").chmod(0o644)
    with pytest.raises(PlaymillError, match="chmod 600"):
        Telemetry(token_file=str(tmp_path / "token")).token()
    with pytest.raises(PlaymillError, match="cannot be read"):
        Telemetry(token_file=str(tmp_path / "none")).token()


def ask(port, token):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
    return connection.getresponse().status


def test_beyond_this_machine_a_token_is_needed_and_asked_for(monkeypatch):
    settings = Telemetry(port=free_port(), bind="0.0.0.0")
    with pytest.raises(TelemetryError, match="set a token"):
        settings.open("learner", in_use=pytest.fail)
    monkeypatch.setenv(TOKEN, GOOD)
    with settings.open("learner"):
        assert ask(settings.port, GOOD) == 200
        assert ask(settings.port, GOOD + "x") == 401


def test_a_port_that_is_let_go_is_taken(monkeypatch):
    monkeypatch.setattr(instruments, "AGAIN_S", 0.02)
    settings, told = Telemetry(port=free_port()), []
    with socket.create_server(("127.0.0.1", settings.port)):
        with pytest.raises(TelemetryError, match="is in use"):
            settings.open("learner")
        opened = settings.open("learner", in_use=told.append)
        opened.meters.count("games", 3)
    until = time.monotonic() + 10
    while True:
        try:
            assert ask(settings.port, "") == 200
            break
        except OSError:
            assert time.monotonic() < until
    opened.close()
    assert told == [f"no metrics yet: 127.0.0.1:{settings.port} is in use; give the metrics another port"]
    with dataclasses.replace(settings).open("learner"):  # it was let go again
        assert ask(settings.port, "") == 200
