"""What can go wrong with names and moves, each with a line that says what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from playmill._native import IllegalAction, OutOfTurn

__all__ = ["IllegalAction", "OutOfTurn", "PlaymillError", "UnknownName", "unknown"]


class PlaymillError(Exception):
    """Something the user can put right; the message says how."""


class UnknownName(PlaymillError, KeyError):
    """A game, bot, option or recipe that does not exist; the nearest ones are offered."""

    def __str__(self) -> str:
        return str(self.args[0])


def unknown(kind: str, name: str, known: Iterable[str]) -> UnknownName:
    """The error for a `name` that is none of the `known` ones."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if near:
        hint = "did you mean " + " or ".join(f"'{n}'" for n in near) + "?"
    elif names:
        hint = "there are " + ", ".join(names)
    else:
        hint = "there are none"
    return UnknownName(f"no {kind} is called '{name}'; {hint}")
