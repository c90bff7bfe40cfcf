"""Spans across actor, broker and learner, by OpenTelemetry. Off until `start_tracing` is called.

    traceparent = tracer.record("actor.segment", began_ns, turns=64)     55 characters, or empty when off
    with tracer.span("learner.update", links=traceparents):
        ...

An update has many producers, so its span links to theirs instead of having one of them as parent.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from playmill.telemetry.errors import TelemetryError

TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
CLOSE_S = 2.0
"""The last spans may take so long to be sent."""
MOST_LINKS = 128
"""Links of one span; OpenTelemetry drops more."""

_LOG = logging.getLogger(__name__)

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

    def record(
        self, name: str, began_ns: int, parent: str = "", links: Iterable[str] = (), **attributes: Value
    ) -> str:
        """A span from then (`time.time_ns`) until now. How others name it: empty where it is not recorded."""
        del name, began_ns, parent, links, attributes
        return ""

    def close(self) -> None:
        """Sends what is still here."""


_NONE = Span()
OFF = Tracer()


def start_tracing(service: str, *, share: float = 1.0, exporter: Any = None) -> Tracer:
    """A tracer that sends spans by OTLP over HTTP, to where OTEL_EXPORTER_OTLP_ENDPOINT says, or to the
    exporter given. `share` of the traces are recorded; a part of a trace is recorded where its begin was, and
    what links to a recorded one is recorded too."""
    if not 0 < share <= 1:
        raise TelemetryError(f"the share of traces must be above 0 and at most 1, got {share:g}")
    try:
        if exporter is None:
            otlp = importlib.import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
            # It would log every try; one line says as much.
            logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
            exporter = _Telling(otlp.OTLPSpanExporter())
        return _Recording(service, share, exporter)
    except ImportError:
        raise TelemetryError("traces need OpenTelemetry: pip install 'playmill[traces]'") from None


class _Telling:
    """An exporter that says once that spans do not arrive, and once that they do again."""

    def __init__(self, exporter: Any) -> None:
        self._exporter, self._arrived = exporter, True

    def export(self, spans: Any) -> Any:
        found = self._exporter.export(spans)
        arrived = found.name == "SUCCESS"
        if arrived != self._arrived:
            _LOG.warning("spans arrive again" if arrived else "spans do not arrive; is a collector running?")
        self._arrived = arrived
        return found

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return bool(self._exporter.force_flush(timeout_millis))


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
            sampler=sampling.ParentBased(_linked_or(share, sampling)),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(export.BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("playmill")

    def span(
        self, name: str, parent: str = "", links: Iterable[str] = (), **attributes: Value
    ) -> AbstractContextManager[Span]:
        return self._started(name, self._above(parent), self._linked(links), attributes)

    def record(
        self, name: str, began_ns: int, parent: str = "", links: Iterable[str] = (), **attributes: Value
    ) -> str:
        found = self._tracer.start_span(
            name,
            context=self._above(parent),
            links=self._linked(links),
            attributes=attributes,
            start_time=began_ns,
        )
        found.end()
        return _RecordedSpan(found).traceparent if found.get_span_context().trace_flags.sampled else ""

    @contextlib.contextmanager
    def _started(
        self, name: str, above: Any, links: list[Any], attributes: dict[str, Value]
    ) -> Iterator[Span]:
        with self._tracer.start_as_current_span(
            name, context=above, links=links, attributes=attributes
        ) as span:
            yield _RecordedSpan(span)

    def close(self) -> None:
        """A collector that is away is tried for long: nobody who ends waits for that."""
        sending = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        sending.start()
        sending.join(CLOSE_S)

    def _above(self, parent: str) -> Any:
        """The context of a parent in another process; None: of the span this thread is in."""
        above = self._context(parent)
        return self._trace.set_span_in_context(self._trace.NonRecordingSpan(above)) if above else None

    def _linked(self, links: Iterable[str]) -> list[Any]:
        found = [self._trace.Link(context) for link in links if (context := self._context(link)) is not None]
        return found[:MOST_LINKS]

    def _context(self, traceparent: str) -> Any:
        """Whom a traceparent names; None where it is not one: messages come from elsewhere."""
        if not TRACEPARENT.fullmatch(traceparent):
            return None
        _, trace_id, span_id, flags = traceparent.split("-")
        return self._trace.SpanContext(
            int(trace_id, 16), int(span_id, 16), True, self._trace.TraceFlags(int(flags, 16))
        )


def _linked_or(share: float, sampling: Any) -> Any:
    """Records a share of what begins here. All that links to a recorded span is: what became of a segment
    is to be seen, however few are followed."""
    by_share = sampling.TraceIdRatioBased(share)

    class LinkedOr(sampling.Sampler):  # type: ignore[misc]
        def should_sample(
            self,
            parent_context: Any,
            trace_id: int,
            name: str,
            kind: Any = None,
            attributes: Any = None,
            links: Any = None,
            trace_state: Any = None,
        ) -> Any:
            followed = any(link.context.trace_flags.sampled for link in links or ())
            chosen = sampling.ALWAYS_ON if followed else by_share
            return chosen.should_sample(parent_context, trace_id, name, kind, attributes, links, trace_state)

        def get_description(self) -> str:
            return f"LinkedOr{{{share}}}"

    return LinkedOr()
