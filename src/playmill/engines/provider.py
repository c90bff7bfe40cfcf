"""Foreign games by name: what the registry asks for a name with a prefix. The engine itself is asked, in a
process of its own, so that nobody's rules are imported here."""

from __future__ import annotations

import functools
import selectors
import time
from collections.abc import Mapping

from playmill.engines.connection import Connection, EngineGone
from playmill.engines.facts import BadEngine, Welcome, read_welcome
from playmill.engines.names import Launch, launch_of
from playmill.engines.protocol import (
    HANDSHAKE_LIMIT,
    Decoder,
    FrameError,
    Kind,
    frame,
    hello,
    read_failed,
)
from playmill.games import GameSpec, OptionValue, PlaymillError

START_WITHIN = 60.0
"""Seconds an engine may take to say what game it plays."""


def spec(name: str, options: Mapping[str, OptionValue]) -> GameSpec:
    """The game called `name`, with its prefix."""
    return _asked(name, launch_of(name), tuple(sorted(options.items())))


@functools.lru_cache(maxsize=64)
def _asked(name: str, launch: Launch, options: tuple[tuple[str, OptionValue], ...]) -> GameSpec:
    return ask(name, launch, dict(options)).spec


def ask(
    name: str, launch: Launch, options: Mapping[str, OptionValue], within: float = START_WITHIN
) -> Welcome:
    """What an engine says of its game; it is started for that, and ended."""
    try:
        connection = Connection(launch)
    except EngineGone as error:
        raise PlaymillError(f"{name}: {error}") from None
    try:
        connection.send(hello(name, dict(options), None))
        payload = _first_answer(connection, time.monotonic() + within)
        found = read_welcome(payload, name, options, None)
        connection.send(frame(Kind.BYE))
        return found
    except (EngineGone, FrameError, BadEngine) as error:
        connection.close()
        words = f"\nits last words:\n{connection.last_words}" if connection.last_words else ""
        raise PlaymillError(f"{name}: {error}{words}") from None
    finally:
        connection.close()


def _first_answer(connection: Connection, until: float) -> bytes:
    decoder = Decoder(HANDSHAKE_LIMIT)
    with selectors.DefaultSelector() as watched:
        watched.register(connection.socket, selectors.EVENT_READ)
        if connection.errors >= 0:
            watched.register(connection.errors, selectors.EVENT_READ)
        while (left := until - time.monotonic()) > 0:
            for key, _ in watched.select(left):
                if key.fd == connection.errors:
                    if not connection.read_errors():
                        watched.unregister(connection.errors)
                    continue
                for kind, payload in decoder.feed(connection.read()):
                    if kind == Kind.FAILED:
                        raise BadEngine(read_failed(payload)[1])
                    if kind != Kind.WELCOME:
                        raise FrameError(f"it answered HELLO with a frame of kind {kind}, not WELCOME")
                    return payload
    raise EngineGone("it did not answer HELLO in time; does it speak the engine protocol?")
