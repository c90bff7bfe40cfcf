"""One process at a time in a folder."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO

from playmill.games import PlaymillError


def lock_folder(path: Path, name: str = "run.lock") -> IO[str]:
    """Holds a folder for this process, until the file is closed or the process dies."""
    file = (path / name).open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise PlaymillError(f"{path} is in use by another process; wait for it or name another") from None
    return file
