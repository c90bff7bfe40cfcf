"""What can go wrong with metrics and traces; telemetry knows nothing of games, nor of their errors."""

from __future__ import annotations


class TelemetryError(Exception):
    """Something the user can put right; the message says how."""


class AddressInUse(TelemetryError):
    """Somebody else listens there; it may be a process that is about to end."""
