"""Secrets in files: for the eyes of their owner alone."""

from __future__ import annotations

import stat
from pathlib import Path

from playmill.games import PlaymillError


def read_secret(path: Path, what: str) -> str:
    """The words of a file that is not everybody's to read."""
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o007:
            raise PlaymillError(f"{path} can be read by everybody: chmod 600 {path}")
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise PlaymillError(f"{what} cannot be read: {error}") from None
