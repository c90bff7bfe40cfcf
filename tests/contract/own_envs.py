"""PettingZoo games of a user's own, as they would be written: for the tests of engines by import path."""

# ruff: noqa: ARG002, B019, RUF012

import functools

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv


class Race(AECEnv):
    """Three runners step 1 or 2 in turn to the end of a track; blocked squares are masked. The last one is
    out at once when another arrives before its first step."""

    metadata = {"name": "race_v0", "render_modes": []}

    def __init__(self, track=7, mask_in="observation"):
        super().__init__()
        self.track, self.mask_in = track, mask_in
        self.possible_agents = ["ann", "ben", "cat"]

    @functools.cache
    def observation_space(self, agent):
        inner = spaces.Dict(
            {
                "places": spaces.Box(0, self.track, (3,), np.int64),
                "wind": spaces.Box(-np.inf, np.inf, (2,), np.float32),
                "turn": spaces.Discrete(300),
                "flags": spaces.MultiBinary(3),
                "pair": spaces.Tuple((spaces.Discrete(4, start=1), spaces.MultiDiscrete([2, 3]))),
            }
        )
        if self.mask_in != "observation":
            return inner
        return spaces.Dict({"observation": inner, "action_mask": spaces.Box(0, 1, (2,), np.int8)})

    @functools.cache
    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        print("races print what they like")
        self.random = np.random.default_rng(seed)
        self.wind = self.random.normal(size=2).astype(np.float32)
        self.agents = list(self.possible_agents)
        self.places = dict.fromkeys(self.agents, 0)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.steps = 0
        self._skip_agent_selection = None
        self.agent_selection = self.agents[0]
        self.infos = {agent: {} for agent in self.agents}
        self._mask_infos()

    def _mask_infos(self):
        if self.mask_in == "infos":
            for agent in self.agents:
                self.infos[agent] = {"action_mask": self.mask(agent)}

    def mask(self, agent):
        return np.array([1, self.places[agent] + 2 <= self.track], np.int8)

    def observe(self, agent):
        seen = {
            "places": np.array([self.places.get(a, 0) for a in self.possible_agents]),
            "wind": self.wind,
            "turn": self.steps,
            "flags": np.array([a == agent for a in self.possible_agents]),
            "pair": (1 + self.steps % 4, np.array([self.steps % 2, self.steps % 3])),
        }
        return (
            {"observation": seen, "action_mask": self.mask(agent)} if self.mask_in == "observation" else seen
        )

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        assert self.mask(agent)[action]
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        self.places[agent] += action + 1
        self.steps += 1
        if self.places[agent] == self.track:
            self.rewards = {a: 2.0 if a == agent else -1.0 for a in self.agents}
            self.terminations = dict.fromkeys(self.agents, True)
        self._accumulate_rewards()
        self._mask_infos()
        self.agent_selection = self.agents[(self.agents.index(agent) + 1) % len(self.agents)]


class Matching(ParallelEnv):
    """Matching pennies, three times, both at once."""

    metadata = {"name": "matching_v0"}
    possible_agents = ["even", "odd"]

    def observation_space(self, agent):
        return spaces.Discrete(4)

    def action_space(self, agent):
        return spaces.Discrete(2, start=1)

    def reset(self, seed=None, options=None):
        self.agents, self.round = list(self.possible_agents), 0
        return dict.fromkeys(self.agents, 0), {a: {} for a in self.agents}

    def step(self, actions):
        self.round += 1
        gain = 1.0 if actions["even"] == actions["odd"] else -1.0
        done = self.round == 3
        rewards = {"even": gain, "odd": -gain}
        ended = dict.fromkeys(self.possible_agents, done)
        seen = dict.fromkeys(self.possible_agents, self.round)
        infos = {a: {} for a in self.possible_agents}
        if done:
            self.agents = []
        return seen, rewards, ended, dict.fromkeys(self.possible_agents, False), infos


class Steering(ParallelEnv):
    """Actions that have no numbers."""

    metadata = {"name": "steering_v0"}
    possible_agents = ["one"]

    def observation_space(self, agent):
        return spaces.Discrete(4)

    def action_space(self, agent):
        return spaces.Box(-1, 1, (2,))


class Reading(Matching):
    """Observations that have no fixed size."""

    def observation_space(self, agent):
        return spaces.Text(10)
