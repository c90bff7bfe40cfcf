"""Native games as PettingZoo AEC environments: every seat is an agent, one turn at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from playmill.games import Game, OptionValue, PlaymillError, registry
from playmill.pools.spaces import ObservationKind, View, observation_box, plain

try:
    from pettingzoo import AECEnv
    from pettingzoo.utils import wrappers
except ImportError as error:
    raise ImportError(
        "PettingZoo is not installed; get it with: pip install 'playmill[pettingzoo]'"
    ) from error


class TableEnv(AECEnv):  # type: ignore[misc]
    """All seats of one game, as agents seat_0, seat_1, ...

    An observation is {"observation": the seat's view, "action_mask": int8 [actions]}; the mask is all
    zeros for a seat whose turn it is not. An illegal action raises `IllegalAction` and changes
    nothing. `reset(seed=s)` deals the game that `s` names for ever; later resets follow from it."""

    def __init__(
        self,
        game: str,
        *,
        options: Mapping[str, OptionValue] | None = None,
        observation: ObservationKind = "expanded",
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, "ansi"):
            raise PlaymillError(f"render_mode must be 'ansi' or None, got '{render_mode}'")
        super().__init__()
        self.game_spec = registry.native(game, options)
        self.render_mode = render_mode
        self.metadata = {"name": f"{game}_v0", "render_modes": ["ansi"], "is_parallelizable": False}
        self._view = View(self.game_spec, observation)
        self._rng = np.random.default_rng()
        self._game = Game(game, options)
        self.possible_agents = [f"seat_{s}" for s in range(self.game_spec.seats)]
        self.agents: list[str] = []
        self._seat = {agent: s for s, agent in enumerate(self.possible_agents)}
        # One space for each agent, since each is seeded by itself.
        self.action_spaces = {a: gymnasium.spaces.Discrete(self.game_spec.actions) for a in self._seat}
        self.observation_spaces = {a: self._observation_space(observation) for a in self._seat}

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        deal = int(self._rng.integers(2**63 - 1)) if seed is None else seed
        self._game = Game(self.game_spec.name, self.game_spec.options, deal)
        self.agents = list(self.possible_agents)
        self.rewards: dict[str, float] = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards: dict[str, float] = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self._skip_agent_selection = None
        self.agent_selection = self.possible_agents[self._game.seat]

    def step(self, action: int | None) -> None:
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        if action is None:
            raise PlaymillError(f"{agent} is still in the game; None is for agents that are done")
        gained = self._game.act(action)
        self._cumulative_rewards[agent] = 0.0
        self.rewards = dict(zip(self.possible_agents, gained.tolist(), strict=True))
        self._accumulate_rewards()
        if self._game.over:
            self.terminations = dict.fromkeys(self.agents, True)
            self.agent_selection = self.agents[0]
        else:
            self.agent_selection = self.possible_agents[self._game.seat]

    def observe(self, agent: str) -> dict[str, Any]:
        game, seat = self._game, self._seat[agent]
        asked = not game.over and game.seat == seat
        return {
            "observation": self._view.one(game.observe(seat).tobytes()),
            "action_mask": game.mask() if asked else np.zeros(self.game_spec.actions, np.int8),
        }

    def observation_space(self, agent: str) -> gymnasium.spaces.Dict:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gymnasium.spaces.Discrete:
        return self.action_spaces[agent]

    def render(self) -> str | None:
        """The table as the seat to act sees it, in plain text."""
        if self.render_mode is None:
            return None
        return plain(self._game.table_text(self._seat[self.agent_selection]))

    def _observation_space(self, kind: ObservationKind) -> gymnasium.spaces.Dict:
        box = observation_box(self.game_spec.schema, kind)
        mask = gymnasium.spaces.Box(0, 1, (self.game_spec.actions,), np.int8)
        return gymnasium.spaces.Dict({"observation": box, "action_mask": mask})


def raw_env(game: str, **settings: Any) -> TableEnv:
    """The environment without wrappers; `settings` are TableEnv's."""
    return TableEnv(game, **settings)


def env(game: str, **settings: Any) -> Any:
    """The environment with PettingZoo's checks of actions and of the order of calls."""
    return wrappers.OrderEnforcingWrapper(wrappers.AssertOutOfBoundsWrapper(raw_env(game, **settings)))
