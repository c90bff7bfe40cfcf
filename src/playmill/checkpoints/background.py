"""Saving without holding up the training: one thread, one copy, no exceptions."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import torch

from playmill.checkpoints.folder import JSON, NO_BLOBS
from playmill.checkpoints.store import Store

T = TypeVar("T")


@dataclass(frozen=True)
class _Job:
    step: int
    tensors: dict[str, torch.Tensor]
    meta: dict[str, JSON]
    blobs: dict[str, bytes]
    must: bool
    pin: bool
    best_score: float | None
    after: Callable[[Path], None] | None


class BackgroundWriter:
    """Saves into a store from one thread of its own.

    A full disk or any other failure is a warning, never the end of a training: it goes to
    `on_error` and to `warnings`, and the checkpoint before it stays. Both callbacks run on the
    writer's thread. A waiting save that was not started is replaced by a newer one, unless it
    must happen (`must`, `pin` or `best_score`): then every one of them is written, in order.
    """

    def __init__(
        self,
        store: Store,
        on_saved: Callable[[Path], None] | None = None,
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        self.store = store
        self.warnings: list[str] = []
        self._on_saved = on_saved
        self._on_error = on_error
        self._waiting: list[_Job] = []
        self._busy = False
        self._closed = False
        self._changed = threading.Condition()
        # A daemon: a training that dies without close() must not hang in the interpreter's exit.
        self._thread = threading.Thread(target=self._work, name="checkpoint-writer", daemon=True)
        self._thread.start()

    def __enter__(self) -> BackgroundWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def submit(
        self,
        step: int,
        tensors: Mapping[str, torch.Tensor],
        meta: Mapping[str, JSON],
        blobs: Mapping[str, bytes] = NO_BLOBS,
        *,
        must: bool = False,
        pin: bool = False,
        best_score: float | None = None,
        after: Callable[[Path], None] | None = None,
    ) -> None:
        """Copies everything now and returns; the caller may change its tensors at once. `after` is called on
        the writer's thread when this very checkpoint is whole."""
        job = _Job(
            step,
            {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()},
            copy.deepcopy(dict(meta)),
            {name: bytes(blob) for name, blob in blobs.items()},
            must or pin or best_score is not None,
            pin,
            best_score,
            after,
        )
        with self._changed:
            if self._closed:
                raise RuntimeError("the checkpoint writer is closed")
            self._waiting = [*(waiting for waiting in self._waiting if waiting.must), job]
            self._changed.notify_all()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until nothing is left to write; False when the time ran out first."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._busy, timeout)

    def close(self) -> None:
        """Writes what waits and ends the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting) or self._closed)
                if not self._waiting:
                    return
                job = self._waiting.pop(0)
                self._busy = True
            try:
                self._save(job)
            finally:
                # The copies are let go before the next wait, not when the next job arrives.
                del job
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()

    def _save(self, job: _Job) -> None:
        try:
            path = self.store.save(
                job.step, job.tensors, job.meta, job.blobs, pin=job.pin, best_score=job.best_score
            )
        except Exception as error:
            self.warnings.append(f"checkpoint of step {job.step} was not saved: {error}")
            self._tell(self._on_error, error)
        else:
            self._tell(self._on_saved, path)
            self._tell(job.after, path)

    def _tell(self, listener: Callable[[T], None] | None, news: T) -> None:
        """A listener that fails must not end the thread that saves."""
        try:
            if listener is not None:
                listener(news)
        except Exception as error:
            self.warnings.append(f"a listener of the checkpoint writer failed: {error}")
