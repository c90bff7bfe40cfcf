"""A run is one folder: config, checkpoints, metrics, curves, report."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from playmill.checkpoints import lock_folder
from playmill.games import PlaymillError
from playmill.training.config import Train, from_dict, to_dict

CHANGEABLE = {"turns", "minutes", "ranks", "evaluation", "checkpoints", "plateau", "telemetry"}
"""What may differ when a run is resumed; everything else is part of what its weights are."""


@dataclass(frozen=True)
class RunFolder:
    """The files of a run, held by one process at a time."""

    path: Path
    config: Train
    _lock: IO[str]

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def release(self) -> None:
        self._lock.close()


def create_run(path: Path, config: Train) -> RunFolder:
    """A new run folder; one that is already a run is not touched."""
    if (path / "config.json").exists():
        raise PlaymillError(
            f"{path} is a run already; go on by `playmill train --resume {path}`, or name another folder"
        )
    claim_folder(path)
    lock = lock_folder(path)
    write_json(path / "config.json", to_dict(config))
    return RunFolder(path, config, lock)


def claim_folder(path: Path) -> None:
    """Makes the folder; one with something in it is not touched."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise PlaymillError(f"{path} is in use and is not a run; name another folder with --run")
    path.mkdir(parents=True, exist_ok=True)


def open_run(path: Path) -> RunFolder:
    """A run to go on with."""
    file = path / "config.json"
    if not file.exists():
        raise PlaymillError(f"{path} is not a run: it has no config.json")
    lock = lock_folder(path)
    return RunFolder(path, read_config(path), lock)


def read_config(path: Path) -> Train:
    """The settings of a run."""
    file = path / "config.json"
    try:
        values: dict[str, Any] = json.loads(file.read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise PlaymillError(f"{file} cannot be read: {error}") from None
    return from_dict(Train, values)


def new_run_path(base: Path, name: str) -> Path:
    """The first free `base/name-N`; signs that are awkward in a path are left out of the name."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", name)
    number = 1
    while (path := base / f"{name}-{number}").exists():
        number += 1
    return path


def write_json(path: Path, values: object) -> None:
    """Whole or not at all: a kill must not leave half a file."""
    beside = path.with_name(f".{path.name}.tmp")
    beside.write_text(json.dumps(values, indent=2) + "\n")
    beside.replace(path)
