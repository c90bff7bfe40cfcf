"""The probes of the manifests, run as they stand there: a process that hangs fails them, one that waits does
not."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import yaml

from benchmarks.broker import free_port
from playmill.launch.cluster import cluster_from
from playmill.launch.render import render
from playmill.training.exchange import PASSWORD
from tests.integration.launching import RUN, write
from tests.redis_server import running_redis

pytestmark = pytest.mark.integration
SILENT = 600


def containers(folder):
    values = {"name": "mine", "by": "kubernetes", "learner": {"evaluators": 1}, "run": {"game": "leduc"}}
    files = render(cluster_from({**values, "kubernetes": {"silent_s": SILENT}}), folder)
    found = [yaml.safe_load(file.read_text()) for file in files if file.suffix == ".yaml"]
    pods = [one["spec"]["template"]["spec"] for one in found if one["kind"] == "StatefulSet"]
    return {container["name"]: container for pod in pods for container in pod["containers"]}


class Pods:
    """Containers' commands and probes, with this machine's paths in place of a pod's."""

    def __init__(self, folder, broker):
        self.folder, self.containers = folder, containers(folder / "rendered")
        settings = f'name = "mine"\nbroker.url = "{broker.bare_url}"\n'
        self.paths = {
            "/cluster/cluster.json": str(write(folder, settings, RUN)),
            "/secret/password": str(folder / "password"),
            "/tmp/alive": f"{folder}/alive",
            "$(NUMBER)": "0",
        }
        (folder / "password").write_text(broker.password)
        (folder / "password").chmod(0o600)
        self.processes = {}
        # A clock that is ahead: what is silent for a moment is silent for too long.
        (folder / "ahead").mkdir()
        clock = folder / "ahead" / "date"
        clock.write_text(f'#!/bin/sh\necho "$(($({shutil.which("date")} +%s) + $AHEAD))"\n')
        clock.chmod(0o700)

    def here(self, text):
        for there, here in self.paths.items():
            text = text.replace(there, here)
        return text

    def start(self, name):
        words = [self.here(word) for word in self.containers[name]["command"]]
        assert words[0] == "playmill"
        environment = {key: value for key, value in os.environ.items() if key != PASSWORD}
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", *words], cwd=self.folder, stdout=log, stderr=log, env=environment
            )

    def alive(self, name, silent=SILENT, probe="livenessProbe"):
        """What the probe says, if silence of so many seconds were too much."""
        words = [self.here(word) for word in self.containers[name][probe]["exec"]["command"]]
        path = f"{self.folder}/ahead:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "AHEAD": str(SILENT - silent)}
        return subprocess.run(words, env=environment, capture_output=True).returncode == 0

    def wait(self, what, why):
        until = time.monotonic() + 60.0
        while not what():
            for name, process in self.processes.items():
                assert process.poll() is None, (self.folder / f"{name}.log").read_text()
            assert time.monotonic() < until, why
            time.sleep(0.1)


@pytest.fixture
def pods(tmp_path, redis_server):
    made = Pods(tmp_path, redis_server)
    try:
        yield made
    finally:
        for process in made.processes.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in made.processes.values():
            process.wait(30)


def test_who_hangs_fails_its_probe_and_who_waits_for_a_broker_does_not(pods, redis_server):
    names = ("learner", "actor", "evaluator")
    stale = pods.folder / "alive-actor"
    stale.touch()
    os.utime(stale, (0, 0))  # of a container before this one
    for name in names:
        assert not pods.alive(name, probe="startupProbe")
        pods.start(name)
    for name in names:
        pods.wait(lambda name=name: pods.alive(name, probe="startupProbe"), f"{name} gives no sign")

    for name in ("actor", "learner"):
        pods.wait(lambda name=name: pods.alive(name, silent=3), f"{name} gives no sign")
        pods.processes[name].send_signal(signal.SIGSTOP)
    time.sleep(4.0)
    for name in ("actor", "learner"):
        assert not pods.alive(name, silent=3)
        assert pods.alive(name)
        pods.processes[name].send_signal(signal.SIGCONT)
    for name in names:
        pods.wait(lambda name=name: pods.alive(name, silent=3), f"{name} gives no sign")

    redis_server.send_signal(signal.SIGSTOP)
    until = time.monotonic() + 7.0
    while time.monotonic() < until:
        # Each question to a broker that hangs takes five seconds: a hundredth of what is allowed.
        assert all(pods.alive(name, silent=30) for name in names)
        time.sleep(0.5)
    redis_server.send_signal(signal.SIGCONT)
    for name in names:
        pods.wait(lambda name=name: pods.alive(name, silent=3), f"{name} gives no sign")


def test_a_broker_that_hangs_fails_its_probe(tmp_path):
    certificate, secret = tmp_path / "ca.crt", tmp_path / "tls.key"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=mine-redis"
    made = [*command.split(), "-days", "2", "-keyout", secret, "-out", certificate]
    subprocess.run(made, check=True, capture_output=True)
    port = free_port()
    options = ("--tls-port", str(port), "--tls-auth-clients", "no", "--tls-cert-file", str(certificate))
    with running_redis(*options, "--tls-key-file", str(secret)) as broker:
        (tmp_path / "password").write_text(broker.password)
        redis = containers(tmp_path / "rendered")["redis"]
        probes = [redis[name]["exec"]["command"] for name in ("startupProbe", "livenessProbe")]
        assert probes == [redis["readinessProbe"]["exec"]["command"]] * 2
        places = {"/tls/": f"{tmp_path}/", "/secret/": f"{tmp_path}/", "-p 6379": f"-p {port}"}

        def answers():
            words = probes[0]
            for there, here in places.items():
                words = [word.replace(there, here) for word in words]
            try:
                return subprocess.run(words, capture_output=True, timeout=2).returncode == 0
            except subprocess.TimeoutExpired:
                return False

        assert answers()
        broker.send_signal(signal.SIGSTOP)
        assert not answers()
        broker.send_signal(signal.SIGCONT)
        assert answers()
        (tmp_path / "password").write_text("another")
        assert not answers()
