"""What a process is watched by: meters, an endpoint that shows them, a tracer. All off unless asked for."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from types import TracebackType

from playmill.telemetry.endpoint import MetricsEndpoint
from playmill.telemetry.errors import AddressInUse
from playmill.telemetry.meters import NO_METERS, Meters, PrometheusMeters
from playmill.telemetry.traces import OFF, Tracer, start_tracing

AGAIN_S = 2.0
"""Until an address that was in use is tried again."""

_LOG = logging.getLogger(__name__)


class Instruments:
    """These are off."""

    meters: Meters = NO_METERS
    tracer: Tracer = OFF

    def __enter__(self) -> Instruments:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hangs up, and sends what was recorded."""


NO_INSTRUMENTS = Instruments()


class RunningInstruments(Instruments):
    """Meters behind an endpoint where `listen` says one, a tracer where `traces` is a share of them."""

    def __init__(
        self,
        service: str,
        *,
        listen: str = "",
        token: str = "",
        alias: str = "",
        traces: float = 0.0,
        in_use: Callable[[str], None] | None = None,
    ) -> None:
        """`in_use`: told of an address that somebody else has; it is tried again, and the process goes on
        meanwhile. Without it that is an error, as everything else is that can be put right."""
        self._closed = threading.Event()
        self._endpoint: MetricsEndpoint | None = None
        self._waiting: threading.Thread | None = None
        if listen:
            meters = PrometheusMeters(alias)
            self.meters = meters
            try:
                self._endpoint = MetricsEndpoint(meters, listen, token)
            except AddressInUse as error:
                if in_use is None:
                    raise
                in_use(f"no metrics yet: {error}")
                self._waiting = threading.Thread(
                    target=self._wait, args=(meters, listen, token), name="metrics", daemon=True
                )
                self._waiting.start()
        if traces:
            self.tracer = start_tracing(service, share=traces)

    def close(self) -> None:
        self._closed.set()
        if self._waiting is not None:
            self._waiting.join()
        if self._endpoint is not None:
            self._endpoint.close()
        self.tracer.close()

    def _wait(self, meters: PrometheusMeters, listen: str, token: str) -> None:
        while not self._closed.wait(AGAIN_S):
            with contextlib.suppress(AddressInUse):
                self._endpoint = MetricsEndpoint(meters, listen, token)
                _LOG.warning("metrics are at %s now", listen)
                return
