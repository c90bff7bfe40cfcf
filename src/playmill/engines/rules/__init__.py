"""Rules that the host can serve: Playmill's own, OpenSpiel's, PettingZoo's."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from playmill.engines.names import split
from playmill.engines.rules.table import Rules, Table
from playmill.games import OptionValue, PlaymillError

__all__ = ["Rules", "Table", "rules_of"]

_NEEDS = {"openspiel": "OpenSpiel", "pettingzoo": "PettingZoo"}


def rules_of(name: str, options: Mapping[str, OptionValue]) -> Rules:
    """The rules of a game by its name with a prefix."""
    prefix, rest = split(name)
    if prefix == "engine":
        raise PlaymillError(
            f"{name} has an engine of its own; the host serves native, openspiel and pettingzoo"
        )
    try:
        module = importlib.import_module(f"playmill.engines.rules.{prefix}")
    except ModuleNotFoundError as error:
        if prefix not in _NEEDS:
            raise
        raise PlaymillError(
            f"{_NEEDS[prefix]} is not installed ({error}); get it with: pip install 'playmill[{prefix}]'"
        ) from None
    made: Rules = module.load(rest, options)
    return made
