"""Who can sit at a table: anything that looks at a game and decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from playmill.games import Game, GameSpec, OptionValue, PlaymillError
from playmill.replays import Replay


@dataclass(frozen=True)
class Decision:
    """A move, and what led to it where the agent can say."""

    action: int
    probabilities: npt.NDArray[np.float32] | None = None
    """Chance of every action, [actions]."""
    value: float | None = None
    """What the agent expects to gain from here to the end of the game."""


class Agent(Protocol):
    """Decides for the seat whose turn it is, from what that seat may know."""

    @property
    def name(self) -> str: ...

    def choose(self, game: Game) -> Decision: ...


class BotAgent:
    """A game's scripted bot. It moves alike whenever the seed and the moves before are alike."""

    def __init__(self, spec: GameSpec, bot: str) -> None:
        spec.bot(bot)  # an unknown name is an error now, not in the middle of a game
        self._bot = bot

    @property
    def name(self) -> str:
        return self._bot

    def choose(self, game: Game) -> Decision:
        return Decision(game.bot(self._bot))


def seat_agents(agents: Sequence[Agent], seats: int) -> list[Agent]:
    """One agent for each of `seats` seats, from one for all or one for each."""
    if len(agents) == 1:
        return list(agents) * seats
    if len(agents) != seats:
        raise PlaymillError(
            f"{seats} seats need an agent, got {len(agents)}; name one for all, or one for each"
        )
    return list(agents)


def play_out(
    game: str, options: Mapping[str, OptionValue] | None, agents: Sequence[Agent], seed: int
) -> tuple[Replay, list[Decision]]:
    """Plays one game between agents (one for all seats, or one for each); a decision a move."""
    table = Game(game, options, seed)
    players = seat_agents(agents, table.spec.seats)
    decisions = []
    while not table.over:
        decisions.append(players[table.seat].choose(table))
        table.act(decisions[-1].action)
    names, actions = tuple(p.name for p in players), tuple(d.action for d in decisions)
    return Replay(game, dict(options or {}), seed, names, actions), decisions
