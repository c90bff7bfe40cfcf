"""KEDA's objects: as many actors as the learner asks for, by the lag of the assignment stream."""

from __future__ import annotations

from typing import Any

from playmill.experience.assignments import GROUP, assignments_key
from playmill.launch.cluster import Cluster

Values = dict[str, Any]
VERSION = "keda.sh/v1alpha1"
SCALER, AUTHENTICATION = "ScaledObject", "TriggerAuthentication"
POLL_S = 15
"""Between two looks whether there is work at all."""
COOLDOWN_S = 300
"""After so long without any the last actors go."""
CALM_S = 180
"""Fewer are wanted only if fewer were wanted all this time: the lag comes and goes with the updates."""
STEP_S = 60
"""Between two steps: what new actors bring shows when they have started."""


def scaled(cluster: Cluster, secret: str, tls: str, port: int) -> Values:
    """Who looks at the stream, how it gets in, and what follows; by file. `secret`, `tls`: of the broker."""
    name, settings = cluster.name, cluster.kubernetes
    own = {"metadata": {"name": f"{name}-actor"}}
    # KEDA is in a namespace of its own, from which the short name does not lead here.
    where = {
        "address": f"{name}-redis.{settings.namespace}.svc:{port}",
        "stream": assignments_key(name),
        "consumerGroup": GROUP,
        "databaseIndex": "0",
        "enableTLS": "true",
    }
    behind = {"type": "redis-streams", "authenticationRef": {"name": f"{name}-actor"}}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": f"{name}-actor"},
        "pollingInterval": POLL_S,
        "cooldownPeriod": COOLDOWN_S,
        "minReplicaCount": settings.min_actors,
        "maxReplicaCount": cluster.actors.count,
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": _behavior()}},
        "triggers": [
            {**behind, "metadata": {**where, "lagCount": "1", "activationLagCount": "0"}},
            # Who is at an assignment is needed, whatever the lag.
            {**behind, "metadata": {**where, "pendingEntriesCount": "1"}},
        ],
    }
    keys = [("password", secret, "password"), ("ca", tls, "ca.crt")]
    access = [{"parameter": parameter, "name": of, "key": key} for parameter, of, key in keys]
    return {
        "scaling.yaml": {"apiVersion": VERSION, "kind": SCALER, **own, "spec": spec},
        "scaling-access.yaml": {
            "apiVersion": VERSION,
            "kind": AUTHENTICATION,
            **own,
            "spec": {"secretTargetRef": access},
        },
    }


def _behavior() -> Values:
    """Up by doubling, down by a tenth: a learner that waits costs more than an actor that does."""
    up = [{"type": "Percent", "value": 100, "periodSeconds": STEP_S}]
    down = [{"type": "Percent", "value": 10, "periodSeconds": STEP_S}]
    few = [{"type": "Pods", "value": 1, "periodSeconds": STEP_S}]
    return {
        "scaleUp": {"stabilizationWindowSeconds": 0, "policies": [*up, *few], "selectPolicy": "Max"},
        "scaleDown": {"stabilizationWindowSeconds": CALM_S, "policies": [*down, *few], "selectPolicy": "Max"},
    }
