"""Every metric there is, declared once: a name that is not here cannot be counted."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """A metric. Its name on the wire begins with `playmill_`, that of a counter ends with `_total`."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


class Alias(NamedTuple):
    """Another name for a metric, with a prefix of the user's, as older dashboards have it."""

    name: str
    of: str
    labels: tuple[str, ...] = ()
    """What the labels are called there; empty: as here."""


def _doubling(first: float, count: int) -> tuple[float, ...]:
    return tuple(first * 2**n for n in range(count))


GAME_SECONDS = (0.01, 0.1, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800)
DECISION_SECONDS = _doubling(1e-5, 20)
SECONDS = _doubling(1e-3, 16)
STATE_BYTES = _doubling(100, 10)
SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)

INFO = ("run", "game", "role", "number")

_C, _G, _H = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM

CATALOGUE = (
    Metric("process_info", _G, "1; its labels say which process of which run this is", INFO),
    Metric("games", _C, "Games played to their end; of a learner: in what it trained on"),
    Metric("games_active", _G, "Games in flight"),
    Metric("games_lost", _C, "Games lost with their engines, or cut short at the start to spread them"),
    Metric("turns", _C, "Decisions made; of a learner: trained on"),
    Metric("game_duration_seconds", _H, "Length of a game by the clock", (), GAME_SECONDS),
    Metric("decision_seconds", _H, "From a row's coming from its engine to its answer", (), DECISION_SECONDS),
    Metric("game_state_bytes", _H, "Size of what a seat is told when it is to decide", (), STATE_BYTES),
    Metric("engines", _G, "Engines by state: starting, ready, waiting (for a restart), out", ("state",)),
    Metric("engine_utilisation", _G, "Share of the last seconds an engine was busy, 0 to 1", ("engine",)),
    Metric("engine_restarts", _C, "Engines started again, by why they ended", ("engine", "reason")),
    Metric("engine_quarantines", _C, "Lies an engine was caught at; its games were taken away", ("engine",)),
    Metric("process_restarts", _C, "Processes the learner has started again", ("process",)),
    Metric("queue_depth", _G, "Segments that wait: for the learner, or for a checkpoint", ("queue",)),
    Metric("buffer_size_bytes", _G, "Bytes in a buffer", ("buffer",)),
    Metric("held_up_seconds", _C, "Time an actor did not play because the channel was full"),
    Metric("segments_produced", _C, "Segments handed over by actors"),
    Metric("segments_trained", _C, "Segments trained on"),
    Metric("segments_dropped", _C, "Segments not trained on, and why", ("reason",)),
    Metric("dead_letters", _C, "Messages that were no segments of the run"),
    Metric("update_seconds", _H, "Length of an update, with the wait for what it learns from", (), SECONDS),
    Metric("phase_seconds", _C, "What the learner's time went into", ("phase",)),
    Metric("weight_version", _G, "Version of the weights in use; of a learner: published last"),
    Metric("weight_age_seconds", _G, "Time since the weights in use were published"),
    Metric("weight_sync_seconds", _H, "From publishing to use of a version", (), SECONDS),
    Metric("weights_refused", _C, "Versions refused for their hash or content"),
    Metric("win_rate", _G, "Share of games won, 0 to 1, in the last evaluation", ("opponent",)),
    Metric("inference_batch_fill", _H, "Rows of a batch as a share of its room", (), SHARES),
    Metric("inference_seconds", _H, "From a row's coming to the policy to its answer", (), DECISION_SECONDS),
)
"""Histograms have no labels."""

ALIASES = (
    Alias("games", "games"),
    Alias("games_played", "games"),
    Alias("games_active", "games_active"),
    Alias("game_duration_seconds", "game_duration_seconds"),
    Alias("game_state_bytes", "game_state_bytes"),
    Alias("turns_processed", "turns"),
    Alias("action_processing_seconds", "decision_seconds"),
    Alias("daemon_utilization", "engine_utilisation", ("daemon_id",)),
    Alias("buffer_size", "buffer_size_bytes"),
    Alias("transition_queue_depth", "queue_depth"),
    Alias("win_rate", "win_rate"),
)
