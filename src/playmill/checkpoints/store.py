"""The checkpoints of one run: which is newest, which is best, which may go."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from playmill.checkpoints import folder as folders
from playmill.checkpoints.folder import JSON, NO_BLOBS, CheckpointError

MARKS = "marks.json"

_STEP = re.compile(r"step-(\d{12,})")
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Marks:
    best: int | None = None
    score: float | None = None
    pins: frozenset[int] = frozenset()


class Store:
    """Folders `step-000000001234` under `root`: the newest `keep`, the best, and the pinned.

    Opening a store changes nothing on the disk, so players and reports may look while a run
    writes. Only one process may save; its first save clears what an earlier crash left.
    """

    def __init__(self, root: Path, keep: int, on_warning: Callable[[str], None] = _LOG.warning) -> None:
        if keep < 1:
            raise ValueError(f"keep must be at least 1, got {keep}")
        self.root = Path(root)
        self.keep = keep
        self._warn = on_warning
        self._lock = threading.RLock()
        self._cleaned = False

    # Looking

    def path(self, step: int) -> Path:
        """The folder of a step, whether or not it exists."""
        if step < 0:
            raise ValueError(f"a step is never negative, got {step}")
        return self.root / f"step-{step:012d}"

    def steps(self) -> list[int]:
        """Steps that have a folder, oldest first."""
        if not self.root.is_dir():
            return []
        # A folder whose replacement was cut short waits under its aside name; it still counts.
        names = (re.sub(r"^\.(.+)\.old$", r"\1", entry.name) for entry in self.root.iterdir())
        found = {int(match[1]) for match in map(_STEP.fullmatch, names) if match}
        return sorted(found)

    def latest(self) -> Path | None:
        """The newest checkpoint that is whole; damaged ones are skipped with a warning."""
        return next((self.path(step) for step in reversed(self.steps()) if self._whole(step)), None)

    def best(self) -> Path | None:
        """The checkpoint marked best, if it is whole."""
        step = self._marks_or_none().best
        return self.path(step) if step is not None and self._whole(step) else None

    def best_step(self) -> int | None:
        return self._marks_or_none().best

    def best_score(self) -> float | None:
        return self._marks_or_none().score

    def pins(self) -> frozenset[int]:
        """Steps that are never pruned."""
        return self._marks_or_none().pins

    # Changing

    def save(
        self,
        step: int,
        tensors: Mapping[str, torch.Tensor],
        meta: Mapping[str, JSON],
        blobs: Mapping[str, bytes] = NO_BLOBS,
        *,
        pin: bool = False,
        best_score: float | None = None,
    ) -> Path:
        """Writes a checkpoint, marks it where asked, and prunes."""
        if not self._cleaned:
            self.clean()
        target = self.path(step)
        if pin:
            # Before the write: a pin without a folder is harmless, a snapshot without a pin is lost.
            self.pin(step)
        folders.write(target, tensors, meta, blobs)
        if best_score is not None:
            self.mark_best(step, best_score)
        self._prune(step)
        return target

    def mark_best(self, step: int, score: float) -> None:
        """Records a saved step as the best; the caller judges that it is."""
        if not self.path(step).is_dir():
            raise CheckpointError(f"{self.path(step)}: cannot be marked best, it is not saved")
        with self._lock:
            marks = self._marks()
            self._record(_Marks(step, float(score), marks.pins))

    def keep_best(self, step: int, score: float, copy: Path) -> bool:
        """Marks an older step as the best; if it was pruned meanwhile, it comes back from `copy`. False where
        there is none left."""
        with self._lock:
            target = self.path(step)
            if not target.is_dir():
                try:
                    found = folders.read(copy)
                except CheckpointError:
                    return False
                folders.write(target, found.tensors, found.meta, found.blobs)
            self.mark_best(step, score)
            return True

    def pin(self, step: int) -> None:
        """Keeps a step until `unpin` (league snapshots)."""
        with self._lock:
            marks = self._marks()
            if step not in marks.pins:
                self._record(_Marks(marks.best, marks.score, marks.pins | {step}))

    def unpin(self, step: int) -> None:
        """Lets a pinned step be pruned again."""
        with self._lock:
            marks = self._marks()
            if step in marks.pins:
                self._record(_Marks(marks.best, marks.score, marks.pins - {step}))

    def drop_after(self, step: int) -> None:
        """Removes every checkpoint newer than `step`: the future of a run that was wound back."""
        with self._lock:
            marks = self._marks()
            pins = frozenset(pin for pin in marks.pins if pin <= step)
            gone = marks.best is not None and marks.best > step
            kept = _Marks(pins=pins) if gone else _Marks(marks.best, marks.score, pins)
            if kept != marks:
                self._record(kept)
            self._remove(late for late in self.steps() if late > step)

    def clean(self) -> None:
        """Removes what crashed writers left. Only the process that saves may call it."""
        folders.clean(self.root)
        self._cleaned = True

    # Inside

    def _whole(self, step: int) -> bool:
        try:
            folders.verify(self.path(step))
        except CheckpointError as error:
            self._warn(f"skipped a damaged checkpoint: {error}")
            return False
        return True

    def _prune(self, saved: int) -> None:
        """Keeps the newest up to the step just saved. Newer ones are not touched: they can only
        be damaged ones that a resume went behind, and must not push out what was just saved."""
        with self._lock:
            try:
                marks = self._marks()
            except CheckpointError as error:
                self._warn(f"nothing was pruned: {error}")
                return
            old = [step for step in self.steps() if step <= saved][: -self.keep]
            self._remove(step for step in old if step != marks.best and step not in marks.pins)

    def _remove(self, steps: Iterable[int]) -> None:
        for step in steps:
            if self.path(step).exists():
                folders.remove(self.path(step))

    def _marks_or_none(self) -> _Marks:
        try:
            return self._marks()
        except CheckpointError as error:
            self._warn(str(error))
            return _Marks()

    def _marks(self) -> _Marks:
        path = self.root / MARKS
        try:
            raw = json.loads(path.read_bytes())
            best, score = raw["best"], raw["score"]
            return _Marks(
                None if best is None else int(best),
                None if score is None else float(score),
                frozenset(int(step) for step in raw["pins"]),
            )
        except FileNotFoundError:
            return _Marks()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{path}: unreadable ({error}); delete it to forget best and pins"
            ) from error

    def _record(self, marks: _Marks) -> None:
        content = {"best": marks.best, "score": marks.score, "pins": sorted(marks.pins)}
        self.root.mkdir(parents=True, exist_ok=True)
        folders.replace_durably(self.root / MARKS, json.dumps(content).encode())
