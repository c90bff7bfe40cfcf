"""Checkpoints: folders of tensors, JSON and blobs under a manifest of hashes. Never pickle."""

from playmill.checkpoints.background import BackgroundWriter
from playmill.checkpoints.folder import (
    FORMAT,
    JSON,
    Checkpoint,
    CheckpointError,
    fingerprint,
    read,
    verify,
    write,
)
from playmill.checkpoints.lock import lock_folder
from playmill.checkpoints.store import Store

__all__ = [
    "FORMAT",
    "JSON",
    "BackgroundWriter",
    "Checkpoint",
    "CheckpointError",
    "Store",
    "fingerprint",
    "lock_folder",
    "read",
    "verify",
    "write",
]
