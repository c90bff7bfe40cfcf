"""Native games as Gymnasium environments: one seat is the agent's, bots play the others.

`SeatEnv` is one game; `SeatVectorEnv` is a pool of them, stepped natively. Importing this module
registers `playmill/SkullKing-v0` and its like, for `gymnasium.make` and `gymnasium.make_vec`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from typing import Any, ClassVar

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from playmill import _native
from playmill.games import OptionValue, PlaymillError, registry
from playmill.pools import spaces
from playmill.pools.native import FIRST_BOT, NativePool
from playmill.pools.spaces import LegalActions, LegalMask, Mask, Observation, ObservationKind, View

_LAST_SEED = 2**63 - 1


class SeatEnv(gymnasium.Env[Observation, Any]):
    """One seat of one game against scripted bots.

    `info["action_mask"]` (int8, [actions]) says what is legal, at `reset` and at every `step`; it
    is all zeros once the game is over. The reward is what the seat gained since the turn it
    answered. An illegal action raises `IllegalAction` and changes nothing.

    `reset(seed=s)` deals the game that `s` names for ever; later resets follow from it."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 1}  # type: ignore[misc]

    def __init__(
        self,
        game: str,
        *,
        opponents: str | Sequence[str] = "random",
        seat: int | None = 0,
        options: Mapping[str, OptionValue] | None = None,
        observation: ObservationKind = "expanded",
        render_mode: str | None = None,
    ) -> None:
        """`opponents`: a bot for all other seats, or one for each in order of play after ours.
        `seat`: ours; None draws one for each game."""
        if render_mode not in (None, "ansi"):
            raise PlaymillError(f"render_mode must be 'ansi' or None, got '{render_mode}'")
        self.game_spec = registry.native(game, options)
        spaces.check_seat(self.game_spec, seat)
        self.render_mode = render_mode
        self.seat = seat or 0
        """The agent's seat in the present game."""
        self._fixed_seat = seat
        self._bots = spaces.opponent_numbers(self.game_spec, opponents)
        self._options = self.game_spec.native_options
        self._view = View(self.game_spec, observation)
        self._mask_of = LegalMask(self.game_spec)
        self._legal = LegalActions(self.game_spec.actions, self._mask, self._opening)
        self.observation_space = self._view.space
        self.action_space = self._legal
        self._game, self.seat = self._deal(0)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._game, self.seat = self._deal(self._draw_seed() if seed is None else seed)
        self._legal.began()
        return self._seen()

    def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        reward = self._game.act(index(action))[self.seat]
        reward += self._play_bots(self._game, self.seat)
        observation, info = self._seen()
        return observation, reward, self._game.over, False, info

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """What is legal now, as sb3-contrib asks for it."""
        return self._mask().view(np.bool_)

    def render(self) -> str | None:
        """The table as our seat sees it, in plain text."""
        if self.render_mode is None:
            return None
        return spaces.plain(self._game.table_text(self.seat))

    def _seen(self) -> tuple[Observation, dict[str, Any]]:
        return self._view.one(self._game.observe(self.seat)), {"action_mask": self._mask()}

    def _mask(self) -> Mask:
        return self._mask_of(self._game.legal_bits())

    def _play_bots(self, game: _native.Game, seat: int) -> float:
        """Plays up to our next turn or the end; returns what our seat gained on the way."""
        reward, seats, bots = 0.0, self.game_spec.seats, self._bots
        while not game.over and (turn := game.seat) != seat:
            reward += game.act(game.bot(bots[(turn - seat) % seats - 1]))[seat]
        return reward

    def _deal(self, seed: int) -> tuple[_native.Game, int]:
        """The game of `seed`, played up to the first turn of our seat."""
        while True:
            seat = self._fixed_seat
            if seat is None:
                seat = int(np.random.default_rng(seed).integers(self.game_spec.seats))
            game = _native.Game(self.game_spec.name, self._options, seed)
            self._play_bots(game, seat)
            if not game.over:
                return game, seat
            seed = (seed + 1) % _LAST_SEED  # it ended before our first turn: the next deal

    def _draw_seed(self) -> int:
        return int(self.np_random.integers(_LAST_SEED))

    def _opening(self, seed: int) -> Mask:
        return self._mask_of(self._deal(seed)[0].legal_bits())


class SeatVectorEnv(VectorEnv[Observation, npt.NDArray[np.int64], npt.NDArray[Any]]):
    """`num_envs` games in one native pool, one seat of each against scripted bots.

    Autoreset is SAME_STEP: where a game ended, the observation and the mask are those of the first
    turn of the next one. The pool does not keep ended games, so for those rows
    `info["final_obs"]` is the last observation the seat acted on, and
    `info["final_info"]["rewards"]` holds what every seat gained in that last step.

    `reset(seed=s)` deals games s, s + 1, ...: the same as `SeatEnv` with those seeds. With `stagger`
    the games start spread over all phases instead, which learners like; a seed then names the
    whole batch."""

    def __init__(
        self,
        game: str,
        num_envs: int,
        *,
        opponents: str | Sequence[str] = "random",
        seat: int | None = 0,
        options: Mapping[str, OptionValue] | None = None,
        observation: ObservationKind = "expanded",
        threads: int = 1,
        stagger: bool = False,
        render_mode: str | None = None,
    ) -> None:
        """`seat`: ours in every game; None seats us round the table, row i in seat i % seats."""
        if render_mode is not None:
            raise PlaymillError("SeatVectorEnv does not render; use SeatEnv for that")
        self.game_spec = registry.native(game, options)
        spaces.check_seat(self.game_spec, seat)
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.seats = np.arange(num_envs) % self.game_spec.seats if seat is None else np.full(num_envs, seat)
        """Our seat in each game, [num_envs]."""
        self._rows = np.arange(num_envs)
        self._drivers = self._seating(spaces.opponent_numbers(self.game_spec, opponents))
        self._threads, self._stagger = threads, stagger
        self._view = View(self.game_spec, observation, threads)
        self.single_observation_space = self._view.space
        self.single_action_space = gymnasium.spaces.Discrete(self.game_spec.actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._pool = self._new_pool(0)

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        if options is not None and "reset_mask" in options:
            raise PlaymillError("a pool starts all games together; reset without 'reset_mask'")
        seeds = self._seeds(seed)
        # The pool's own seed names all later deals, so it has to follow from every seed given.
        self._np_random = np.random.default_rng(seeds)
        self._np_random_seed = int(seeds[0])
        self._pool = self._new_pool(int(self._np_random.integers(_LAST_SEED)))
        if not self._stagger:
            self._pool.reset(seeds)
        return self._seen()

    def step(
        self, actions: npt.ArrayLike
    ) -> tuple[Observation, npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], dict[str, Any]]:
        rewards, over = self._pool.act(actions)
        terminated = over.astype(np.bool_)
        final = self._final(terminated, rewards) if terminated.any() else {}
        observation, info = self._seen()
        own = rewards[self._rows, self.seats].astype(np.float64)
        return observation, own, terminated, np.zeros(self.num_envs, np.bool_), info | final

    def _seen(self) -> tuple[Observation, dict[str, Any]]:
        self._turns = self._pool.turns()
        info = {
            "action_mask": spaces.mask_rows(self.game_spec, self._turns.legal),
            "_action_mask": np.ones(self.num_envs, np.bool_),
        }
        return self._view.many(self._turns.observation), info

    def _final(self, ended: npt.NDArray[np.bool_], rewards: npt.NDArray[np.float32]) -> dict[str, Any]:
        """Gymnasium's account of the games that ended; called while the rows answered still stand."""
        final_obs = np.full(self.num_envs, None, dtype=object)
        for row, observation in zip(
            np.flatnonzero(ended), self._view.many(self._turns.observation[ended]), strict=True
        ):
            final_obs[row] = observation
        final_rewards = np.where(ended[:, None], rewards, 0)
        return {
            "final_obs": final_obs,
            "_final_obs": ended.copy(),
            "final_info": {"rewards": final_rewards, "_rewards": ended.copy()},
            "_final_info": ended.copy(),
        }

    def _seating(self, bots: list[int]) -> npt.NDArray[np.uint8]:
        drivers = np.zeros((self.num_envs, self.game_spec.seats), np.uint8)
        for place, bot in enumerate(bots, start=1):
            drivers[self._rows, (self.seats + place) % self.game_spec.seats] = FIRST_BOT + bot
        return drivers

    def _new_pool(self, seed: int) -> NativePool:
        pool = NativePool(
            self.game_spec, self.num_envs, seed=seed, threads=self._threads, stagger=self._stagger
        )
        pool.set_drivers(self._drivers)
        return pool

    def _seeds(self, seed: int | Sequence[int] | None) -> npt.NDArray[np.uint64]:
        if seed is None:
            return self.np_random.integers(_LAST_SEED, size=self.num_envs).astype(np.uint64)
        seeds = seed + self._rows if np.ndim(seed) == 0 else np.asarray(seed)
        if seeds.shape != (self.num_envs,):
            raise PlaymillError(f"give one seed, or {self.num_envs} (one a game); got {len(seeds)}")
        return seeds.astype(np.uint64)


def env_id(game: str) -> str:
    """'skull_king' as 'playmill/SkullKing-v0'."""
    return f"playmill/{''.join(word.title() for word in game.split('_'))}-v0"


def register() -> None:
    """Makes every native game known to `gymnasium.make` and `gymnasium.make_vec`."""
    for game in registry.names():
        if env_id(game) not in gymnasium.registry:
            gymnasium.register(
                env_id(game),
                entry_point=f"{__name__}:SeatEnv",
                vector_entry_point=f"{__name__}:SeatVectorEnv",
                kwargs={"game": game},
            )


register()
