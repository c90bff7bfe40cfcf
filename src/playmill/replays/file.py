"""Files of replays: many games, appended one by one, each whole or absent.

A line that says what it is, then blocks: a letter, the size, a checksum, the content. A block `T` is a table
as JSON: game, options, who sits where, the schema and the signature of the rules. A block `G` is a game at
one of the tables before it: its seed, its result, its actions. Actions are compressed as differences to those
a round before: a seat often goes on where it was. What a kill left unfinished at the end is not read, and is
cut off by the next writer."""

from __future__ import annotations

import fcntl
import json
import lzma
import os
import struct
import threading
import zlib
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from playmill.games import GameSpec, PlaymillError, registry
from playmill.replays.replay import Replay, Timeline, rules_signature

MAGIC = b"playmill replays 1\n"
_BLOCK = struct.Struct("<cII")  # kind, bytes of the content, checksum of kind and content
_GAME = struct.Struct("<IQII")  # table, seed, checksum of the end, moves
_MOST_MOVES = 1 << 24


@dataclass(frozen=True)
class Stored:
    """A replay as it lies in a file, and what its writer saw at the end."""

    replay: Replay
    rewards: tuple[float, ...]
    checksum: int
    schema: int
    rules: int

    def play(self) -> Timeline:
        """The game, played through; one that was made by other rules is refused."""
        spec = registry.native(self.replay.game, self.replay.options)
        remedy = "watch it with the version that wrote it"
        if spec.schema.hash != self.schema:
            raise PlaymillError(f"observations of {spec.name} were others when this was played; {remedy}")
        if rules_signature(spec) != self.rules:
            raise PlaymillError(f"the rules of {spec.name} were others when this was played; {remedy}")
        timeline = Timeline(self.replay)
        same = np.allclose(timeline.rewards, self.rewards, atol=1e-4)
        if timeline.checksum() != self.checksum or not same:
            raise PlaymillError(f"the game ends otherwise than when it was played: other rules; {remedy}")
        return timeline


class ReplayFile:
    """The games of a file, by number from 0. The file is read once, when it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._data = path.read_bytes()
        except OSError as error:
            raise PlaymillError(f"cannot read {path}: {error.strerror}") from None
        self.warning = ""
        """What is wrong with the end of the file, or nothing."""
        blocks = _Blocks(self._data, str(path))
        self._tables, self._games = [_table_from(table) for table in blocks.tables], blocks.games
        if blocks.left:
            what = "a game that was not written to its end" if blocks.torn else "damaged"
            self.warning = f"{path}: the last {blocks.left:,} bytes are {what}; they are left out"

    def __len__(self) -> int:
        return len(self._games)

    def __getitem__(self, number: int) -> Stored:
        try:
            return _game_from(self._tables, self._data[slice(*self._games[number])])
        except PlaymillError as error:
            raise PlaymillError(f"{self.path}, game {number + 1}: {error}") from None

    def play(self, number: int) -> Timeline:
        """The game, played through and held against what was written down of it."""
        stored = self[number]
        try:
            return stored.play()
        except PlaymillError as error:
            raise PlaymillError(f"{self.path}, game {number + 1}: {error}") from None


class ReplayWriter:
    """Appends games to a file, each with one write. One process at a time; calls may come from threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise PlaymillError(f"cannot write {path}: {error.strerror}") from None
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            blocks = _Blocks(path.read_bytes(), str(path))
            if blocks.left and not blocks.torn:
                raise PlaymillError(f"{path} is damaged before its end; name another file")
        except BlockingIOError:
            os.close(self._handle)
            raise PlaymillError(f"{path} is being written by another process; name another file") from None
        except PlaymillError:
            os.close(self._handle)
            raise
        self._end = blocks.end
        self._tables = list(blocks.tables)
        self._lock = threading.Lock()
        os.ftruncate(self._handle, self._end)

    def add(self, replay: Replay) -> None:
        """Plays the game through, and writes it behind the others."""
        timeline = Timeline(replay)
        table = _table_content(timeline.spec, replay)
        with self._lock:
            data = b"" if self._end else MAGIC
            fresh = table not in self._tables
            number = len(self._tables) if fresh else self._tables.index(table)
            if fresh:
                data += _block(b"T", table)
            self._write(data + _block(b"G", _game_content(number, timeline)))
            if fresh:
                self._tables.append(table)

    def close(self) -> None:
        os.fsync(self._handle)
        os.close(self._handle)

    def __enter__(self) -> ReplayWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, data: bytes) -> None:
        try:
            done = os.pwrite(self._handle, data, self._end)
            if done < len(data):
                raise OSError(0, "the disk is full")
        except OSError as error:
            os.ftruncate(self._handle, self._end)
            raise PlaymillError(f"cannot write {self.path}: {error.strerror}") from None
        self._end += len(data)


class _Blocks:
    """Where the whole blocks of a file lie, as far as they are good."""

    def __init__(self, data: bytes, name: str) -> None:
        self.tables: list[bytes] = []
        self.games: list[tuple[int, int]] = []
        self.torn = False
        """Whether the first block that is not good reaches to the end: a write that was cut short."""
        self.end = 0
        if not data.startswith(MAGIC):
            if not MAGIC.startswith(data):
                raise PlaymillError(f"{name} is not a file of replays; it has to begin with '{_title()}'")
            self.torn = True
        else:
            self.end = len(MAGIC)
            while self.end < len(data) and self._take(data):
                pass
        self.left = len(data) - self.end

    def _take(self, data: bytes) -> bool:
        begin = self.end + _BLOCK.size
        if begin > len(data):
            self.torn = True
            return False
        kind, size, checksum = _BLOCK.unpack_from(data, self.end)
        content = data[begin : begin + size]
        if begin + size > len(data) or zlib.crc32(kind + content) != checksum:
            self.torn = begin + size >= len(data)
            return False
        if kind == b"T":
            self.tables.append(content)
        elif kind == b"G":
            self.games.append((begin, begin + size))
        self.end = begin + size
        return True


def _title() -> str:
    return MAGIC.decode().strip()


def _block(kind: bytes, content: bytes) -> bytes:
    return _BLOCK.pack(kind, len(content), zlib.crc32(kind + content)) + content


# Tables


def _table_content(spec: GameSpec, replay: Replay) -> bytes:
    table = {
        "game": spec.name,
        "options": dict(replay.options),
        "names": list(replay.names),
        "actions": spec.actions,
        "schema": f"{spec.schema.hash:016x}",
        "rules": f"{rules_signature(spec):08x}",
    }
    return json.dumps(table, separators=(",", ":"), ensure_ascii=False).encode()


def _table_from(content: bytes) -> dict[str, Any]:
    """A table that is not one is kept as an empty one: its games say so when they are asked for."""
    try:
        table = json.loads(content)
        good = (
            isinstance(table["game"], str)
            and all(isinstance(value, int | str) for value in dict(table["options"]).values())
            and all(isinstance(name, str) for name in table["names"])
            and isinstance(table["actions"], int)
        )
        return {**table, **{n: int(table[n], 16) for n in ("schema", "rules")}} if good else {}
    except (ValueError, TypeError, KeyError):
        return {}


# Games


def _game_content(table: int, timeline: Timeline) -> bytes:
    replay = timeline.replay
    head = _GAME.pack(table, replay.seed, timeline.checksum(), len(replay.actions))
    rewards = np.array(timeline.rewards, "<f4").tobytes()
    kind = _kind(timeline.spec.actions)
    actions = np.array(replay.actions, kind)
    seats = timeline.spec.seats
    steps = actions.copy()
    steps[seats:] -= actions[:-seats]  # modulo the type, which is undone alike
    return head + rewards + lzma.compress(steps.tobytes(), lzma.FORMAT_RAW, filters=_filters(kind))


def _game_from(tables: list[dict[str, Any]], content: bytes) -> Stored:
    try:
        return _unpacked(tables, content)
    except (lzma.LZMAError, struct.error, ValueError, LookupError):
        raise PlaymillError("it cannot be unpacked; was it written by another program?") from None


def _unpacked(tables: list[dict[str, Any]], content: bytes) -> Stored:
    number, seed, checksum, moves = _GAME.unpack_from(content)
    if moves > _MOST_MOVES:
        raise ValueError(moves)
    table = tables[number]
    seats = len(table["names"])
    begin = _GAME.size + 4 * seats
    rewards = np.frombuffer(content[_GAME.size : begin], "<f4")
    kind = _kind(table["actions"])
    size = moves * np.dtype(kind).itemsize
    unpacker = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=_filters(kind))
    steps = np.frombuffer(unpacker.decompress(content[begin:], max_length=size), kind)
    rounds = np.zeros((-(-moves // seats), seats), kind)
    rounds.reshape(-1)[:moves] = steps
    actions = np.cumsum(rounds, axis=0, dtype=kind).reshape(-1)[:moves]
    replay = Replay(
        table["game"], table["options"], seed, tuple(table["names"]), tuple(int(a) for a in actions)
    )
    return Stored(replay, tuple(rewards.tolist()), checksum, table["schema"], table["rules"])


def _kind(actions: int) -> str:
    return next(kind for kind, bits in (("<u1", 8), ("<u2", 16), ("<u4", 32)) if actions <= 1 << bits)


def _filters(kind: str) -> list[dict[str, int]]:
    places = {"<u1": 0, "<u2": 1, "<u4": 2}[kind]  # numbers of 1, 2 or 4 bytes
    return [{"id": lzma.FILTER_LZMA1, "dict_size": 1 << 16, "lc": 0, "lp": places, "pb": places}]
