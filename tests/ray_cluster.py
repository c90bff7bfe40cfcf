"""A real Ray cluster of several nodes on this host, on loopback and with a token; where Ray is not installed,
the test is left out, but never by the CI. `python -m tests.ray_cluster NODES` holds it until stdin ends."""

import contextlib
import importlib.util
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from types import SimpleNamespace

import pytest

QUICK = {"RAY_health_check_period_ms": "500", "RAY_health_check_initial_delay_ms": "500"}
"""A node that dies is missed within seconds."""


@contextlib.contextmanager
def ray_environment():
    """In which a process may use Ray: a token, listeners on loopback alone, sockets in a short path."""
    if importlib.util.find_spec("ray") is None and not os.environ.get("CI"):
        pytest.skip("Ray is not installed")
    folder = tempfile.mkdtemp(prefix="ray")
    try:
        yield {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
            "RAY_TMPDIR": folder,
            "RAY_USAGE_STATS_ENABLED": "0",
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def running_ray(nodes, more=None):
    """Its address, the environment for who uses it, and the process of each node by its label: head, n1,
    n2 ... `more`: of its own environment."""
    with ray_environment() as environment:
        holder = subprocess.Popen(
            [sys.executable, "-m", "tests.ray_cluster", str(nodes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **environment, **QUICK, **(more or {})},
            start_new_session=True,
        )
        try:
            line = holder.stdout.readline()
            assert line, "the Ray cluster has not started"
            yield SimpleNamespace(environment=environment, **json.loads(line))
            holder.stdin.close()
            holder.wait(30)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(holder.pid, signal.SIGKILL)
            holder.wait()


def hold(nodes):
    from ray.cluster_utils import Cluster

    cluster, raylets = Cluster(), {}
    for label in ["head", *(f"n{i}" for i in range(1, nodes))]:
        options = {"include_dashboard": False} if label == "head" else {}
        node = cluster.add_node(
            num_cpus=2,
            node_ip_address="127.0.0.1",
            object_store_memory=80 << 20,
            labels={"playmill": label},
            **options,
        )
        raylets[label] = node.all_processes["raylet"][0].process.pid
    print(json.dumps({"address": cluster.address, "raylets": raylets}), flush=True)
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    hold(int(sys.argv[1]))
