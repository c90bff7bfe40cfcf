"""Pages of metrics that processes show."""

import os
import random
import socket
import urllib.request

from prometheus_client.parser import text_string_to_metric_families as parse

from playmill.training.telemetry_settings import OFFSETS


def free_ports():
    """A port of which those of all roles are free."""
    rng = random.Random(os.getpid())
    while True:
        port = rng.randrange(20_000, 30_000)
        try:
            for offset in OFFSETS.values():
                with socket.create_server(("127.0.0.1", port + offset)):
                    pass
            return port
        except OSError:
            continue


def page(port, token=""):
    """All samples that a process shows, by name and the labels' values in the labels' order; none where it
    does not answer."""
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/metrics")
    if token:
        asked.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(asked, timeout=10) as reply:
            text = reply.read().decode()
    except OSError:
        return {}
    found = [sample for family in parse(text) for sample in family.samples]
    return {
        (s.name.removeprefix("playmill_"), *(v for _, v in sorted(s.labels.items()))): s.value for s in found
    }
