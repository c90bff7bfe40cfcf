"""Playmill's own games behind the engine protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from playmill import _native
from playmill.engines.rules.table import Table
from playmill.games import GameSpec, OptionValue, registry


class NativeTable:
    """One native game."""

    def __init__(self, spec: GameSpec, options: Mapping[str, int], seed: int) -> None:
        self._game = _native.Game(spec.name, options, seed)
        self._none = [0.0] * spec.seats
        self._gained = self._none

    @property
    def over(self) -> bool:
        return self._game.over

    @property
    def seat(self) -> int:
        return self._game.seat

    @property
    def role(self) -> int:
        return self._game.role

    def observation(self) -> bytes:
        return self._game.observe(self._game.seat)

    def legal(self) -> bytes:
        return self._game.legal_bits()

    def act(self, action: int) -> None:
        self._gained = self._game.act(action)

    def bot(self, number: int) -> int:
        return self._game.bot(number)

    def take_rewards(self) -> Sequence[float]:
        gained, self._gained = self._gained, self._none
        return gained

    def stats(self) -> Sequence[float]:
        return [float(number) for cell in self._game.tallies() for number in cell]


class NativeRules:
    """A native game with options."""

    def __init__(self, name: str, options: Mapping[str, OptionValue]) -> None:
        self.spec = registry.spec(name, options)
        self._options = self.spec.native_options

    def deal(self, seed: int) -> Table:
        return NativeTable(self.spec, self._options, seed)


def load(name: str, options: Mapping[str, OptionValue]) -> NativeRules:
    return NativeRules(name, options)
