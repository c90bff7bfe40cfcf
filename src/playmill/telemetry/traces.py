"""Spans across actor, broker and learner, by OpenTelemetry. Off until `start_tracing` is called.

    with tracer.span("actor.segment", turns=64) as span:
        message = encode(..., span.traceparent)         a string of 55 characters, or empty when off
    with tracer.span("learner.batch", links=traceparents):
        ...

A batch has many producers, so its span links to theirs instead of having one of them as parent.
"""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from playmill.telemetry.errors import TelemetryError

TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
MOST_LINKS = 128
"""Links of one span; OpenTelemetry drops more."""

Value = str | int | float | bool


class Span:
    """What happens within a `with`; this one is never recorded."""

    traceparent = ""
    """How others name this span, by the W3C's format; empty when nothing is recorded."""

    def set(self, **attributes: Value) -> None:
        """Adds to what is known about the span."""

    def __enter__(self) -> Span:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Tracer:
    """Makes spans; this one makes none."""

    on = False

    def span(
        self, name: str, parent: str = "", links: Iterable[str] = (), **attributes: Value
    ) -> AbstractContextManager[Span]:
        """A span below the current one, or below `parent` where another process began it."""
        del name, parent, links, attributes
        return _NONE

    def close(self) -> None:
        """Sends what is still here."""


_NONE = Span()
OFF = Tracer()


def start_tracing(service: str, *, share: float = 1.0, exporter: Any = None) -> Tracer:
    """A tracer that sends spans by OTLP over HTTP, to where OTEL_EXPORTER_OTLP_ENDPOINT says, or to the
    exporter given. `share` of the traces are recorded; a part of a trace is recorded where its begin was."""
    if not 0 < share <= 1:
        raise TelemetryError(f"the share of traces must be above 0 and at most 1, got {share:g}")
    try:
        if exporter is None:
            otlp = importlib.import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
            exporter = otlp.OTLPSpanExporter()
        return _Recording(service, share, exporter)
    except ImportError:
        raise TelemetryError("traces need OpenTelemetry: pip install 'playmill[traces]'") from None


class _RecordedSpan(Span):
    def __init__(self, span: Any) -> None:
        self._span = span
        context = span.get_span_context()
        self.traceparent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

    def set(self, **attributes: Value) -> None:
        self._span.set_attributes(attributes)


class _Recording(Tracer):
    on = True

    def __init__(self, service: str, share: float, exporter: Any) -> None:
        self._trace = importlib.import_module("opentelemetry.trace")
        sdk = importlib.import_module("opentelemetry.sdk.trace")
        export = importlib.import_module("opentelemetry.sdk.trace.export")
        sampling = importlib.import_module("opentelemetry.sdk.trace.sampling")
        resources = importlib.import_module("opentelemetry.sdk.resources")
        # A provider of our own: the process's global one stays the user's.
        self._provider = sdk.TracerProvider(
            resource=resources.Resource.create({"service.name": service}),
            sampler=sampling.ParentBasedTraceIdRatio(share),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(export.BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("playmill")

    @contextlib.contextmanager
    def _started(
        self, name: str, parent: str, links: Iterable[str], attributes: dict[str, Value]
    ) -> Iterator[Span]:
        above = self._context(parent)
        context = self._trace.set_span_in_context(self._trace.NonRecordingSpan(above)) if above else None
        linked = [self._trace.Link(found) for link in links if (found := self._context(link)) is not None]
        with self._tracer.start_as_current_span(
            name, context=context, links=linked[:MOST_LINKS], attributes=attributes
        ) as span:
            yield _RecordedSpan(span)

    def span(
        self, name: str, parent: str = "", links: Iterable[str] = (), **attributes: Value
    ) -> AbstractContextManager[Span]:
        return self._started(name, parent, links, attributes)

    def close(self) -> None:
        self._provider.shutdown()

    def _context(self, traceparent: str) -> Any:
        """Whom a traceparent names; None where it is not one: messages come from elsewhere."""
        if not TRACEPARENT.fullmatch(traceparent):
            return None
        _, trace_id, span_id, flags = traceparent.split("-")
        return self._trace.SpanContext(
            int(trace_id, 16), int(span_id, 16), True, self._trace.TraceFlags(int(flags, 16))
        )
