"""A fleet is one folder: fleet.json, which says how it was made, and an ordinary run for each member."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from playmill.checkpoints import lock_folder
from playmill.games import PlaymillError
from playmill.training.config import Train, from_dict, to_dict
from playmill.training.fleet_plan import Changes, changed
from playmill.training.runs import (
    CHANGEABLE,
    RunFolder,
    claim_folder,
    create_run,
    open_run,
    read_config,
    write_json,
)
from playmill.training.throughput import Throughput

FILE = "fleet.json"


@dataclass(frozen=True)
class Ended:
    """How a member ended."""

    reason: str
    turns: int
    seconds: float


@dataclass(frozen=True)
class Record:
    """What fleet.json holds."""

    config: Train
    """The settings all members share, but for their changes."""
    members: dict[str, Changes]
    throughput: Throughput | None = None
    ended: dict[str, Ended] = field(default_factory=dict)


@dataclass
class FleetFolder:
    """The files of a fleet, held by one process at a time."""

    path: Path
    record: Record
    _lock: IO[str]

    def over(self, name: str) -> bool:
        """Whether a member has come to its end: its budget spent, or on a plateau."""
        ended = self.record.ended.get(name)
        if ended is None or ended.reason not in ("budget", "plateau"):
            return False
        if ended.reason == "plateau":
            return True
        # A budget may have been raised since, by resuming the member by itself.
        config = read_config(self.path / name)
        late = config.minutes and ended.seconds >= 60.0 * config.minutes
        return bool(late or (config.turns and ended.turns >= config.turns))

    def open(self, name: str) -> RunFolder:
        """A member's run; it is made here where a kill came before it was."""
        path = self.path / name
        if (path / "config.json").exists():
            return open_run(path)
        # What a kill left of a run that was being made; the fleet's own lock says that nobody uses it.
        for left in ("run.lock", ".config.json.tmp"):
            (path / left).unlink(missing_ok=True)
        return create_run(path, changed(self.record.config, self.record.members[name]))

    def end(self, name: str, ended: Ended) -> None:
        self._write(ended={**self.record.ended, name: ended})

    def measured(self, throughput: Throughput) -> None:
        self._write(throughput=throughput)

    def change(self, changes: Mapping[str, Any]) -> None:
        """Changes settings of all members, such as the budget."""
        for name in changes:
            if name.partition(".")[0] not in CHANGEABLE:
                raise PlaymillError(f"{name} belongs to what the runs are and cannot be changed by --resume")
            varied = next((who for who, own in self.record.members.items() if name in own), None)
            if varied is not None:
                by_itself = f"playmill train --resume {self.path / varied}"
                raise PlaymillError(f"{name} is varied in this fleet; change it run by run, as `{by_itself}`")
        for member in self.record.members:
            run = self.open(member)
            try:
                write_json(run.path / "config.json", to_dict(changed(run.config, changes)))
            finally:
                run.release()
        # A plateau is judged anew under new settings; a spent budget is compared with the new one.
        ended = {name: end for name, end in self.record.ended.items() if end.reason != "plateau"}
        self._write(config=changed(self.record.config, changes), ended=ended)

    def release(self) -> None:
        self._lock.close()

    def _write(self, **changes: Any) -> None:
        self.record = dataclasses.replace(self.record, **changes)
        write_json(self.path / FILE, dataclasses.asdict(self.record))


def is_fleet(path: Path | None) -> bool:
    return path is not None and (path / FILE).exists()


def create_fleet(path: Path, config: Train, members: dict[str, Changes]) -> FleetFolder:
    """A new folder with a run for each member; one that has something in it is not touched."""
    for file, what in ((FILE, "a fleet"), ("config.json", "a run")):
        if (path / file).exists():
            raise PlaymillError(
                f"{path} is {what} already; go on by `playmill train --resume {path}`, or name another folder"
            )
    claim_folder(path)
    fleet = FleetFolder(path, Record(config, members), lock_folder(path))
    fleet._write()
    for name in members:
        fleet.open(name).release()
    return fleet


def open_fleet(path: Path) -> FleetFolder:
    """A fleet to go on with."""
    record = read_fleet(path)
    return FleetFolder(path, record, lock_folder(path))


def read_fleet(path: Path) -> Record:
    """What fleet.json says."""
    file = path / FILE
    try:
        values: dict[str, Any] = json.loads(file.read_text())
        throughput = values["throughput"]
        return Record(
            from_dict(Train, values["config"]),
            {str(name): dict(changes) for name, changes in values["members"].items()},
            None if throughput is None else Throughput(**throughput),
            {name: Ended(**ended) for name, ended in values["ended"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PlaymillError(f"{file} cannot be read: {error}") from None
