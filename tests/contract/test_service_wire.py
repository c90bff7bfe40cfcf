"""What goes wrong on the wire: wrong bytes, wrong sizes, wrong callers, clients that stop reading. Each gets
a proper answer, the server goes on, and other games are untouched."""

import os
import random
import shutil
import socket
import subprocess
import time
from pathlib import Path

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from playmill.games import PlaymillError
from playmill.serving import Code, House, Limits, ServiceError, connect, grpc_server
from playmill.serving.grpc_server import Access
from playmill.serving.messages import METHODS, SERVICE, pack
from playmill.serving.proto import batch_pb2 as pb
from playmill.serving.ring import HEADER, KINDS, SHARED, Header, Ring, join
from tests.contract import protoc
from tests.contract.servers import DOORS, TRANSPORTS, grpc_at, serving, step, untouched

REFUSALS = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    None,
}


@pytest.fixture(scope="module")
def place(witness, tmp_path_factory):
    with grpc_at(witness[0], Access([f"unix:{tmp_path_factory.mktemp('wire') / 'grpc.sock'}"])) as places:
        yield places[0]


def raw(channel, name):
    return channel.unary_unary(f"/{SERVICE}/{name}")


def status(place, name, data):
    """How the server takes these bytes: a code, or nothing where it takes them."""
    with grpc.insecure_channel(place) as channel:
        try:
            raw(channel, name)(data, timeout=10)
        except grpc.RpcError as error:
            return error.code()
    return None


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(sorted(METHODS)), data=st.binary(max_size=400))
def test_random_bytes_are_answered_with_a_status(place, witness, before, name, data):
    assert status(place, name, data) in REFUSALS
    assert untouched(*witness, before)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_truncated_and_altered_requests_are_answered_with_a_status(place, witness, before, data):
    _, games = witness
    seats = games.seats(0)
    good = [
        ("GetBatchStates", pack(seats, pb.GetBatchStatesRequest)),
        ("CreateBatchGames", pb.CreateBatchGamesRequest(game="kuhn", count=2)),
        ("ResetBatchGames", pb.ResetBatchGamesRequest(game=seats.game.tobytes(), key=seats.key.tobytes())),
        ("DeleteGames", pb.DeleteGamesRequest(game=seats.game.tobytes(), key=seats.key.tobytes())),
    ]
    name, message = data.draw(st.sampled_from(good))
    sent = bytearray(message.SerializeToString())
    for _ in range(data.draw(st.integers(0, 6))):
        sent[data.draw(st.integers(0, len(sent) - 1))] = data.draw(st.integers(0, 255))
    sent = bytes(sent[: data.draw(st.integers(0, len(sent)))])
    assert status(place, name, sent) in REFUSALS
    assert untouched(*witness, before)


GARBAGE = b"\xff" * 40
HALF_AN_ID, NO_HALL = b"\x12\x04half", b"\x08\x63"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("StreamBatchStates", GARBAGE),
        ("StreamBatchStates", b"\x0a\x06" + HALF_AN_ID),
        ("StreamBatchStates", b"\x0a\x02" + NO_HALL),
        ("StreamBatchActions", GARBAGE),
        ("StreamBatchActions", HALF_AN_ID),
        ("StreamBatchActions", NO_HALL),
    ],
)
def test_streams_refuse_what_cannot_be_read_as_calls_do(place, witness, before, name, data):
    with grpc.insecure_channel(place) as channel:
        if name == "StreamBatchStates":
            call = channel.unary_stream(f"/{SERVICE}/{name}")(data, timeout=10)
        else:
            call = channel.stream_stream(f"/{SERVICE}/{name}")(iter([data]), timeout=10)
        with pytest.raises(grpc.RpcError) as error:
            next(call)
        assert error.value.code() in REFUSALS
    assert untouched(*witness, before)


def test_an_oversized_message_is_refused_before_it_is_read(place, witness, before):
    with grpc.insecure_channel(place, [("grpc.max_send_message_length", -1)]) as channel:
        with pytest.raises(grpc.RpcError) as error:
            raw(channel, "GetBatchStates")(bytes(3 << 20), timeout=10)
        assert error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert untouched(*witness, before)


def test_an_unknown_method_is_unimplemented(place):
    with grpc.insecure_channel(place) as channel, pytest.raises(grpc.RpcError) as error:
        raw(channel, "Nothing")(b"", timeout=10)
    assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_bytes_that_are_no_http_leave_the_server_standing(place, witness, before):
    rng = random.Random(0)
    for _ in range(20):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(place.removeprefix("unix:"))
            connection.sendall(rng.randbytes(rng.randrange(1, 4000)))
    with connect(place) as client:
        assert not client.states(witness[1], 0).standing.any()
    assert untouched(*witness, before)


def test_a_refused_answer_on_the_stream_does_not_end_the_client(place, witness, before):
    _, games = witness
    with connect(place) as client:
        many = games[np.arange(501) % 10]
        with pytest.raises(ServiceError) as error:
            client.submit(many, 0, 0, 0)
        assert error.value.code == Code.RESOURCE_EXHAUSTED
        assert len(client.submit(games, 0, 0, 0)) == 10
    assert untouched(*witness, before)


def test_streams_are_limited_and_given_back(place, witness):
    _, games = witness
    clients = [connect(place) for _ in range(8)]
    watching = [client.watch(games, 0) for client in clients]
    for seen in watching:
        next(seen)
    with connect(place) as late:
        with pytest.raises(ServiceError) as error:
            next(late.watch(games, 0))
        assert error.value.code == Code.RESOURCE_EXHAUSTED
        for seen, client in zip(watching, clients, strict=True):
            seen.close()
            client.close()
        deadline = time.monotonic() + 10
        while True:
            try:
                next(late.watch(games, 0))
                break
            except ServiceError:
                assert time.monotonic() < deadline
                time.sleep(0.05)


def test_a_stream_that_is_not_read_is_ended_and_holds_up_nobody(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(grpc_server, "PATIENCE", 0.5)
    house = House(Limits(games=4000, rows=4000))
    rng = np.random.default_rng(0)
    access = Access([f"unix:{tmp_path / 'grpc.sock'}"])
    with grpc_at(house, access) as places, connect(places[0]) as client:
        games = client.create("skull_king", 2000)
        request = pack(games.seats(0), pb.GetBatchStatesRequest, hall=games.hall)
        with grpc.insecure_channel(places[0]) as channel:
            stream = channel.unary_stream(f"/{SERVICE}/StreamBatchStates")
            call = stream(pb.StreamBatchStatesRequest(seats=request, interval_ms=1).SerializeToString())
            slowest, deadline = 0.0, time.monotonic() + 20
            while "gets no more" not in caplog.text:
                assert time.monotonic() < deadline
                start = time.perf_counter()
                assert not client.states(games[:5], 0).standing.any()
                slowest = max(slowest, time.perf_counter() - start)
                if not step(client, games, rng):
                    client.reset(games, client.states(games, 0).turn.copy())
            assert slowest < 1.0
            with pytest.raises(grpc.RpcError) as error:  # what was on its way, and then the end
                list(call)
            assert error.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        assert not client.states(games, 0).standing.any()


@pytest.mark.parametrize("transport", TRANSPORTS[1:])
def test_rates_are_held(tmp_path, transport):
    house = House(Limits(rows=50, rate=50))
    with serving(transport, house, tmp_path) as where, connect(where) as client:
        games = client.create("kuhn", 25)
        client.states(games, 0)
        with pytest.raises(ServiceError) as error:
            [client.states(games, 0) for _ in range(5)]
        assert error.value.code == Code.RESOURCE_EXHAUSTED


def test_a_server_with_a_token_answers_only_who_has_it(tmp_path):
    access = Access([f"unix:{tmp_path / 'grpc.sock'}"], token="a token of many letters")
    with grpc_at(House(), access) as places:
        for token in ("", "a token of many lettres"):
            with connect(places[0], token=token) as client:
                for call in (lambda c: c.create("kuhn", 1),):
                    with pytest.raises(ServiceError) as error:
                        call(client)
                    assert error.value.code == Code.UNAUTHENTICATED
        with connect(places[0], token=access.token) as client:
            games = client.create("kuhn", 1)
            client.submit(games, 0, 0, 0)
            assert len(next(client.watch(games, 0))[0]) == 1
        with grpc.insecure_channel(places[0]) as channel:
            checked = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(service=SERVICE)
            )
            assert checked.status == health_pb2.HealthCheckResponse.SERVING
            stream = channel.unary_stream(f"/{SERVICE}/StreamBatchStates")(b"", timeout=5)
            with pytest.raises(grpc.RpcError) as refused:
                next(stream)
            assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_tls_with_a_certificate_of_ones_own(tmp_path):
    if shutil.which("openssl") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("openssl is not there to make a certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*make, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    access = Access(["127.0.0.1:0"], certificate=certificate.read_bytes(), private_key=key.read_bytes())
    with grpc_at(House(), access) as places:
        with connect(places[0], certificate=certificate.read_bytes()) as client:
            assert not client.states(client.create("kuhn", 2), 0).standing.any()
        with connect(places[0]) as plain, pytest.raises(ServiceError) as error:
            plain.create("kuhn", 1)
        assert error.value.code == Code.UNAVAILABLE


def test_reflection_shows_the_service(place):
    with grpc.insecure_channel(place) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        reply = next(iter(stub.ServerReflectionInfo(iter([asked]))))
    assert SERVICE in [service.name for service in reply.list_services_response.service]


def test_the_code_of_the_messages_is_what_the_proto_makes(tmp_path):
    protoc.generate(tmp_path)
    folder = (protoc.SOURCE / protoc.PROTO).parent
    for name in protoc.MADE:
        made = tmp_path / "playmill/serving/proto" / name
        assert made.read_bytes() == (folder / name).read_bytes(), f"{name} is stale: make proto"


@pytest.fixture
def shared(witness, tmp_path):
    with serving("shared", witness[0], tmp_path) as where:
        yield where.removeprefix("shared:")


@pytest.mark.parametrize("seed", range(6))
def test_random_rings_are_answered_or_cut_off(shared, witness, before, seed):
    rng = random.Random(seed)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(shared)
        connection.settimeout(10)
        ring = join(connection, SHARED)
        for _ in range(200):
            slot = rng.randrange(ring.slots)
            calls = [*KINDS, *range(14, 24), rng.randrange(1 << 32)]
            sizes = [0, 1, 3, 500, 501, 1 << 20, (1 << 32) - 1, rng.randrange(2000)]
            head = Header(
                1, 0, rng.choice(calls), rng.choice([0, 1, 9, 1 << 31]), rng.choice(sizes), rng.choice(sizes)
            )
            ring.payload(slot, 3000)[:] = rng.randbytes(3000)
            ring.write(slot, head)
            connection.sendall(bytes([slot]))
            assert connection.recv(1) == bytes([slot])
            code = ring.read(slot).code
            assert code in (0, Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.RESOURCE_EXHAUSTED)
        connection.sendall(bytes([255]))
        assert connection.recv(1) == b""
    assert untouched(*witness, before)


def test_a_client_that_rewrites_its_rows_meanwhile_harms_nobody(shared, witness, before):
    _, games = witness
    with connect(f"shared:{shared}") as client:
        asked = [client.ask_states(games, 0) for _ in range(4)]
        for places in list(client._ring._places.values()):
            for column in places.asked:
                column.view(np.uint8)[...] = 255
        for pending in asked:
            pending.wait()
    assert untouched(*witness, before)


def test_shared_memory_cannot_be_cut_short(shared):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(shared)
        _, descriptors, _, _ = socket.recv_fds(connection, 64, 1)
        for size in (0, 1 << 30):
            with pytest.raises(PermissionError):
                os.ftruncate(descriptors[0], size)
        os.close(descriptors[0])


def test_a_shared_client_that_never_reads_is_hung_up_on(shared, witness, before):
    _, games = witness
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(shared)
        ring = join(connection, SHARED)
        ring.write(0, Header(1, 0, 1, games.hall, 0))
        connection.settimeout(20)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            connection.sendall(bytes(50_000_000))
    assert untouched(*witness, before)


@pytest.mark.parametrize("transport", DOORS)
def test_clients_on_this_host_are_limited(tmp_path, transport):
    server = DOORS[transport](House(Limits(clients=2)), tmp_path / "door.sock")
    server.start()
    where = server.place
    first, second = connect(where), connect(where)
    with pytest.raises(PlaymillError, match="too many clients"):
        connect(where)
    first.close()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            connect(where).close()
            break
        except PlaymillError:
            time.sleep(0.01)
    else:
        pytest.fail("a place that was left is free")
    assert len(second.states(second.create("kuhn", 1), 0)) == 1
    server.stop()
    with pytest.raises(ServiceError) as error:
        second.create("kuhn", 1)
    assert error.value.code == Code.UNAVAILABLE
    with pytest.raises(ServiceError, match="nobody listens"):
        connect(where)


def test_a_ring_has_as_many_batches_under_way_as_slots(shared, witness):
    _, games = witness
    with connect(f"shared:{shared}") as client:
        asked = [client.ask_states(games, seat % 4) for seat in range(8)]
        with pytest.raises(PlaymillError, match="under way"):
            client.ask_states(games, 0)
        for pending in reversed(asked):
            assert not pending.wait().standing.any()
        assert not client.states(games, 0).standing.any()


@pytest.mark.parametrize("transport", DOORS)
def test_a_second_server_does_not_take_a_living_ones_socket(shared, tmp_path, transport):
    with pytest.raises(PlaymillError, match="another server"):
        DOORS[transport](House(), Path(shared))
    (tmp_path / "file").write_text("precious")
    with pytest.raises(PlaymillError, match="is no socket"):
        DOORS[transport](House(), tmp_path / "file")


def test_headers_are_read_as_they_are_written(tmp_path):
    with (tmp_path / "memory").open("w+b") as file:
        file.truncate(8192)
        ring = Ring(2, 4096, file.fileno())
    head = Header(2**64 - 1, 5, 6, 7, 8, 9, 10)
    ring.write(1, head)
    assert ring.read(1) == head
    assert ring.read(0) == Header()
    assert HEADER.size <= 64
