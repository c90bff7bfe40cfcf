"""Messages that were refused, kept for a look: a folder with a bound, the oldest go first."""

from __future__ import annotations

import json
import re
from pathlib import Path

from playmill.experience.segment import Identity

NAME = re.compile(r"(\d{12})\.letter")


class DeadLetters:
    """A file a message: a line of JSON (identity, reason, bytes), then what was sent, or its beginning."""

    def __init__(
        self, folder: Path, most: int = 100, most_bytes: int = 16 << 20, largest: int = 1 << 20
    ) -> None:
        self.folder = folder
        self._most = most
        self._most_bytes = most_bytes
        self._largest = min(largest, most_bytes)

    def put(self, identity: Identity | None, message: memoryview, reason: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        kept = self._kept()
        number = self._number(kept[-1]) + 1 if kept else 1
        about = {"identity": identity, "reason": reason[:1000], "bytes": len(message)}
        path = self.folder / f"{number:012}.letter"
        half = path.with_suffix(".tmp")
        with half.open("wb") as file:
            file.write(json.dumps(about).encode() + b"\n")
            file.write(message[: self._largest])
        half.replace(path)
        self._trim([*kept, path])

    @property
    def count(self) -> int:
        """How many there ever were."""
        kept = self._kept()
        return self._number(kept[-1]) if kept else 0

    def _kept(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        return sorted(path for path in self.folder.iterdir() if NAME.fullmatch(path.name))

    def _trim(self, kept: list[Path]) -> None:
        sizes = [path.stat().st_size for path in kept]
        total = sum(sizes)
        for i, path in enumerate(kept[:-1]):
            if len(kept) - i <= self._most and total <= self._most_bytes:
                return
            path.unlink()
            total -= sizes[i]

    @staticmethod
    def _number(path: Path) -> int:
        return int(path.stem)
