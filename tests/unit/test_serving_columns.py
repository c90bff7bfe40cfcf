"""The column schema: shapes, places in memory, messages, and the hash that names it."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from playmill import _native
from playmill.games import registry
from playmill.serving import Layout, ServiceError, Standing
from playmill.serving.columns import Answers, Hosts, Moves, Resets, Seats, States
from playmill.serving.messages import pack, unpack
from playmill.serving.proto import batch_pb2 as pb
from playmill.serving.ring import HEADER, HEADER_BYTES

KINDS = (Seats, Moves, Resets, Hosts, States, Answers)
PROTO = Path(__file__).resolve().parents[2] / "src/playmill/serving/proto/batch.proto"


@pytest.fixture
def layout():
    return Layout.of(registry.spec("leduc"))


def filled(layout, kind, rows, seed=0):
    rng = np.random.default_rng(seed)
    columns = layout.empty(kind, rows)
    for column in columns:
        column.view(np.uint8)[...] = rng.integers(0, 256, column.view(np.uint8).shape, np.uint8)
    return columns


def same(a, b):
    return all(x.tobytes() == y.tobytes() and x.shape == y.shape for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [0, 1, 7, 64])
def test_views_do_not_overlap_and_lie_at_multiples_of_64(layout, kind, rows):
    memory = memoryview(bytearray(200_000))
    views = layout.views(kind, rows, memory, 100)
    spans = []
    for view in views:
        if view.size:
            begin = view.__array_interface__["data"][0] - np.frombuffer(memory, np.uint8).ctypes.data
            assert begin % 64 == 0
            spans.append((begin, begin + view.nbytes))
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
    assert not spans or spans[-1][1] <= layout.end(kind, rows, 100)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Seats, pb.GetBatchStatesRequest),
        (Moves, pb.SubmitBatchActionsRequest),
        (Resets, pb.ResetBatchGamesRequest),
        (Hosts, pb.DeleteGamesRequest),
        (States, pb.BatchStates),
        (Answers, pb.BatchAnswers),
    ],
)
def test_messages_carry_every_column_unchanged(layout, kind, message):
    columns = filled(layout, kind, 9)
    sent = message.FromString(pack(columns, message).SerializeToString())
    assert same(unpack(sent, kind, layout), columns)


@pytest.mark.parametrize("field", ["game", "seat", "key", "turn", "action"])
def test_a_column_that_is_too_short_or_too_long_is_refused(layout, field):
    for change in (lambda data: data[:-1], lambda data: data + b"x", lambda _: b""):
        message = pack(filled(layout, Moves, 3), pb.SubmitBatchActionsRequest)
        setattr(message, field, change(getattr(message, field)))
        with pytest.raises(ServiceError):
            unpack(message, Moves, layout)


def test_the_hash_names_game_and_columns():
    hashes = {Layout.of(registry.spec(name)).hash for name in registry.names()}
    hashes.add(Layout.of(registry.spec("skull_king", {"players": 6})).hash)
    assert len(hashes) == len(registry.names()) + 1
    assert Layout.of(registry.spec("kuhn")).hash == Layout.of(registry.spec("kuhn")).hash


def test_standings_are_the_same_in_every_language():
    assert tuple(s.name.lower() for s in Standing) == _native.STANDINGS
    text = PROTO.read_text()
    body = re.search(r"enum Standing \{(.*?)\n\}", text, re.DOTALL)[1]
    assert {name: int(n) for name, n in re.findall(r"(\w+) = (\d+);", body)} == {s.name: s for s in Standing}


def test_the_header_fits_its_place():
    assert HEADER.size <= HEADER_BYTES
