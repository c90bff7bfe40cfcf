"""Engines that are slow, die, hang or lie, on purpose: for tests, benchmarks and trying out supervision."""

from __future__ import annotations

import os
import struct
import time
from dataclasses import dataclass

from playmill.engines.protocol import HEADER, Kind, frame
from playmill.games import GameSpec, PlaymillError

LIES = (
    "empty-legal",
    "impossible-legal",
    "wrong-game",
    "wrong-turn",
    "bad-length",
    "bad-reward",
    "bad-seat",
    "bad-role",
    "bad-stats",
    "oversized",
    "unknown-kind",
    "pong",
    "wrong-hash",
)
_GAME_AT, _TURN_AT, _SEAT_AT, _ROLE_AT, _REWARDS_AT = 5, 9, 13, 14, 15


@dataclass(frozen=True)
class Faults:
    """What goes wrong, and after how many decisions. Nothing does unless it is asked for."""

    delay_ms: float = 0.0
    """Milliseconds that every answer takes longer."""
    crash_after: int | None = None
    """Ends without a word instead of this answer, counted from 0."""
    hang_after: int | None = None
    """Stops answering for good at this answer."""
    lie: str = ""
    """One of LIES; every answer from `lie_after` on is false in that way, if it can be."""
    lie_after: int = 0

    def __post_init__(self) -> None:
        if self.lie and self.lie not in LIES:
            raise PlaymillError(f"--lie must be one of {', '.join(LIES)}, got '{self.lie}'")
        if not 0 <= self.delay_ms <= 600_000:
            raise PlaymillError(f"--delay-ms must be from 0 to 600000, got {self.delay_ms}")

    def before(self, answers: int) -> None:
        """What happens before an answer."""
        if self.crash_after is not None and answers >= self.crash_after:
            os._exit(13)
        if self.hang_after is not None and answers >= self.hang_after:
            time.sleep(1e6)
        if self.delay_ms:
            time.sleep(self.delay_ms / 1000)

    def told(self, answer: bytes, answers: int, spec: GameSpec) -> bytes:
        """The answer, or the lie in its place."""
        if not self.lie or answers < self.lie_after:
            return answer
        return _lied(bytearray(answer), self.lie, spec)


def _lied(answer: bytearray, lie: str, spec: GameSpec) -> bytes:
    kind = answer[4]
    if lie == "oversized":
        return HEADER.pack(0xFFFFFFFF, kind)
    if lie == "unknown-kind":
        return frame(Kind.PONG)[:4] + b"\xfe"
    if lie == "pong":
        return frame(Kind.PONG)
    if lie == "bad-length":
        return HEADER.pack(len(answer) - 5, kind) + bytes(answer[5:-1])
    if lie == "wrong-game":
        struct.pack_into("<I", answer, _GAME_AT, 0xDEADBEEF)
    elif lie == "bad-reward":
        at = _REWARDS_AT if kind == Kind.TURN else 9
        struct.pack_into("<f", answer, at, float("nan"))
    elif lie == "bad-stats" and kind == Kind.OVER and spec.stats:
        struct.pack_into("<f", answer, len(answer) - 4, -1.0)
    elif kind == Kind.TURN:
        _lie_in_turn(answer, lie, spec)
    return bytes(answer)


def _lie_in_turn(answer: bytearray, lie: str, spec: GameSpec) -> None:
    legal_at = len(answer) - spec.legal_bytes
    if lie == "empty-legal":
        answer[legal_at:] = bytes(spec.legal_bytes)
    elif lie == "impossible-legal":
        answer[-1] |= 0x80
    elif lie == "wrong-turn":
        struct.pack_into("<I", answer, _TURN_AT, 0xFFFFFFFF)
    elif lie == "bad-seat":
        answer[_SEAT_AT] = 255
    elif lie == "bad-role":
        answer[_ROLE_AT] = 255
