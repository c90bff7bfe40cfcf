"""Kustomize manifests of a cluster: broker, learner and actors as pods that may do little."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from playmill.launch.cluster import Broker, Cluster
from playmill.launch.crew import PATIENCE_S
from playmill.launch.keda import scaled
from playmill.launch.kubernetes_metrics import seen_in_pods, watched
from playmill.launch.yaml import yaml
from playmill.training.config import to_dict

SECRET, TLS = "playmill-redis", "playmill-redis-tls"
"""Secrets that are made by hand or by an operator: `password`; and `tls.crt`, `tls.key`, `ca.crt`."""
PORT = 6379
USER = 10001
START_S = 900
"""The most that a process may take from its start to its first sign of life."""
Values = dict[str, Any]

REDIS = """\
port 0
tls-port 6379
tls-cert-file /tls/tls.crt
tls-key-file /tls/tls.key
tls-ca-cert-file /tls/ca.crt
tls-auth-clients no
dir /data
appendonly yes
save ""
maxmemory {memory}mb
maxmemory-policy noeviction
"""


def manifests(cluster: Cluster) -> dict[str, str]:
    """Files of a kustomization by name. No secret is in any of them."""
    name = cluster.name
    url = f"rediss://{name}-redis:{PORT}/0?ssl_ca_certs=/tls/ca.crt"
    broker = Broker(url=url, memory_mb=cluster.broker.memory_mb)
    inside = dataclasses.replace(cluster, broker=broker, folder="/data")
    objects = {
        "namespace.yaml": _object("v1", "Namespace", cluster.kubernetes.namespace),
        "redis.yaml": _redis(cluster),
        "redis-service.yaml": _service(cluster),
        "learner.yaml": _role(cluster, "learner", 1),
        "actor.yaml": _role(cluster, "actor", cluster.actors.count),
        "network.yaml": _network(cluster),
    }
    if cluster.learner.evaluators:
        # It reads the learner's disk, so it is a container of the learner's pod.
        objects["learner.yaml"] = _role(cluster, "learner", 1, ("evaluator",))
    if cluster.kubernetes.scale:
        # KEDA says how many there are: applied again, manifests must not.
        del objects["actor.yaml"]["spec"]["replicas"]
        objects |= scaled(cluster, SECRET, TLS, PORT) | {"scaling-network.yaml": _keda_network(cluster)}
    if cluster.train.telemetry.port:
        objects = watched(cluster.train.telemetry, objects)
        inside = dataclasses.replace(inside, run=seen_in_pods(cluster.run))
    top = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": cluster.kubernetes.namespace,
        "resources": list(objects),
        "configMapGenerator": [{"name": f"{name}-cluster", "files": ["cluster.json", "redis.conf"]}],
    }
    return {
        "kustomization.yaml": yaml(top),
        "cluster.json": json.dumps(to_dict(inside), indent=1) + "\n",
        "redis.conf": REDIS.format(memory=cluster.broker.memory_mb),
        **{file: yaml(content) for file, content in objects.items()},
    }


def _object(version: str, kind: str, name: str, **rest: Any) -> Values:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **rest}


def _labels(cluster: Cluster, role: str) -> Values:
    return {"app.kubernetes.io/name": "playmill", "app.kubernetes.io/instance": cluster.name, "role": role}


def _container(name: str, image: str, cluster: Cluster, **rest: Any) -> Values:
    wanted = {"cpu": cluster.kubernetes.cpu, "memory": cluster.kubernetes.memory}
    return {
        "name": name,
        "image": image,
        "resources": {"requests": wanted, "limits": {"memory": cluster.kubernetes.memory}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        **rest,
    }


def _stateful(cluster: Cluster, role: str, replicas: int, pod: Values, disk: bool) -> Values:
    labels = _labels(cluster, role)
    spec: Values = {
        "serviceName": f"{cluster.name}-{role}",
        "replicas": replicas,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": int(PATIENCE_S) + 5,
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": USER,
                    "runAsGroup": USER,
                    "fsGroup": USER,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                **pod,
            },
        },
    }
    if disk:
        size = {"requests": {"storage": cluster.kubernetes.disk}}
        claim = {"accessModes": ["ReadWriteOnce"], "resources": size}
        spec["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
    return _object("apps/v1", "StatefulSet", f"{cluster.name}-{role}", spec=spec)


def _volumes(cluster: Cluster, tls: list[str]) -> list[Values]:
    items = [{"key": name, "path": name} for name in tls]
    return [
        {"name": "cluster", "configMap": {"name": f"{cluster.name}-cluster"}},
        {"name": "secret", "secret": {"secretName": SECRET, "defaultMode": 0o440}},
        {"name": "tls", "secret": {"secretName": TLS, "defaultMode": 0o440, "items": items}},
        {"name": "tmp", "emptyDir": {}},
    ]


MOUNTS = [
    {"name": "cluster", "mountPath": "/cluster", "readOnly": True},
    {"name": "secret", "mountPath": "/secret", "readOnly": True},
    {"name": "tls", "mountPath": "/tls", "readOnly": True},
    {"name": "tmp", "mountPath": "/tmp"},
    {"name": "data", "mountPath": "/data"},
]


def _role(cluster: Cluster, role: str, count: int, beside: tuple[str, ...] = ()) -> Values:
    containers = []
    for part in (role, *beside):
        number = ["--number", "$(NUMBER)"] if part == "actor" else []
        words = [
            "playmill",
            "join",
            "/cluster/cluster.json",
            part,
            *number,
            "--password-file",
            "/secret/password",
            "--alive",
            _alive(part),
        ]
        index = {"fieldRef": {"fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']"}}
        environment = [{"name": "HOME", "value": "/tmp"}, {"name": "NUMBER", "valueFrom": index}]
        containers.append(
            _container(
                part,
                cluster.kubernetes.image,
                cluster,
                command=words,
                env=environment,
                volumeMounts=MOUNTS,
                **_probes(_recent(part, cluster.kubernetes.silent_s), every=30),
            )
        )
    volumes = _volumes(cluster, ["ca.crt"])
    if role == "actor":
        volumes.append({"name": "data", "emptyDir": {}})
    return _stateful(cluster, role, count, {"containers": containers, "volumes": volumes}, role == "learner")


def _alive(part: str) -> str:
    """Where a process leaves its signs of life: each its own file, containers of a pod share the folder."""
    return f"/tmp/alive-{part}"


def _recent(part: str, silent: int) -> str:
    """Whether the last sign is younger than so many seconds."""
    age = f"$(date +%s) - $(stat -c %Y {_alive(part)} || echo 0)"
    return f'test "$(({age}))" -lt {silent}'


def _probes(command: str, every: int) -> Values:
    """What hangs is restarted, what is slow to start is not. Nothing listens for it: a shell looks."""
    look = {"exec": {"command": ["sh", "-c", command]}, "timeoutSeconds": 5}
    return {
        "startupProbe": {**look, "periodSeconds": 5, "failureThreshold": START_S // 5},
        "livenessProbe": {**look, "periodSeconds": every, "failureThreshold": 3},
    }


def _redis(cluster: Cluster) -> Values:
    start = 'printf "requirepass %s\\n" "$(cat /secret/password)" | exec redis-server /cluster/redis.conf -'
    ask = f"redis-cli --tls --cacert /tls/ca.crt -p {PORT} ping"
    answers = f'test "$(REDISCLI_AUTH="$(cat /secret/password)" {ask})" = PONG'
    probes = _probes(answers, every=10)
    container = _container(
        "redis",
        cluster.kubernetes.redis_image,
        cluster,
        command=["sh", "-c", start],
        ports=[{"containerPort": PORT}],
        readinessProbe=probes["livenessProbe"],
        volumeMounts=MOUNTS,
        **probes,
    )
    volumes = _volumes(cluster, ["tls.crt", "tls.key", "ca.crt"])
    return _stateful(cluster, "redis", 1, {"containers": [container], "volumes": volumes}, True)


def _service(cluster: Cluster) -> Values:
    spec = {"selector": _labels(cluster, "redis"), "ports": [{"port": PORT, "targetPort": PORT}]}
    return _object("v1", "Service", f"{cluster.name}-redis", spec=spec)


def _network(cluster: Cluster) -> Values:
    """Nobody but the cluster's own pods reaches its broker, nobody reaches the other roles. Out they go to
    the broker and to the names' service alone."""
    own = {"podSelector": {"matchLabels": {"app.kubernetes.io/instance": cluster.name}}}
    broker = {"podSelector": {"matchLabels": _labels(cluster, "redis")}}
    names = [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]
    ports = [{"port": PORT, "protocol": "TCP"}]
    spec = {
        **own,
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [own], "ports": ports}],
        "egress": [{"to": [broker], "ports": ports}, {"ports": names}],
    }
    return _object("networking.k8s.io/v1", "NetworkPolicy", cluster.name, spec=spec)


def _keda_network(cluster: Cluster) -> Values:
    """KEDA looks at the broker's stream, and comes to nothing else."""
    namespace = {"matchLabels": {"kubernetes.io/metadata.name": cluster.kubernetes.keda}}
    spec = {
        "podSelector": {"matchLabels": _labels(cluster, "redis")},
        "policyTypes": ["Ingress"],
        "ingress": [
            {"from": [{"namespaceSelector": namespace}], "ports": [{"port": PORT, "protocol": "TCP"}]}
        ],
    }
    return _object("networking.k8s.io/v1", "NetworkPolicy", f"{cluster.name}-keda", spec=spec)
