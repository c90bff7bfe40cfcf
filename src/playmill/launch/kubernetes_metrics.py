"""What manifests say where a run shows its metrics: ports, a secret with the token, a way in."""

from __future__ import annotations

from typing import Any

from playmill.training.telemetry_settings import OFFSETS, PORT, Telemetry

METRICS = "playmill-metrics"
"""A secret that is made by hand or by an operator: `token`."""
FOLDER = "/metrics"
NAME_SIGNS = 15
"""Of a port, at the most."""
Values = dict[str, Any]


def seen_in_pods(run: Values) -> Values:
    """The run's settings as its pods have them: scraped from outside, with the token."""
    inside = {**run.get("telemetry", {}), "bind": "0.0.0.0", "token_file": f"{FOLDER}/token"}
    return {**run, "telemetry": inside}


def watched(settings: Telemetry, objects: Values) -> Values:
    """The objects by their files, with what is needed for scraping."""
    ports = [_watch(settings, objects[f"{role}.yaml"]) for role in ("learner", "actor")]
    way_in = {"ports": [{"port": port, "protocol": "TCP"} for some in ports for port in some]}
    objects["network.yaml"]["spec"]["ingress"].append(way_in)
    return objects


def _watch(settings: Telemetry, role: Values) -> list[int]:
    """The ports that the role's pods show."""
    pod = role["spec"]["template"]["spec"]
    out: list[int] = []
    pod["volumes"].append({"name": "metrics", "secret": {"secretName": METRICS, "defaultMode": 0o440}})
    for container in pod["containers"]:
        part = container["name"]
        # A pod has an address of its own: all actors are at the same port.
        port = settings.port + OFFSETS[part]
        name = "metrics" if not out else f"metrics-{part}"[:NAME_SIGNS]
        container["ports"] = [{"name": name, "containerPort": port}]
        container["env"] = [*container["env"], {"name": PORT, "value": str(port)}]
        mount = {"name": "metrics", "mountPath": FOLDER, "readOnly": True}
        container["volumeMounts"] = [*container["volumeMounts"], mount]
        out.append(port)
    return out
