"""Every game behind Gymnasium's and PettingZoo's interfaces, held to their own checkers."""

import copy
import importlib.util
import pickle
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from pettingzoo.test import api_test, seed_test

from playmill.games import Encoding, Field, Game, IllegalAction, PlaymillError, UnknownName, registry
from playmill.pools import pettingzoo as zoo
from playmill.pools.gymnasium import SeatEnv, SeatVectorEnv, env_id
from playmill.pools.spaces import field_bounds, plain

every_game = pytest.mark.parametrize("game", registry.names())


def strongest(game):
    return registry.spec(game).bots[-1]


def illegal_action(mask):
    """The first action that is not legal: one past the last where all are."""
    return int(np.append(mask, 0).argmin())


def pick(mask, rng):
    return int(rng.choice(np.flatnonzero(mask)))


@every_game
@pytest.mark.parametrize("seat", [0, 1, None])
@pytest.mark.parametrize("observation", ["expanded", "packed"])
def test_gymnasium_checker_passes(game, seat, observation):
    made = gymnasium.make(env_id(game), seat=seat, observation=observation, opponents=strongest(game))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(made.unwrapped)


@every_game
def test_pettingzoo_checkers_pass(game):
    with warnings.catch_warnings():
        # The checker knows by name which environments may observe dicts; ours is not on its list.
        warnings.filterwarnings("ignore", "Observation is not a NumPy array")
        warnings.filterwarnings("ignore", "Observation space for each agent probably should be")
        api_test(zoo.env(game), num_cycles=200)
        seed_test(lambda: zoo.env(game), num_cycles=100)


@every_game
@pytest.mark.parametrize("observation", ["expanded", "packed"])
def test_a_seat_env_plays_the_game_of_its_seed(game, observation):
    env = SeatEnv(game, opponents=strongest(game), seat=1, observation=observation)
    rng = np.random.default_rng(5)
    for seed in range(20):
        table = Game(game, seed=seed)
        seen, info = env.reset(seed=seed)
        over = False
        while not over:
            while table.seat != 1:
                table.act(table.bot(strongest(game)))
            packed = table.observe(1)
            wanted = packed if observation == "packed" else table.spec.schema.expand(packed[None])[0]
            np.testing.assert_allclose(seen, wanted, rtol=1e-6)
            assert seen in env.observation_space
            np.testing.assert_array_equal(info["action_mask"], table.mask())
            np.testing.assert_array_equal(env.action_masks(), table.mask().astype(bool))
            action = pick(info["action_mask"], rng)
            earned = table.act(action)[1]
            while not table.over and table.seat != 1:
                earned += table.act(table.bot(strongest(game)))[1]
            seen, reward, over, truncated, info = env.step(action)
            assert reward == pytest.approx(earned, abs=1e-6)
            assert over == table.over
            assert truncated is False
        assert not info["action_mask"].any()


@every_game
def test_resets_after_a_seed_follow_from_it(game):
    first, second = (SeatEnv(game, seat=None) for _ in range(2))
    for env in (first, second):
        env.reset(seed=11)
    for _ in range(20):
        ours, theirs = first.reset()[0], second.reset()[0]
        np.testing.assert_array_equal(ours, theirs)
        assert first.seat == second.seat


@every_game
def test_an_open_seat_takes_every_place_at_the_table(game):
    env = SeatEnv(game, seat=None)
    env.reset(seed=0)
    taken = set()
    for _ in range(200):
        env.reset()
        taken.add(env.seat)
    assert taken == set(range(env.game_spec.seats))


@every_game
def test_an_illegal_action_changes_nothing(game):
    env = SeatEnv(game, opponents=strongest(game))
    rng = np.random.default_rng(1)
    _, info = env.reset(seed=3)
    for _ in range(30):
        bad = illegal_action(info["action_mask"])
        before = env._game.state()
        with pytest.raises(IllegalAction, match=f"action {bad}"):
            env.step(bad)
        assert env._game.state() == before
        *_, over, _, info = env.step(pick(info["action_mask"], rng))
        if over:
            _, info = env.reset()


@every_game
def test_a_game_that_is_over_takes_no_more_actions(game):
    env = SeatEnv(game)
    env.reset(seed=1)
    over = False
    while not over:
        _, _, over, _, _ = env.step(env.action_space.sample())
    with pytest.raises(IllegalAction, match="over"):
        env.step(0)


@every_game
def test_sampling_draws_legal_actions_and_copies_are_plain(game):
    env = SeatEnv(game)
    env.reset(seed=2)
    assert all(env.action_masks()[env.action_space.sample()] for _ in range(50))
    for twin in (copy.deepcopy(env.action_space), pickle.loads(pickle.dumps(env.action_space))):
        assert type(twin) is gymnasium.spaces.Discrete
        assert twin == env.action_space


@every_game
def test_an_env_renders_the_table_as_its_seat_sees_it(game):
    env = SeatEnv(game, render_mode="ansi")
    env.reset(seed=4)
    assert env.render() == plain(env._game.table_text(0))
    assert "[/" not in env.render()


@every_game
def test_bounds_hold_in_play(game):
    env = SeatEnv(game, seat=None)
    env.reset(seed=8)
    for _ in range(500):
        seen, _, over, _, _ = env.step(env.action_space.sample())
        assert seen in env.observation_space
        if over:
            env.reset()


def test_bounds_cover_every_encoding():
    for encoding, (low, high) in {
        Encoding.BITS: (0, 1),
        Encoding.U8: (0, 25.5),
        Encoding.I16: (-3276.8, 3276.7),
        Encoding.LOG16: (0, 1.6),
        Encoding.CATEGORY: (0, 1),
    }.items():
        scale = 1.0 if encoding in (Encoding.BITS, Encoding.CATEGORY) else 0.1
        field = Field("f", encoding, 1, 1, 3 * (encoding is Encoding.CATEGORY), scale, "", 0, 0)
        assert field_bounds(field) == pytest.approx((low, high), rel=1e-5)


@every_game
@pytest.mark.parametrize("seat", [0, None])
def test_a_vector_env_equals_single_envs_of_the_same_seeds(game, seat):
    n, rng = 12, np.random.default_rng(0)
    batch = gymnasium.make_vec(env_id(game), num_envs=n, opponents=strongest(game), seat=seat)
    assert isinstance(batch, SeatVectorEnv)
    singles = [SeatEnv(game, opponents=strongest(game), seat=int(s)) for s in batch.seats]
    seen, info = batch.reset(seed=100)
    firsts = [env.reset(seed=100 + i) for i, env in enumerate(singles)]
    live = np.ones(n, bool)
    state = {i: (o, inf["action_mask"]) for i, (o, inf) in enumerate(firsts)}
    for _ in range(1100):
        assert seen in batch.observation_space
        for i in np.flatnonzero(live):
            np.testing.assert_array_equal(seen[i], state[i][0])
            np.testing.assert_array_equal(info["action_mask"][i], state[i][1])
        actions = np.array([pick(mask, rng) for mask in info["action_mask"]])
        seen, rewards, terminated, truncated, info = batch.step(actions)
        assert not truncated.any()
        for i in np.flatnonzero(live):
            last, reward, over, _, its_info = singles[i].step(int(actions[i]))
            assert rewards[i] == pytest.approx(reward, abs=1e-6)
            assert terminated[i] == over
            if over:
                np.testing.assert_array_equal(info["final_obs"][i], state[i][0])
                assert info["_final_obs"][i]
                assert info["final_info"]["rewards"][i, singles[i].seat] == pytest.approx(reward, abs=1e-6)
                live[i] = False
            state[i] = (last, its_info["action_mask"])
        if not live.any():
            break
    assert not live.any()


@every_game
def test_vector_env_keeps_gymnasiums_conventions(game):
    batch = SeatVectorEnv(game, 6)
    assert batch.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    seen, info = batch.reset(seed=1)
    actions = batch.game_spec.actions
    assert seen.shape == (6, batch.game_spec.schema.features)
    assert info["action_mask"].shape == (6, actions)
    assert info["action_mask"].dtype == np.int8
    assert batch.single_action_space.n == actions
    ended = False
    while not ended:
        before = seen
        seen, rewards, terminated, truncated, info = batch.step(info["action_mask"].argmax(1))
        assert rewards.shape == terminated.shape == truncated.shape == (6,)
        assert ("final_obs" in info) == terminated.any()
        assert not np.shares_memory(before, seen)
        ended = terminated.any()
    assert [obs is not None for obs in info["final_obs"]] == terminated.tolist()


@every_game
def test_seeds_name_a_whole_batch_for_ever(game):
    def journal(seed):
        batch, rng = SeatVectorEnv(game, 4), np.random.default_rng(0)
        seen, info = batch.reset(seed=seed)
        lines = [seen]
        for _ in range(300):
            seen, _, _, _, info = batch.step([pick(mask, rng) for mask in info["action_mask"]])
            lines.append(seen)
        return np.stack(lines)

    np.testing.assert_array_equal(journal(7), journal([7, 8, 9, 10]))
    assert not np.array_equal(journal(7)[-50:], journal(70)[-50:])


@every_game
def test_an_illegal_action_in_a_batch_changes_no_game(game):
    batch = SeatVectorEnv(game, 3)
    _, info = batch.reset(seed=1)
    good = info["action_mask"].argmax(1)
    bad = good.copy()
    bad[2] = illegal_action(info["action_mask"][2])
    before = batch._pool.snapshot()
    with pytest.raises(IllegalAction, match="row 2"):
        batch.step(bad)
    assert batch._pool.snapshot() == before
    batch.step(good)


@every_game
def test_staggered_starts_spread_over_the_phases(game):
    batch = SeatVectorEnv(game, 64, stagger=True)
    first, second = batch.reset(seed=5)[0], batch.reset(seed=5)[0]
    np.testing.assert_array_equal(first, second)
    assert len(np.unique(first, axis=0)) > 1


@every_game
def test_pettingzoo_rewards_add_up_to_the_game(game):
    env = zoo.env(game)
    env.reset(seed=9)
    table, rng = Game(game, seed=9), np.random.default_rng(2)
    total = dict.fromkeys(env.possible_agents, 0.0)
    wanted = np.zeros(table.spec.seats)
    for agent in env.agent_iter():
        seen, reward, over, _, _ = env.last()
        total[agent] += reward
        if over:
            env.step(None)
            continue
        assert agent == f"seat_{table.seat}"
        np.testing.assert_array_equal(seen["action_mask"], table.mask())
        action = pick(seen["action_mask"], rng)
        wanted += table.act(action)
        env.step(action)
    assert not env.agents
    assert list(total.values()) == pytest.approx(wanted.tolist(), abs=1e-5)


@every_game
def test_pettingzoo_illegal_action_changes_nothing(game):
    env = zoo.raw_env(game)
    env.reset(seed=1)
    mask = env.last()[0]["action_mask"]
    before, agent = env._game.state(), env.agent_selection
    with pytest.raises(IllegalAction):
        env.step(illegal_action(mask))
    assert env._game.state() == before
    assert env.agent_selection == agent


def test_settings_that_cannot_be_say_so():
    with pytest.raises(UnknownName, match="did you mean 'random'"):
        SeatEnv("leduc", opponents="randm")
    with pytest.raises(PlaymillError, match="1 other seats, got 2"):
        SeatEnv("leduc", opponents=["random", "tight"])
    with pytest.raises(PlaymillError, match="seats 0 to 1, got 2"):
        SeatVectorEnv("leduc", 2, seat=2)
    with pytest.raises(UnknownName, match="kind of observation"):
        SeatEnv("leduc", observation="pakced")
    with pytest.raises(PlaymillError, match="render_mode"):
        zoo.raw_env("leduc", render_mode="human")
    with pytest.raises(PlaymillError, match="or 3"):
        SeatVectorEnv("leduc", 3).reset(seed=[1, 2])


def test_without_pettingzoo_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    found = importlib.util.find_spec("playmill.pools.pettingzoo")
    with pytest.raises(ImportError, match=r"playmill\[pettingzoo\]"):
        found.loader.exec_module(importlib.util.module_from_spec(found))


def test_an_id_may_name_its_module():
    env = gymnasium.make("playmill.pools.gymnasium:playmill/LiarsDice-v0", opponents="honest")
    assert env.unwrapped.game_spec.name == "liars_dice"
