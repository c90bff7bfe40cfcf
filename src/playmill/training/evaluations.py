"""What an evaluator beside the training found: `evaluations.jsonl` in the run's folder, a line for each
opponent of a checkpoint.

    {"step": 81920, "seconds": 31.2, "opponent": "random", "win_share": 0.71, "low": 0.66, "high": 0.75, ...}

`seconds` is the training time of the checkpoint, `took` what its evaluation took. A line without an opponent
gives the exact exploitability. The line of the hardest opponent comes last: with it a checkpoint is done."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from playmill.league.evaluate import Evaluation

FILE = "evaluations.jsonl"
COPIES = "evaluation"
"""Folder in the run's for copies of the checkpoints that were evaluated last: the run's own may be gone."""

_FIELDS = {field.name for field in dataclasses.fields(Evaluation)}


class Found(NamedTuple):
    """One line."""

    step: int
    seconds: float
    opponent: str
    """Empty: the exact exploitability."""
    took: float
    result: Evaluation | None = None
    exploitability: float | None = None

    def line(self) -> dict[str, Any]:
        head = {"step": self.step, "seconds": self.seconds, "opponent": self.opponent}
        if self.result is None:
            return {**head, "exploitability": self.exploitability, "took": self.took}
        return {**head, **dataclasses.asdict(self.result), "took": self.took}


def append(folder: Path, found: Sequence[Found]) -> None:
    """All lines in one write at the end of the file, or none."""
    file = os.open(folder / FILE, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        end = os.lseek(file, 0, os.SEEK_END)
        if end and os.pread(file, 1, end - 1) != b"\n":  # killed in the middle of a line
            end = os.pread(file, end, 0).rfind(b"\n") + 1
            os.ftruncate(file, end)
        data = "".join(json.dumps(one.line()) + "\n" for one in found).encode()
        try:
            whole = os.write(file, data) == len(data)
        except OSError:
            os.ftruncate(file, end)
            raise
        if not whole:
            os.ftruncate(file, end)
            raise OSError(f"{folder / FILE}: the disk is full")
    finally:
        os.close(file)


class Reader:
    """Gives every whole line once. What is no line of this file is passed over."""

    def __init__(self, folder: Path) -> None:
        self._path, self._at = folder / FILE, 0

    def news(self) -> list[Found]:
        try:
            if self._path.stat().st_size <= self._at:
                return []
            with self._path.open("rb") as file:
                file.seek(self._at)
                data = file.read()
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._at += len(whole)
        return [found for line in whole.splitlines() if (found := _parse(line)) is not None]


def _parse(line: bytes) -> Found | None:
    try:
        told = json.loads(line)
        head = (int(told["step"]), float(told["seconds"]), str(told["opponent"]), float(told["took"]))
        if not head[2]:
            return Found(*head, exploitability=float(told["exploitability"]))
        return Found(*head, result=Evaluation(**{name: told[name] for name in _FIELDS}))
    except (ValueError, TypeError, KeyError):
        return None
