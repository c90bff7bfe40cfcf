"""Spans: off by default and then nearly free; on, a learner's batch links to the spans of its producers."""

import importlib
import subprocess
import sys
import timeit

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from playmill.telemetry import TelemetryError
from playmill.telemetry.traces import OFF, TRACEPARENT, start_tracing


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


def test_shares_are_checked_and_a_missing_library_says_what_to_install(monkeypatch):
    for share in (0, -1, 1.5, float("nan")):
        with pytest.raises(TelemetryError, match="share of traces"):
            start_tracing("x", share=share)

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(TelemetryError, match=r"pip install 'playmill\[traces\]'"):
        start_tracing("x")
