"""What every pool of games promises, for every game and for unusual options of Skull King: once on the
CPU, once on the card."""

import numpy as np
import pytest

from playmill.games import Game, IllegalAction, OutOfTurn, PlaymillError, UnknownName, registry
from playmill.pools import FIRST_BOT, NativePool
from tests.contract.cases import every_case, every_game, goes_on_identically, masks, play, same
from tests.contract.host_pool import HostPool


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def make(request):
    """Makes pools on one of the devices."""
    kind = NativePool if request.param == "cpu" else HostPool

    def made(game, games=16, options=None, **more):
        return kind(game, games, options=options or {}, **more)

    return made


@every_case
def test_arrays_have_the_shapes_and_types_of_the_spec(make, game, options):
    pool = make(game, 7, options)
    spec = pool.spec
    turns = pool.turns()
    outcome = pool.act(pool.bot_actions())
    shapes = {
        "observation": (7, spec.schema.bytes),
        "legal": (7, spec.legal_bytes),
        "seat": (7,),
        "role": (7,),
        "driver": (7,),
    }
    for name, shape in shapes.items():
        assert getattr(turns, name).shape == shape
        assert getattr(turns, name).dtype == np.uint8
    assert outcome.rewards.shape == (7, spec.seats)
    assert outcome.rewards.dtype == np.float32
    assert outcome.over.shape == (7,)
    assert outcome.over.dtype == np.uint8
    assert spec.legal_bytes * 8 >= spec.actions
    assert pool.memory > 7 * spec.state_bytes


@every_case
def test_every_row_has_a_legal_action_a_seat_and_a_role(make, game, options):
    pool = make(game, 64, options, seed=3)
    roles = set()
    for step in range(200):
        turns = pool.turns()
        legal = masks(pool, turns)
        assert legal.any(axis=1).all()
        spare = np.unpackbits(turns.legal, axis=1, bitorder="little")[:, pool.spec.actions :]
        assert not spare.any()
        assert (turns.seat < pool.spec.seats).all()
        assert (turns.role < len(pool.spec.roles)).all()
        assert (turns.driver == 0).all()
        roles |= set(turns.role.tolist())
        actions = pool.bot_actions(pool.spec.bots[step % len(pool.spec.bots)])
        assert legal[np.arange(64), actions].all()
        pool.act(actions)
    assert 0 in roles


def test_skull_king_asks_for_every_kind_of_decision(make):
    pool = make("skull_king", 256, seed=1)
    roles = set()
    for _ in range(200):
        roles |= set(pool.turns().role.tolist())
        pool.act(pool.bot_actions())
    assert roles == set(range(len(pool.spec.roles)))


@every_case
def test_a_seed_names_a_game(make, game, options):
    """Row by row, a pool on named seeds is the single games of those seeds, byte for byte."""
    seeds = np.array([0, 1, 5, 2**63 + 12345, 2**64 - 1], np.uint64)
    pool = make(game, len(seeds), options, seed=99, threads=2)
    pool.reset(seeds)
    tables = [Game(game, options, int(seed)) for seed in seeds]
    rng = np.random.default_rng(8)
    while not all(table.over for table in tables):
        turns = pool.turns()
        actions = pool.bot_actions().copy()
        for row, table in enumerate(tables):
            if table.over:
                continue
            assert turns.seat[row] == table.seat
            assert pool.spec.roles[turns.role[row]] == table.role
            np.testing.assert_array_equal(turns.observation[row], table.observe(table.seat))
            np.testing.assert_array_equal(turns.legal[row], table.legal_bits())
            assert actions[row] == table.bot("random")
            actions[row] = rng.choice(table.legal())
        outcome = pool.act(actions)
        for row, table in enumerate(tables):
            if not table.over:
                np.testing.assert_array_equal(outcome.rewards[row], table.act(actions[row]))
                assert outcome.over[row] == table.over


@every_game
def test_bots_answer_alike_in_a_pool_and_in_a_single_game(make, game):
    for bot in registry.spec(game).bots:
        pool = make(game, 3)
        pool.reset([4, 5, 6])
        tables = [Game(game, seed=seed) for seed in (4, 5, 6)]
        while not any(table.over for table in tables):
            pool.turns()
            actions = pool.bot_actions(bot)
            assert actions.tolist() == [table.bot(bot) for table in tables]
            pool.act(actions)
            for table, action in zip(tables, actions, strict=True):
                table.act(action)


@every_game
def test_one_bot_number_a_row(make, game):
    pool = make(game, 6)
    pool.turns()
    kinds = np.arange(6, dtype=np.uint8) % len(pool.spec.bots)
    mixed = pool.bot_actions(kinds).copy()
    for row, kind in enumerate(kinds):
        assert mixed[row] == pool.bot_actions(pool.spec.bots[kind])[row]


@every_game
def test_an_illegal_action_names_its_row_and_changes_nothing(make, game):
    pool = make(game, 8, seed=2)
    for _ in range(5):
        play(pool)
    legal = masks(pool, pool.turns())
    good = pool.bot_actions().copy()
    before = pool.snapshot()
    bad = [-1, pool.spec.actions, pool.spec.actions + 64, 2**31 - 1, *np.flatnonzero(~legal[6]).tolist()]
    for action in bad:
        wrong = good.copy()
        wrong[6] = action
        with pytest.raises(IllegalAction, match=rf"row 6 \({game}, seat \d.*action {action}\b"):
            pool.act(wrong)
        assert pool.snapshot() == before
    pool.act(good)  # the turns still wait


@every_game
def test_answers_come_after_turns(make, game):
    pool = make(game, 4)
    before = pool.snapshot()
    with pytest.raises(OutOfTurn, match=r"act\(\) before turns\(\)"):
        pool.act(np.zeros(4, np.int32))
    with pytest.raises(OutOfTurn, match=r"bot_actions\(\) before turns\(\)"):
        pool.bot_actions()
    assert pool.snapshot() == before
    play(pool)
    with pytest.raises(OutOfTurn):
        pool.act(np.zeros(4, np.int32))


@every_game
def test_a_wrong_driver_table_changes_nothing(make, game):
    pool = make(game, 5)
    seats, bots = pool.spec.seats, len(pool.spec.bots)
    play(pool)
    before = pool.snapshot()
    good = np.zeros((5, seats), np.uint8)

    def refused(table, says):
        with pytest.raises(ValueError, match=says):
            pool.set_drivers(table)
        assert pool.snapshot() == before

    unknown, deserted = good.copy(), good.copy()
    unknown[3, 1] = FIRST_BOT + bots
    deserted[2] = FIRST_BOT
    refused(unknown, rf"row 3: no driver number {FIRST_BOT + bots}")
    refused(deserted, "row 2: every seat is a bot")
    refused(good[:-1], "drivers must have 5 along axis 0, got 4")
    refused(good[:, :-1], f"drivers must have {seats} along axis 1, got {seats - 1}")


@every_game
def test_driver_numbers_are_not_wrapped_round(make, game):
    pool = make(game, 2)
    table = np.zeros((2, pool.spec.seats), np.int64)
    table[1, 0] = 256
    before = pool.snapshot()
    with pytest.raises(ValueError, match="row 1"):
        pool.set_drivers(table)
    assert pool.snapshot() == before


@every_case
def test_a_restored_pool_goes_on_identically(make, game, options):
    goes_on_identically(lambda: make(game, 12, options, seed=6))


@every_game
def test_a_snapshot_of_another_pool_is_refused(make, game):
    pool = make(game, 4, seed=1)
    before = pool.snapshot()
    other = next(name for name in registry.names() if name != game)
    for foreign in (
        make(game, 5, seed=1).snapshot(),
        make(game, 4, seed=2).snapshot(),
        make(other, 4, seed=1).snapshot(),
        before[:-1],
        b"",
        b"\0" * len(before),
    ):
        with pytest.raises(PlaymillError, match="another pool"):
            pool.restore(foreign)
        assert pool.snapshot() == before


def test_a_snapshot_under_other_options_is_refused(make):
    pool = make("skull_king", 4)
    with pytest.raises(PlaymillError, match="another pool"):
        pool.restore(make("skull_king", 4, {"deck": "70"}).snapshot())


@every_game
def test_a_pools_own_seed_names_all_its_games(make, game):
    first, again, other = make(game, 64, seed=1), make(game, 64, seed=1), make(game, 64, seed=2)
    steps = [[play(pool) for _ in range(20)] for pool in (first, again, other)]
    assert all(same(a, b) for a, b in zip(steps[0], steps[1], strict=True))
    assert not all(same(a, b) for a, b in zip(steps[0], steps[2], strict=True))


@every_game
def test_drivers_decide_whose_turns_surface(make, game):
    pool = make(game, 30, seed=5)
    seats = pool.spec.seats
    drivers = np.full((30, seats), FIRST_BOT, np.uint8)
    drivers[np.arange(30), np.arange(30) % seats] = np.arange(30) % 5
    pool.set_drivers(drivers)
    for _ in range(40):
        turns = pool.turns()
        np.testing.assert_array_equal(turns.seat, np.arange(30) % seats)
        np.testing.assert_array_equal(turns.driver, np.arange(30) % 5)
        pool.act(pool.bot_actions())


@every_case
def test_bots_inside_play_as_bots_outside_would(make, game, options):
    """The learner in seat 0 sees the same games whether the other seats surface or not."""
    spec = registry.spec(game, options)
    bot = spec.bots[-1]
    inside, outside = make(game, 6, options), make(game, 6, options)
    drivers = np.zeros((6, spec.seats), np.uint8)
    drivers[:, 1:] = FIRST_BOT + spec.bot(bot)
    inside.set_drivers(drivers)
    seeds = np.arange(6) + 40
    inside.reset(seeds)
    outside.reset(seeds)
    done = np.zeros(6, bool)
    won = np.zeros((2, 6, spec.seats))
    while not done.all():
        step = play(inside, bot)
        won[0][~done] += step[-2][~done]
        done |= step[-1].astype(bool)
    done[:] = False
    while not done.all():
        step = play(outside, bot)
        won[1][~done] += step[-2][~done]
        done |= step[-1].astype(bool)
    # A bot before seat 0's first turn may have been paid already; no game here pays that early.
    np.testing.assert_allclose(won[0], won[1], atol=1e-5)


@every_game
def test_statistics_count_each_driver_by_itself(make, game):
    pool = make(game, 40, seed=3, stagger=False)
    assert pool.stats() == {}
    drivers = np.zeros((40, pool.spec.seats), np.uint8)
    drivers[:, 0] = 3
    drivers[:, 1] = FIRST_BOT
    pool.set_drivers(drivers)
    pool.reset(stagger=False)
    pool.clear_stats()
    ended = 0
    totals = np.zeros(pool.spec.seats)
    for _ in range(1100):
        outcome = play(pool)
        ended += int(outcome[-1].sum())
        totals += outcome[-2].sum(axis=0)
    stats = pool.stats()
    assert set(stats) == ({0, 3, FIRST_BOT} if pool.spec.seats > 2 else {3, FIRST_BOT})
    assert stats[3]["score"][1] == stats[FIRST_BOT]["score"][1]
    # Games that a bot ends at once after another began may count once more than `over` says.
    assert ended <= stats[3]["score"][1] <= ended + 40
    if pool.spec.seats == 2:
        assert stats[3]["score"][0] == pytest.approx(-stats[FIRST_BOT]["score"][0], abs=1e-6)
        assert stats[3]["score"][0] * stats[3]["score"][1] == pytest.approx(totals[0], abs=1e-3)
    pool.clear_stats()
    assert pool.stats() == {}


def test_on_named_seeds_only_those_games_count(make):
    pool = make("kuhn", 10)
    pool.reset(np.arange(10))
    pool.clear_stats()
    for _ in range(50):
        play(pool)
    assert pool.stats()[0]["score"][1] == 20  # ten games, two seats


def test_staggered_starts_mix_the_rounds(make):
    together, apart = make("skull_king", 500, stagger=False), make("skull_king", 500)

    def rounds(pool):
        return np.bincount(pool.spec.schema.unpack(pool.turns().observation)["round"].ravel(), minlength=10)

    assert rounds(together).tolist() == [500, *[0] * 9]
    shares = (4 + 4 * np.arange(1, 11)) / 260
    assert np.abs(rounds(apart) - 500 * shares).max() < 45
    for _ in range(300):
        play(apart)
    assert np.abs(rounds(apart) - 500 * shares).max() < 45


@every_game
def test_seeds_are_one_a_game(make, game):
    pool = make(game, 4)
    before = pool.snapshot()
    with pytest.raises(ValueError, match="seeds must have 4 along axis 0, got 5"):
        pool.reset(np.arange(5))
    assert pool.snapshot() == before


@every_game
def test_a_bot_there_is_not_is_named_with_its_row(make, game):
    pool = make(game, 6)
    pool.turns()
    kinds = np.zeros(6, np.uint8)
    kinds[4] = len(pool.spec.bots)
    with pytest.raises(ValueError, match=rf"row 4: there is no bot number {kinds[4]}"):
        pool.bot_actions(kinds)


def test_a_pool_needs_games_and_a_known_game(make):
    with pytest.raises(PlaymillError, match="at least one game, got 0"):
        make("kuhn", 0)
    with pytest.raises(UnknownName, match="did you mean 'kuhn'"):
        make("kuhnn", 1)
    with pytest.raises(UnknownName, match="did you mean 'players'"):
        make("skull_king", 1, {"player": 3})
    with pytest.raises(PlaymillError, match="from 2 to 8, got 9"):
        make("skull_king", 1, {"players": 9})
    pool = make("skull_king", 1)
    pool.turns()
    with pytest.raises(UnknownName, match="did you mean 'hard'"):
        pool.bot_actions("hrd")
