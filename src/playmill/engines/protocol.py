"""The frames between a pool and an engine; docs/engines.md describes them for engines in other languages.

A frame is a length (u32, of what follows), a kind (u8) and a payload; numbers are little-endian. Every
length is checked before it is used, and no decoder holds more than one frame that is not whole."""

from __future__ import annotations

import json
import struct
from enum import IntEnum
from typing import Any, NamedTuple

from playmill.games import PlaymillError

MAGIC = b"PLAYMILL"
VERSION = 1
NO_GAME = 0xFFFFFFFF
"""The game of a FAILED that concerns the engine as a whole."""

HANDSHAKE_LIMIT = 1 << 20
"""The most bytes a HELLO or WELCOME may have."""
ASK_LIMIT = 64
"""The most bytes any frame to an engine may have once hands are shaken."""
TEXT_LIMIT = 4096
"""The most bytes of a FAILED's text."""
ROW_LIMIT = 1 << 24
"""The most bytes a row's observation or legal bits may have."""

HEADER = struct.Struct("<IB")
_LENGTH = struct.Struct("<I")
_HELLO = struct.Struct("<8sH")
_NEW = struct.Struct("<IBIQ")
_ACT = struct.Struct("<IBIIi")
_GAME = struct.Struct("<IBI")
_TURN = struct.Struct("<IBIIBB")
_OVER = struct.Struct("<IBI")
NEW_BODY = struct.Struct("<IQ")
ACT_BODY = struct.Struct("<IIi")
GAME_BODY = struct.Struct("<I")
TURN_BODY = struct.Struct("<IIBB")


class Kind(IntEnum):
    """What a frame is. Below 64 the pool sends it, from 64 on the engine."""

    HELLO = 1
    NEW = 2
    ACT = 3
    DROP = 4
    PING = 5
    BYE = 6
    WELCOME = 64
    TURN = 65
    OVER = 66
    PONG = 67
    FAILED = 68


class FrameError(PlaymillError):
    """Bytes that are no frame of this protocol; nothing behind them can be trusted."""


class Frame(NamedTuple):
    kind: int
    payload: bytes


class Decoder:
    """Makes whole frames of whatever bytes arrive. Holds at most `limit` + 4 bytes between calls."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are whole now. A frame longer than the limit, or empty, is a FrameError."""
        if self._rest:
            self._rest += data
            if len(self._rest) < 4 or len(self._rest) < 4 + self._length(self._rest, 0):
                return []
            data = bytes(self._rest)
            self._rest.clear()
        frames: list[Frame] = []
        at, end = 0, len(data)
        while end - at >= 4:
            length = self._length(data, at)
            if end - at - 4 < length:
                break
            frames.append(Frame(data[at + 4], data[at + 5 : at + 4 + length]))
            at += 4 + length
        if at < end:
            self._rest += data[at:]
        return frames

    def _length(self, data: bytes | bytearray, at: int) -> int:
        length: int = _LENGTH.unpack_from(data, at)[0]
        if length < 1:
            raise FrameError("a frame without a kind")
        if length > self.limit:
            raise FrameError(f"a frame of {length:,} bytes; at most {self.limit:,} are taken here")
        return length


def frame(kind: Kind, payload: bytes = b"") -> bytes:
    """A frame of any kind."""
    return HEADER.pack(1 + len(payload), kind) + payload


def hello(game: str, options: dict[str, Any], schema_hash: int | None) -> bytes:
    """What a pool says first. `schema_hash` is the one it expects, if it knows."""
    told = {
        "game": game,
        "options": options,
        "schema_hash": None if schema_hash is None else hex(schema_hash),
    }
    return frame(Kind.HELLO, _HELLO.pack(MAGIC, VERSION) + json.dumps(told).encode())


def read_hello(payload: bytes) -> dict[str, Any]:
    """What a pool said first; a FrameError where it is somebody else, or of another version."""
    if len(payload) < _HELLO.size or payload[:8] != MAGIC:
        raise FrameError("this is no HELLO of Playmill's engine protocol")
    version = _HELLO.unpack_from(payload)[1]
    if version != VERSION:
        raise FrameError(f"the pool speaks version {version} of the engine protocol, this engine {VERSION}")
    return read_json(payload[_HELLO.size :])


def welcome(told: dict[str, Any]) -> bytes:
    return frame(Kind.WELCOME, json.dumps(told).encode())


def read_json(text: bytes) -> dict[str, Any]:
    """An object in JSON."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"no JSON: {error}") from None
    if not isinstance(told, dict):
        raise FrameError(f"a JSON object was expected, not {type(told).__name__}")
    return told


def new(game: int, seed: int) -> bytes:
    return _NEW.pack(13, Kind.NEW, game, seed)


def act(game: int, turn: int, action: int) -> bytes:
    return _ACT.pack(13, Kind.ACT, game, turn, action)


def drop(game: int) -> bytes:
    return _GAME.pack(5, Kind.DROP, game)


def turn(
    game: int, number: int, seat: int, role: int, rewards: bytes, observation: bytes, legal: bytes
) -> bytes:
    """A decision that waits. `rewards` are f32 of all seats."""
    size = 11 + len(rewards) + len(observation) + len(legal)
    return b"".join((_TURN.pack(size, Kind.TURN, game, number, seat, role), rewards, observation, legal))


def over(game: int, rewards: bytes, stats: bytes) -> bytes:
    """The end of a game. `stats` are (sum, count) as f32, [seats, stats]."""
    return b"".join((_OVER.pack(5 + len(rewards) + len(stats), Kind.OVER, game), rewards, stats))


def failed(game: int, text: str) -> bytes:
    """A game that cannot go on, or with NO_GAME an engine that cannot."""
    told = text.encode(errors="replace")[:TEXT_LIMIT]
    return _GAME.pack(5 + len(told), Kind.FAILED, game) + told


def read_failed(payload: bytes) -> tuple[int, str]:
    """The game and the text of a FAILED."""
    if len(payload) < 4:
        raise FrameError("a FAILED without a game")
    return GAME_BODY.unpack_from(payload)[0], printable(payload[4 : 4 + TEXT_LIMIT])


def printable(text: bytes) -> str:
    """Somebody else's words, without what moves a terminal's cursor."""
    words = text.decode(errors="replace")
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in words)
