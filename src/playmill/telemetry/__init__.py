"""Metrics of a run as JSON lines and TensorBoard; of a process for Prometheus; spans for OpenTelemetry."""

from playmill.telemetry.errors import TelemetryError
from playmill.telemetry.metrics import MetricsLog, read_metrics

__all__ = ["MetricsLog", "TelemetryError", "read_metrics"]
