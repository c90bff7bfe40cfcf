"""What an engine says of its game in WELCOME, checked, as a GameSpec; and a GameSpec as an engine says it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from playmill import _native
from playmill.engines.protocol import ROW_LIMIT, VERSION, read_json
from playmill.games import Board, Encoding, GameSpec, OptionValue, PlaymillError, Schema
from playmill.games.board import STEPS

MOST_SEATS = 64
MOST_ACTIONS = 1 << 20
MOST_NAMES = 256
_NAME = re.compile(r"[A-Za-z0-9_.\- ]{1,64}")
_ENCODINGS = {encoding.name.lower(): encoding for encoding in Encoding}


class BadEngine(PlaymillError):
    """An engine whose word cannot be taken; starting it anew would not change it."""


@dataclass(frozen=True)
class Welcome:
    """An engine that has said who it is."""

    engine: str
    game: str
    """What it calls its game."""
    version: str
    games: int
    """How many games it takes at once."""
    spec: GameSpec
    bots: tuple[str, ...]
    """Its own bots, in the order of their numbers."""


def welcome_of(spec: GameSpec, engine: str, version: str, games: int) -> dict[str, Any]:
    """What an engine of that game says."""
    told: dict[str, Any] = {
        "protocol": VERSION,
        "engine": engine,
        "version": version,
        "games": games,
        "game": spec.name,
        "title": spec.title,
        "seats": spec.seats,
        "actions": spec.actions,
        "roles": spec.roles,
        "stats": spec.stats,
        "bots": spec.bots,
        "fields": [
            [f.name, f.encoding.name.lower(), f.rows, f.columns, f.size, f.scale, f.counted]
            for f in spec.schema.fields
        ],
        "schema_hash": hex(spec.schema.hash),
    }
    if spec.board is not None:
        groups = [[group.each_square, group.headings] for group in spec.board.groups]
        told["board"] = {"height": spec.board.height, "width": spec.board.width, "groups": groups}
    return told


def read_welcome(
    payload: bytes, name: str, options: Mapping[str, OptionValue], expected: GameSpec | None
) -> Welcome:
    """What the engine said, once every number in it has been checked. `expected`: the game it must be."""
    told = read_json(payload)
    try:
        if _whole(told, "protocol", 0, 1 << 16) != VERSION:
            raise BadEngine(f"it speaks version {told['protocol']} of the protocol, this pool {VERSION}")
        bots = _names(told, "bots", least=0)
        found = Welcome(
            engine=_text(told, "engine"),
            game=_text(told, "game"),
            version=_text(told, "version"),
            games=_whole(told, "games", 1, 1 << 16),
            spec=_spec(told, name, options, bots),
            bots=bots,
        )
    except KeyError as error:
        raise BadEngine(f"its WELCOME lacks {error}") from None
    if expected is not None:
        _same(found, expected)
    return found


def spec_of(
    name: str,
    options: Mapping[str, OptionValue],
    *,
    title: str,
    seats: int,
    actions: int,
    fields: list[tuple[Any, ...]],
    roles: tuple[str, ...] = ("play",),
    bots: tuple[str, ...] = ("random",),
    stats: tuple[str, ...] = ("score", "win"),
    board: Board | None = None,
) -> GameSpec:
    """The spec of a foreign game; `fields` as `Schema.from_native` takes them."""
    try:
        schema = Schema.from_native(fields, _native.schema_hash(fields))
    except (ValueError, TypeError, OverflowError) as error:
        raise BadEngine(f"its observation cannot be: {error}") from None
    if not 0 < schema.bytes <= ROW_LIMIT:
        raise BadEngine(f"an observation of {schema.bytes:,} bytes; 1 to {ROW_LIMIT:,} are possible")
    return GameSpec(
        name=name,
        title=title,
        options=dict(options),
        seats=seats,
        actions=actions,
        legal_bytes=(actions + 63) // 64 * 8,
        state_bytes=0,
        roles=roles,
        bots=bots,
        stats=stats,
        legend="",
        open_table=False,
        schema=schema,
        option_specs=(),
        board=board,
    )


def _spec(
    told: dict[str, Any], name: str, options: Mapping[str, OptionValue], bots: tuple[str, ...]
) -> GameSpec:
    actions = _whole(told, "actions", 1, MOST_ACTIONS)
    spec = spec_of(
        name,
        options,
        title=_text(told, "title"),
        seats=_whole(told, "seats", 1, MOST_SEATS),
        actions=actions,
        fields=[_field(given) for given in _list(told, "fields", 1, 4096)],
        roles=_names(told, "roles", least=1),
        bots=("random", *(bot for bot in bots if bot != "random")),
        stats=_names(told, "stats", least=0),
        board=_board(told["board"], actions) if told.get("board") is not None else None,
    )
    if _hash(told) != spec.schema.hash:
        raise BadEngine(
            f"it says schema hash {told['schema_hash']!r}, its fields give {spec.schema.hash:#x}; "
            "say null to leave the hash to the pool"
        )
    return spec


def _hash(told: dict[str, Any]) -> int:
    """The hash it says; null: whatever the fields give."""
    said = told["schema_hash"]
    if said is None:
        fields = [_field(given) for given in told["fields"]]
        return _native.schema_hash(fields)
    if not isinstance(said, str) or re.fullmatch(r"0x[0-9a-f]{1,16}", said) is None:
        raise BadEngine(f"schema_hash must be like '0x1a2b', got {said!r}")
    return int(said, 16)


def _same(found: Welcome, expected: GameSpec) -> None:
    """Whether the engine plays the game that the pool was made for."""
    got = found.spec
    if got.schema.hash != expected.schema.hash:
        raise BadEngine(
            f"its observations have schema hash {got.schema.hash:#x}, the pool expects "
            f"{expected.schema.hash:#x}; it is another version of {expected.name}, or has other options"
        )
    for what in ("seats", "actions", "roles", "stats", "bots"):
        if getattr(got, what) != getattr(expected, what):
            was, is_ = getattr(expected, what), getattr(got, what)
            raise BadEngine(f"it has {what} {is_}, the pool expects {was}; is it the same {expected.name}?")


def _whole(told: dict[str, Any], key: str, low: int, high: int) -> int:
    value = told[key]
    if type(value) is not int or not low <= value <= high:
        raise BadEngine(f"{key} must be a whole number from {low} to {high}, got {value!r:.80}")
    return value


def _text(told: dict[str, Any], key: str) -> str:
    value = told[key]
    if not isinstance(value, str) or not 1 <= len(value) <= 128 or not value.isprintable():
        raise BadEngine(f"{key} must be 1 to 128 printable characters, got {value!r:.80}")
    return value


def _list(told: dict[str, Any], key: str, least: int, most: int) -> list[Any]:
    value = told[key]
    if not isinstance(value, list) or not least <= len(value) <= most:
        raise BadEngine(f"{key} must be a list of {least} to {most}, got {value!r:.80}")
    return value


def _names(told: dict[str, Any], key: str, least: int) -> tuple[str, ...]:
    names = _list(told, key, least, MOST_NAMES)
    for name in names:
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            raise BadEngine(f"{key} must be names of letters, digits, '_', '-', '.', got {name!r:.80}")
    if len(set(names)) != len(names):
        raise BadEngine(f"{key} holds a name twice")
    return tuple(names)


def _field(given: Any) -> tuple[Any, ...]:
    """A field as the native schema takes it: name, encoding, rows, columns, size, scale, counted."""
    if not isinstance(given, list) or len(given) != 7:
        raise BadEngine(
            f"a field is [name, encoding, rows, columns, size, scale, counted], got {given!r:.80}"
        )
    name, encoding, rows, columns, size, scale, counted = given
    if not isinstance(name, str) or _NAME.fullmatch(name) is None or not isinstance(counted, str):
        raise BadEngine(f"a field's name must be letters, digits, '_', '-', '.', got {name!r:.80}")
    if encoding not in _ENCODINGS:
        raise BadEngine(
            f"field {name}: encoding must be one of {', '.join(_ENCODINGS)}, got {encoding!r:.80}"
        )
    for number, high in ((rows, ROW_LIMIT), (columns, ROW_LIMIT), (size, 255)):
        if type(number) is not int or not 0 <= number <= high:
            raise BadEngine(f"field {name}: rows, columns and size must be whole, got {number!r:.80}")
    if rows * columns * max(size, 1) > ROW_LIMIT:
        raise BadEngine(f"field {name} has {rows * columns * max(size, 1):,} features; that is too many")
    if not isinstance(scale, int | float) or not math.isfinite(scale) or abs(scale) > 1e30:
        raise BadEngine(f"field {name}: scale must be a number, got {scale!r:.80}")
    return name, int(_ENCODINGS[encoding]), rows, columns, size, float(scale), counted


def _board(told: Any, actions: int) -> Board:
    if not isinstance(told, dict):
        raise BadEngine(f"board must be an object, got {told!r:.80}")
    height, width = (_whole(told, side, 1, 1024) for side in ("height", "width"))
    groups: list[tuple[bool, str]] = []
    for group in _list(told, "groups", 1, MOST_NAMES):
        good = isinstance(group, list) and len(group) == 2 and isinstance(group[0], bool)
        if not good or not isinstance(group[1], str) or not group[1] or not set(group[1]) <= set(STEPS):
            raise BadEngine(f"a board's group is [each square, headings of u d l r .], got {group!r:.80}")
        groups.append((group[0], group[1]))
    board = Board.from_native(height, width, groups)
    assert board is not None
    if board.squares * board.square_actions + board.single_actions != actions:
        raise BadEngine(f"the board's groups do not make up {actions} actions")
    return board
