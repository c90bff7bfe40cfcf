"""Clusters that Ray places: on three nodes, of which one dies, and on a Ray of launch's own."""

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from benchmarks.broker import free_port
from playmill.checkpoints import Store
from playmill.experience.redis_link import Link, key
from playmill.training.exchange import run_id
from tests.integration.launching import RUN, ask, children, everywhere, parent, start, wait_until, write
from tests.ray_cluster import ray_environment, running_ray

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def ray_nodes():
    with running_ray(3) as cluster:
        yield cluster


def newest(folder, name):
    return max(Store(folder / "runs" / name / "checkpoints", keep=9).steps(), default=0)


def role(folder, name):
    """The process that plays it, or None."""
    found = everywhere(f"{folder}/runs/")
    return next((pid for pid, line in found.items() if f" {name} " in line), None)


def nobody_left(folder, within):
    until = time.monotonic() + within
    while everywhere(f"{folder}/runs/") and time.monotonic() < until:
        time.sleep(0.1)
    assert everywhere(f"{folder}/runs/") == {}


def kill_node(raylet):
    """The node and all that runs on it, at once, as when a machine is switched off."""
    numbers = [raylet]
    for pid in numbers:
        numbers += children(pid)
    for pid in numbers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def produced(folder, name, redis):
    """What processes of actors have handed over, by (actor, epoch) as the broker counts it."""
    link = Link(redis.bare_url, redis.password)
    try:
        return link.client().hgetall(key(run_id(folder / "runs" / name), "produced"))
    finally:
        link.close()


def holds(folder, name, password):
    code, said = ask(folder, "ledger", f"runs/{name}", "--json", password=password)
    assert code == 0, said
    found = json.loads(said)
    assert (found["holds"], found["lost"], found["twice"]) == (True, 0, 0)
    assert found["trained"] > 0


def test_ray_brings_back_processes_keepers_and_the_roles_of_a_node_that_died(
    tmp_path, redis_server, ray_nodes
):
    text = f'name = "mine"\nby = "ray"\nbroker.url = "{redis_server.bare_url}"\nactors.count = 3\n'
    file = write(tmp_path, text + f'ray.address = "{ray_nodes.address}"\n')
    said = tmp_path / "out.txt"

    def begin():
        words = ("launch", str(file))
        return start(tmp_path, *words, password=redis_server.password, more=ray_nodes.environment)

    def trains_on(launched):
        before = newest(tmp_path, "mine")
        wait_until(lambda: newest(tmp_path, "mine") > before, launched, tmp_path)

    def has_produced(number):
        found = produced(tmp_path, "mine", redis_server)
        return {source for source in found if source.startswith(b"%d:" % number)}

    def told(what):
        wait_until(lambda: what in said.read_text(), launched, tmp_path)

    launched = begin()
    try:
        trains_on(launched)
        for number in range(3):
            told(f"actor-{number} started")
        assert everywhere(redis_server.password) == {}
        os.kill(role(tmp_path, "actor --number 0"), signal.SIGKILL)
        told("actor-0 started again (1)")
        os.kill(parent(role(tmp_path, "actor --number 1")), signal.SIGKILL)
        told("actor-1 started again (1)")
        trains_on(launched)

        nodes = {parent(parent(role(tmp_path, f"actor --number {n}"))): n for n in range(3)}
        lost = next(raylet for raylet in nodes if raylet != ray_nodes.raylets["head"])
        moved, before = nodes[lost], produced(tmp_path, "mine", redis_server)
        kill_node(lost)
        wait_until(lambda: has_produced(moved) - set(before), launched, tmp_path)
        assert parent(parent(role(tmp_path, f"actor --number {moved}"))) != lost
        trains_on(launched)

        launched.kill()
        launched.wait()
        nobody_left(tmp_path, 20)
        launched = begin()
        trains_on(launched)
        assert ask(tmp_path, "launch", str(file), "--stop") == (0, "mine has ended\n")
        assert launched.wait(5) == 0
    finally:
        launched.kill()
        launched.wait()
    nobody_left(tmp_path, 1)
    holds(tmp_path, "mine", redis_server.password)
    written = [said, *Path(ray_nodes.environment["RAY_TMPDIR"]).rglob("*.*")]
    secret = redis_server.password.encode()
    assert not [path for path in written if path.is_file() and secret in path.read_bytes()]


def test_a_run_ends_with_its_budget_on_a_ray_of_its_own_with_broker_policy_and_evaluator(tmp_path):
    text = f"""\
name = "small"
by = "ray"
broker = {{ url = "redis://127.0.0.1:{free_port()}/0", start = true, password_file = "password" }}
learner.evaluators = 1
actors.count = 1
ray.address = "local"
"""
    run = RUN.replace("steps = 8", "steps = 8\nturns = 4000").replace(
        "engines = 1", 'engines = 1\ninference = "process"'
    )
    file = write(tmp_path, text, run)
    (tmp_path / "password").touch(0o600)
    (tmp_path / "password").write_text("only-for-this-test")
    with ray_environment() as environment:
        launched = start(tmp_path, "launch", str(file), more={"RAY_TMPDIR": environment["RAY_TMPDIR"]})
        try:
            assert launched.wait(90) == 0, (tmp_path / "out.txt").read_text()
        finally:
            launched.kill()
            launched.wait()
        nobody_left(tmp_path, 5)
        assert everywhere(environment["RAY_TMPDIR"]) == {}
    said = (tmp_path / "out.txt").read_text()
    assert "The run is done." in said
    assert "policy, actor-0: on " in said
    assert "learner, evaluator: on " in said

    settings = tmp_path / "runs" / "small.launch" / "redis" / "redis.conf"
    with subprocess.Popen(["redis-server", settings], stdout=subprocess.DEVNULL) as redis:
        try:
            holds(tmp_path, "small", "only-for-this-test")
        finally:
            redis.terminate()


def test_a_ray_that_is_not_there_or_takes_no_token_is_refused(tmp_path, redis_server, ray_nodes):
    for address, why in (
        (ray_nodes.address, "token is missing or incorrect"),
        (f"127.0.0.1:{free_port()}", "Connection refused"),
    ):
        text = f'name = "no"\nby = "ray"\nbroker.url = "{redis_server.bare_url}"\nray.address = "{address}"\n'
        words = ("launch", str(write(tmp_path, text)))
        environment = {**ray_nodes.environment, "RAY_AUTH_TOKEN": "x" * 64}
        code, said = ask(tmp_path, *words, password=redis_server.password, more=environment)
        assert code == 2, said
        assert why in said


def test_a_ray_that_asks_for_no_token_is_refused(tmp_path, redis_server):
    with running_ray(1, {"RAY_AUTH_MODE": "disabled"}) as cluster:
        text = f'name = "no"\nby = "ray"\nbroker.url = "{redis_server.bare_url}"\n'
        file = write(tmp_path, text + f'ray.address = "{cluster.address}"\n')
        words = ("launch", str(file))
        code, said = ask(tmp_path, *words, password=redis_server.password, more=cluster.environment)
    assert code == 2
    assert "it answers without a token" in said
