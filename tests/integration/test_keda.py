"""What KEDA makes of the manifests: its own schemas, and its sums on a real broker's numbers."""

import json
import math
import os
import shutil
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from playmill.experience.assignments import AssignmentBoard, Leave
from playmill.experience.channel import Backlog
from playmill.experience.redis_link import Link
from playmill.games import PlaymillError
from playmill.launch.cluster import cluster_from, read_cluster
from playmill.launch.render import render
from playmill.training.demand import LOOK_S, Demand

pytestmark = pytest.mark.integration
CHECK = Path(__file__).parent / "keda"


def cluster(**changes):
    values = {
        "name": "mine",
        "by": "kubernetes",
        "actors": {"count": 6},
        "run": {"game": "leduc"},
        "kubernetes": {"scale": True, "min_actors": 0},
    }
    return cluster_from({**values, **changes})


@pytest.fixture
def objects(tmp_path):
    files = render(cluster(), tmp_path / "rendered")
    return {file.name: yaml.safe_load(file.read_text()) for file in files if file.suffix == ".yaml"}


def test_keda_takes_the_manifests_and_would_not_take_wrong_ones(objects, tmp_path):
    missing = [tool for tool in ("node", "npm") if shutil.which(tool) is None]
    if missing:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{' and '.join(missing)} not found")
    folder = shutil.copytree(CHECK, tmp_path / "keda")
    install = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
    done = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr

    def said(*checked):
        command = ["node", "check.mjs"]
        text = json.dumps(checked)
        done = subprocess.run(command, cwd=folder, input=text, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    scaler, access = objects["scaling.yaml"], objects["scaling-access.yaml"]
    assert said(scaler, access) == ""
    wrong = {
        "maxReplicaCount must be integer": (scaler, ["maxReplicaCount"], "6"),
        "there is no spec/minReplicas": (scaler, ["minReplicas"], 0),
        "scaleTargetRef must have required property": (scaler, ["scaleTargetRef"], {}),
        "lagCount must be string": (scaler, ["triggers", 0, "metadata", "lagCount"], 1),
        "there is no spec/triggers/0/authentication": (scaler, ["triggers", 0, "authentication"], "mine"),
        "policies/0/value must be integer": (
            scaler,
            ["advanced", "horizontalPodAutoscalerConfig", "behavior", "scaleUp", "policies", "0", "value"],
            "100",
        ),
        "there is no spec/secretTargetRef/1/file": (access, ["secretTargetRef", 1, "file"], "ca.crt"),
    }
    for why, (object_, path, value) in wrong.items():
        broken = json.loads(json.dumps(object_))
        at = broken["spec"]
        for part in path[:-1]:
            at = at[int(part) if isinstance(at, list) else part]
        at[path[-1]] = value
        assert why in said(broken)


def test_kubernetes_takes_the_rest(objects):
    for name in ("actor.yaml", "scaling-network.yaml"):
        kubernetes_validate.validate(objects[name], kubernetes_validate.latest_version(), strict=True)


def test_the_scaler_looks_at_the_stream_that_the_learner_fills(objects, tmp_path):
    inside = read_cluster(tmp_path / "rendered" / "cluster.json").train.actors
    assert inside.assigned
    assert inside.ahead == 8
    spec = objects["scaling.yaml"]["spec"]
    assert spec["scaleTargetRef"]["name"] == objects["actor.yaml"]["metadata"]["name"]
    assert "replicas" not in objects["actor.yaml"]["spec"]
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (0, 6)
    for trigger in spec["triggers"]:
        assert trigger["metadata"]["stream"] == "playmill:{mine}:assignments"
        assert trigger["metadata"]["enableTLS"] == "true"
        assert trigger["authenticationRef"]["name"] == objects["scaling-access.yaml"]["metadata"]["name"]
    secrets = {one["name"] for one in objects["scaling-access.yaml"]["spec"]["secretTargetRef"]}
    mounted = objects["redis.yaml"]["spec"]["template"]["spec"]["volumes"]
    assert secrets == {volume["secret"]["secretName"] for volume in mounted if "secret" in volume}
    door = objects["scaling-network.yaml"]["spec"]
    assert door["podSelector"]["matchLabels"]["role"] == "redis"
    source = door["ingress"][0]["from"][0]["namespaceSelector"]["matchLabels"]
    assert source == {"kubernetes.io/metadata.name": "keda"}
    host, _, port = spec["triggers"][0]["metadata"]["address"].rpartition(":")
    assert host == f"{objects['redis-service.yaml']['metadata']['name']}.playmill.svc"
    assert int(port) == objects["redis-service.yaml"]["spec"]["ports"][0]["port"]


def wanted(scaler, broker):
    """Replicas by KEDA's two numbers of the stream: the most of ceil(value / target), within its limits."""
    client, counts = Link(broker.bare_url, broker.password).client(), []
    for trigger in scaler["triggers"]:
        settings = trigger["metadata"]
        group = next(
            one
            for one in client.xinfo_groups(settings["stream"])
            if one["name"].decode() == settings["consumerGroup"]
        )
        if "lagCount" in settings:
            counts.append(math.ceil(group["lag"] / int(settings["lagCount"])))
        else:
            counts.append(math.ceil(group["pending"] / int(settings["pendingEntriesCount"])))
    return min(max(*counts, scaler["minReplicaCount"]), scaler["maxReplicaCount"])


def test_replicas_follow_what_the_learner_wants(objects, redis_server):
    scaler, settings = objects["scaling.yaml"]["spec"], cluster().train.actors
    at = (redis_server.bare_url, settings.assigned_name)
    board = AssignmentBoard(*at, password=redis_server.password)
    demand = Demand(settings, board)
    nothing = Backlog(0, 0, 0, 0.0)

    def look(backlog):
        demand._looked_at -= LOOK_S
        demand.look(lambda: backlog)

    look(nothing)
    assert wanted(scaler, redis_server) == 6, "a learner that starves wants all"
    actors = [Leave(*at, number, password=redis_server.password) for number in range(6)]
    for actor in actors:
        assert actor.given(1.0)
        look(nothing)
    assert wanted(scaler, redis_server) == 6
    # It has enough: what was asked for is played, then as many stay as the updates need.
    demand.starved = 0.0
    enough = nothing._replace(messages=200)
    while any(actor.held for actor in actors):
        for actor in actors:
            if actor.held:
                actor.used(settings.assignment)
            actor.given(0.01)
        look(enough)
    assert wanted(scaler, redis_server) == 0
    look(nothing._replace(messages=2 * settings.segments - 3 * settings.assignment))
    for actor in actors:
        actor.given(0.01)
    assert wanted(scaler, redis_server) == 3
    demand.withdraw()
    assert wanted(scaler, redis_server) == 0


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"by": "local"}, "for kubernetes alone"),
        ({"kubernetes": {"scale": True, "min_actors": 7}}, "min_actors must be from 0"),
        ({"kubernetes": {"scale": True, "keda": "../x"}}, r"kubernetes\.keda"),
        ({"kubernetes": {"silent_s": 5}}, "silent_s must be from 60"),
    ],
)
def test_what_cannot_be_scaled_says_so(changes, says):
    with pytest.raises(PlaymillError, match=says):
        cluster(**changes)
