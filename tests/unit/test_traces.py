"""Spans: off by default and then nearly free; on, a learner's batch links to the spans of its producers."""

import importlib
import subprocess
import sys
import time
import timeit
from types import SimpleNamespace

import pytest
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from playmill.telemetry import TelemetryError
from playmill.telemetry.traces import CLOSE_S, OFF, TRACEPARENT, _Telling, start_tracing

FAILURE, SUCCESS = SpanExportResult.FAILURE, SpanExportResult.SUCCESS


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


def names(exporter):
    return {span.name: span for span in exporter.get_finished_spans()}


def test_off_records_nothing_and_costs_next_to_nothing():
    with OFF.span("actor.segment", turns=3) as span:
        span.set(more=1)
        assert span.traceparent == ""
    assert not OFF.on

    def empty():
        with OFF.span("actor.segment"):
            pass

    assert min(timeit.repeat(empty, number=1000, repeat=20)) / 1000 < 5e-6


def test_off_needs_no_opentelemetry():
    code = "import sys, playmill.telemetry.traces; sys.exit('opentelemetry' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_batch_links_to_its_producers_in_other_processes(exporter):
    actors = [start_tracing(f"actor {n}", exporter=InMemorySpanExporter()) for n in range(3)]
    carried = []
    for actor in actors:
        with actor.span("actor.segment", turns=64) as span:
            carried.append(span.traceparent)
        actor.close()
    assert all(TRACEPARENT.fullmatch(text) for text in carried)
    learner = start_tracing("learner", exporter=exporter)
    with learner.span("learner.batch", links=[*carried, "", "nonsense"], rows=192) as span:
        span.set(loss=0.5)
        with learner.span("learner.update"):
            pass
    learner.close()
    batch, update = names(exporter)["learner.batch"], names(exporter)["learner.update"]
    linked = [f"00-{link.context.trace_id:032x}-{link.context.span_id:016x}" for link in batch.links]
    assert linked == [text[:-3] for text in carried]
    assert dict(batch.attributes) == {"rows": 192, "loss": 0.5}
    assert batch.resource.attributes["service.name"] == "learner"
    assert update.parent.span_id == batch.context.span_id


def test_a_span_goes_on_under_a_parent_of_another_process(exporter):
    tracer = start_tracing("actor", exporter=exporter)
    parent = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
    with tracer.span("broker.send", parent=parent):
        pass
    tracer.close()
    span = names(exporter)["broker.send"]
    assert f"{span.context.trace_id:032x}" == parent[3:35]
    assert f"{span.parent.span_id:016x}" == parent[36:52]


def test_what_began_unrecorded_stays_unrecorded(exporter):
    tracer = start_tracing("actor", exporter=exporter)
    with tracer.span("x", parent="00-0123456789abcdef0123456789abcdef-0123456789abcdef-00"):
        pass
    tracer.close()
    assert names(exporter) == {}


@pytest.mark.parametrize(
    "text",
    [
        "00-" + "0" * 32 + "-0123456789abcdef-01",
        "00-0123456789abcdef0123456789abcdef-" + "0" * 16 + "-01",
        "01-0123456789abcdef0123456789abcdef-0123456789abcdef-01",
        "00-0123456789ABCDEF0123456789abcdef-0123456789abcdef-01",
        "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01\n",
    ],
)
def test_a_traceparent_that_is_none_is_passed_over(exporter, text):
    tracer = start_tracing("learner", exporter=exporter)
    with tracer.span("batch", parent=text, links=[text]):
        pass
    tracer.close()
    span = names(exporter)["batch"]
    assert span.parent is None
    assert list(span.links) == []


def test_a_span_can_be_told_of_afterwards(exporter):
    tracer = start_tracing("actor", exporter=exporter)
    began = time.time_ns() - 5_000_000_000
    above = tracer.record("actor.segment", began, turns=64)
    tracer.record("channel.send", began + 1, parent=above)
    tracer.close()
    segment, send = names(exporter)["actor.segment"], names(exporter)["channel.send"]
    assert segment.start_time == began
    assert segment.end_time - began >= 5_000_000_000
    assert TRACEPARENT.fullmatch(above)
    assert send.parent.span_id == segment.context.span_id
    assert OFF.record("actor.segment", began) == ""


def test_what_links_to_a_recorded_span_is_recorded_however_small_the_share(exporter):
    followed = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
    tracer = start_tracing("learner", share=1e-9, exporter=exporter)
    assert tracer.record("alone", time.time_ns()) == ""
    with tracer.span("learner.update", links=["", followed]), tracer.span("weights.publish"):
        pass
    with tracer.span("learner.update.unlinked", links=[]):
        pass
    with tracer.span("unrecorded", links=[followed[:-1] + "0"]):
        pass
    tracer.close()
    assert sorted(names(exporter)) == ["learner.update", "weights.publish"]


def test_nobody_waits_for_a_collector_that_is_away(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    tracer = start_tracing("actor")
    tracer.record("actor.segment", time.time_ns())
    began = time.monotonic()
    tracer.close()
    assert time.monotonic() - began < CLOSE_S + 1.0


def test_spans_that_do_not_arrive_are_told_of_once(caplog):
    found = iter([FAILURE, FAILURE, SUCCESS, SUCCESS])
    exporter = _Telling(SimpleNamespace(export=lambda _spans: next(found)))
    for _ in range(4):
        exporter.export([])
    assert [record.message for record in caplog.records] == [
        "spans do not arrive; is a collector running?",
        "spans arrive again",
    ]


def test_shares_are_checked_and_a_missing_library_says_what_to_install(monkeypatch):
    for share in (0, -1, 1.5, float("nan")):
        with pytest.raises(TelemetryError, match="share of traces"):
            start_tracing("x", share=share)

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(TelemetryError, match=r"pip install 'playmill\[traces\]'"):
        start_tracing("x")
