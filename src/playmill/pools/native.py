"""Many native games in flight, in two verbs: `turns` gives the rows that wait, `act` answers
them. Every game waits for exactly one turn at a time; ended games restart in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from playmill import _native
from playmill.games import GameSpec, OptionValue, PlaymillError, registry

FIRST_BOT = _native.FIRST_BOT
"""Drivers below are policies, whose turns surface; from here on scripted bots, played inside."""


class Turns(NamedTuple):
    """Games waiting for a decision. N games."""

    observation: npt.NDArray[np.uint8]  # [N, schema.bytes] packed
    legal: npt.NDArray[np.uint8]  # [N, legal_bytes] bits, at least one set a row
    seat: npt.NDArray[np.uint8]  # [N]
    role: npt.NDArray[np.uint8]  # [N] index into spec.roles
    driver: npt.NDArray[np.uint8]  # [N] which policy is asked; 0 is the learner


class Outcome(NamedTuple):
    """What the actions brought about. N games, S seats."""

    rewards: npt.NDArray[np.float32]  # [N, S] since the turn answered, within its game
    over: npt.NDArray[np.uint8]  # [N] 1 where that game ended (and a new one has begun)


class NativePool:
    """`games` native games on `threads` threads.

    The arrays that `turns` and `act` return belong to the pool and are overwritten by the next
    call, unless the caller passes its own."""

    def __init__(
        self,
        game: str | GameSpec,
        games: int,
        *,
        options: Mapping[str, OptionValue] | None = None,
        seed: int = 0,
        threads: int = 1,
        stagger: bool = True,
    ) -> None:
        if games < 1:
            raise PlaymillError(f"a pool needs at least one game, got {games}")
        if threads < 1:
            raise PlaymillError(f"a pool needs at least one thread, got {threads}")
        self.spec = registry.spec(game, options) if isinstance(game, str) else game
        self.games = games
        self._native = _native.Pool(self.spec.name, self.spec.native_options, games, seed, threads)
        self._native.reset(stagger)
        self._turns = self.empty_turns()
        self._outcome = self.empty_outcome()
        self._actions = np.zeros(games, np.int32)
        self._kinds = np.zeros(games, np.uint8)

    @property
    def memory(self) -> int:
        """Bytes held for the games in flight."""
        return self._native.bytes

    def empty_turns(self) -> Turns:
        """Arrays of the right shapes for `turns`."""
        n, spec = self.games, self.spec
        return Turns(
            np.zeros((n, spec.schema.bytes), np.uint8),
            np.zeros((n, spec.legal_bytes), np.uint8),
            *(np.zeros(n, np.uint8) for _ in range(3)),
        )

    def empty_outcome(self) -> Outcome:
        """Arrays of the right shapes for `act`."""
        return Outcome(np.zeros((self.games, self.spec.seats), np.float32), np.zeros(self.games, np.uint8))

    def turns(self, out: Turns | None = None) -> Turns:
        """The turns that wait, one a game, written into `out` if given."""
        rows = self._turns if out is None else out
        self._native.turns(*rows)
        return rows

    def act(self, actions: npt.ArrayLike, out: Outcome | None = None) -> Outcome:
        """Answers all waiting turns. An illegal action raises and leaves every game as it was."""
        given = np.asarray(actions)
        if given.shape != (self.games,):
            raise ValueError(f"actions must have shape ({self.games},), one a game; got {given.shape}")
        if given.dtype.kind not in "iu":
            raise TypeError(f"actions must be integers, got {given.dtype}")
        result = self._outcome if out is None else out
        if given.dtype != np.int32:  # what does not fit is illegal, and must not wrap round to what is not
            given = np.clip(given.astype(np.int64), -1, np.iinfo(np.int32).max)
        self._native.act(np.ascontiguousarray(given, np.int32), *result)
        return result

    def bot_actions(self, bots: str | npt.NDArray[np.uint8] = "random") -> npt.NDArray[np.int32]:
        """What scripted bots would answer: one bot for all rows, or a bot number a row."""
        if isinstance(bots, str):
            number = self.spec.bot(bots)
            if self._kinds[0] != number:  # unchanged, the rows stay in every core's cache
                self._kinds.fill(number)
            bots = self._kinds
        self._native.bot_actions(bots, self._actions)
        return self._actions

    def reset(self, seeds: npt.ArrayLike | None = None, *, stagger: bool = True) -> None:
        """New games: of the given seeds, or of the pool's own (staggered over all phases)."""
        if seeds is None:
            self._native.reset(stagger)
        else:
            self._native.reset_to(np.ascontiguousarray(seeds, np.uint64))

    def set_drivers(self, drivers: npt.ArrayLike) -> None:
        """Who answers for which seat, [N, S]: policies below FIRST_BOT, bots from there on."""
        given = np.asarray(drivers)
        if not np.issubdtype(given.dtype, np.integer):
            raise TypeError(f"drivers must be integers, got {given.dtype}")
        wrong = np.argwhere((given < 0) | (given > 255))
        if len(wrong):
            raise ValueError(f"row {wrong[0][0]}: no driver number {given[tuple(wrong[0])]}")
        self._native.set_drivers(np.ascontiguousarray(given, np.uint8))

    def stats(self) -> dict[int, dict[str, tuple[float, int]]]:
        """The game's named statistics by driver: mean and count since the last `clear_stats`."""
        out: dict[int, dict[str, tuple[float, int]]] = {}
        for driver, stat, total, count in self._native.tallies():
            out.setdefault(driver, {})[self.spec.stats[stat]] = (total / count, count)
        return out

    def clear_stats(self) -> None:
        self._native.clear_tallies()

    def snapshot(self) -> bytes:
        """Everything in flight; `restore` on a pool made alike goes on exactly from here."""
        return self._native.snapshot()

    def restore(self, data: bytes) -> None:
        try:
            self._native.restore(data)
        except ValueError as error:
            raise PlaymillError(str(error)) from None
