"""What goes wrong with frames: wrong bytes, wrong sizes, halves, clients that stop reading. Each gets a code
or is hung up on, the server goes on, and other games are untouched."""

import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from playmill.games import PlaymillError, registry
from playmill.serving import Code, House, Limits, ServiceError, Standing, connect, frames
from playmill.serving.columns import Moves
from playmill.serving.ring import FRAMES, HEADER, HEADER_BYTES, KINDS, Call, Header, Ring, join
from tests.contract.servers import DOORS, actions_of, serving, step, untouched, waiting

CODES = (0, Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.RESOURCE_EXHAUSTED)


@pytest.fixture(scope="module")
def place(witness, tmp_path_factory):
    with serving("frames", witness[0], tmp_path_factory.mktemp("frames")) as where:
        yield where


@contextmanager
def raw(place):
    """A client that sends what it likes."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(place.removeprefix("frames:"))
        connection.settimeout(20)
        join(connection, FRAMES)
        yield connection


def framed(call, hall, rows, payload):
    head = HEADER.pack(*Header(7, 0, call, hall, rows, len(payload)))
    return head.ljust(HEADER_BYTES, b"\0") + payload


def columns_of(call, games, columns):
    """A frame as the client makes it."""
    ring = Ring(1, 1 << 20)
    asked, _, middle, _ = ring.places(0, call, games.hall, len(columns), games.layout)
    for there, column in zip(asked, columns, strict=True):
        there[:] = column
    return framed(call, games.hall, len(columns), bytes(ring.memory[HEADER_BYTES:middle]))


def received(connection, size):
    data = b""
    while len(data) < size:
        got = connection.recv(size - len(data))
        if not got:
            return None
        data += got
    return data


def reply(connection):
    """Header and content, or nothing once the server has hung up."""
    data = received(connection, HEADER_BYTES)
    if data is None:
        return None
    head = Header(*HEADER.unpack(data[: HEADER.size]))
    return head, received(connection, head.size)


def hung_up(connection):
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def push(connection, data):
    """Sends what there is room for, without reading; whether the server still listens."""
    connection.setblocking(False)
    try:
        connection.send(data)
    except BlockingIOError:
        time.sleep(0.005)
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True


def moves(games, action=0):
    at, n = games.seats(0), len(games)
    return Moves(at.game, at.seat, at.key, np.zeros(n, np.uint32), np.full(n, action, np.int32))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(min_size=1, max_size=600))
def test_random_bytes_are_answered_or_hung_up_on(place, witness, before, data):
    with raw(place) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        while (found := reply(connection)) is not None:
            assert found[0].code in CODES
    assert untouched(*witness, before)


@pytest.mark.parametrize("seed", range(6))
def test_random_frames_are_answered_with_a_code(place, witness, before, seed):
    rng = random.Random(seed)
    with raw(place) as connection:
        for _ in range(200):
            call = rng.choice([*KINDS, *range(14, 24), rng.randrange(1 << 32)])
            rows = rng.choice([0, 1, 3, 500, 501, 1 << 20, (1 << 32) - 1, rng.randrange(2000)])
            content = rng.randbytes(rng.choice([0, 1, 64, 192, 320, rng.randrange(3000)]))
            connection.sendall(framed(call, rng.choice([0, 1, 9, 1 << 31]), rows, content))
            head, said = reply(connection)
            assert head.code in CODES
            assert (head.seq, head.ack) == (7, 7)
            assert head.code == 0 or said.decode()
    assert untouched(*witness, before)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_altered_requests_change_nothing_of_others(place, witness, before, data):
    sent = bytearray(columns_of(Call.SUBMIT, witness[1], moves(witness[1], action=-1)))
    for _ in range(data.draw(st.integers(1, 6))):
        sent[data.draw(st.integers(16, len(sent) - 1))] = data.draw(st.integers(0, 255))
    with raw(place) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        found = reply(connection)
        assert found is None or found[0].code in CODES
    assert untouched(*witness, before)


def test_a_frame_that_is_cut_short_is_not_applied(tmp_path):
    house = House()
    with serving("frames", house, tmp_path) as where, connect(where) as client:
        games = client.create("kuhn", 1)
        whole = columns_of(Call.SUBMIT, games, moves(games))
        for size in (1, 36, 63, 64, 65, len(whole) - 1):
            with raw(where) as connection:
                connection.sendall(whole[:size])
                connection.shutdown(socket.SHUT_WR)
                assert hung_up(connection)
            assert client.states(games, 0).turn[0] == 0
        with raw(where) as connection:
            connection.sendall(whole)
            assert reply(connection)[0].code == 0
        assert client.states(games, 0).turn[0] == 1


def test_an_oversized_frame_is_refused_before_it_is_read(place, witness, before):
    for size in ((1 << 20) + 4096, (1 << 32) - 1):
        with raw(place) as connection:
            head = HEADER.pack(*Header(7, 0, Call.STATES, 0, 1, size))
            connection.sendall(head.ljust(HEADER_BYTES, b"\0"))
            assert reply(connection)[0].code == Code.RESOURCE_EXHAUSTED
            assert hung_up(connection)
    assert untouched(*witness, before)


def test_rows_and_bytes_that_do_not_agree_are_refused(place, witness, before):
    good = columns_of(Call.STATES, witness[1], witness[1].seats(0))[HEADER_BYTES:]
    with raw(place) as connection:
        for rows, content in ((10, good[:-1]), (10, good + b"\0"), (300, good), (10, b"")):
            connection.sendall(framed(Call.STATES, 0, rows, content))
            assert reply(connection)[0].code == Code.INVALID_ARGUMENT
        connection.sendall(framed(Call.STATES, 0, 10, good))
        assert reply(connection)[0].code == 0
    assert untouched(*witness, before)


@pytest.mark.parametrize("name", registry.names())
def test_native_code_answers_byte_for_byte_as_the_house_does(tmp_path, name):
    """With a limit on the rate all rows go through Python."""
    rng = np.random.default_rng(2)
    said = []
    house = House()
    for limited in (False, True):
        with serving("frames", house, tmp_path) as where, connect(where) as client:
            if not limited:
                games = client.create(name, 5, seeds=np.arange(5))
                step(client, games, rng)
            to_act, turn = waiting(client, games)
            seat = np.where(to_act == 255, 0, to_act)
            at = games.seats(seat)
            wrong = Moves(at.game, at.seat, at.key, turn, np.full(5, -1, np.int32))
            frames_sent = (columns_of(Call.STATES, games, at), columns_of(Call.SUBMIT, games, wrong))
            with raw(where) as connection:
                for frame in 2 * frames_sent:  # a client's first is answered in Python in any case
                    connection.sendall(frame)
                    head, content = reply(connection)
                    columns = games.layout.views(KINDS[head.call][1], 5, memoryview(content), 0)
                    said.append((head, [column.tobytes() for column in columns]))
        house.limits = Limits(rate=1e9)
    assert said[0:2] == said[2:4] == said[4:6] == said[6:8]


def test_requests_sent_together_are_answered_in_turn(place, witness):
    games = witness[1]
    with raw(place) as connection:
        wanted = (Call.STATES, Call.SUBMIT, Call.STATES, 99, Call.SUBMIT)
        sent = [
            framed(call, 0, 0, b"")
            if call == 99
            else columns_of(call, games, games.seats(0) if call == Call.STATES else moves(games, -1))
            for call in wanted
        ]
        connection.sendall(b"".join(sent))
        assert [reply(connection)[0].call for _ in wanted] == list(wanted)


def test_half_a_frame_is_waited_for_so_long_and_quiet_between_frames_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(frames, "PATIENCE", 0.3)
    with serving("frames", House(), tmp_path) as where, connect(where) as client:
        games = client.create("kuhn", 1)
        with raw(where) as connection:
            connection.sendall(columns_of(Call.STATES, games, games.seats(0))[:80])
            begin = time.monotonic()
            assert hung_up(connection)
            assert 0.2 < time.monotonic() - begin < 10
        time.sleep(0.5)
        assert client.states(games, 0).standing[0] == Standing.OK


def test_a_client_that_stops_reading_is_dropped_and_holds_up_nobody(tmp_path, monkeypatch):
    monkeypatch.setattr(frames, "PATIENCE", 0.5)
    with serving("frames", House(), tmp_path) as where, connect(where) as client:
        games = client.create("skull_king", 500)
        asked = columns_of(Call.STATES, games, games.seats(0))
        slowest, deadline = 0.0, time.monotonic() + 20
        with raw(where) as connection:
            while push(connection, asked):
                assert time.monotonic() < deadline
                begin = time.perf_counter()
                assert not client.states(games[:5], 0).standing.any()
                slowest = max(slowest, time.perf_counter() - begin)
        assert slowest < 0.4


def test_a_server_stops_though_a_client_does_not_read(tmp_path):
    server = DOORS["frames"](House(), tmp_path / "frames.sock")
    server.start()
    with connect(server.place) as client, raw(server.place) as connection:
        games = client.create("skull_king", 500)
        for _ in range(200):
            push(connection, columns_of(Call.STATES, games, games.seats(0)))
        begin = time.monotonic()
        server.stop()
        assert time.monotonic() - begin < 10


def test_a_client_is_told_that_its_server_is_gone(tmp_path):
    with serving("frames", House(), tmp_path) as where:
        client = connect(where)
        games = client.create("kuhn", 2)
    for _ in range(3):
        with pytest.raises(ServiceError) as error:
            client.submit(games, 0, 0, 0)
        assert error.value.code == Code.UNAVAILABLE


def test_each_carrier_has_an_address_of_its_own(place, tmp_path):
    with pytest.raises(PlaymillError, match="mind shared: and frames:"):
        connect(place.replace("frames:", "shared:"))
    with serving("shared", House(), tmp_path) as where, pytest.raises(PlaymillError, match="something else"):
        connect(where.replace("shared:", "frames:"))


def test_many_clients_play_at_once_and_every_answer_counts_once(tmp_path):
    with serving("frames", House(), tmp_path) as where, connect(where) as host:
        games = host.create("leduc", 40)

        def play(seed):
            rng, taken = np.random.default_rng(seed), 0
            with connect(where) as client:
                for _ in range(60):
                    to_act, turn = waiting(client, games)
                    seat = np.where(to_act == 255, 0, to_act)
                    states = client.states(games, seat)
                    actions = actions_of(states, games.spec, rng)
                    taken += int((client.submit(games, seat, turn, actions).standing == Standing.OK).sum())
            return taken

        with ThreadPoolExecutor(4) as pool:
            taken = sum(pool.map(play, range(4)))
        assert host.states(games, 0).over.all()
        assert taken == host.states(games, 0).turn.sum()
