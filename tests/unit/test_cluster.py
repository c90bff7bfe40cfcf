"""Cluster files: what they may say, and names that must not pass."""

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playmill.cli.launch import _renew
from playmill.games import PlaymillError
from playmill.launch import names
from playmill.launch.cluster import Cluster, cluster_from, read_cluster
from playmill.launch.plan import placed, plan_lines
from playmill.launch.secret import find_password
from playmill.launch.ssh import seen_from, ssh_words
from playmill.training.config import to_dict
from playmill.training.exchange import PASSWORD
from playmill.training.runs import create_run, read_config

BAD = st.builds(
    lambda before, sign, after: before + sign + after,
    st.text("abz09./", max_size=5),
    st.sampled_from(
        ["\n", "\r", "\0", ";", " ", "\t", "|", "&", "$", "`", "'", '"', "\\", "*", "(", "<", "é"]
    ),
    st.text("abz09./", max_size=5),
)
CHECKS = [
    names.check_name,
    names.check_user,
    names.check_host,
    names.check_path,
    names.check_image,
    names.check_quantity,
]


def made(**changes):
    return cluster_from({"name": "mine", "run": {"game": "leduc"}, **changes})


@pytest.mark.parametrize("check", CHECKS)
@given(name=BAD)
def test_names_with_signs_of_a_shell_or_line_breaks_are_refused(check, name):
    with pytest.raises(PlaymillError):
        check(name, "it")


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", ["", "-o", "-", "--x", "a\n", "../x", "a b"])
def test_names_that_look_like_options_or_leave_their_folder_are_refused(check, name):
    with pytest.raises(PlaymillError):
        check(name, "it")


@given(name=BAD)
def test_bad_names_are_refused_wherever_a_cluster_has_them(name):
    for changes in (
        {"name": name},
        {"folder": name},
        {"broker": {"url": f"redis://127.0.0.1:6379/{name}"}},
        {"broker": {"url": f"rediss://{name}x:6379/0"}},
        *(
            {"by": "ssh", "hosts": [{"name": "a", field: name}]}
            for field in ("address", "user", "key", "playmill")
        ),
        {"by": "ray", "ray": {"address": name}},
        {"by": "ray", "learner": {"on": name}},
        {"by": "ray", "actors": {"on": [name]}},
        {"kubernetes": {"image": name}},
        {"systemd": {"playmill": name}},
    ):
        with pytest.raises(PlaymillError):
            made(**changes)


@given(
    words=st.lists(
        st.text(st.characters(blacklist_characters="\0\n\r", blacklist_categories=["Cs"]), max_size=9)
    )
)
def test_quoted_words_stay_words(words):
    assert shlex.split(names.quoted(words)) == words


def test_a_shell_sees_quoted_words_as_they_are():
    words = ["a b", "$(id)", "`id`", "';id;'", "-n", "*", "~", "\\"]
    told = subprocess.run(
        ["sh", "-c", names.quoted(["printf", "%s|", *words])], capture_output=True, text=True
    )
    assert told.stdout == "|".join(words) + "|"
    with pytest.raises(PlaymillError, match="line break"):
        names.quoted(["a\nb"])


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"nam": 1}, "no setting is called"),
        ({"by": "telnet"}, "no value of by is called"),
        ({"run": {}}, "nothing to train"),
        ({"run": {"game": "leduc", "actors": {"channel": "shared"}}}, "broker.url says it"),
        ({"run": {"game": "leduc", "lane": "resident"}}, "engine lane"),
        ({"run": {"game": "leduc", "actors": {"weights": "shared"}}}, "other machines"),
        ({"broker": {"url": "redis://10.0.0.1:6379/0"}}, "TLS"),
        ({"broker": {"url": "redis://:secret@127.0.0.1:6379/0"}}, "no password in it"),
        ({"broker": {"url": "rediss://h:1/0?ssl_cert_reqs=none"}}, "only option"),
        ({"broker": {"url": "rediss://h:1/0", "start": True}}, "on 127.0.0.1"),
        ({"actors": {"on": ["b"]}}, "no host is called"),
        ({"hosts": [{"name": "a"}]}, 'by = "ssh"'),
        ({"by": "ssh", "hosts": [{"name": "a"}, {"name": "a"}]}, "same name"),
        ({"notice": {"by": "file"}}, "needs notice.file"),
        ({"by": "ray", "hosts": [{"name": "a"}]}, 'by = "ssh"'),
        ({"by": "ray", "learner": {"on": "anywhere"}}, "one machine"),
    ],
)
def test_what_cannot_be_is_refused(changes, why):
    with pytest.raises(PlaymillError, match=why):
        made(**changes)


def test_a_recipe_gives_what_the_file_leaves_open(tmp_path):
    file = tmp_path / "cluster.toml"
    file.write_text('name = "mine"\nrecipe = "leduc/quick"\n[run]\nturns = 5\n[run.actors]\nengines = 3\n')
    found = read_cluster(file)
    assert (found.train.game, found.train.turns, found.train.actors.engines) == ("leduc", 5, 3)
    assert found.train.by_engines
    assert "threads" not in found.run
    assert cluster_from(to_dict(found)) == found


def ssh_cluster() -> Cluster:
    hosts = [{"name": "a", "user": "me", "address": "10.0.0.1"}, {"name": "b", "tunnel_port": 7000}]
    run = {"game": "leduc", "actors": {"inference": "process"}}
    return made(by="ssh", hosts=hosts, actors={"count": 5, "on": ["a", "b"]}, run=run)


def test_actors_are_shared_out_and_the_plan_says_where(monkeypatch):
    monkeypatch.setenv(PASSWORD, "not to be shown")
    cluster = ssh_cluster()
    assert [one.host for one in placed(cluster) if one.role == "actor"] == ["a", "b", "a", "b", "a"]
    assert [one.host for one in placed(cluster) if one.role == "policy"] == ["a", "b"]
    text = "\n".join(plan_lines(cluster))
    assert "a (me@10.0.0.1:22)  policy, actors 0, 2, 4" in text
    assert "not to be shown" not in text


def test_ssh_knows_the_host_or_refuses_it_and_sees_the_broker_at_the_tunnel():
    cluster = ssh_cluster()
    words = ssh_words(cluster.host("b"), ["playmill", "a b"], ("127.0.0.1", 6379))
    assert "StrictHostKeyChecking=yes" in words
    assert "BatchMode=yes" in words
    assert words[-3:] == ["--", "b", "playmill 'a b'"]
    assert words[words.index("-R") + 1] == "127.0.0.1:7000:127.0.0.1:6379"
    assert seen_from(cluster, cluster.host("b")).broker.url == "redis://127.0.0.1:7000/0"


def test_a_password_comes_from_the_environment_or_a_private_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(PASSWORD, raising=False)
    with pytest.raises(PlaymillError, match="password is missing"):
        find_password(made())
    file = tmp_path / "password"
    file.write_text("from a file\n")
    file.chmod(0o644)
    cluster = made(broker={"password_file": "password"})
    with pytest.raises(PlaymillError, match="chmod 600"):
        find_password(cluster)
    file.chmod(0o600)
    with pytest.raises(PlaymillError, match="no spaces"):
        find_password(cluster)
    file.write_text("from-a-file\n")
    assert find_password(cluster) == "from-a-file"
    monkeypatch.setenv(PASSWORD, "from-outside")
    assert find_password(cluster) == "from-outside"
    monkeypatch.delenv(PASSWORD)
    started = made(broker={"start": True})
    assert find_password(started) == find_password(started)
    assert (started.own_folder / "password").stat().st_mode & 0o077 == 0


def test_how_actors_are_asked_may_change_with_the_cluster_and_what_is_learnt_may_not(tmp_path):
    """A run that was begun without scaling goes on with it, and with more actors."""
    values = {"name": "mine", "by": "kubernetes", "folder": str(tmp_path), "run": {"game": "leduc"}}
    begun = cluster_from(values)
    create_run(begun.run_folder, begun.train).release()
    scaled = cluster_from({**values, "actors": {"count": 20}, "kubernetes": {"scale": True}})
    _renew(scaled.run_folder, scaled.train, threads=False)
    found = read_config(scaled.run_folder).actors
    assert (found.assigned, found.assigned_name, found.ahead) == (True, "mine", 20)
    other = cluster_from({**values, "run": {"game": "leduc", "actors": {"games": 9}}})
    with pytest.raises(PlaymillError, match=r"another run\.actors"):
        _renew(other.run_folder, other.train, threads=False)
