"""A reference engine: `python -m playmill.engines.host GAME` serves any game that Python can play, over its
standard input and output or at a socket. One thread, any number of games at once."""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path

from playmill.engines import protocol
from playmill.engines.facts import welcome_of
from playmill.engines.faults import LIES, Faults
from playmill.engines.names import split
from playmill.engines.protocol import ASK_LIMIT, HANDSHAKE_LIMIT, NO_GAME, Decoder, FrameError, Kind
from playmill.engines.rules import Rules, Table, rules_of
from playmill.games import IllegalAction, OptionValue, PlaymillError

GAMES = 256
"""Games a host takes at once, unless told otherwise."""


class Host:
    """Answers the frames of one pool."""

    def __init__(
        self,
        game: str,
        options: dict[str, OptionValue],
        faults: Faults,
        games: int,
        send: Callable[[bytes], None],
    ) -> None:
        self._game, self._options, self._faults, self._most, self._send = game, options, faults, games, send
        self._rules: Rules | None = None
        self._tables: dict[int, tuple[Table, int]] = {}
        self._answers = 0

    def serve(self, read: Callable[[], bytes]) -> None:
        """Answers until the pool says BYE or closes its end."""
        decoder = Decoder(HANDSHAKE_LIMIT)
        while data := read():
            for kind, payload in decoder.feed(data):
                if kind == Kind.BYE:
                    return
                if self._rules is None:
                    self._greet(kind, payload)
                    decoder.limit = ASK_LIMIT
                else:
                    self._ask(self._rules, kind, payload)

    def _greet(self, kind: int, payload: bytes) -> None:
        if kind != Kind.HELLO:
            raise FrameError(f"the first frame must be HELLO, got kind {kind}")
        told = protocol.read_hello(payload)
        wanted = told.get("game")
        if (
            isinstance(wanted, str)
            and not wanted.startswith("engine:")
            and split(wanted) != split(self._game)
        ):
            raise PlaymillError(f"this engine plays {self._game}, not {wanted:.80}")
        options = told.get("options")
        if not isinstance(options, dict):
            raise FrameError("HELLO's options must be an object")
        self._rules = rules_of(self._game, {**self._options, **options})
        answer = welcome_of(self._rules.spec, "playmill.engines.host", "1", self._most)
        if self._faults.lie == "wrong-hash":
            answer["schema_hash"] = "0x1"
        self._send(protocol.welcome(answer))

    def _ask(self, rules: Rules, kind: int, payload: bytes) -> None:
        if kind == Kind.PING:
            self._send(protocol.frame(Kind.PONG, payload))
            return
        game = protocol.GAME_BODY.unpack_from(payload)[0]
        try:
            if kind == Kind.NEW:
                if len(self._tables) >= self._most:
                    raise PlaymillError(f"this engine takes {self._most} games at once")
                self._tables[game] = (rules.deal(protocol.NEW_BODY.unpack(payload)[1]), 0)
            elif kind == Kind.ACT:
                self._act(rules, *protocol.ACT_BODY.unpack(payload))
            elif kind == Kind.DROP:
                self._tables.pop(game, None)
                return
            else:
                raise FrameError(f"no pool sends frames of kind {kind}")
            self._faults.before(self._answers)
            self._send(self._faults.told(self._answer(game), self._answers, rules.spec))
            self._answers += 1
        except (FrameError, struct.error):
            raise
        except (
            Exception
        ) as error:  # somebody else's rules: whatever they raise ends their game, not the engine
            self._tables.pop(game, None)
            self._send(protocol.failed(game, f"{type(error).__name__}: {error}"))

    def _act(self, rules: Rules, game: int, turn: int, action: int) -> None:
        if game not in self._tables:
            raise PlaymillError(f"there is no game {game}")
        table, at = self._tables[game]
        if turn != at:
            raise PlaymillError(f"game {game} waits for turn {at}, not {turn}")
        if action < 0:  # the engine's own bot is asked to move
            if -action > len(rules.spec.bots):
                raise IllegalAction(f"there is no bot {-1 - action}")
            action = table.bot(-1 - action)
        table.act(action)
        self._tables[game] = (table, at + 1)

    def _answer(self, game: int) -> bytes:
        table, turn = self._tables[game]
        gained = table.take_rewards()
        rewards = struct.pack(f"<{len(gained)}f", *gained)
        if table.over:
            stats = table.stats()
            del self._tables[game]
            return protocol.over(game, rewards, struct.pack(f"<{len(stats)}f", *stats))
        return protocol.turn(game, turn, table.seat, table.role, rewards, table.observation(), table.legal())


def serve_pipes(make: Callable[[Callable[[bytes], None]], Host]) -> None:
    """Over standard input and output. What the game prints goes to standard error instead."""
    source, sink = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    with open(os.devnull) as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)

    def send(data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(sink, rest) :]

    _served(make(send), lambda: os.read(source, 1 << 16), send)


def serve_socket(make: Callable[[Callable[[bytes], None]], Host], path: Path) -> None:
    """At a unix socket that only its owner can reach, one pool after another."""
    if path.exists() and not path.is_socket():
        raise PlaymillError(f"{path} exists and is no socket; name another path")
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as door:
        old = os.umask(0o177)
        try:
            door.bind(str(path))
        finally:
            os.umask(old)
        door.listen(1)
        while True:
            client, _ = door.accept()
            with client:
                _served(make(client.sendall), functools.partial(client.recv, 1 << 16), client.sendall)


def _served(host: Host, read: Callable[[], bytes], send: Callable[[bytes], None]) -> None:
    try:
        host.serve(read)
    except (PlaymillError, struct.error) as error:
        with contextlib.suppress(OSError):
            send(protocol.failed(NO_GAME, str(error)))
    except OSError:
        pass  # the pool is gone


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m playmill.engines.host", description=__doc__)
    parser.add_argument("game", help="native:NAME, openspiel:NAME or pettingzoo:MODULE")
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--socket", type=Path, help="listen here instead of at standard input and output")
    parser.add_argument("--games", type=int, default=GAMES, help="games it takes at once")
    faults = parser.add_argument_group("faults, for tests and benchmarks")
    faults.add_argument("--delay-ms", type=float, default=0.0, help="what every answer takes longer")
    faults.add_argument("--crash-after", type=int, help="answers until it ends without a word")
    faults.add_argument("--hang-after", type=int, help="answers until it stops answering")
    faults.add_argument("--lie", default="", choices=("", *LIES))
    faults.add_argument("--lie-after", type=int, default=0, help="answers until it begins to lie")
    given = parser.parse_args(arguments)
    if not 1 <= given.games <= 65536:
        parser.error("--games must be from 1 to 65536")
    options: dict[str, OptionValue] = {}
    for pair in given.option:
        key, equals, value = pair.partition("=")
        if not equals:
            parser.error(f"--option must be KEY=VALUE, got '{pair}'")
        options[key] = value
    try:
        split(given.game)
        wrong = Faults(given.delay_ms, given.crash_after, given.hang_after, given.lie, given.lie_after)
        make = lambda send: Host(given.game, options, wrong, given.games, send)  # noqa: E731
        if given.socket is None:
            serve_pipes(make)
        else:
            serve_socket(make, given.socket)
    except PlaymillError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
