"""Weights wherever they can lie: one contract; then what is Redis's, a store's, a relay's, a watch's own."""

import json
import subprocess
import threading
import time

import numpy as np
import pytest

from playmill.experience.weights import BadWeights, NoWeights, WeightsAway, WeightsError, pack
from playmill.experience.weights_broker import connect
from playmill.experience.weights_later import LaterPublisher
from playmill.experience.weights_open import open_follower, open_publisher
from playmill.experience.weights_redis import RedisFollower, RedisPublisher, names
from playmill.experience.weights_shared import SharedFollower, SharedPublisher
from playmill.experience.weights_store import StoreFollower, StorePublisher
from playmill.experience.weights_watch import Relay, WeightsWatch
from playmill.games import PlaymillError
from playmill.telemetry.meters import PrometheusMeters
from playmill.training.meters import WeightsMeters
from tests.redis_server import redis_server, running_redis  # noqa: F401

SILENT = {"on_problem": lambda _: None}


def tensors(value, size=100):
    return {"w": np.full((size, 3), value, np.float32)}


def until(true, within=10.0):
    deadline = time.monotonic() + within
    while not true():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.002)


@pytest.fixture(params=["shared", "redis", "file", "memory"])
def where(request, tmp_path):
    if request.param == "redis":
        yield request.getfixturevalue("redis_server").url
    elif request.param == "memory":
        yield f"memory://weights/{tmp_path.name}/{time.monotonic_ns()}"
    else:
        yield f"shared:{tmp_path / 'x.weights'}" if request.param == "shared" else f"file://{tmp_path / 'w'}"


def test_what_is_published_is_followed(where):
    publisher, follower = open_publisher(where, "run"), open_follower(where, "run")
    assert follower.newest() == publisher.newest() == 0
    with pytest.raises(NoWeights, match="nothing was published"):
        follower.fetch()
    for version in (1, 2, 3, 10, 11):
        publisher.publish(version, tensors(version))
        found, arrays = follower.fetch()
        assert found == publisher.newest() == follower.newest() == version
        np.testing.assert_array_equal(arrays["w"], tensors(version)["w"])
    with pytest.raises(WeightsError, match="go on with 12"):
        publisher.publish(11, tensors(11))
    publisher.close()
    follower.close()


def test_another_publisher_goes_on_and_late_comers_find_the_newest(where):
    first = open_publisher(where, "run")
    first.publish(4, tensors(4))
    first.close()
    second = open_publisher(where, "run")
    second.publish(second.newest() + 1, tensors(5))
    second.close()
    assert open_follower(where, "run").fetch()[0] == 5


def test_too_large_is_refused_on_both_sides(where):
    publisher = open_publisher(where, "run", most_bytes=4000)
    with pytest.raises(WeightsError, match="at most 4,000 are taken"):
        publisher.publish(1, tensors(1, 1000))
    publisher.publish(1, tensors(1))
    with pytest.raises(WeightsError, match="at most 500 are taken"):
        open_follower(where, "run", most_bytes=500).fetch()
    publisher.close()


@pytest.mark.parametrize("bad", ["", "weights", "/dev/shm/x", "redis", "nothing://there"])
def test_a_place_that_is_none_is_refused(bad):
    with pytest.raises(WeightsError):
        open_publisher(bad, "run")


def test_a_run_by_its_name_alone(monkeypatch, tmp_path):
    monkeypatch.setattr("playmill.experience.weights_open.shared_path", lambda run: tmp_path / run)
    publisher = open_publisher("shared", "run-7")
    publisher.publish(1, tensors(1))
    assert open_follower("shared", "run-7").fetch()[0] == 1
    publisher.close()
    with pytest.raises(PlaymillError, match="cannot name a run"):
        open_publisher("redis://:x@127.0.0.1:1", "a\nb")


# Later


def test_a_learner_goes_on_while_its_weights_are_on_their_way(where):
    later = LaterPublisher(open_publisher(where, "run"), **SILENT)
    follower = open_follower(where, "run")
    weights = tensors(1)
    later.publish(1, weights)
    weights["w"][:] = 99  # the next update
    assert later.flush(10)
    found, arrays = follower.fetch()
    assert (found, arrays["w"][0, 0]) == (1, 1.0)
    for version in range(2, 30):
        later.publish(version, tensors(version))
    with pytest.raises(WeightsError, match="go on with 30"):
        later.publish(29, tensors(29))
    assert later.flush(10)
    stats = later.stats()
    assert (stats.published + stats.skipped, stats.failed) == (29, 0)
    later.close()
    assert follower.fetch()[0] == 29


def test_a_broker_that_is_away_costs_no_training(redis_server):  # noqa: F811
    told = []
    later = LaterPublisher(RedisPublisher(redis_server.url, "run"), told.append)
    redis_server.kill()
    for version in (1, 2, 3):
        began = time.monotonic()
        later.publish(version, tensors(version))
        assert time.monotonic() - began < 0.4
    assert not later.flush(0.1)
    redis_server.start()
    assert later.flush(10)
    assert RedisFollower(redis_server.url, "run").fetch()[0] == later.newest() == 3
    assert later.stats().failed > 0
    assert all("Redis" in text for text in told)
    redis_server.kill()
    later.publish(4, tensors(4))
    began = time.monotonic()
    later.close(within=0.1)
    assert time.monotonic() - began < 5


# Redis


def test_redis_keeps_the_last_versions_and_leaves_nothing_behind(redis_server):  # noqa: F811
    client = connect(redis_server.url)
    publisher = RedisPublisher(redis_server.url, "run", keep=2)
    client.sadd(names("run").stored, 2)  # a publisher was killed after this
    client.set(names("run").blob(2), b"half")
    for version in range(3, 9):
        publisher.publish(version, tensors(version))
    blobs = sorted(key.decode() for key in client.scan_iter("*:weights:[0-9]*"))
    assert blobs == [names("run").blob(7), names("run").blob(8)]
    assert client.smembers(names("run").stored) == {b"7", b"8"}


def test_announcements_are_small_and_wake_followers(redis_server):  # noqa: F811
    heard = connect(redis_server.url).pubsub(ignore_subscribe_messages=True)
    heard.subscribe(names("run").pointer)
    follower = RedisFollower(redis_server.url, "run", look=100.0)
    assert follower.newest() == 0
    RedisPublisher(redis_server.url, "run").publish(1, tensors(1, 10_000))
    until(lambda: follower.newest() == 1)
    until(lambda: (heard_now := heard.get_message(timeout=0)) is None or len(heard_now["data"]) < 400)


def test_a_broker_that_dies_and_comes_back_empty_is_survived(redis_server):  # noqa: F811
    publisher = RedisPublisher(redis_server.url, "run")
    publisher.publish(1, tensors(1))
    told = []
    follower = RedisFollower(redis_server.url, "run", look=0.02)
    watch = WeightsWatch(follower, on_problem=told.append)
    assert watch.first(10)[0] == 1
    redis_server.kill()
    with pytest.raises(WeightsError, match="Redis is away"):
        publisher.publish(2, tensors(2))
    until(lambda: watch.stats().failed > 0)
    redis_server.start()
    publisher.publish(3, tensors(3))
    until(lambda: (found := watch.take()) is not None and found[0] == 3)
    assert any("Redis is away" in text for text in told)
    watch.close()


def test_redis_needs_a_password(redis_server):  # noqa: F811
    for url in (redis_server.bare_url, "rediss://127.0.0.1"):
        with pytest.raises(WeightsError, match="without a password is open to everybody"):
            connect(url)
    with pytest.raises(WeightsAway):
        connect("unix:///tmp/there-is-none.sock")
    assert connect(redis_server.bare_url, redis_server.password).ping()
    with pytest.raises(WeightsError, match="does not take this password"):
        connect(redis_server.bare_url, "wrong")
    with pytest.raises(WeightsError, match="begins with redis://"):
        connect("http://:x@127.0.0.1")


def test_other_hosts_are_reached_by_tls_alone_and_certificates_are_checked():
    for host in ("example.org", "10.0.0.7", "[2001:db8::1]"):
        with pytest.raises(WeightsError, match="another host: use rediss"):
            connect(f"redis://:secret@{host}:6379")
    with pytest.raises(WeightsError, match="leave out ssl_cert_reqs"):
        connect("rediss://:secret@127.0.0.1:6379?ssl_cert_reqs=none")
    with pytest.raises(WeightsError, match="the address of the broker is wrong"):
        connect("redis://:secret@127.0.0.1:6379?socket_timeout=soon")


def test_weights_go_through_tls(tmp_path):
    certificate, private_key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 "
        f"-subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout {private_key} -out {certificate}"
    )
    subprocess.run(made.split(), check=True, capture_output=True)
    with running_redis() as server:
        server.kill()
        server.start(
            *("--port", "0", "--tls-port", str(server.port), "--tls-auth-clients", "no"),
            *("--tls-cert-file", str(certificate), "--tls-key-file", str(private_key)),
        )
        url = f"rediss://:{server.password}@localhost:{server.port}/0"
        with pytest.raises(WeightsError, match="certificate"):
            connect(url)
        url = f"{url}?ssl_ca_certs={certificate}"
        RedisPublisher(url, "run").publish(1, tensors(1))
        assert RedisFollower(url, "run").fetch()[0] == 1


def test_a_server_that_asks_for_no_password_is_refused():
    with running_redis("--requirepass", "") as server, pytest.raises(WeightsError, match="lets everybody in"):
        connect(server.url)


def test_a_full_broker_is_an_error_that_passes():
    with running_redis("--maxmemory", "3mb", "--maxmemory-policy", "noeviction") as server:
        publisher = RedisPublisher(server.url, "run")
        publisher.publish(1, tensors(1))
        with pytest.raises(WeightsError, match="Redis refuses"):
            [publisher.publish(version, tensors(version, 200_000)) for version in range(2, 9)]
        follower = RedisFollower(server.url, "run")
        assert follower.fetch()[0] == follower.newest() >= 1


@pytest.mark.parametrize(
    "pointer",
    [
        b"hello",
        b"[]",
        b"[" * 100_000,
        json.dumps({"version": 1, "sha256": "00" * 32, "key": "secret", "size": 6}).encode(),
        json.dumps({"version": "1", "sha256": "00" * 32, "key": names("run").blob(1), "size": 6}).encode(),
        json.dumps({"version": 1, "sha256": "zz", "key": names("run").blob(1), "size": -6}).encode(),
    ],
)
def test_a_foreign_pointer_is_not_followed(redis_server, pointer):  # noqa: F811
    client = connect(redis_server.url)
    client.set("secret", "secret")
    client.set(names("run").pointer, pointer)
    for call in (RedisFollower(redis_server.url, "run").fetch, RedisFollower(redis_server.url, "run").newest):
        with pytest.raises(BadWeights, match="not written by Playmill"):
            call()


def test_damaged_and_swollen_blobs_in_redis_are_refused(redis_server):  # noqa: F811
    client, follower = connect(redis_server.url), RedisFollower(redis_server.url, "run")
    RedisPublisher(redis_server.url, "run").publish(1, tensors(1))
    client.setrange(names("run").blob(1), 700, b"\xff")
    with pytest.raises(BadWeights, match="sha256"):
        follower.fetch()
    client.append(names("run").blob(1), b"more")
    with pytest.raises(BadWeights, match="announced were"):
        follower.fetch()


# Stores


def test_a_store_keeps_the_last_versions_under_plain_names(tmp_path):
    publisher = StorePublisher(f"file://{tmp_path}", keep=2)
    for version in range(1, 6):
        publisher.publish(version, tensors(version))
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert kept == ["weights-00000004.safetensors", "weights-00000005.safetensors", "weights.json"]


def test_damage_in_a_store_is_refused(tmp_path):
    publisher, follower = StorePublisher(f"file://{tmp_path}"), StoreFollower(f"file://{tmp_path}", look=0)
    publisher.publish(1, tensors(1))
    blob = tmp_path / "weights-00000001.safetensors"
    whole = blob.read_bytes()
    for broken in (whole[:-1], whole + b"x", whole[:-1] + b"\xff", b""):
        blob.write_bytes(broken)
        with pytest.raises(BadWeights, match="sha256"):
            follower.fetch()
    blob.unlink()
    with pytest.raises(WeightsError, match="are not at"):
        follower.fetch()
    (tmp_path / "weights.json").write_text('{"version": 1}')
    with pytest.raises(BadWeights, match="not written by Playmill"):
        follower.newest()


# Watch and relay


def test_play_takes_only_the_newest_and_each_once(tmp_path):
    publisher = SharedPublisher(tmp_path / "x")
    watch = WeightsWatch(SharedFollower(tmp_path / "x"), every=0.001)
    assert watch.take() is None
    assert watch.stats().version == 0
    publisher.publish(1, tensors(1))
    assert watch.first(10)[0] == 1
    assert watch.take() is None
    for version in range(2, 6):
        publisher.publish(version, tensors(version))
    until(lambda: watch.stats().newest == 5)
    version, arrays = watch.take()
    assert (version, arrays["w"][0, 0]) == (5, 5.0)
    stats = watch.stats()
    assert (stats.version, stats.bad, stats.failed) == (5, 0, 0)
    assert 0 <= stats.sync <= stats.age < 60
    watch.close()
    publisher.close()


def test_nothing_that_comes_while_play_takes_is_lost(tmp_path):
    publisher = SharedPublisher(tmp_path / "x")
    watch = WeightsWatch(SharedFollower(tmp_path / "x"), every=0.0)
    seen = []

    def publish():
        for version in range(1, 301):
            publisher.publish(version, tensors(version))

    thread = threading.Thread(target=publish)
    thread.start()
    until(lambda: (found := watch.take()) is not None and (seen.append(found[0]) or found[0] == 300))
    thread.join()
    assert seen == sorted(set(seen))
    watch.close()
    publisher.close()


def test_a_damaged_version_is_counted_once_and_play_keeps_what_it_has(tmp_path):
    told = []
    publisher = StorePublisher(f"file://{tmp_path}")
    publisher.publish(1, tensors(1))
    watch = WeightsWatch(StoreFollower(f"file://{tmp_path}", look=0.0), on_problem=told.append)
    assert watch.first(10)[0] == 1
    bad = pack(2, tensors(2))
    publisher.put(bad._replace(data=bytes(bad.data)[:-1] + b"\xff"))
    until(lambda: watch.stats().bad == 1)
    time.sleep(0.6)  # it is tried again meanwhile
    assert watch.take() is None
    assert (watch.stats().bad, watch.stats().version, len(told)) == (1, 1, 1)
    publisher.publish(3, tensors(3))
    until(lambda: (found := watch.take()) is not None and found[0] == 3)
    watch.close()


def test_what_a_relay_refuses_counts_where_its_weights_are_followed(tmp_path):
    publisher, place = StorePublisher(f"file://{tmp_path / 'store'}"), tmp_path / "host.weights"
    publisher.publish(1, tensors(1))
    relay = Relay(StoreFollower(f"file://{tmp_path / 'store'}", look=0.0), place, **SILENT)
    watch, meters = WeightsWatch(SharedFollower(place), relay=relay), PrometheusMeters()
    told = WeightsMeters(meters, watch, watch)
    assert watch.first(10)[0] == 1
    told.look()
    bad = pack(2, tensors(2))
    publisher.put(bad._replace(data=bytes(bad.data)[:-1] + b"\xff"))
    until(lambda: watch.refused == 1)
    assert watch.stats().bad == 0
    told.look()
    page = meters.page()[0].decode()
    assert "playmill_weights_refused_total 2.0" in page  # both that are followed have this relay
    assert "playmill_weight_version 1.0" in page
    watch.close()
    relay.close()


def test_no_learner_is_said_after_a_while(tmp_path):
    watch = WeightsWatch(SharedFollower(tmp_path / "x"))
    with pytest.raises(WeightsError, match="is the learner running"):
        watch.first(0.05)
    watch.close()


def test_a_relay_brings_weights_to_its_host_once_and_another_takes_over(redis_server, tmp_path):  # noqa: F811
    path = tmp_path / "host.weights"
    publisher = RedisPublisher(redis_server.url, "run")
    published = pack(1, tensors(1))
    publisher.put(published)
    relays = [Relay(RedisFollower(redis_server.url, "run"), path, **SILENT) for _ in range(2)]
    watch = WeightsWatch(SharedFollower(path))
    assert watch.first(10)[0] == 1
    assert SharedFollower(path).fetch_blob() == published  # the same bytes, with the learner's own time
    first = next(relay for relay in relays if relay.leads)
    second = relays[1 - relays.index(first)]
    assert not second.leads
    first.close()
    publisher.publish(2, tensors(2))
    until(lambda: (found := watch.take()) is not None and found[0] == 2)
    assert (first.carried, second.carried) == (1, 1)
    second.close()
    watch.close()
