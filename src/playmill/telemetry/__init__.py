"""Metrics of a run: JSON lines always, TensorBoard where it is installed."""

from playmill.telemetry.metrics import MetricsLog, read_metrics

__all__ = ["MetricsLog", "read_metrics"]
