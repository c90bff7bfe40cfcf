"""What Redis adds: brokers that are away, full, open to strangers, or full of strangers' messages."""

import os
import re
import signal
import statistics
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

from benchmarks.broker import free_port
from playmill.experience import redis_link, spool
from playmill.experience.ledger import Ledger
from playmill.experience.redis_link import Link, key
from playmill.experience.redis_receiver import GROUP, LETTERS, RedisReceiver
from playmill.experience.redis_sender import RedisSender
from playmill.experience.segment import BadSegment, Identity, decode
from playmill.games import PlaymillError
from tests.carriers import RUN, Redis, closing, hand_over, take
from tests.redis_server import running_redis
from tests.segments import SHAPE, a_message

BIG = b"x" * 100_000


@pytest.fixture
def carrier(redis_server, tmp_path):
    return Redis(tmp_path, redis_server.url)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis://127.0.0.1:6379/0", "without a password"),
        ("redis://:word@10.0.0.1:6379/0", "rediss"),
        ("redis://:word@broker.example:6379/0", "rediss"),
        ("redis://:word@0.0.0.0:6379/0", "rediss"),
        ("rediss://broker.example:6379/0", "without a password"),
        ("rediss://:word@broker.example:6379/0?ssl_cert_reqs=none", "certificate"),
        ("http://:word@127.0.0.1", "begins with"),
        ("redis://:word@127.0.0.1:port/0", "wrong"),
    ],
)
def test_addresses_that_are_not_safe_are_refused(url, says, tmp_path):
    with pytest.raises(PlaymillError, match=says):
        RedisReceiver(url, RUN)
    with pytest.raises(PlaymillError, match=says):
        RedisSender(url, RUN, 0, 0, tmp_path)


def test_a_broker_without_a_password_is_refused(tmp_path):
    with running_redis("--requirepass", "") as broker:
        for _ in range(2):
            with pytest.raises(PlaymillError, match="requirepass"):
                RedisReceiver(broker.url, RUN)
            with pytest.raises(PlaymillError, match="requirepass"):
                RedisSender(broker.url, RUN, 0, 0, tmp_path)


def test_a_wrong_password_is_an_error_and_no_reason_to_wait(redis_server, tmp_path):
    url = redis_server.url.replace(redis_server.password, "guessed")
    with pytest.raises(PlaymillError, match="password"):
        RedisReceiver(url, RUN)
    with pytest.raises(PlaymillError, match="password"):
        RedisSender(url, RUN, 0, 0, tmp_path)


@pytest.mark.parametrize(("mode", "fine"), [("700", True), ("777", False)])
def test_a_unix_socket_needs_a_password_unless_it_is_closed_to_others(mode, fine, tmp_path):
    path = tmp_path / "redis.sock"
    options = ("--requirepass", "", "--unixsocket", str(path), "--unixsocketperm", mode)
    with running_redis(*options):
        link = Link(f"unix://{path}")
        if fine:
            assert link.client().ping()
        else:
            with pytest.raises(PlaymillError, match="requirepass"):
                link.client()


@pytest.mark.parametrize("name", ["a\nb", "../x", "-x", "a:b", "a b", "{x}", ""])
def test_names_of_runs_that_would_break_a_key_are_refused(name):
    with pytest.raises(PlaymillError, match="cannot name a run"):
        key(name, "experience")


def test_without_the_client_the_extra_is_named():
    code = "import sys; sys.modules['redis'] = None\n"
    code += "from playmill.experience.redis_link import Link\n"
    code += "try: Link('redis://:x@127.0.0.1')\nexcept Exception as e: print(e)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "Redis needs its client: pip install 'playmill[redis]'"


def test_sending_and_receiving_need_no_torch():
    code = (
        "import sys, playmill.experience.redis_sender, playmill.experience.ring, playmill.experience.ledger\n"
    )
    code += "print('torch' in sys.modules, 'redis' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False False"


def test_while_the_broker_is_away_the_disk_keeps_it_for_the_next_process(carrier, redis_server):
    old = carrier.sender(0, 1)
    names = hand_over(old, 3, epoch=1)
    redis_server.kill()
    for sequence in range(3, 12):
        names.append(Identity(RUN, 0, 1, sequence))
        assert old.send(names[-1], a_message(names[-1]), 2.0)
    assert old.away
    old._spool.close()  # as death would do
    assert len(list((carrier.folder / "spool-0").glob("*.segment"))) >= 9
    redis_server.start()  # empty: it kept nothing
    with closing(carrier.sender(0, 2), carrier.receiver()) as (sender, receiver):
        new = hand_over(sender, 2, epoch=2, within=10.0)
        got = [delivery.identity for delivery in take(receiver, 11)]
        assert got == names[3:] + new
        assert receiver.produced() == {(0, 1): 12, (0, 2): 2}
    assert list((carrier.folder / "spool-0").glob("*.segment")) == []


def test_what_a_broker_forgot_is_sent_again(carrier, redis_server):
    with closing(carrier.sender(), carrier.receiver()) as (sender, receiver):
        names = hand_over(sender, 5)
        redis_server.kill()
        redis_server.start()  # empty
        names += hand_over(sender, 2, first=5, within=10.0)
        assert [delivery.identity for delivery in take(receiver, 7)] == names
        assert Ledger(RUN).prove(receiver.produced(), receiver.waiting()).holds


def test_a_broker_that_hangs_does_not_hold_up_the_actor(redis_server, tmp_path, monkeypatch):
    monkeypatch.setattr(redis_link, "ANSWER", 0.4)
    carrier = Redis(tmp_path, redis_server.url)
    with closing(carrier.sender(), carrier.receiver()) as (sender, receiver):
        names = hand_over(sender, 2)
        redis_server._process.send_signal(signal.SIGSTOP)
        try:
            end, sequence, waits = time.monotonic() + 2.5, 2, []
            while time.monotonic() < end:
                begin = time.monotonic()
                name = Identity(RUN, 0, 0, sequence)
                if sender.send(name, a_message(name), 0.05):
                    names.append(name)
                    sequence += 1
                waits.append(time.monotonic() - begin)
                time.sleep(0.02)
            assert sender.away
        finally:
            redis_server._process.send_signal(signal.SIGCONT)
        assert statistics.median(waits) < 0.1
        assert len(names) > 20
        assert sender.flush(20.0)
        got = {delivery.identity for delivery in take(receiver, len(names))}
        got |= {delivery.identity for delivery in receiver.receive(99, 0.1)}
        assert got == set(names)


def test_tls(tmp_path):
    certificate, secret = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    command += ["-subj", "/CN=broker", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    subprocess.run([*command, "-keyout", secret, "-out", certificate], check=True, capture_output=True)
    port = free_port()
    options = ("--tls-port", str(port), "--tls-auth-clients", "no", "--tls-cert-file", str(certificate))
    with running_redis(*options, "--tls-key-file", str(secret)) as broker:
        url = f"rediss://:{broker.password}@127.0.0.1:{port}/0"
        with closing(Redis(tmp_path, url).receiver()) as (receiver,):
            assert receiver.receive(1, 0.0) == []  # a certificate that nobody vouches for: as good as away
            with pytest.raises(PlaymillError, match="cannot be reached"):
                receiver.produced()
        carrier = Redis(tmp_path, f"{url}?ssl_ca_certs={certificate}")
        with closing(carrier.sender(room=8 << 20), carrier.receiver()) as (sender, receiver):
            for sequence in range(30):
                assert sender.send(Identity(RUN, 0, 0, sequence), BIG, 5.0)
            assert sender.flush(10.0)
            assert [bytes(delivery.message) for delivery in take(receiver, 30)] == [BIG] * 30


def test_nothing_is_spooled_before_what_precedes_it(carrier, redis_server, monkeypatch):
    """A disk that was full has room again: what is in memory goes there first, or a kill leaves a gap."""
    sender = carrier.sender()
    assert sender.flush(5.0)
    redis_server.kill()
    room = [False]
    put = sender._spool.put

    def sometimes(identity, message, *, more=False):
        if not room[0]:
            raise OSError(28, "No space left on device")
        return put(identity, message, more=more)

    monkeypatch.setattr(sender._spool, "put", sometimes)
    sent = 0
    while not sender.away:
        assert sender.send(Identity(RUN, 0, 0, sent), BIG, 5.0)
        sent += 1
    assert not sender.send(Identity(RUN, 0, 0, sent), BIG, 0.0)
    room[0] = True
    assert sender.send(Identity(RUN, 0, 0, sent), BIG, 5.0)
    assert [identity.sequence for identity, _ in sender._spool.found()] == list(range(sent + 1))
    sender.close()


def test_the_backlog_of_a_broker_that_is_away_is_what_was_heard_last(carrier, redis_server):
    with closing(carrier.sender(), carrier.receiver()) as (sender, receiver):
        hand_over(sender, 3)
        assert sender.flush(5.0)
        assert receiver.backlog().messages == 3
        redis_server.kill()
        assert receiver.backlog().messages == 3


def test_a_look_changes_nothing_at_the_broker(carrier, redis_server):
    with closing(carrier.sender()) as (sender,):
        hand_over(sender, 3)
        assert sender.flush(5.0)
        client = Link(redis_server.url).client()
        before = sorted(client.keys("*")), client.info("stats")["total_error_replies"]
        with closing(carrier.receiver()) as (receiver,):
            assert len(list(receiver.waiting())) == receiver.produced()[0, 0] == 3
        assert sorted(client.keys("*")) == before[0]
        assert client.xinfo_groups(key(RUN, "experience")) == []


def test_a_full_spool_is_back_pressure(redis_server, tmp_path):
    carrier = Redis(tmp_path, redis_server.url)
    redis_server.kill()
    sender, sent = carrier.sender(spool=3000), 0
    while sender.send(name := Identity(RUN, 0, 0, sent), a_message(name), 0.3):
        sent += 1
    size = sum(path.stat().st_size for path in (tmp_path / "spool-0").glob("*.segment"))
    assert 1500 < size <= 3000 + len(a_message(name))
    redis_server.start()
    with closing(carrier.receiver()) as (receiver,):
        while not sender.send(name, a_message(name), 1.0):
            pass
        assert sender.flush(10.0)
        assert [d.identity.sequence for d in take(receiver, sent + 1)] == list(range(sent + 1))
    sender.close()


def test_a_disk_that_is_full_is_back_pressure(redis_server, tmp_path, monkeypatch):
    redis_server.kill()
    sender = Redis(tmp_path, redis_server.url).sender()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    name = Identity(RUN, 0, 0, 0)
    assert not sender.send(name, a_message(name), 0.2)
    assert list((tmp_path / "spool-0").glob("*")) == [tmp_path / "spool-0" / "lock"]
    monkeypatch.undo()
    assert sender.send(name, a_message(name), 2.0)
    redis_server.start()
    assert sender.flush(10.0)


def test_a_broker_without_memory_is_back_pressure_and_nothing_is_lost(tmp_path):
    limits = ("--maxmemory", "4mb", "--maxmemory-policy", "noeviction")
    with running_redis(*limits) as broker:
        carrier = Redis(tmp_path, broker.url)
        with closing(carrier.sender(room=1 << 30), carrier.receiver()) as (sender, receiver):
            sent = 0
            while sender.send(Identity(RUN, 0, 0, sent), BIG, 0.3):
                sent += 1
            assert 5 < sent < 100
            assert not sender.away
            assert Ledger(RUN).prove(receiver.produced(), receiver.waiting()).holds
            held = take(receiver, 1)[0].spent()
            client = Link(broker.url).client()
            client.config_set("maxmemory", "1mb")  # far too little: any transaction is refused
            receiver.acknowledge([held])
            receiver.close()
            receiver = carrier.receiver()
            got = take(receiver, 5)
            receiver.acknowledge(got)
            client.config_set("maxmemory", "4mb")
            seen = [held.identity.sequence, *(delivery.identity.sequence for delivery in got)]
            end = time.monotonic() + 20
            while len(seen) < sent and time.monotonic() < end:
                sender.backlog()
                got = receiver.receive(10, 0.1)
                seen += [delivery.identity.sequence for delivery in got]
                receiver.acknowledge(got)
            assert seen == list(range(sent))


def test_strangers_and_giants_go_to_the_dead_letters_and_memory_stays_capped(carrier):
    receiver = carrier.receiver(reply_bytes=1 << 20)
    client, stream = Link(carrier.url).client(), key(RUN, "experience")
    for i in range(LETTERS + 20):
        client.xadd(stream, {"i": f"0:{'9' * 30}:{i}", "m": b"junk"})
    for fields in ({"x": "y"}, {"i": "-1:0:0", "m": ""}, {"i": "0:0:0"}):
        client.xadd(stream, fields)
    giant = b"g" * (8 << 20)
    for i in range(12):
        client.xadd(stream, {"i": f"7:0:{i}", "m": giant})
    good = Identity(RUN, 1, 0, 0)
    client.xadd(stream, {"i": "1:0:0", "m": a_message(good)})
    ledger, done = Ledger(RUN), 0
    tracemalloc.start()
    while done < 13:
        for delivery in receiver.receive(100, 1.0):
            done += 1
            try:
                decode(delivery.message, SHAPE, RUN)
                ledger.train([delivery.identity])
            except BadSegment:
                receiver.refuse(delivery, "size")
                ledger.drop([delivery.identity], "refused")
            receiver.acknowledge([delivery.spent()])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 << 20, f"{peak >> 20} MB"
    assert ledger.trained == 1
    assert receiver.refused() == {"stranger": LETTERS + 23, "size": 12}
    assert client.xlen(key(RUN, "dead")) == LETTERS
    assert client.xlen(stream) == 0
    receiver.close()


def test_a_learner_that_comes_later_takes_over_what_the_first_one_held(carrier):
    with closing(carrier.sender()) as (sender,):
        names = hand_over(sender, 4)
    first = carrier.receiver()
    assert len(take(first, 4)) == 4
    with closing(carrier.receiver()) as (second,):
        assert [delivery.identity for delivery in take(second, 4)] == names
    stream = key(RUN, "experience")
    assert len(Link(carrier.url).client().xinfo_consumers(stream, GROUP)) == 1


def test_the_commands_that_the_documents_name_are_enough(redis_server, tmp_path):
    page = (Path(__file__).resolve().parents[2] / "docs" / "actors.md").read_text()
    named = re.search(r"Commands used: (.*?); an ACL", page, re.DOTALL)[1]
    allowed = [f"+{name.lower().replace(' ', '|')}" for name in re.findall(r"`([A-Z ]+)`", named)]
    rules = ("on", ">word", "~playmill:*", "-@all", *allowed)
    Link(redis_server.url).client().execute_command("ACL", "SETUSER", "worker", *rules)
    carrier = Redis(tmp_path, redis_server.url.replace(f":{redis_server.password}", "worker:word"))
    with closing(carrier.sender()) as (sender,):
        names = hand_over(sender, 5)
        with closing(carrier.receiver()) as (receiver,):
            take(receiver, 2)
        with closing(carrier.receiver()) as (receiver,):
            got = take(receiver, 5)
            receiver.refuse(got[0], "why")
            receiver.acknowledge(got[:3])
            assert receiver.refused() == {"why": 1}
            assert set(receiver.waiting()) == set(names[3:])
            assert receiver.produced() == {(0, 0): 5}
            assert receiver.backlog().messages == 2


def test_two_processes_cannot_share_a_spool(carrier, monkeypatch):
    monkeypatch.setattr(spool, "PATIENCE", 0.2)
    with closing(carrier.sender()), pytest.raises(PlaymillError, match="in use"):
        carrier.sender(0, 1)
