"""Rules as values: names, options, schemas, and single games."""

from playmill.games import registry
from playmill.games.board import ActionGroup, Board
from playmill.games.errors import IllegalAction, OutOfTurn, PlaymillError, UnknownName, unknown
from playmill.games.registry import Game, GameSpec, OptionSpec, OptionValue
from playmill.games.schema import Encoding, Field, Schema

__all__ = [
    "ActionGroup",
    "Board",
    "Encoding",
    "Field",
    "Game",
    "GameSpec",
    "IllegalAction",
    "OptionSpec",
    "OptionValue",
    "OutOfTurn",
    "PlaymillError",
    "Schema",
    "UnknownName",
    "registry",
    "unknown",
]
