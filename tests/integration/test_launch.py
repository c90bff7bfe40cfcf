"""Clusters of real processes: a broker, a learner, actors here and behind a real sshd."""

import json
import os
import secrets
import signal
import time
from pathlib import Path

import pytest

from benchmarks.broker import free_port
from playmill.checkpoints import Store
from playmill.training.telemetry_settings import TOKEN
from tests.integration.launching import RUN, ask, child, start, wait_until, write
from tests.integration.pages import free_ports, page
from tests.ssh_server import running_sshd

pytestmark = pytest.mark.integration


def checkpoints(folder, name):
    return len(Store(folder / "runs" / name / "checkpoints", keep=9).steps())


def ledger(folder, name, password):
    code, said = ask(folder, "ledger", f"runs/{name}", "--json", password=password)
    assert code == 0, said
    return json.loads(said)


def test_a_local_cluster_restarts_who_dies_and_stops_in_order(tmp_path, redis_server):
    file = write(tmp_path, f'name = "mine"\nbroker.url = "{redis_server.bare_url}"\nactors.count = 2\n')
    launched = start(tmp_path, "launch", str(file), password=redis_server.password)
    try:
        wait_until(lambda: checkpoints(tmp_path, "mine") > 0, launched, tmp_path)
        os.kill(child(launched.pid, "actor --number 1"), signal.SIGKILL)
        os.kill(child(launched.pid, " learner "), signal.SIGKILL)
        said = tmp_path / "out.txt"
        wait_until(lambda: "actor-1 started again" in said.read_text(), launched, tmp_path)
        wait_until(lambda: "learner started again" in said.read_text(), launched, tmp_path)
        before = checkpoints(tmp_path, "mine")
        wait_until(lambda: checkpoints(tmp_path, "mine") > before, launched, tmp_path)
        code, refused = ask(tmp_path, "launch", str(file), password=redis_server.password)
        assert code == 2
        assert "is running already" in refused

        began = time.monotonic()
        assert ask(tmp_path, "launch", str(file), "--stop") == (0, "mine has ended\n")
        assert time.monotonic() - began < 30
        assert launched.wait(5) == 0
    finally:
        launched.kill()
        launched.wait()
    found = ledger(tmp_path, "mine", redis_server.password)
    assert found["holds"]
    assert found["trained"] > 0
    assert redis_server.password not in said.read_text()
    assert ask(tmp_path, "launch", str(file), "--stop") == (0, "mine is not running here\n")


def test_actors_behind_ssh_reach_the_broker_through_the_tunnel(tmp_path, redis_server, monkeypatch):
    token = secrets.token_hex(16)
    monkeypatch.setenv(TOKEN, token)
    metrics = free_ports()
    watched = f'[run.telemetry]\nport = {metrics}\nbind = "0.0.0.0"\n'
    far = tmp_path / "far"
    far.mkdir()
    with running_sshd(far) as server:
        text = f"""\
name = "apart"
by = "ssh"
broker.url = "{redis_server.bare_url}"
actors.count = 2
actors.on = ["there"]
[[hosts]]
name = "there"
address = "127.0.0.1"
port = {server.port}
user = "{server.user}"
key = "{far}/key"
known_hosts = "{far}/known_hosts"
playmill = "{far}/playmill"
folder = "{far}/runs"
tunnel_port = {free_port()}
"""
        file = write(tmp_path, text, RUN + watched)
        launched = start(tmp_path, "launch", str(file), password=redis_server.password)
        try:
            wait_until(lambda: checkpoints(tmp_path, "apart") > 1, launched, tmp_path)
            for place in (metrics, metrics + 10, metrics + 11):
                shown = {name for name, *_ in page(place, token)}
                assert "process_info" in shown, "the far end has no token but the one it is told"
            assert page(metrics + 10) == {}
            session = child(launched.pid, "ssh")
            assert redis_server.password not in Path(f"/proc/{session}/cmdline").read_text()
            launched.send_signal(signal.SIGINT)
            assert launched.wait(30) == 0
        finally:
            launched.kill()
            launched.wait()
        # Nothing is left behind at the far end: it says what its actors have done.
        for number in (0, 1):
            log = far / "runs" / "apart.launch" / "logs" / f"actor-{number}.log"
            assert '"segments": ' in log.read_text()
        assert ledger(tmp_path, "apart", redis_server.password)["holds"]

        wrong = {
            "is not in": text.replace(f'known_hosts = "{far}/known_hosts"', f'known_hosts = "{far}/none"'),
            "does not take the key": text.replace(f'"{far}/key"', f'"{far}/other_key"'),
            "there is no key": text.replace(f'"{far}/key"', f'"{far}/no_key"'),
            "cannot be reached": text.replace(f"\nport = {server.port}", f"\nport = {free_port()}"),
            "there is no": text.replace(f'"{far}/playmill"', f'"{far}/playmil"'),
        }
        for why, changed in wrong.items():
            file = write(tmp_path, changed)
            code, said = ask(tmp_path, "launch", str(file), password=redis_server.password)
            assert code == 2, said
            assert why in said
            assert "hosts.there" in said


def test_a_launch_without_broker_password_or_token_says_what_to_do(tmp_path, redis_server):
    file = write(tmp_path, f'name = "mine"\nbroker.url = "{redis_server.bare_url}"\n')
    code, said = ask(tmp_path, "launch", str(file))
    assert code == 2
    assert "PLAYMILL_REDIS_PASSWORD" in said
    code, said = ask(tmp_path, "launch", str(file), password="x" * 32)
    assert code == 2
    assert "does not take this password" in said
    wide = RUN + '[run.telemetry]\nport = 9400\nbind = "0.0.0.0"\n'
    write(tmp_path, f'name = "mine"\nbroker.url = "{redis_server.bare_url}"\n', wide)
    code, said = ask(tmp_path, "launch", str(file), password=redis_server.password)
    assert code == 2
    assert "PLAYMILL_METRICS_TOKEN" in said
    write(tmp_path, f'name = "mine"\nbroker.url = "{redis_server.bare_url}"\n')
    redis_server.kill()
    code, said = ask(tmp_path, "launch", str(file), password=redis_server.password)
    assert code == 2
    assert "no Redis at" in said


def test_notice_saves_and_drains_within_30_seconds_and_nobody_comes_back(tmp_path, redis_server):
    text = f'name = "spot"\nbroker.url = "{redis_server.bare_url}"\n'
    file = write(tmp_path, text + f'notice = {{ by = "file", file = "{tmp_path}/notice", every_s = 0.2 }}\n')
    launched = start(tmp_path, "launch", str(file), password=redis_server.password)
    try:
        wait_until(lambda: checkpoints(tmp_path, "spot") > 0, launched, tmp_path)
        (tmp_path / "notice").touch()
        began = time.monotonic()
        assert launched.wait(60) == 0
        assert time.monotonic() - began < 30
    finally:
        launched.kill()
        launched.wait()
    assert "about to be taken away" in (tmp_path / "out.txt").read_text()
    logs = tmp_path / "runs" / "spot.launch" / "logs"
    assert '"segments": ' in (logs / "actor-0.log").read_text()
    assert "Stopped after" in (logs / "learner.log").read_text()
    assert ledger(tmp_path, "spot", redis_server.password)["holds"]
