"""Clusters that Ray places, as far as no Ray is needed: settings, places, nodes, keepers."""

import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playmill.games import PlaymillError
from playmill.launch.cluster import cluster_from
from playmill.launch.crew import WATCHED
from playmill.launch.keeper import Job, Keeper
from playmill.launch.local import launch
from playmill.launch.plan import plan_lines
from playmill.launch.ray_places import check_nodes, places
from playmill.launch.ray_settings import LOOPBACK_ALONE, Ray, enter


def made(run=None, **changes):
    return cluster_from({"name": "mine", "by": "ray", "run": {"game": "leduc", **(run or {})}, **changes})


def node(number, address="10.0.0.1", label="", **resources):
    return {
        "NodeID": str(number),
        "Alive": True,
        "NodeManagerAddress": address,
        "Labels": {"playmill": label} if label else {},
        "Resources": {"CPU": 4.0, **resources},
    }


@pytest.mark.parametrize("address", ["auto", "local", "head:6379", "10.0.0.1:1", "[fd00::1]:6379"])
def test_ray_is_found_by_itself_started_or_at_an_address(address):
    assert Ray(address).address == address


@pytest.mark.parametrize(
    "address", ["", "head", "head:", "head:0", "head:70000", "ray://h:1", "a@h:1", "h:1/x"]
)
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(PlaymillError, match="HOST:PORT"):
        Ray(address)


@given(st.floats(allow_nan=True).filter(lambda x: not (x == 0 or 0.01 <= x <= 1024)))
def test_amounts_that_no_node_has_are_refused(amount):
    for name in ("actor_cpus", "learner_cpus", "learner_gpus"):
        with pytest.raises(PlaymillError, match=name):
            Ray(**{name: amount})


def test_a_part_of_a_card_is_less_than_one():
    with pytest.raises(PlaymillError, match="whole"):
        Ray(learner_gpus=1.5)


def test_without_a_token_there_is_no_ray():
    for environment in ({}, {"RAY_AUTH_MODE": "disabled"}):
        with pytest.raises(PlaymillError, match="get-auth-token --generate"):
            enter(Ray(), environment)
    with pytest.raises(PlaymillError, match="RAY_AUTH_MODE=token"):
        enter(Ray("local"), {"RAY_AUTH_MODE": "disabled"})
    given = {"RAY_AUTH_MODE": "token"}
    enter(Ray(), given)
    assert given == {"RAY_AUTH_MODE": "token"}


def test_a_ray_of_its_own_has_a_token_of_its_own_and_listens_on_loopback():
    one, two = {}, {}
    enter(Ray("local"), one)
    enter(Ray("local"), two)
    assert one["RAY_AUTH_MODE"] == "token"
    assert one["RAY_AUTH_TOKEN"] != two["RAY_AUTH_TOKEN"]
    assert one.items() >= LOOPBACK_ALONE.items()
    kept = {"RAY_AUTH_TOKEN_PATH": "file"}
    enter(Ray("local"), kept)
    assert "RAY_AUTH_TOKEN" not in kept


def test_without_ray_it_is_said_what_to_install(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "playmill.launch.ray", raising=False)
    with pytest.raises(PlaymillError, match=r"pip install 'playmill\[ray\]'"):
        launch(made(broker={"start": True}), lambda: False, print)


def test_who_needs_the_others_machine_goes_with_them():
    cluster = made(learner={"evaluators": 1}, actors={"count": 2}, ray={"learner_gpus": 1})
    assert [(place.name, place.host, place.cpus, place.gpus) for place in places(cluster)] == [
        ("learner, evaluator", "here", 1, 1),
        ("actor-0", "anywhere", 1, 0),
        ("actor-1", "anywhere", 1, 0),
    ]
    cluster = made({"actors": {"inference": "process"}}, actors={"count": 3, "on": ["a", "b"]})
    assert [(place.name, place.host, place.cpus) for place in places(cluster)[1:]] == [
        ("policy, actor-0, actor-2", "a", 2),
        ("policy, actor-1", "b", 1),
    ]


def test_the_plan_says_what_ray_is_asked_for():
    text = "\n".join(plan_lines(made(actors={"count": 2, "on": ["spot"]}, ray={"learner_gpus": 1})))
    assert "ray     auto; the learner asks for 1 CPUs and 1 GPUs, an actor for 1" in text
    assert "nodes with playmill=spot  actors 0, 1" in text
    assert "anywhere  actors 0" in "\n".join(plan_lines(made()))


def test_nodes_that_cannot_serve_are_refused_before_anything_starts():
    one = [node(1, label="a")]
    check_nodes(made(actors={"on": ["a"]}), one, "1", tls=False)
    for changes, nodes, why in (
        ({"actors": {"on": ["b"]}}, one, "playmill=b"),
        ({"learner": {"on": "a"}}, [*one, node(2, label="a")], "2 nodes"),
        ({"ray": {"actor_cpus": 5}}, one, "no node of Ray has room for actor-0: 5 CPUs anywhere"),
        (
            {"ray": {"learner_gpus": 1}},
            [*one, node(2, GPU=1.0)],
            "room for learner: 1 CPUs and 1 GPUs on this",
        ),
        ({}, [*one, node(2, "10.0.0.2")], "cannot be reached from 10.0.0.2"),
    ):
        with pytest.raises(PlaymillError, match=why):
            check_nodes(made(**changes), nodes, "1", tls=False)
    check_nodes(made(actors={"on": ["here"]}), [*one, node(2, "10.0.0.2")], "1", tls=False)
    dead = {**node(2, "10.0.0.2"), "Alive": False}
    check_nodes(made(), [*one, dead], "1", tls=False)


def test_the_password_goes_to_other_machines_by_tls_or_not_at_all():
    nodes = [node(1), node(2, "10.0.0.2")]
    far = {"url": "rediss://broker:6379/0"}
    with pytest.raises(PlaymillError, match="in the clear"):
        check_nodes(made(broker=far), nodes, "1", tls=False)
    check_nodes(made(broker=far), nodes, "1", tls=True)
    check_nodes(made(broker={**far, "password_file": "/etc/playmill/password"}), nodes, "1", tls=False)


def keeper(folder):
    """Of a process that refuses to start."""
    return Keeper(str(folder), "{}", [Job("it", ["join"], final=(2,))], WATCHED)


def test_a_keeper_starts_nothing_before_it_is_told_and_says_how_it_ended(tmp_path):
    kept = keeper(tmp_path / "runs")
    assert kept.watch(5.0) is None
    began = kept.begin({"SECRET": "x"})
    assert began.starts == {"it": 1}
    until = time.monotonic() + 60
    while not (found := kept.watch(5.0)).ended:
        assert time.monotonic() < until
    assert (found.life, found.ended, found.refusal) == (began.life, {"it": 2}, "")
    kept.end(1.0)
    assert keeper(tmp_path / "other").watch(0.0) is None


def test_a_keeper_without_a_folder_says_so(tmp_path):
    (tmp_path / "file").touch()
    found = keeper(tmp_path / "file" / "runs").begin({})
    assert "file" in found.refusal
    assert found.starts == {}


def test_a_keeper_is_small():
    words = "import playmill.launch.keeper, sys; sys.exit('torch' in sys.modules or 'ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", words]).returncode == 0
