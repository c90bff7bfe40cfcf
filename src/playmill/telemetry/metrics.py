"""Metrics as JSON lines, one line a step, and as TensorBoard events where that is installed.

    {"step": 32768, "time": 1760000000.0, "loss/policy": -0.0123, "eval/greedy/win_share": 0.31}

`time` is seconds since 1970. JSON has no word for what is not a finite number, so those are the
strings "nan", "inf" and "-inf"; `read_metrics` turns them back into floats.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

FILE = "metrics.jsonl"

_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class MetricsLog:
    """Appends to `folder/metrics.jsonl`; every line is handed to the system at once.

    With `resume_step`, lines of later steps and a torn last line are taken out first, so a run
    that is killed and resumed counts nothing twice. Without, the run is new: an older file is set
    aside as metrics.1.jsonl. A disk that refuses a line costs that line, never the training: it
    is told to `on_error` and kept in `warnings`.
    """

    def __init__(
        self,
        folder: Path,
        resume_step: int | None = None,
        *,
        use_tensorboard: bool = True,
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE
        self.warnings: list[str] = []
        self._on_error = on_error
        self.folder.mkdir(parents=True, exist_ok=True)
        if resume_step is None:
            _set_aside(self.path)
        else:
            _wind_back(self.path, resume_step)
        # Unbuffered: a line is in the file when write returns, and a failed one can be cut off.
        self._file = self.path.open("ab", buffering=0)
        self._events: Any = self._open_events(resume_step) if use_tensorboard else None

    @property
    def tensorboard(self) -> bool:
        """Whether TensorBoard events are written as well."""
        return self._events is not None

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Appends one line. Values are anything `float` takes."""
        if "step" in values or "time" in values:
            raise ValueError("`step` and `time` are set by the log; give the value another name")
        now = time.time()
        numbers = {name: float(value) for name, value in values.items()}
        line = {"step": int(step), "time": round(now, 3), **{k: _plain(v) for k, v in numbers.items()}}
        self._append((json.dumps(line, allow_nan=False) + "\n").encode())
        self._write_events(step, numbers, now)

    def sync(self) -> None:
        """Waits until the disk has every line; call it before a checkpoint that relies on them."""
        self._guard(lambda: os.fsync(self._file.fileno()))

    def close(self) -> None:
        self._file.close()
        if self._events is not None:
            self._guard(self._events.close)

    def _append(self, line: bytes) -> None:
        end = self._file.seek(0, os.SEEK_END)

        def append() -> None:
            rest = line
            while rest:
                rest = rest[self._file.write(rest) :]

        if not self._guard(append):
            # Half a line in the middle of the file would spoil the next one.
            self._guard(lambda: self._file.truncate(end))

    def _open_events(self, resume_step: int | None) -> Any:
        """A TensorBoard writer, or None. torch is only imported here: telemetry must stay light."""
        if not (importlib.util.find_spec("tensorboard") and importlib.util.find_spec("torch")):
            return None
        opened: list[Any] = []

        def open_events() -> None:
            from torch.utils.tensorboard import SummaryWriter

            # TensorBoard hides the events of a killed run from this step on.
            purge = 0 if resume_step is None else resume_step + 1
            opened.append(SummaryWriter(str(self.folder / "tensorboard"), purge_step=purge))

        return opened[0] if self._guard(open_events) else None

    def _write_events(self, step: int, numbers: Mapping[str, float], now: float) -> None:
        def write() -> None:
            for name, value in numbers.items():
                self._events.add_scalar(name, value, step, walltime=now)

        if self._events is not None and not self._guard(write):
            self._events = None

    def _guard(self, action: Callable[[], object]) -> bool:
        try:
            action()
        except Exception as error:
            self.warnings.append(f"{self.path}: {error}")
            if self._on_error is not None:
                self._on_error(error)
            return False
        return True


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All lines of a metrics file (or of the one in a run folder), oldest first.

    A last line without its end is left out: the run is writing it, or died doing so.
    """
    path = Path(path)
    return _parse(path / FILE if path.is_dir() else path)[0]


def _parse(path: Path) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Lines parsed, and the same lines as they stand in the file."""
    if not path.exists():
        return [], []
    # The last piece is empty, or torn.
    raw = path.read_bytes().split(b"\n")[:-1]
    lines = []
    for number, text in enumerate(raw, 1):
        try:
            line = json.loads(text)
            line["step"] + 0
        except (ValueError, TypeError, KeyError):
            raise ValueError(f"{path}, line {number}: not a line of metrics") from None
        lines.append({key: _NOT_FINITE.get(v, v) if isinstance(v, str) else v for key, v in line.items()})
    return lines, raw


def _wind_back(path: Path, step: int) -> None:
    lines, raw = _parse(path)
    kept = b"".join(text + b"\n" for line, text in zip(lines, raw, strict=True) if line["step"] <= step)
    if not path.exists() or kept == path.read_bytes():
        return
    beside = path.with_name(f".{path.name}.tmp")
    with beside.open("wb") as file:
        file.write(kept)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def _set_aside(path: Path) -> None:
    if not path.exists():
        return
    number = 1
    while (aside := path.with_name(f"metrics.{number}.jsonl")).exists():
        number += 1
    path.rename(aside)


def _plain(value: float) -> float | str:
    if math.isnan(value):
        return "nan"
    return value if math.isfinite(value) else "inf" if value > 0 else "-inf"
