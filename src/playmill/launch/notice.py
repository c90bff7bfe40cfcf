"""Word from a cloud that this machine will be taken away soon: the process is told to end in order."""

from __future__ import annotations

import json
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from playmill.launch.cluster import Notice

ADDRESSES = {
    "aws": "http://169.254.169.254/latest/meta-data/spot/instance-action",
    "gcp": "http://metadata.google.internal/computeMetadata/v1/instance/preempted",
    "azure": "http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01",
}
ENDINGS = ("Preempt", "Terminate")
"""Events of Azure after which the machine is gone."""
ANSWER_S = 2.0
MOST_BYTES = 1 << 20
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""The address of a cloud's own service is on this machine's link; no proxy knows it."""


def watch(settings: Notice, told: Callable[[], None]) -> threading.Thread | None:
    """Looks again and again, beside whatever the process does; calls `told` once, when notice is given."""
    if settings.by == "none":
        return None

    def look() -> None:
        while not given(settings):
            time.sleep(settings.every_s)
        told()

    thread = threading.Thread(target=look, name="playmill-notice", daemon=True)
    thread.start()
    return thread


def given(settings: Notice) -> bool:
    """Whether there is notice now; whoever cannot be asked has given none."""
    url = settings.url or ADDRESSES.get(settings.by, "")
    try:
        match settings.by:
            case "file":
                return Path(settings.file).exists()
            case "command":
                done = subprocess.run(
                    settings.command, stdin=subprocess.DEVNULL, capture_output=True, timeout=10
                )
                return done.returncode == 0
            case "aws":
                return _get(url, {"X-aws-ec2-metadata-token": _aws_token(url)}) is not None
            case "gcp":
                return _get(url, {"Metadata-Flavor": "Google"}) == b"TRUE"
            case "azure":
                return _azure(_get(url, {"Metadata": "true"}))
            case "url":
                return _get(url, {}) is not None
    except (OSError, ValueError, subprocess.SubprocessError):
        return False
    return False


def _get(url: str, headers: Mapping[str, str], method: str = "GET") -> bytes | None:
    """What it answers, or None where there is nothing."""
    request = urllib.request.Request(url, headers=dict(headers), method=method)
    try:
        with _DIRECT.open(request, timeout=ANSWER_S) as reply:
            found: bytes = reply.read(MOST_BYTES)
            return found.strip() if reply.status == 200 else None
    except urllib.error.HTTPError:
        return None


def _aws_token(url: str) -> str:
    root = url.partition("/latest/")[0]
    token = _get(f"{root}/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": "60"}, "PUT")
    return (token or b"").decode("ascii")


def _azure(reply: bytes | None) -> bool:
    found = json.loads(reply or b"{}")
    events = found.get("Events", []) if isinstance(found, dict) else []
    if not isinstance(events, list):
        return False
    return any(isinstance(event, dict) and event.get("EventType") in ENDINGS for event in events)
