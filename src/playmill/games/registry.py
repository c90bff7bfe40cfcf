"""Games by name: what they are, what options they take, and one game at a time to play."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points

import numpy as np
import numpy.typing as npt

from playmill import _native
from playmill.games.board import Board
from playmill.games.errors import PlaymillError, unknown
from playmill.games.schema import Schema

OptionValue = int | str | bool

_MARKUP = re.compile(r"\[[^\[\]]*\]")


@dataclass(frozen=True)
class OptionSpec:
    """One option of a game."""

    name: str
    low: int
    high: int
    default: int
    choices: tuple[str, ...]
    """Names of the values 0, 1, ...; empty for a plain number."""
    help: str

    @property
    def default_text(self) -> str:
        return self.choices[self.default] if self.choices else str(self.default)

    def number(self, value: OptionValue) -> int:
        """The native number for a value given as a number, a choice or a flag."""
        if self.choices and not isinstance(value, bool):
            if str(value) not in self.choices:
                raise unknown(f"value of option {self.name}", str(value), self.choices)
            return self.choices.index(str(value))
        try:
            number = int(value)
        except ValueError:
            raise PlaymillError(f"option {self.name} must be a number, got '{value}'") from None
        if not self.low <= number <= self.high:
            raise PlaymillError(f"option {self.name} must be from {self.low} to {self.high}, got {number}")
        return number


@dataclass(frozen=True)
class GameSpec:
    """What a game with certain options is: everything but the rules."""

    name: str
    title: str
    options: dict[str, OptionValue]
    """As given; what is not named has its default."""
    seats: int
    actions: int
    legal_bytes: int
    """Bytes of a row of legal bits."""
    state_bytes: int
    roles: tuple[str, ...]
    bots: tuple[str, ...]
    stats: tuple[str, ...]
    legend: str
    """What the signs of a table mean, where they are no words."""
    open_table: bool
    """Whether `table_text(-1)` shows all there is."""
    schema: Schema
    option_specs: tuple[OptionSpec, ...]
    board: Board | None = None
    """What squares there are and which actions belong to them, for games on a board."""

    @property
    def foreign(self) -> bool:
        """Whether its rules are somebody else's, in engine processes."""
        return ":" in self.name

    @property
    def native_options(self) -> dict[str, int]:
        if self.foreign:
            raise _foreign_rules(self.name)
        by_name = {o.name: o for o in self.option_specs}
        return {name: by_name[name].number(value) for name, value in self.options.items()}

    def bot(self, name: str) -> int:
        """The number of the scripted bot called `name`."""
        if name not in self.bots:
            raise unknown(f"bot of {self.name}", name, self.bots)
        return self.bots.index(name)


def names() -> list[str]:
    """The native games."""
    return list(_native.names())


def spec(name: str, options: Mapping[str, OptionValue] | None = None) -> GameSpec:
    """The game called `name` with these options: a native one, or with a prefix somebody else's
    (`openspiel:leduc_poker`). Who answers for a prefix stands in the entry points `playmill.games`."""
    prefix, colon, rest = name.partition(":")
    if not colon or prefix == "native":
        return native(rest if colon else name, options)
    providers = entry_points(group="playmill.games")
    if prefix not in providers.names:
        raise unknown("kind of game", prefix, sorted({"native", *providers.names}))
    found: GameSpec = providers[prefix].load()(name, options or {})
    return found


def native(name: str, options: Mapping[str, OptionValue] | None = None) -> GameSpec:
    """The native game called `name` with these options."""
    if ":" in name:
        raise _foreign_rules(name)
    if name not in _native.names():
        raise unknown("game", name, _native.names())
    standard = _native.facts(name, {})
    specs = tuple(
        OptionSpec(n, low, high, default, tuple(c for c in choices.split(",") if c), text)
        for n, low, high, default, choices, text in standard["options"]
    )
    by_name = {o.name: o for o in specs}
    numbers: dict[str, int] = {}
    for key, value in (options or {}).items():
        if key not in by_name:
            raise unknown(f"option of {name}", key, by_name)
        numbers[key] = by_name[key].number(value)
    try:
        facts = _native.facts(name, numbers)
    except ValueError as error:
        raise PlaymillError(f"{name}: {error}") from None
    return GameSpec(
        name=facts["name"],
        title=facts["title"],
        options=dict(options or {}),
        seats=facts["seats"],
        actions=facts["actions"],
        legal_bytes=facts["legal_bytes"],
        state_bytes=facts["state_bytes"],
        roles=tuple(facts["roles"]),
        bots=tuple(facts["bots"]),
        stats=tuple(facts["stats"]),
        legend=facts["legend"],
        open_table=facts["open_table"],
        schema=Schema.from_native(facts["fields"], facts["schema_hash"]),
        option_specs=specs,
        board=Board.from_native(*facts["board"]),
    )


def _foreign_rules(name: str) -> PlaymillError:
    return PlaymillError(
        f"{name:.80} has no native rules; it is played by engine processes, through a RemotePool"
    )


class Game:
    """One native game, a call at a time: for people, adapters and tests. Batches go through a pool."""

    def __init__(self, name: str, options: Mapping[str, OptionValue] | None = None, seed: int = 0) -> None:
        self.spec = native(name, options)
        self._native = _native.Game(self.spec.name, self.spec.native_options, seed)

    @classmethod
    def from_text(
        cls, name: str, text: str, options: Mapping[str, OptionValue] | None = None, seed: int = 0
    ) -> Game:
        """A game that starts from a position in words, written as `table_text(-1)` shows it. What the words
        say of the options (the size of a board) need not be said again; nobody remembers anything from
        before. `seed` names what bots draw. Of the native games, Generals can do it."""
        if name not in _native.names():
            raise unknown("game", name, _native.names())
        plain = _MARKUP.sub("", text)
        try:
            written = _native.text_options(name, plain)
            made = cls.__new__(cls)
            made.spec = native(name, {**written, **(options or {})})
            made._native = _native.Game.from_text(name, made.spec.native_options, plain, seed)
        except ValueError as error:
            raise PlaymillError(f"{name}: {error}") from None
        return made

    @property
    def seat(self) -> int:
        """Whose turn it is."""
        return self._native.seat

    @property
    def role(self) -> str:
        """The kind of decision asked."""
        return self.spec.roles[self._native.role]

    @property
    def over(self) -> bool:
        return self._native.over

    def legal(self) -> list[int]:
        """The legal actions, ascending; empty once the game is over."""
        return list(self._native.legal())

    def legal_bits(self) -> npt.NDArray[np.uint8]:
        """The legal actions as bits, [legal_bytes]."""
        return np.frombuffer(self._native.legal_bits(), np.uint8)

    def mask(self) -> npt.NDArray[np.int8]:
        """The legal actions as ones, [actions]."""
        bits = np.unpackbits(self.legal_bits(), count=self.spec.actions, bitorder="little")
        return bits.astype(np.int8)

    def observe(self, seat: int) -> npt.NDArray[np.uint8]:
        """What `seat` may know, packed, [schema.bytes]."""
        return np.frombuffer(self._native.observe(seat), np.uint8)

    def act(self, action: int) -> npt.NDArray[np.float32]:
        """Applies a legal action; returns the rewards of all seats. IllegalAction changes nothing."""
        return np.asarray(self._native.act(int(action)), np.float32)

    def bot(self, name: str) -> int:
        """What the scripted bot called `name` would do now."""
        return self._native.bot(self.spec.bot(name))

    def action_text(self, action: int) -> str:
        """The action in words, with rich markup."""
        return self._native.action_text(action)

    def table_text(self, seat: int) -> str:
        """The table as `seat` sees it, with rich markup; -1: all there is, where the game can show it."""
        return self._native.table_text(seat)

    def state(self) -> bytes:
        """The whole game as bytes, hidden parts included."""
        return self._native.state()

    def copy(self) -> Game:
        other = Game.__new__(Game)
        other.spec = self.spec
        other._native = self._native.copy()
        return other
