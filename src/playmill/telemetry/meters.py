"""Counts, levels and times of a process, for Prometheus; nothing at all where nobody scrapes.

meters = PrometheusMeters(alias="mtg")      or Meters(), which forgets everything
meters.count("turns", 512)
meters.set("queue_depth", 3, queue="experience")
meters.observe("game_duration_seconds", 7.3)
meters.follow("weight_age_seconds", lambda: watch.stats().age)
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from playmill.telemetry.catalogue import ALIASES, CATALOGUE, Alias, Kind, Metric
from playmill.telemetry.errors import TelemetryError

PREFIX = "playmill"

_ALIAS = re.compile(r"[a-z][a-z0-9]{0,31}")
_BY_NAME = {metric.name: metric for metric in CATALOGUE}


class Meters:
    """Takes everything and keeps nothing: what a process has that shows no metrics."""

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Adds to a counter."""

    def set(self, name: str, value: float, **labels: str) -> None:
        """Sets a gauge."""

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Adds one value to a histogram."""

    def follow(self, name: str, read: Callable[[], float], **labels: str) -> None:
        """A gauge that is asked whenever somebody looks; not a number where asking fails."""


class PrometheusMeters(Meters):
    """Keeps what the catalogue declares, under `playmill_...` and, with `alias`, under `ALIAS_...` too."""

    def __init__(self, alias: str = "") -> None:
        if alias and (not _ALIAS.fullmatch(alias) or alias == PREFIX):
            raise TelemetryError(
                f"{alias!r} is no prefix of metrics: a short word in small letters, not {PREFIX}"
            )
        try:
            self._client: Any = importlib.import_module("prometheus_client")
        except ImportError:
            raise TelemetryError("metrics need their client: pip install 'playmill[metrics]'") from None
        # A registry of our own: other libraries' metrics are not ours to show.
        self.registry = self._client.CollectorRegistry()
        self._families = {metric.name: self._make(metric) for metric in CATALOGUE}
        self._children: dict[tuple[str, frozenset[tuple[str, str]]], Any] = {}
        self._client.ProcessCollector(registry=self.registry)
        if alias:
            self.registry.register(_Aliases(alias, self._families))

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        self._child(name, Kind.COUNTER, labels).inc(amount)

    def set(self, name: str, value: float, **labels: str) -> None:
        self._child(name, Kind.GAUGE, labels).set(value)

    def observe(self, name: str, value: float, **labels: str) -> None:
        self._child(name, Kind.HISTOGRAM, labels).observe(value)

    def follow(self, name: str, read: Callable[[], float], **labels: str) -> None:
        def value() -> float:
            try:
                return float(read())
            except Exception:
                return math.nan  # one that cannot be read must not hide all others

        self._child(name, Kind.GAUGE, labels).set_function(value)

    def page(self, accept: str = "") -> tuple[bytes, str]:
        """All metrics as text, and its content type; OpenMetrics for those who accept it."""
        encode, kind = self._client.exposition.choose_encoder(accept)
        return encode(self.registry), kind

    def _make(self, metric: Metric) -> Any:
        kind = {
            Kind.COUNTER: self._client.Counter,
            Kind.GAUGE: self._client.Gauge,
            Kind.HISTOGRAM: self._client.Histogram,
        }[metric.kind]
        more = {"buckets": metric.buckets} if metric.kind is Kind.HISTOGRAM else {}
        name = f"{PREFIX}_{metric.name}"
        return kind(name, metric.help, metric.labels, registry=self.registry, **more)

    def _child(self, name: str, kind: Kind, labels: dict[str, str]) -> Any:
        key = (name, frozenset(labels.items()))
        child = self._children.get(key)
        if child is None:
            metric = _BY_NAME.get(name)
            if metric is None or metric.kind is not kind or set(labels) != set(metric.labels):
                wanted = f"{metric.kind.value} with labels {metric.labels}" if metric else "not declared"
                raise ValueError(f"the metric {name} is {wanted}; see telemetry/catalogue.py")
            family = self._families[name]
            child = self._children[key] = family.labels(**labels) if labels else family
        return child


class _Aliases:
    """The same numbers under other names, made when somebody looks."""

    def __init__(self, prefix: str, families: dict[str, Any]) -> None:
        self._prefix = prefix
        self._families = families

    def describe(self) -> list[Any]:
        return []

    def collect(self) -> Iterator[Any]:
        for alias in ALIASES:
            for family in self._families[alias.of].collect():
                yield self._renamed(alias, family)

    def _renamed(self, alias: Alias, family: Any) -> Any:
        """The family with its name, its samples' names and its labels changed."""
        old, new = family.name, f"{self._prefix}_{alias.name}"
        labels = dict(zip(_BY_NAME[alias.of].labels, alias.labels, strict=False))
        out = type(family)(new, family.documentation, family.type)
        for sample in family.samples:
            named = {labels.get(label, label): value for label, value in sample.labels.items()}
            out.add_sample(new + sample.name.removeprefix(old), named, sample.value, sample.timestamp)
        return out
