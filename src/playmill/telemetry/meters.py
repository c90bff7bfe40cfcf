"""Counts, levels and times of a process, for Prometheus; nothing at all where nobody scrapes.

meters = PrometheusMeters(alias="mtg")      or Meters(), which forgets everything
meters.count("turns", 512)
meters.set("queue_depth", 3, queue="experience")
meters.observe("game_duration_seconds", 7.3)
meters.follow("weight_age_seconds", lambda: watch.stats().age)

A page shows what was ever told, be it 0: a process tells at its start what it is going to count.
"""

from __future__ import annotations

import bisect
import importlib
import itertools
import math
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from playmill.telemetry.catalogue import ALIASES, CATALOGUE, Alias, Kind, Metric
from playmill.telemetry.errors import TelemetryError

PREFIX = "playmill"

_ALIAS = re.compile(r"[a-z][a-z0-9]{0,31}")
_BY_NAME = {metric.name: metric for metric in CATALOGUE}


class Meters:
    """Takes everything and keeps nothing: what a process has that shows no metrics."""

    on = False
    """Whether anything is kept; where not, what costs time to find out need not be."""

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Adds to a counter."""

    def set(self, name: str, value: float, **labels: str) -> None:
        """Sets a gauge."""

    def observe(self, name: str, value: float, times: int = 1) -> None:
        """Adds a value to a histogram, so many times."""

    def observe_all(self, name: str, values: Iterable[float]) -> None:
        """Adds values to a histogram."""

    def follow(self, name: str, read: Callable[[], float], **labels: str) -> None:
        """A gauge that is asked whenever somebody looks; not a number where asking fails."""


NO_METERS = Meters()


class PrometheusMeters(Meters):
    """Keeps what the catalogue declares, under `playmill_...` and, with `alias`, under `ALIAS_...` too."""

    on = True

    def __init__(self, alias: str = "") -> None:
        if alias and (not _ALIAS.fullmatch(alias) or alias == PREFIX):
            raise TelemetryError(
                f"{alias!r} is no prefix of metrics: a short word in small letters, not {PREFIX}"
            )
        try:
            self._client: Any = importlib.import_module("prometheus_client")
        except ImportError:
            raise TelemetryError("metrics need their client: pip install 'playmill[metrics]'") from None
        self._alias = alias
        self._families: dict[str, _Family] = {}
        self._lock = threading.Lock()
        # A registry of our own: other libraries' metrics are not ours to show.
        self._registry = self._client.CollectorRegistry()
        self._client.ProcessCollector(registry=self._registry)
        self._registry.register(self)

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        values, key = self._find(name, Kind.COUNTER, labels)
        with self._lock:
            values[key] = values.get(key, 0.0) + amount

    def set(self, name: str, value: float, **labels: str) -> None:
        values, key = self._find(name, Kind.GAUGE, labels)
        with self._lock:
            values[key] = value

    def observe(self, name: str, value: float, times: int = 1) -> None:
        self._add(name, (value,), times)

    def observe_all(self, name: str, values: Iterable[float]) -> None:
        self._add(name, values, 1)

    def follow(self, name: str, read: Callable[[], float], **labels: str) -> None:
        values, key = self._find(name, Kind.GAUGE, labels)
        with self._lock:
            values[key] = read

    def page(self, accept: str = "") -> tuple[bytes, str]:
        """All metrics as text, and its content type; OpenMetrics for those who accept it."""
        encode, kind = self._client.exposition.choose_encoder(accept)
        return encode(self._registry), kind

    def collect(self) -> Iterator[Any]:
        """What the registry asks for, when somebody looks."""
        with self._lock:
            families = {name: family.copy() for name, family in self._families.items()}
        for metric in CATALOGUE:
            if metric.name in families:
                yield self._shown(families[metric.name], f"{PREFIX}_{metric.name}", {})
        for alias in ALIASES if self._alias else ():
            if alias.of in families:
                yield self._shown(families[alias.of], f"{self._alias}_{alias.name}", _renamed(alias))

    def _find(self, name: str, kind: Kind, labels: dict[str, str]) -> tuple[dict[_Key, Any], _Key]:
        """Where the values of a metric lie, and under which labels."""
        family = self._families.get(name) or self._declared(name)
        metric = family.metric if family else None
        if family is None or metric is None or metric.kind is not kind or labels.keys() != family.labels:
            wanted = f"{metric.kind.value} with labels {metric.labels}" if metric else "not declared"
            raise ValueError(f"the metric {name} is {wanted}; see telemetry/catalogue.py")
        return family.values, tuple([labels[label] for label in metric.labels])

    def _declared(self, name: str) -> _Family | None:
        metric = _BY_NAME.get(name)
        if metric is None:
            return None
        with self._lock:
            return self._families.setdefault(name, _Family(metric))

    def _add(self, name: str, values: Iterable[float], times: int) -> None:
        found, key = self._find(name, Kind.HISTOGRAM, {})
        with self._lock:
            family = self._families[name]
            bounds, counts = family.metric.buckets, found.setdefault(key, family.empty())
            for value in values:
                counts[bisect.bisect_left(bounds, value)] += times
                counts[-1] += value * times

    def _shown(self, family: _Family, name: str, renamed: dict[str, str]) -> Any:
        """A family as the client knows them."""
        metric = family.metric
        out = self._client.metrics_core.Metric(name, metric.help, metric.kind.value)
        for key, value in family.values.items():
            labels = {renamed.get(k, k): v for k, v in zip(metric.labels, key, strict=True)}
            if metric.kind is Kind.HISTOGRAM:
                sums = list(itertools.accumulate(value[:-1]))
                for bound, total in zip((*metric.buckets, math.inf), sums, strict=True):
                    le = self._client.utils.floatToGoString(bound)
                    out.add_sample(f"{name}_bucket", {"le": le}, total)
                out.add_sample(f"{name}_count", {}, sums[-1])
                out.add_sample(f"{name}_sum", {}, value[-1])
            else:
                ending = "_total" if metric.kind is Kind.COUNTER else ""
                out.add_sample(name + ending, labels, _asked(value))
        return out


_Key = tuple[str, ...]


class _Family:
    """The values of a metric by its labels' values; of a histogram counts by bucket, and the sum."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self.labels = set(metric.labels)
        self.values: dict[_Key, Any] = {}

    def empty(self) -> list[float]:
        return [0] * (len(self.metric.buckets) + 1) + [0.0]

    def copy(self) -> _Family:
        out = _Family(self.metric)
        out.values = {key: list(v) if isinstance(v, list) else v for key, v in self.values.items()}
        return out


def _asked(value: float | Callable[[], float]) -> float:
    try:
        return float(value() if callable(value) else value)
    except Exception:
        return math.nan


def _renamed(alias: Alias) -> dict[str, str]:
    return dict(zip(_BY_NAME[alias.of].labels, alias.labels, strict=False))


class Totals:
    """Counters that are known as totals: each call adds what came since the last."""

    def __init__(self, meters: Meters) -> None:
        self._meters = meters
        self._told: dict[tuple[str, ...], float] = {}

    def count(self, name: str, total: float, **labels: str) -> None:
        key = (name, *labels.values())
        before = self._told.get(key)
        if total != before:
            self._meters.count(name, total - (before or 0), **labels)
            self._told[key] = total
