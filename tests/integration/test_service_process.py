"""A real `playmill serve`: kills, draining, limits, and a client in another language."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from benchmarks import soak
from benchmarks.served import Served
from benchmarks.service_kills import survive
from benchmarks.service_load import Load, run_load
from playmill.games import PlaymillError
from playmill.replays import ReplayFile
from playmill.serving import Code, ServiceError, connect
from tests.contract.servers import step
from tests.integration.program import PROGRAM

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[2]
PROTO = ROOT / "src/playmill/serving/proto/batch.proto"
NODE = Path(__file__).parent / "node"


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def test_killed_at_random_moments_no_game_is_lost_and_no_answer_counts_twice(tmp_path):
    said = []
    assert survive(tmp_path, 8, 48, said.append) == 8, said


def test_a_drained_server_keeps_every_answer_it_took(tmp_path, rng):
    kept = ("--folder", str(tmp_path / "kept"), "--turns", "1000000", "--seconds", "1000")
    with Served.everywhere(tmp_path, *kept) as server:
        tcp, unix, frames, shared = server.places
        with connect(tcp) as client:
            games = client.create("skull_king", 20)
        with connect(unix) as a, connect(shared) as b, connect(frames) as c:
            for client in (a, b, c, a):
                step(client, games, rng)
            turn = b.states(games, 0).turn.copy()
            watching = a.watch(games, 0)
            next(watching)
            assert server.drain() == 0
            with pytest.raises(ServiceError) as error:
                next(watching)
            assert error.value.code == Code.UNAVAILABLE
    assert "draining" in server.said()
    assert not (tmp_path / "shared.sock").exists()
    assert not (tmp_path / "frames.sock").exists()
    with Served.everywhere(tmp_path, *kept) as server:
        assert "20 games taken up" in server.said()
        with connect(server.places[1]) as client:
            assert np.array_equal(client.states(games, 0).turn, turn)
            assert step(client, games, rng)


def test_a_drained_server_has_written_down_every_game_that_ended(tmp_path, rng):
    path = tmp_path / "served.replays"
    with Served.everywhere(tmp_path, "--replays", str(path)) as server:
        with connect(server.places[1]) as client:
            games = client.create("skull_king", 30, bots=["", "greedy", "greedy", "hard"])
            while step(client, games, rng):
                pass
        assert server.drain() == 0
    file = ReplayFile(path)
    assert len(file) == 30
    assert all(file.play(number).over for number in range(30))


def test_a_client_survives_its_server(tmp_path, rng):
    kept = ("--folder", str(tmp_path / "kept"), "--seconds", "0.1")
    with Served.everywhere(tmp_path, *kept) as server, connect(server.places[1]) as client:
        games = client.create("leduc", 4)
        step(client, games, rng)
        time.sleep(0.5)
        server.kill()
        with pytest.raises(ServiceError) as error:
            client.submit(games, 0, 0, 0)
        assert error.value.code == Code.UNAVAILABLE
        with Served.everywhere(tmp_path, *kept):
            deadline = time.monotonic() + 20
            while True:
                try:
                    assert not client.states(games, 0).standing.any()
                    break
                except ServiceError:
                    assert time.monotonic() < deadline
                    time.sleep(0.1)
            step(client, games, rng)


def test_health_says_whether_it_serves(tmp_path):
    with Served.everywhere(tmp_path) as server:
        with grpc.insecure_channel(server.places[0]) as channel:
            reply = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)
            assert reply.status == health_pb2.HealthCheckResponse.SERVING
        assert server.drain() == 0


def test_limits_come_from_the_command_line(tmp_path):
    with Served.everywhere(tmp_path, "--limits.games", "13", "--limits.rows", "8") as server:
        for place in server.places:
            with connect(place) as client:
                with pytest.raises(ServiceError, match="8"):
                    client.create("kuhn", 9)
                client.create("kuhn", 3)
        with connect(server.places[0]) as client, pytest.raises(ServiceError, match="12 of 13 games"):
            client.create("kuhn", 2)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--listen 0.0.0.0:0", "token or a certificate"),
        ("--listen nowhere", "is no address"),
        ("--listen 127.0.0.1:0 --token-file /nothing", "cannot be read"),
        ("--listen", "listens nowhere"),
        ("--limits.games 0", "at least 1"),
        ("--shared /nothing/here.sock", "cannot listen"),
        ("--frames /nothing/here.sock", "cannot listen"),
        ("--turns 0 --folder kept", "must be more"),
    ],
)
def test_what_cannot_be_served_is_one_line_and_exit_code_2(tmp_path, line, said):
    command = [*PROGRAM, "serve", *line.split()]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_taken_port_is_an_error(tmp_path):
    with Served.everywhere(tmp_path) as server:
        command = [*PROGRAM, "serve", "--listen", server.places[0]]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 2
    assert "taken" in done.stderr


def test_a_frames_client_plays_on_while_checkpoints_are_written(tmp_path, rng):
    kept = ("--folder", str(tmp_path / "kept"), "--turns", "50", "--seconds", "0.1")
    with Served.everywhere(tmp_path, *kept) as server, connect(server.places[2]) as client:
        games = client.create("skull_king", 100)
        deadline = time.monotonic() + 20
        while max(path.name for path in (tmp_path / "kept").iterdir()) < "step-000000000003":
            assert time.monotonic() < deadline
            if not step(client, games, rng):
                client.reset(games, client.states(games, 0).turn.copy())
        turn = client.states(games, 0).turn.copy()
        assert server.drain() == 0
    with Served.everywhere(tmp_path, *kept) as server, connect(server.places[2]) as client:
        assert np.array_equal(client.states(games, 0).turn, turn)


def test_the_soak_measures_both():
    found = soak.measure(lambda _: None, quick=True, seconds=4.0)
    assert [bar.name for bar in found.bars] == ["soak_growth_percent", "soak_errors"]
    assert found.bars[1].met
    assert all(min(samples) > 1 for samples in found.details["rss_mb"].values())
    assert found.details["pool"]["turns"] > 0
    assert found.details["served"]["turns"] > 0
    with pytest.raises(PlaymillError, match="one setting"):
        soak.measure(lambda _: None, quick=True, games=3.0)


def test_the_load_test_plays_without_errors(tmp_path):
    with Served.everywhere(tmp_path) as server:
        for place in server.places[1:]:
            found = run_load(place, Load(agents=2, games=20, rate=50, seconds=2), lambda _: None)
            assert found["errors"] == {}
            assert 0 < found["action_ms"]["p50"] <= found["action_ms"]["p99"]
            assert found["actions_per_s"] > 50


def test_a_node_client_plays_with_the_proto_file_alone(tmp_path):
    missing = [tool for tool in ("node", "npm") if shutil.which(tool) is None]
    if missing:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{' and '.join(missing)} not found")
    folder = shutil.copytree(NODE, tmp_path / "node")
    install = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
    done = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    with Served.everywhere(tmp_path) as server:
        for place in server.places[:2]:
            command = ["node", "client.mjs", str(PROTO), place, "50"]
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=60, check=False
            )
            assert done.returncode == 0, done.stderr
            found = json.loads(done.stdout)
            assert found["games"] == 50
            assert found["turns"] >= 100
            assert abs(found["sum"]) < 1e-3  # Leduc is a zero-sum game
