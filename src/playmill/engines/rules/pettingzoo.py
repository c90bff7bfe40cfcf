"""Any PettingZoo game with a fixed number of numbered actions: PettingZoo's own (classic/tictactoe_v3) or
anybody's, by the path it is imported from (my_package.my_env)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec

from playmill.engines.facts import MOST_ACTIONS, MOST_SEATS, spec_of
from playmill.engines.rules.spaces import packed_fields
from playmill.engines.rules.table import Table, legal_bits, plain_value, score_and_win
from playmill.games import GameSpec, IllegalAction, OptionValue, PlaymillError

MASK = "action_mask"
_MAKERS = ("env", "raw_env", "parallel_env")


class PettingZooTable:
    """One game; the environment is its own until it is over."""

    def __init__(self, rules: PettingZooRules, seed: int) -> None:
        self._rules = rules
        self._random = np.random.default_rng(seed)
        self._env = rules.take_env()
        self._env.reset(seed=seed & 0xFFFFFFFF)
        self._gained = [0.0] * rules.spec.seats
        self._total = [0.0] * rules.spec.seats
        self._over = False
        self._settle()

    @property
    def over(self) -> bool:
        return self._over

    @property
    def seat(self) -> int:
        return self._seat

    @property
    def role(self) -> int:
        return 0

    def observation(self) -> bytes:
        return b"".join(part.pack(self._seen) for part in self._rules.parts)

    def legal(self) -> bytes:
        return legal_bits(self._legal, self._rules.spec.legal_bytes)

    def act(self, action: int) -> None:
        if action not in self._legal:
            raise IllegalAction(f"{self._rules.spec.name}: action {action} is not legal")
        self._env.step(action + self._rules.starts[self._seat])
        for agent, reward in self._env.rewards.items():
            self._gained[self._rules.seats[agent]] += float(reward)
            self._total[self._rules.seats[agent]] += float(reward)
        self._settle()

    def bot(self, number: int) -> int:  # noqa: ARG002
        return int(self._random.choice(self._legal))

    def take_rewards(self) -> Sequence[float]:
        gained, self._gained = self._gained, [0.0] * len(self._gained)
        return gained

    def stats(self) -> Sequence[float]:
        return score_and_win(self._total)

    def _settle(self) -> None:
        """Takes out agents that are done, until one must decide or none is left."""
        env = self._env
        while env.agents:
            agent = env.agent_selection
            if not (env.terminations[agent] or env.truncations[agent]):
                break
            env.step(None)
        if not env.agents:
            self._over = True
            self._rules.give_back(env)
            return
        self._seat = self._rules.seats[agent]
        seen = env.observe(agent)
        mask = seen[MASK] if self._rules.masked else env.infos[agent].get(MASK)
        self._seen = seen["observation"] if self._rules.wrapped else seen
        if mask is None:
            self._legal = list(range(self._rules.sizes[self._seat]))
        else:
            self._legal = np.flatnonzero(mask).tolist()


class PettingZooRules:
    """An environment's facts, and idle environments for the next games."""

    def __init__(self, name: str, options: Mapping[str, OptionValue]) -> None:
        self._make = _maker(name)
        self._settings = {key: plain_value(key, value) for key, value in options.items()}
        self._idle: list[Any] = []
        env = self._made()
        agents = list(env.possible_agents)
        if not 1 <= len(agents) <= MOST_SEATS:
            raise PlaymillError(
                f"pettingzoo:{name} has {len(agents)} agents; 1 to {MOST_SEATS} can be seated"
            )
        self.seats = {agent: seat for seat, agent in enumerate(agents)}
        acts = [env.action_space(agent) for agent in agents]
        for agent, space in zip(agents, acts, strict=True):
            if not isinstance(space, spaces.Discrete):
                raise PlaymillError(
                    f"pettingzoo:{name}: the actions of {agent} are a {type(space).__name__} space; "
                    "Discrete ones can be played"
                )
        self.sizes = [int(space.n) for space in acts]
        self.starts = [int(space.start) for space in acts]
        if max(self.sizes) > MOST_ACTIONS:
            raise PlaymillError(f"pettingzoo:{name} has {max(self.sizes):,} actions; that is too many")
        shown, self.masked, self.wrapped = _shown(name, env, agents)
        try:
            self.parts = packed_fields(shown, "observation")
        except PlaymillError as error:
            raise PlaymillError(f"pettingzoo:{name}: {error}") from None
        self.spec: GameSpec = spec_of(
            f"pettingzoo:{name}",
            options,
            title=str(env.metadata.get("name", name))[:128],
            seats=len(agents),
            actions=max(self.sizes),
            fields=[part.field for part in self.parts],
        )
        self.give_back(env)

    def deal(self, seed: int) -> Table:
        return PettingZooTable(self, seed)

    def take_env(self) -> Any:
        return self._idle.pop() if self._idle else self._made()

    def give_back(self, env: Any) -> None:
        self._idle.append(env)

    def _made(self) -> Any:
        try:
            env = self._make(**self._settings)
        except TypeError as error:
            raise PlaymillError(f"the environment does not take {self._settings}: {error}") from None
        if isinstance(env, ParallelEnv):
            env = parallel_to_aec(env)
        if not isinstance(env, AECEnv):
            raise PlaymillError(f"that made a {type(env).__name__}, which is no PettingZoo environment")
        return env


def load(name: str, options: Mapping[str, OptionValue]) -> PettingZooRules:
    return PettingZooRules(name, options)


def _maker(name: str) -> Callable[..., Any]:
    """What makes environments: a module's `env` or `parallel_env`, or a class or function."""
    path = f"pettingzoo.{name.replace('/', '.')}" if "/" in name else name
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(path)
    except ModuleNotFoundError as error:
        outer, _, inner = path.rpartition(".")
        if error.name != path or not outer:
            family = name.partition("/")[0]
            hint = f"; try `pip install 'pettingzoo[{family}]'`" if "/" in name else ""
            raise PlaymillError(f"pettingzoo:{name} cannot be imported: {error}{hint}") from None
        try:
            found = getattr(importlib.import_module(outer), inner)
        except (ModuleNotFoundError, AttributeError):
            raise PlaymillError(f"pettingzoo:{name}: there is no module {path}") from None
    except Exception as error:
        raise PlaymillError(f"pettingzoo:{name} cannot be imported: {error}") from None
    if callable(found):
        return found  # type: ignore[no-any-return]
    for maker in _MAKERS:
        made = getattr(found, maker, None)
        if callable(made):
            return made  # type: ignore[no-any-return]
    raise PlaymillError(f"pettingzoo:{name}: the module {path} has none of {', '.join(_MAKERS)}")


def _shown(name: str, env: Any, agents: list[Any]) -> tuple[spaces.Space[Any], bool, bool]:
    """The space of what agents see without the mask, whether the mask comes with it, and whether
    it is found under "observation"."""
    seen = [env.observation_space(agent) for agent in agents]
    if any(space != seen[0] for space in seen[1:]):
        raise PlaymillError(
            f"pettingzoo:{name}: agents see different spaces; they must be alike for one policy"
        )
    first = seen[0]
    if not isinstance(first, spaces.Dict) or MASK not in first.spaces:
        return first, False, False
    rest = {key: space for key, space in first.spaces.items() if key != MASK}
    if "observation" in rest and len(rest) == 1:
        return rest["observation"], True, True
    return spaces.Dict(rest), True, False
