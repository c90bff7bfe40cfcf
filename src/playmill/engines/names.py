"""Names of foreign games, and how the engine of each is reached."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from playmill.games import PlaymillError, registry, unknown

ENGINES_FILE = "engines.toml"
ENGINES_VARIABLE = "PLAYMILL_ENGINES"

_WORD = r"[A-Za-z_][A-Za-z0-9_]*"
_HOSTED = {
    "native": (re.compile(r"[a-z][a-z0-9_]{0,63}"), "native:leduc"),
    "openspiel": (re.compile(r"[A-Za-z0-9_]{1,64}"), "openspiel:leduc_poker"),
    "pettingzoo": (
        re.compile(rf"(?=.{{1,200}}$){_WORD}(/{_WORD}|(\.{_WORD})*)"),
        "pettingzoo:classic/tictactoe_v3 or pettingzoo:my_package.my_env",
    ),
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class Launch(NamedTuple):
    """How engines of a game are reached: a command that is run for each, or sockets that they listen at."""

    command: tuple[str, ...] = ()
    folder: str | None = None
    """Where the command runs; None: here."""
    sockets: tuple[str, ...] = ()


def split(name: str) -> tuple[str, str]:
    """The prefix and the rest of a game's name, once both are known to be harmless."""
    prefix, colon, rest = name.partition(":")
    if not colon:
        prefix, rest = "native", name
    if prefix in _HOSTED:
        pattern, example = _HOSTED[prefix]
        if pattern.fullmatch(rest) is None:
            raise PlaymillError(f"'{prefix}:{rest:.80}' is no name of a game; they look like {example}")
    elif prefix == "engine":
        if _NAME.fullmatch(rest) is None:
            raise PlaymillError(
                f"'{rest:.80}' is no name of an engine; letters, digits, '_', '-' and '.' are"
            )
    else:
        raise unknown("kind of game", prefix, [*_HOSTED, "engine"])
    return prefix, rest


def launch_of(name: str) -> Launch:
    """How an engine of the game called `name` is reached."""
    prefix, rest = split(name)
    if prefix == "engine":
        return _from_file(rest)
    if prefix == "native" and rest not in registry.names():
        raise unknown("game", rest, registry.names())
    return Launch((sys.executable, "-m", "playmill.engines.host", f"{prefix}:{rest}"))


def command_launch(command: tuple[str, ...], folder: Path | None = None) -> Launch:
    """A command line as a launch, once its program is known to exist. No shell reads it."""
    if not command or not all(isinstance(word, str) and "\0" not in word for word in command):
        raise PlaymillError(f"an engine's command must be a list of words, got {command!r:.200}")
    program = shutil.which(command[0], path=None)
    if program is None and folder is not None and (folder / command[0]).is_file():
        program = str((folder / command[0]).resolve())
    if program is None:
        raise PlaymillError(
            f"there is no program '{command[0]}'; install it, or correct the engine's command"
        )
    return Launch((program, *command[1:]), None if folder is None else str(folder))


def _from_file(name: str) -> Launch:
    path = Path(os.environ.get(ENGINES_VARIABLE) or ENGINES_FILE)
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PlaymillError(
            f"engine:{name} needs {path}, which says how it is started ({error.strerror}); "
            f'write [engines.{name}] with command = ["program", "argument"] there, '
            f"or name another file in {ENGINES_VARIABLE}"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PlaymillError(f"{path}: {error}") from None
    engines = told.get("engines", {})
    if not isinstance(engines, dict) or name not in engines:
        raise unknown(f"engine in {path}", name, engines if isinstance(engines, dict) else ())
    return _launch(engines[name], f"{path}: [engines.{name}]", path.resolve().parent)


def _launch(told: Any, where: str, folder: Path) -> Launch:
    if not isinstance(told, dict) or len(told.keys() & {"command", "sockets"}) != 1 or len(told) != 1:
        raise PlaymillError(f"{where} must hold either command or sockets, and nothing else")
    key, words = next(iter(told.items()))
    if not isinstance(words, list) or not words or not all(isinstance(w, str) and w for w in words):
        raise PlaymillError(f"{where}: {key} must be a list of words, got {words!r:.200}")
    if key == "command":
        return command_launch(tuple(words), folder)
    return Launch(sockets=tuple(str(folder / word) for word in words))
