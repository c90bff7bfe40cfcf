"""Frames survive any cut, and no bytes make a decoder hold more than one frame or raise anything else."""

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playmill.engines import protocol
from playmill.engines.protocol import Decoder, FrameError, Kind

LIMIT = 300
frames = st.lists(st.tuples(st.sampled_from(Kind), st.binary(max_size=LIMIT - 1)), max_size=8)


def cut(data, places):
    """The bytes in pieces, cut at these places."""
    at = sorted({place % (len(data) + 1) for place in places})
    return [data[a:b] for a, b in zip([0, *at], [*at, len(data)], strict=True)]


@given(frames, st.lists(st.integers(0, 5000), max_size=30))
def test_frames_come_out_as_they_went_in_however_they_are_cut(sent, places):
    data = b"".join(protocol.frame(kind, payload) for kind, payload in sent)
    decoder = Decoder(LIMIT)
    got = [frame for piece in cut(data, places) for frame in decoder.feed(piece)]
    assert got == [(int(kind), payload) for kind, payload in sent]


@given(frames, st.integers(1, 2000))
def test_a_truncated_frame_never_comes_out(sent, missing):
    data = b"".join(protocol.frame(kind, payload) for kind, payload in [*sent, (Kind.TURN, b"last")])
    got = Decoder(LIMIT).feed(data[: -min(missing, 8)])
    assert got == [(int(kind), payload) for kind, payload in sent]


@settings(max_examples=300)
@given(st.binary(max_size=2000), st.lists(st.integers(0, 2000), max_size=20))
def test_garbage_gives_frames_or_a_frame_error_in_bounded_memory(data, places):
    decoder = Decoder(LIMIT)
    try:
        for piece in cut(data, places):
            for kind, payload in decoder.feed(piece):
                assert 0 <= kind <= 255
                assert len(payload) < LIMIT
            assert len(decoder._rest) <= LIMIT + 4
    except FrameError:
        pass


@pytest.mark.parametrize("length", [0, LIMIT + 1, 1 << 31, 0xFFFFFFFF])
def test_a_length_that_cannot_be_is_refused_before_its_bytes_come(length):
    with pytest.raises(FrameError):
        Decoder(LIMIT).feed(length.to_bytes(4, "little"))


def test_hello_is_read_back():
    payload = protocol.hello("native:kuhn", {"a": 1}, 255)[5:]
    assert protocol.read_hello(payload) == {"game": "native:kuhn", "options": {"a": 1}, "schema_hash": "0xff"}


@given(st.binary(max_size=60))
def test_no_hello_raises_anything_but_a_frame_error(payload):
    for told in (payload, protocol.MAGIC + payload, protocol.MAGIC + b"\x01\x00" + payload):
        with contextlib.suppress(FrameError):
            protocol.read_hello(told)


def test_json_that_nests_too_deep_is_refused():
    with pytest.raises(FrameError):
        protocol.read_json(b"[" * 100_000)


def test_a_failed_carries_its_text_without_control_characters_and_not_too_long():
    game, text = protocol.read_failed(protocol.failed(7, "no\x1b[2J way" + "x" * 9000)[5:])
    assert game == 7
    assert text.startswith("no?[2J way")
    assert len(text) <= protocol.TEXT_LIMIT
    assert json.dumps(text).isprintable()
