"""Games on file. A seed and its actions name a game for ever, so that is all a record holds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from playmill.games import Game, IllegalAction, OptionValue, PlaymillError, registry
from playmill.league.agents import Agent, Decision, seat_agents

FORMAT = 1


@dataclass(frozen=True)
class Record:
    """One game, whole or as far as it went."""

    game: str
    options: Mapping[str, OptionValue]
    seed: int
    names: tuple[str, ...]
    """Who sat where, one for each seat."""
    actions: tuple[int, ...]


def positions(record: Record) -> list[Game]:
    """The game before the first move, and after every move."""
    game = Game(record.game, record.options, record.seed)
    out = [game.copy()]
    for number, action in enumerate(record.actions, start=1):
        try:
            game.act(action)
        except IllegalAction as error:
            raise PlaymillError(f"move {number} of the record cannot be played: {error}") from None
        out.append(game.copy())
    return out


def play_out(
    game: str, options: Mapping[str, OptionValue] | None, agents: Sequence[Agent], seed: int
) -> tuple[Record, list[Decision]]:
    """Plays one game between agents (one for all seats, or one for each); a decision a move."""
    table = Game(game, options, seed)
    players = seat_agents(agents, table.spec.seats)
    decisions = []
    while not table.over:
        decisions.append(players[table.seat].choose(table))
        table.act(decisions[-1].action)
    names, actions = tuple(p.name for p in players), tuple(d.action for d in decisions)
    return Record(game, dict(options or {}), seed, names, actions), decisions


def save_record(path: Path, record: Record) -> None:
    """Writes the record as JSON, whole or not at all."""
    text = json.dumps({"format": FORMAT, **asdict(record)}, indent=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(text + "\n", encoding="utf-8")
    part.replace(path)


def load_record(path: Path) -> Record:
    """Reads a record and plays it through; what does not fit is a PlaymillError that says where."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PlaymillError(f"cannot read the record {path}: {error.strerror}") from None
    except ValueError:
        raise PlaymillError(f"{path} is not a record: it is not JSON") from None
    try:
        record = _parse(data)
        positions(record)
    except PlaymillError as error:
        raise PlaymillError(f"{path}: {error}") from None
    return record


def _parse(data: Any) -> Record:
    if not isinstance(data, dict) or "format" not in data:
        raise PlaymillError("this is not a record of a game: there is no 'format' in it")
    if data["format"] != FORMAT:
        raise PlaymillError(f"records of format {data['format']} are not known here, only {FORMAT}")
    game, options = _field(data, "game", str), _field(data, "options", dict)
    if not all(isinstance(v, int | str) for v in options.values()):
        raise PlaymillError("'options' must map names to numbers, choices or flags")
    names, actions = _field(data, "names", list), _field(data, "actions", list)
    if not all(isinstance(n, str) for n in names):
        raise PlaymillError("'names' must be a list of strings")
    if not all(type(a) is int for a in actions):
        raise PlaymillError("'actions' must be a list of whole numbers")
    seed = _field(data, "seed", int)
    if not 0 <= seed < 2**64:
        raise PlaymillError(f"'seed' must be from 0 to 2^64 - 1, got {seed}")
    seats = registry.spec(game, options).seats
    if len(names) != seats:
        raise PlaymillError(f"{game} has {seats} seats, but 'names' lists {len(names)}")
    return Record(game, options, seed, tuple(names), tuple(actions))


def _field(data: dict[str, Any], name: str, kind: type) -> Any:
    value = data.get(name)
    if type(value) is not kind:
        raise PlaymillError(f"'{name}' must be a {kind.__name__}, got {value!r}")
    return value
