"""Units and manifests: what tools say of them, and what must stand in them."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from playmill.games import PlaymillError
from playmill.launch.cluster import cluster_from, read_cluster
from playmill.launch.render import render
from playmill.launch.yaml import yaml as written
from playmill.training.telemetry_settings import Telemetry

DEPLOY = Path(__file__).parents[2] / "deploy"


def made(by, **changes):
    values = {"name": "mine", "by": by, "actors": {"count": 3}, "run": {"game": "leduc"}, **changes}
    return cluster_from(values)


@pytest.fixture
def objects(tmp_path):
    files = render(made("kubernetes"), tmp_path)
    found = [yaml.safe_load(file.read_text()) for file in files if file.suffix == ".yaml"]
    return {(one["kind"], one.get("metadata", {}).get("name", "")): one for one in found}


def pods(objects):
    return [one["spec"]["template"]["spec"] for (kind, _), one in objects.items() if kind == "StatefulSet"]


def test_kubernetes_takes_the_manifests(objects):
    for (kind, _), one in objects.items():
        if kind != "Kustomization":
            kubernetes_validate.validate(one, kubernetes_validate.latest_version(), strict=True)
    broken = json.loads(json.dumps(objects["StatefulSet", "mine-actor"]))
    broken["spec"]["replicas"] = "20"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, kubernetes_validate.latest_version(), strict=True)


def test_pods_may_do_little(objects):
    assert len(pods(objects)) == 3
    for pod in pods(objects):
        assert pod["securityContext"]["runAsNonRoot"]
        assert not pod["automountServiceAccountToken"]
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            for probe in ("startupProbe", "livenessProbe"):
                assert container[probe]["exec"]["command"][:2] == ["sh", "-c"]
            start = container["startupProbe"]
            assert start["periodSeconds"] * start["failureThreshold"] >= 900
            assert container["resources"]["limits"]["memory"]
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            claims = {"data"}
            assert mounted <= {volume["name"] for volume in pod["volumes"]} | claims


def test_the_broker_speaks_tls_and_only_to_the_clusters_pods(objects, tmp_path):
    conf = (tmp_path / "redis.conf").read_text()
    assert "\ntls-port 6379\n" in f"\n{conf}"
    assert conf.startswith("port 0\n")
    inside = read_cluster(tmp_path / "cluster.json")
    assert inside.broker.url == "rediss://mine-redis:6379/0?ssl_ca_certs=/tls/ca.crt"
    policy = objects["NetworkPolicy", "mine"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"][0]["from"] == [
        {"podSelector": {"matchLabels": {"app.kubernetes.io/instance": "mine"}}}
    ]


def test_pods_show_their_metrics_with_a_token_from_a_secret(tmp_path):
    run = {"game": "leduc", "telemetry": {"port": 9400, "alias": "mtg"}}
    files = render(made("kubernetes", run=run, learner={"evaluators": 1}), tmp_path)
    found = [yaml.safe_load(file.read_text()) for file in files if file.suffix == ".yaml"]
    objects = {(one["kind"], one.get("metadata", {}).get("name", "")): one for one in found}
    test_kubernetes_takes_the_manifests(objects)
    shown = {}
    for pod in pods(objects):
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        for container in pod["containers"]:
            if container["name"] == "redis":
                continue
            (port,) = container["ports"]
            shown[container["name"]] = port["name"], port["containerPort"]
            environment = {one["name"]: one.get("value") for one in container["env"]}
            assert environment["PLAYMILL_METRICS_PORT"] == str(port["containerPort"])
            assert {"name": "metrics", "mountPath": "/metrics", "readOnly": True} in container["volumeMounts"]
            assert volumes["metrics"]["secret"]["secretName"] == "playmill-metrics"
    assert shown == {
        "learner": ("metrics", 9400),
        "evaluator": ("metrics-evaluator"[:15], 9401),
        "actor": ("metrics", 9410),
    }
    ports = objects["NetworkPolicy", "mine"]["spec"]["ingress"][1]["ports"]
    assert [one["port"] for one in ports] == [9400, 9401, 9410]
    telemetry = read_cluster(tmp_path / "cluster.json").train.telemetry
    assert telemetry == Telemetry(port=9400, bind="0.0.0.0", token_file="/metrics/token", alias="mtg")


def test_without_metrics_pods_listen_nowhere(objects):
    for pod in pods(objects):
        assert all("ports" not in one or one["name"] == "redis" for one in pod["containers"])
    assert len(objects["NetworkPolicy", "mine"]["spec"]["ingress"]) == 1


def test_the_same_pod_evaluates_what_the_learner_saves(tmp_path):
    render(made("kubernetes", learner={"evaluators": 1}), tmp_path)
    pod = yaml.safe_load((tmp_path / "learner.yaml").read_text())["spec"]["template"]["spec"]
    assert [container["name"] for container in pod["containers"]] == ["learner", "evaluator"]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is in no package registry")
def test_kustomize_builds_the_manifests(tmp_path):
    render(made("kubernetes"), tmp_path)
    built = subprocess.run(["kubectl", "kustomize", tmp_path], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    kinds = [one["kind"] for one in yaml.safe_load_all(built.stdout)]
    assert sorted(kinds) == sorted(
        ["Namespace", "ConfigMap", "Service", "NetworkPolicy", *["StatefulSet"] * 3]
    )


def test_units_name_every_role_and_may_do_little(tmp_path):
    render(made("systemd"), tmp_path)
    wanted = (tmp_path / "playmill-mine.target").read_text()
    for name in ("learner", "actor@0", "actor@1", "actor@2"):
        assert f"playmill-mine-{name}.service" in wanted
    for file in tmp_path.glob("*.service"):
        text = file.read_text()
        for line in (
            "DynamicUser=yes",
            "ProtectSystem=strict",
            "NoNewPrivileges=yes",
            "CapabilityBoundingSet=",
        ):
            assert f"\n{line}\n" in text
        assert "LoadCredential=password:/etc/playmill/mine.password" in text
    assert read_cluster(tmp_path / "mine.json") == made("systemd")


@pytest.mark.parametrize(("bind", "handed"), [("127.0.0.1", False), ("0.0.0.0", True)])
def test_units_hand_over_the_token_of_metrics_that_others_can_see(tmp_path, bind, handed):
    run = {"game": "leduc", "telemetry": {"port": 9400, "bind": bind}}
    render(made("systemd", run=run), tmp_path)
    for file in tmp_path.glob("*.service"):
        line = "LoadCredential=metrics_token:/etc/playmill/mine.metrics_token\n"
        assert (line in file.read_text()) == handed


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_the_units(tmp_path):
    # It looks whether programs are there: `true` stands for ours.
    render(made("systemd", systemd={"playmill": shutil.which("true")}), tmp_path)
    (tmp_path / "playmill-mine-actor@0.service").symlink_to("playmill-mine-actor@.service")
    environment = {**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"}
    units = [*tmp_path.glob("*[!@].service"), tmp_path / "playmill-mine.target"]
    done = subprocess.run(
        ["systemd-analyze", "verify", *units], capture_output=True, text=True, env=environment
    )
    ours = [line for line in done.stderr.splitlines() if "playmill" in line]
    assert ours == []


def test_only_what_others_start_is_rendered(tmp_path):
    with pytest.raises(PlaymillError, match="--render is for"):
        render(made("local"), tmp_path)


def test_yaml_is_read_as_it_was_meant():
    value = {
        "a": [{"b": 1, "c": []}, ["x", "- y"]],
        "on/off": "no",
        "e": {},
        "f": None,
        "g": True,
        "h": "1\n2: é",
    }
    assert yaml.safe_load(written(value)) == value


def test_the_example_of_manifests_is_as_it_would_be_rendered(tmp_path):
    folder = DEPLOY / "kubernetes"
    files = render(read_cluster(DEPLOY / "kubernetes.toml"), tmp_path)
    assert {file.name: file.read_text() for file in files} == {
        file.name: file.read_text() for file in folder.iterdir()
    }
