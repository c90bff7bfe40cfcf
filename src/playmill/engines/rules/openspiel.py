"""Any OpenSpiel game that shows itself as a tensor. Chance is drawn from the game's seed; moves made at
once are asked seat by seat, and nobody sees an answer before all are in."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyspiel

from playmill.engines.facts import MOST_ACTIONS, spec_of
from playmill.engines.rules.table import Table, legal_bits, plain_value, score_and_win
from playmill.games import Encoding, GameSpec, IllegalAction, OptionValue, PlaymillError, unknown

TENSORS = ("information", "observation")
_MOST = np.float32(65504)
"""The greatest half float."""


class OpenSpielTable:
    """One game."""

    def __init__(self, rules: OpenSpielRules, seed: int) -> None:
        self._rules = rules
        self._random = random.Random(seed)
        self._state = rules.game.new_initial_state()
        self._answers: list[int] = []
        self._seat = 0
        self._legal: list[int] = []
        self._before = [0.0] * rules.spec.seats
        self._settle()

    @property
    def over(self) -> bool:
        return bool(self._state.is_terminal())

    @property
    def seat(self) -> int:
        return self._seat

    @property
    def role(self) -> int:
        return 0

    def observation(self) -> bytes:
        state = self._state
        tensor = (state.information_state_tensor if self._rules.information else state.observation_tensor)(
            self._seat
        )
        values = np.asarray(tensor, np.float32)
        if not np.isfinite(values).all():
            raise PlaymillError(f"{self._rules.spec.name} shows a number that is not finite")
        return np.clip(values, -_MOST, _MOST).astype("<f2").tobytes()

    def legal(self) -> bytes:
        return legal_bits(self._legal, self._rules.spec.legal_bytes)

    def act(self, action: int) -> None:
        if action not in self._legal:
            raise IllegalAction(f"{self._rules.spec.name}: action {action} is not legal")
        if self._state.is_simultaneous_node():
            self._answers.append(action)
        else:
            self._state.apply_action(action)
        self._settle()

    def bot(self, number: int) -> int:  # noqa: ARG002
        return self._random.choice(self._legal)

    def take_rewards(self) -> Sequence[float]:
        now = self._state.returns()
        gained = [b - a for a, b in zip(self._before, now, strict=True)]
        self._before = now
        return gained

    def stats(self) -> Sequence[float]:
        return score_and_win(self._state.returns())

    def _settle(self) -> None:
        """Plays chance, and seats that have no choice among moves made at once, until a seat must decide."""
        state = self._state
        while not state.is_terminal():
            if state.is_chance_node():
                actions, weights = zip(*state.chance_outcomes(), strict=True)
                state.apply_action(self._random.choices(actions, weights)[0])
            elif not state.is_simultaneous_node():
                self._seat = state.current_player()
                self._legal = state.legal_actions()
                return
            elif len(self._answers) == self._rules.spec.seats:
                answers, self._answers = self._answers, []
                state.apply_actions(answers)
            else:
                self._seat = len(self._answers)
                self._legal = state.legal_actions(self._seat)
                if self._legal:
                    return
                self._answers.append(0)


class OpenSpielRules:
    """A game with parameters."""

    def __init__(self, name: str, options: Mapping[str, OptionValue]) -> None:
        given = dict(options)
        wanted = given.pop("tensor", None)
        parameters = {key: plain_value(key, value) for key, value in given.items()}
        self.game = _load(name, parameters)
        kind = self.game.get_type()
        if kind.dynamics == pyspiel.GameType.Dynamics.MEAN_FIELD:
            raise PlaymillError(f"openspiel:{name} is a mean field game; it has no turns of players")
        if self.game.num_distinct_actions() > MOST_ACTIONS:
            actions = self.game.num_distinct_actions()
            raise PlaymillError(
                f"openspiel:{name} has {actions:,} actions; at most {MOST_ACTIONS:,} are taken"
            )
        self.information = _information(name, kind, wanted)
        shape = (
            self.game.information_state_tensor_shape()
            if self.information
            else self.game.observation_tensor_shape()
        )
        # Planes over a board come as [planes, height, width]: a row for each of the first axis.
        rows = shape[0] if len(shape) > 1 else 1
        field = ("tensor", int(Encoding.F16), rows, max(1, int(np.prod(shape)) // rows), 0, 1.0, "")
        self.spec: GameSpec = spec_of(
            f"openspiel:{name}",
            options,
            title=kind.long_name,
            seats=self.game.num_players(),
            actions=self.game.num_distinct_actions(),
            fields=[field],
        )

    def deal(self, seed: int) -> Table:
        return OpenSpielTable(self, seed)


def load(name: str, options: Mapping[str, OptionValue]) -> OpenSpielRules:
    return OpenSpielRules(name, options)


def _load(name: str, parameters: dict[str, Any]) -> Any:
    if name not in pyspiel.registered_names():
        raise unknown("game of OpenSpiel", name, pyspiel.registered_names())
    try:
        return pyspiel.load_game(name, parameters)
    except Exception as error:
        raise PlaymillError(f"openspiel:{name} with {parameters}: {error}") from None


def _information(name: str, kind: Any, wanted: OptionValue | None) -> bool:
    """Whether rows are information states (all that a seat has seen) or observations (what it sees)."""
    has = {
        "information": bool(kind.provides_information_state_tensor),
        "observation": bool(kind.provides_observation_tensor),
    }
    if wanted is None:
        wanted = next((tensor for tensor in TENSORS if has[tensor]), None)
        if wanted is None:
            raise PlaymillError(f"openspiel:{name} shows no tensor, which a policy would need; it has none")
    if wanted not in TENSORS or not has[str(wanted)]:
        there = [tensor for tensor in TENSORS if has[tensor]]
        raise PlaymillError(f"openspiel:{name}: tensor must be one of {', '.join(there)}, got '{wanted}'")
    return wanted == "information"
