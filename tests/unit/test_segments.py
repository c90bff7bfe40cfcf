"""Segments: what goes in comes out, and what is no segment of the run is refused with a reason."""

import struct
import time
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from playmill.experience.segment import (
    HEADER,
    SUMMED,
    BadSegment,
    Identity,
    Segment,
    SegmentShape,
    check_run,
    decode,
    encode,
    message_bytes,
    traceparent_of,
)
from playmill.experience.segment_writer import SegmentWriter
from playmill.games import PlaymillError
from playmill.telemetry.traces import start_tracing
from tests.segments import SHAPE, a_segment

RUN = "run"
GOOD = bytes(encode(a_segment(Identity(RUN, 3, 7, 11)), SHAPE))


def summed(message):
    """The message with its sum made right again."""
    message = bytearray(message)
    struct.pack_into("<I", message, 8, zlib.crc32(message[SUMMED:]))
    return message


@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 33), st.integers(1, 9), st.integers(0, 2**63 - 1))
@settings(max_examples=40, deadline=None)
def test_a_segment_comes_back_as_it_was(steps, seats, observation, legal, sequence):
    shape = SegmentShape(steps, seats, observation, legal, 99)
    segment = a_segment(Identity("a.b-c_D", 0, 1, sequence), shape)
    message = encode(segment, shape)
    assert len(message) == message_bytes(shape)
    back = decode(message, shape, "a.b-c_D")
    assert back.identity == segment.identity
    for name in Segment._fields[1:-1]:
        column = getattr(back, name)
        assert np.array_equal(column, getattr(segment, name))
        assert column.dtype == getattr(segment, name).dtype
        assert np.shares_memory(column, np.frombuffer(message, np.uint8))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_changed_bit_is_found_wherever_it_is(data):
    bit = data.draw(st.integers(0, 8 * len(GOOD) - 1))
    message = bytearray(GOOD)
    message[bit >> 3] ^= 1 << (bit & 7)
    with pytest.raises(BadSegment):
        decode(message, SHAPE, RUN)


@given(st.integers(0, len(GOOD) - 1), st.binary(max_size=64))
@settings(max_examples=100, deadline=None)
def test_truncated_and_oversized_messages_are_refused(cut, more):
    with pytest.raises(BadSegment):
        decode(GOOD[:cut], SHAPE, RUN)
    with pytest.raises(BadSegment):
        decode(GOOD + b"x" + more, SHAPE, RUN)


@given(st.binary(max_size=400), st.booleans())
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_refused(noise, begins_well):
    with pytest.raises(BadSegment):
        decode(GOOD[:16] + noise if begins_well else noise, SHAPE, RUN)


@given(st.integers(16, HEADER.size - 8), st.binary(min_size=1, max_size=8))
@settings(max_examples=150, deadline=None)
def test_a_header_that_lies_with_a_right_sum_is_refused_or_is_another_identity(place, lie):
    message = bytearray(GOOD)
    message[place : place + len(lie)] = lie
    try:
        segment = decode(summed(message), SHAPE, RUN)
    except BadSegment:
        return
    assert segment.identity.run == RUN
    assert all(number >= 0 for number in segment.identity[1:])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda s: s.seat.fill(2), "seat 2"),
        (lambda s: s.over.fill(2), "over"),
        (lambda s: s.action.fill(-1), "does not exist"),
        (lambda s: s.action.fill(8 * SHAPE.legal_bytes), "does not exist"),
        (lambda s: s.legal.fill(0), "not legal"),
        (lambda s: s.value.fill(np.nan), "value"),
        (lambda s: s.rewards.fill(np.inf), "rewards"),
        (lambda s: s.log_probability.fill(-np.inf), "log_probability"),
    ],
)
def test_rows_that_would_poison_a_learner_are_refused(change, why):
    segment = a_segment(Identity(RUN, 0, 0, 0))
    change(segment)
    with pytest.raises(BadSegment, match=why):
        decode(encode(segment, SHAPE), SHAPE, RUN)


SPAN = "00-0123456789abcdef0123456789abcdef-00000000000000ff-01"


def test_a_segment_may_name_the_span_it_was_played_in():
    segment = a_segment(Identity(RUN, 3, 7, 11))._replace(traceparent=SPAN)
    message = encode(segment, SHAPE)
    assert len(message) == len(GOOD)
    assert decode(message, SHAPE, RUN).traceparent == traceparent_of(bytes(message)) == SPAN
    assert decode(GOOD, SHAPE, RUN).traceparent == traceparent_of(GOOD) == ""
    assert bytes(GOOD[HEADER.size - 24 : HEADER.size]) == bytes(24)


@pytest.mark.parametrize(
    "zeros", [slice(HEADER.size - 24, HEADER.size - 8), slice(HEADER.size - 8, HEADER.size)]
)
def test_half_a_name_of_a_span_is_refused(zeros):
    message = encode(a_segment(Identity(RUN, 3, 7, 11))._replace(traceparent=SPAN), SHAPE)
    message[zeros] = bytes(zeros.stop - zeros.start)
    with pytest.raises(BadSegment, match="half a name"):
        decode(summed(message), SHAPE, RUN)


def test_a_traced_writer_records_segments_from_their_first_row_on():
    exporter = InMemorySpanExporter()
    tracer = start_tracing("actor", exporter=exporter)
    writer = SegmentWriter(SHAPE, 3, RUN, 4, 1, tracer=tracer)
    slots, rng, sealed, moments = np.array([0, 2]), np.random.default_rng(1), [], []
    for turn in range(SHAPE.steps):
        moments.append(time.time_ns())
        writer.decided(slots, *rows_for(rng, slots, turn), version=1)
        sealed += writer.outcome(slots, np.zeros((2, 2)), np.zeros(2))
    tracer.close()
    spans = exporter.get_finished_spans()
    for number, (one, span) in enumerate(zip(sealed, spans, strict=True)):
        assert moments[0] <= span.start_time <= moments[1] <= span.end_time <= one.sealed_ns
        assert dict(span.attributes) == {"run": RUN, "actor": 4, "sequence": number}
        found = decode(one.message, SHAPE, RUN).traceparent
        assert found[:-2] == one.traceparent[:-2]
        assert found[36:52] == f"{span.context.span_id:016x}"


def test_other_schema_other_shape_and_other_run_are_named():
    with pytest.raises(BadSegment, match="schema"):
        decode(GOOD, SHAPE._replace(schema_hash=1), RUN)
    with pytest.raises(BadSegment, match="bytes"):
        decode(GOOD, SHAPE._replace(steps=9), RUN)
    with pytest.raises(BadSegment, match="of the run b'run', not of 'run2'"):
        decode(GOOD, SHAPE, "run2")


@given(st.text(max_size=70))
@settings(max_examples=200, deadline=None)
def test_names_of_runs_are_checked(name):
    good = 1 <= len(name) <= 64 and name[0] not in ".-"
    good = good and all(c.isascii() and (c.isalnum() or c in "_.-") for c in name)
    if good:
        assert check_run(name) == name
    else:
        with pytest.raises(PlaymillError):
            check_run(name)


@pytest.mark.parametrize("name", ["a\n", "..", "-o", "a;b", "a b", "", "a" * 65, "a/b", "a:b", 3, None])
def test_names_that_would_break_keys_and_paths_are_refused(name):
    with pytest.raises(PlaymillError):
        check_run(name)


@pytest.mark.parametrize("numbers", [(-1, 0, 0), (0, -1, 0), (0, 0, 2**63), (0, 1.5, 0)])
def test_identities_are_checked(numbers):
    with pytest.raises(PlaymillError, match="whole number"):
        encode(a_segment(Identity(RUN, *numbers)), SHAPE)


def rows_for(rng, slots, mark):
    """Random rows for some slots; the observation's first byte is the mark."""
    n = len(slots)
    legal = rng.integers(0, 256, (n, SHAPE.legal_bytes), np.uint8)
    legal[:, 0] |= 1
    observation = rng.integers(0, 256, (n, SHAPE.observation_bytes), np.uint8)
    observation[:, 0] = mark
    numbers = rng.random((2, n), np.float32)
    return (observation, legal, rng.integers(0, 2, n), np.zeros(n), np.zeros(n), np.zeros(n), *numbers)


def test_a_writer_does_what_lists_of_rows_would_do():
    rng = np.random.default_rng(5)
    slots, sealed, expected = 7, [], []
    writer = SegmentWriter(SHAPE, slots, RUN, 2, 9)
    lists = [[] for _ in range(slots)]
    waiting = [None] * slots
    for turn in range(120):
        some = rng.permutation(slots)[: rng.integers(1, slots + 1)]
        lost = some[rng.random(len(some)) < 0.1]
        writer.take_back(lost)
        for slot in lost:
            waiting[slot] = None
            while lists[slot] and not lists[slot][-1][2]:
                lists[slot].pop()
        rewards = rng.random((len(some), SHAPE.seats), np.float32)
        over = (rng.random(len(some)) < 0.2).astype(np.uint8)
        sealed += writer.outcome(some, rewards, over)
        for i, slot in enumerate(some):
            if waiting[slot] is not None:
                lists[slot].append((*waiting[slot], over[i], rewards[i]))
                waiting[slot] = None
            if len(lists[slot]) == SHAPE.steps:
                expected.append(lists[slot])
                lists[slot] = []
        rows = rows_for(rng, some, turn)
        writer.decided(some, *rows, version=turn)
        for i, slot in enumerate(some):
            waiting[slot] = (turn, rows[7][i])
    assert writer.rows_open == sum(map(len, lists)) + sum(w is not None for w in waiting)
    assert len(sealed) == len(expected) > 20
    for number, (one, rows) in enumerate(zip(sealed, expected, strict=True)):
        assert one.identity == Identity(RUN, 2, 9, number)
        segment = decode(one.message, SHAPE, RUN)
        assert segment.observation[:, 0].tolist() == segment.version.tolist() == [row[0] for row in rows]
        assert np.array_equal(segment.value, np.array([row[1] for row in rows]))
        assert segment.over.tolist() == [row[2] for row in rows]
        assert np.array_equal(segment.rewards, np.array([row[3] for row in rows]))


def test_a_second_decision_without_an_outcome_is_refused():
    writer = SegmentWriter(SHAPE, 2, RUN, 0, 0)
    rows = rows_for(np.random.default_rng(0), [0], 0)
    writer.decided(np.array([0]), *rows, version=1)
    with pytest.raises(PlaymillError, match="second decision"):
        writer.decided(np.array([0]), *rows, version=1)
    assert writer.take_back(np.array([0, 1])) == 1
    assert writer.outcome(np.array([0]), np.zeros((1, 2)), np.zeros(1)) == []


def test_staggered_segments_are_full_one_after_the_other():
    slots = np.arange(8, dtype=np.int32)
    writer = SegmentWriter(SHAPE, 8, "run", 0, 1, stagger=True)
    full = []
    for turn in range(4 * SHAPE.steps):
        one = np.full(8, turn, np.int32)
        bits = np.full((8, 3), 255, np.uint8)
        rows = np.full((8, 13), turn % 256, np.uint8)
        writer.decided(slots, rows, bits, one % 2, one * 0, one * 0, one * 0, one * 0.0, one * 0.0, turn)
        sealed = writer.outcome(slots, np.zeros((8, 2)), (one % 3 == 2).astype(np.uint8))
        full.append(len(sealed))
        for message in sealed:
            segment = decode(message.message, SHAPE, "run")
            assert segment.version.tolist() == list(range(turn - SHAPE.steps + 1, turn + 1))
    assert full[: SHAPE.steps - 1] == [0] * (SHAPE.steps - 1)
    assert full[SHAPE.steps - 1 :] == [1] * (3 * SHAPE.steps + 1)
