"""What the host asks of rules: games from seeds, one decision at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from playmill.games import GameSpec, OptionValue, PlaymillError


class Table(Protocol):
    """One game in play. Once it is over only `take_rewards` and `stats` are asked."""

    @property
    def over(self) -> bool: ...
    @property
    def seat(self) -> int: ...
    @property
    def role(self) -> int: ...
    def observation(self) -> bytes:
        """What the seat to act may know, packed."""
        ...

    def legal(self) -> bytes:
        """The legal actions as bits, [legal_bytes]."""
        ...

    def act(self, action: int) -> None:
        """Applies a legal action; IllegalAction changes nothing."""
        ...

    def bot(self, number: int) -> int:
        """What the game's own bot of that number would do."""
        ...

    def take_rewards(self) -> Sequence[float]:
        """What every seat gained since this was last asked."""
        ...

    def stats(self) -> Sequence[float]:
        """Sum and count of each statistic of each seat, one behind the other."""
        ...


class Rules(Protocol):
    """A game and its options."""

    @property
    def spec(self) -> GameSpec: ...
    def deal(self, seed: int) -> Table:
        """A new game."""
        ...


def legal_bits(actions: Iterable[int], size: int) -> bytes:
    """Actions as bits in `size` bytes."""
    bits = 0
    for action in actions:
        bits |= 1 << action
    return bits.to_bytes(size, "little")


def score_and_win(returns: Sequence[float]) -> list[float]:
    """The statistics of a foreign game: a seat's return, and whether it is the best (a draw is a half)."""
    best = max(returns)
    first = sum(1 for value in returns if value == best)
    out: list[float] = []
    for value in returns:
        win = 0.0 if value < best else 1.0 if first == 1 else 0.5
        out += (value, 1.0, win, 1.0)
    return out


def plain_value(name: str, value: OptionValue | float) -> int | float | str | bool:
    """An option as a library takes it: words that are numbers or flags become such."""
    if not isinstance(value, str):
        return value
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    if not value.isprintable() or len(value) > 256:
        raise PlaymillError(f"option {name} must be a few printable characters, got {value!r:.80}")
    return value
