"""A replay and the game it names, at every move."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from playmill.games import Game, GameSpec, IllegalAction, OptionValue, PlaymillError, registry

_EVERY = 64
"""Moves between two positions that are kept: the others are played again from the one before."""
_PROBES = 4
_PROBE_TURNS = 96


@dataclass(frozen=True)
class Replay:
    """One game, whole or as far as it went."""

    game: str
    options: Mapping[str, OptionValue]
    seed: int
    names: tuple[str, ...]
    """Who sat where, one for each seat."""
    actions: tuple[int, ...]


class Timeline:
    """A replay played through: the game after any number of moves. Raises if it cannot be played."""

    def __init__(self, replay: Replay) -> None:
        game = Game(replay.game, replay.options, replay.seed)
        if len(replay.names) != game.spec.seats:
            raise PlaymillError(
                f"{replay.game} has {game.spec.seats} seats here, but {len(replay.names)} are named"
            )
        self.replay = replay
        self.spec = game.spec
        self.rewards = [0.0] * game.spec.seats
        """Of every seat, all moves added up."""
        self._kept = [game.copy()]
        for number, action in enumerate(replay.actions, start=1):
            try:
                gains = game.act(action)
            except IllegalAction as error:
                raise PlaymillError(f"move {number} cannot be played: {error}") from None
            if gains.any():
                self.rewards = [a + b for a, b in zip(self.rewards, gains.tolist(), strict=True)]
            if number % _EVERY == 0:
                self._kept.append(game.copy())
        self._end = game

    def __len__(self) -> int:
        """How many moves there are."""
        return len(self.replay.actions)

    def at(self, number: int) -> Game:
        """The game after `number` moves: a copy, the caller's own."""
        game = self._kept[number // _EVERY].copy()
        for action in self.replay.actions[number - number % _EVERY : number]:
            game.act(action)
        return game

    @property
    def over(self) -> bool:
        """Whether the game was played to its end."""
        return self._end.over

    def checksum(self) -> int:
        """Of what every seat knows after the last move."""
        seen = (self._end.observe(seat).tobytes() for seat in range(self.spec.seats))
        return functools.reduce(lambda crc, row: zlib.crc32(row, crc), seen, 0)


def rules_signature(spec: GameSpec) -> int:
    """A number that changes when the rules of this game with these options do, or what its options mean:
    a hash of what is seen, allowed and gained in a few openings at random."""
    return _signature(spec.name, tuple(sorted(spec.options.items())))


@functools.lru_cache(maxsize=256)
def _signature(name: str, options: tuple[tuple[str, OptionValue], ...]) -> int:
    first = registry.native(name, dict(options))
    crc = zlib.crc32(f"{first.seats} {first.actions}".encode())
    for seed in range(_PROBES):
        game = Game(name, dict(options), seed)
        for _ in range(_PROBE_TURNS):
            if game.over:
                break
            crc = zlib.crc32(game.observe(game.seat).tobytes() + game.legal_bits().tobytes(), crc)
            crc = zlib.crc32(game.act(game.bot("random")).tobytes(), crc)
    return crc
