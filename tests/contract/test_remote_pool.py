"""Games behind engine processes are the games that the native pool plays, and foreign games play through."""

import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from playmill.games import IllegalAction, OutOfTurn, PlaymillError, registry
from playmill.pools import NativePool
from playmill.pools.remote import NoEngines
from playmill.pools.remote_slots import FIRST_BOT
from tests.contract.remote import QUICK, RemotePool, chosen, histories, host, listening, play

NIM = Path(__file__).resolve().parents[2] / "examples" / "engines" / "engines.toml"


def native_histories(pool, slots, rows):
    """What `histories` gives, from a native pool."""
    out = [[] for _ in range(slots)]
    rewards = np.zeros((slots, pool.spec.seats), np.float32)
    over = np.zeros(slots, np.uint8)
    for row in range(rows + 1):
        turns = pool.turns()
        for slot in range(slots):
            columns = [column[slot].tobytes() for column in turns]
            out[slot].append((*columns, rewards[slot].tobytes(), over[slot].tobytes()))
        if row < rows:
            actions = [chosen(turns.legal[slot], slot, row + 1) for slot in range(slots)]
            rewards, over = pool.act(np.array(actions, np.int32))
    return out


@pytest.mark.parametrize(
    ("game", "options", "bots"),
    [
        ("kuhn", {}, []),
        ("leduc", {}, ["random"]),
        ("skull_king", {"players": 3}, []),
        ("skull_king", {}, ["random", "hard"]),
    ],
)
def test_native_games_behind_engines_are_the_native_games(game, options, bots):
    spec = registry.spec(game, options)
    drivers = np.zeros((6, spec.seats), np.uint8)
    for seat, bot in enumerate(bots):
        drivers[1:, seat + 1] = FIRST_BOT + spec.bots.index(bot)
    native = NativePool(spec, 6, seed=41, stagger=False)
    with RemotePool(spec, 6, seed=41, engines=2) as pool:
        pool.set_drivers(drivers)
        native.set_drivers(drivers)
        native.reset(stagger=False)
        native.clear_stats()
        assert histories(pool, 40) == native_histories(native, 6, 40)
        if game == "skull_king":  # counts in the middle of games, which an engine tells at their end
            return
        ours, theirs = pool.stats(), native.stats()
        assert ours.keys() == theirs.keys()
        for driver, named in theirs.items():
            assert {name: n for name, (_, n) in ours[driver].items()} == {k: n for k, (_, n) in named.items()}
            for name, (mean, _) in named.items():
                assert ours[driver][name][0] == pytest.approx(mean, rel=1e-5, abs=1e-5)


def test_a_seed_names_the_games_however_many_engines_play_them():
    with RemotePool("leduc", 5, seed=3, engines=1) as one, RemotePool("leduc", 5, seed=3, engines=3) as three:
        first = histories(one, 12)
        assert first == histories(three, 12)
    with RemotePool("leduc", 5, seed=4) as other:
        assert histories(other, 12) != first


@pytest.mark.parametrize(
    ("game", "options"),
    [
        ("openspiel:leduc_poker", {"players": 3}),
        ("openspiel:leduc_poker", {"tensor": "observation"}),
        ("openspiel:tic_tac_toe", {}),
        ("openspiel:goofspiel", {"num_cards": 4, "imp_info": True}),
        ("openspiel:matching_pennies_3p", {}),
        ("openspiel:backgammon", {}),
        ("pettingzoo:classic/tictactoe_v3", {}),
        ("pettingzoo:playmill.pools.pettingzoo", {"game": "leduc"}),
        ("pettingzoo:tests.contract.own_envs.Race", {"track": 5}),
        ("pettingzoo:tests.contract.own_envs.Race", {"mask_in": "infos"}),
        ("pettingzoo:tests.contract.own_envs.Matching", {}),
    ],
)
def test_foreign_games_play_through_and_seeds_name_them(game, options):
    def games():
        with RemotePool(game, 3, options=options, seed=8) as pool:
            found = histories(pool, 25)
            stats = pool.stats()
            assert "backgammon" in game or stats[0]["win"][1] > 0
            return found

    first = games()
    assert first == games()
    assert "backgammon" in game or all(any(row[6] == b"\1" for row in rows) for rows in first)


def test_a_tensor_arrives_as_openspiel_made_it():
    import pyspiel

    spec = registry.spec("openspiel:leduc_poker")
    with RemotePool(spec, 1, seed=1) as pool:
        row = pool.turns(1, 10.0)
    state = pyspiel.load_game("leduc_poker").new_initial_state()
    seen = []
    for first in state.legal_actions():
        for second in state.child(first).legal_actions():
            dealt = state.child(first).child(second)
            seen.append(dealt.information_state_tensor(0))
    assert spec.schema.expand(row.observation)[0].tolist() in [list(map(float, one)) for one in seen]


def test_answers_given_at_once_stay_hidden_until_all_are_in():
    rows = {0: [], 1: []}
    with RemotePool("openspiel:goofspiel", 1, options={"num_cards": 3}, seed=2) as pool:
        for action in (0, 2):
            waiting = pool.turns(1, 10.0)
            rows[int(waiting.seat[0])].append(waiting.observation.tobytes())
            pool.act(waiting.slot, [action])
    with RemotePool("openspiel:goofspiel", 1, options={"num_cards": 3}, seed=2) as pool:
        pool.act(pool.turns(1, 10.0).slot, [1])
        assert pool.turns(1, 10.0).observation.tobytes() == rows[1][0]


@pytest.mark.parametrize(
    ("game", "options", "says"),
    [
        ("openspiel:leduc_pokr", {}, "leduc_poker"),
        ("openspiel:leduc_poker", {"players": 99}, "players"),
        ("openspiel:leduc_poker", {"nothing": 1}, "nothing"),
        ("openspiel:leduc_poker", {"tensor": "none"}, "tensor"),
        ("openspiel:mfg_crowd_modelling", {}, "mean field"),
        ("pettingzoo:classic/no_such_game_v1", {}, "no module"),
        ("pettingzoo:json", {}, "parallel_env"),
        ("pettingzoo:tests.contract.own_envs.Race", {"no_such": 1}, "no_such"),
        ("pettingzoo:tests.contract.own_envs.Steering", {}, "Box space"),
        ("pettingzoo:tests.contract.own_envs.Reading", {}, "Text"),
    ],
)
def test_what_cannot_be_played_is_refused_with_the_reason(game, options, says):
    with pytest.raises(PlaymillError, match=says):
        registry.spec(game, options)


def test_an_engine_in_another_language_plays_with_its_own_bot(monkeypatch):
    if shutil.which("node") is None:
        assert "CI" not in os.environ, "the tests need node"
        pytest.skip("node is not installed")
    monkeypatch.setenv("PLAYMILL_ENGINES", str(NIM))
    spec = registry.spec("engine:nim", {"heap": 10})
    assert (spec.title, spec.bots, spec.actions) == ("Nim", ("random", "perfect"), 3)
    with RemotePool(spec, 4, seed=5, engines=2) as pool:
        pool.set_drivers([[0, FIRST_BOT + 1]] * 2 + [[0, FIRST_BOT]] * 2)
        over, lost = play(pool, 300)
        assert over > 30
        assert lost == 0
        stats = pool.stats()
        assert stats[FIRST_BOT + 1]["win"][0] > 0.8 > 0.65 > stats[FIRST_BOT]["win"][0]
    with pytest.raises(PlaymillError, match="heap must be"):
        registry.spec("engine:nim", {"heap": 0})


# ---- The two verbs ----


def test_what_cannot_be_answered_so_raises_and_changes_nothing():
    with RemotePool("leduc", 3, seed=1) as pool:
        rows = pool.turns(3, 10.0)
        legal = [chosen(row, 0, 0) for row in rows.legal]
        illegal = [next(a for a in range(3) if not row[0] >> a & 1) for row in rows.legal]
        with pytest.raises(IllegalAction, match=f"slot {rows.slot[1]}"):
            pool.act(rows.slot, [legal[0], illegal[1], legal[2]])
        for wrong in (-1, 3, 1 << 40):
            with pytest.raises(IllegalAction):
                pool.act(rows.slot[:1], [wrong])
        with pytest.raises(OutOfTurn, match="twice"):
            pool.act(rows.slot[[0, 0]], legal[:2])
        with pytest.raises(ValueError, match="slots are"):
            pool.act([3], [0])
        with pytest.raises(TypeError):
            pool.act([0.5], [0])
        with pytest.raises(ValueError, match="one length"):
            pool.act([0], [0, 1])
        assert len(pool.turns(1, 0.05).slot) == 0  # rows are given once
        pool.act(rows.slot, legal)
        with pytest.raises(OutOfTurn, match="does not wait"):
            pool.act(rows.slot[:1], legal[:1])
        pool.act([], [])
        assert len(pool.turns(3, 10.0).slot) == 3


def test_turns_gives_what_is_there_when_the_time_is_over():
    with RemotePool("kuhn", 4, seed=1, engines=1, command=host("native:kuhn", "--delay-ms", "120")) as pool:
        begun = time.monotonic()
        assert len(pool.turns(4, 0.3).slot) < 4
        assert 0.25 < time.monotonic() - begun < 0.45


def test_an_engine_never_has_more_games_than_the_limit_and_all_slots_get_their_turn():
    with RemotePool("kuhn", 6, seed=1, engines=2, games_per_engine=2) as pool:
        seen = set()
        for _ in range(60):
            rows = pool.turns(1, 5.0)
            seen.update(rows.slot.tolist())
            assert max(engine.games for engine in pool.health()) <= 2
            pool.act(rows.slot, [chosen(row, 0, 0) for row in rows.legal])
        assert seen == set(range(6))


@pytest.mark.parametrize(
    ("drivers", "says"),
    [([[FIRST_BOT, FIRST_BOT]], "nobody"), ([[0, 99]], "99"), ([[0]], "shape"), ([[0, -1]], "-1")],
)
def test_drivers_that_cannot_be_are_refused(drivers, says):
    with RemotePool("kuhn", 1) as pool, pytest.raises(ValueError, match=says):
        pool.set_drivers(drivers)


@pytest.mark.parametrize(
    "wrong", [{"slots": 0}, {"engines": 0}, {"games_per_engine": 0}, {"command": ["sh"], "sockets": ["x"]}]
)
def test_settings_that_cannot_be_are_refused(wrong):
    with pytest.raises(PlaymillError):
        RemotePool("kuhn", **{"slots": 1, **wrong})


def test_a_command_that_is_no_engine_is_an_error_with_its_last_words():
    with pytest.raises(NoEngines, match="no such thing"):
        RemotePool("kuhn", 1, command=["sh", "-c", "echo no such thing >&2; exit 3"], supervision=QUICK)


def test_an_engine_of_another_game_is_refused_at_once():
    with pytest.raises(NoEngines, match="plays native:leduc, not kuhn"):
        RemotePool("kuhn", 1, command=host("native:leduc"), supervision=QUICK)


def test_engines_at_sockets(tmp_path):
    paths = [str(tmp_path / f"{n}.sock") for n in range(2)]
    with listening({path: [] for path in paths}):
        assert all(Path(path).stat().st_mode & 0o077 == 0 for path in paths)
        for _ in range(2):  # a host serves one pool after another
            with RemotePool("kuhn", 4, seed=2, engines=2, sockets=paths) as pool:
                assert play(pool, 100)[1] == 0
        with pytest.raises(PlaymillError, match="each needs its own"):
            RemotePool("kuhn", 4, engines=3, sockets=paths)
    with pytest.raises(NoEngines, match="no engine listens"):
        RemotePool("kuhn", 1, sockets=[str(tmp_path / "none")], supervision=QUICK)


def test_staggered_games_of_one_length_are_at_different_turns():
    """Two players of Skull King: every game has the same number of turns."""
    options = {"players": 2}
    with RemotePool("skull_king", 16, options=options, seed=3, engines=1, stagger=True) as pool:
        turns, lost, ends = np.zeros(16, int), np.zeros(16, int), []
        for _ in range(1200):
            rows = pool.turns(16, 5.0)
            turns[rows.slot] = np.where(rows.over | rows.lost, 0, turns[rows.slot] + 1)
            lost[rows.slot] += rows.lost
            bits = np.unpackbits(rows.legal, axis=1, bitorder="little")
            pool.act(rows.slot, bits.argmax(axis=1))
        ends = turns.copy()
    assert (lost <= 1).all()
    assert lost.sum() >= 14  # a cut before the first turn is none that anybody sees
    assert len(set(ends.tolist())) >= 12
    assert np.ptp(ends) > 40


def test_the_lengths_of_games_and_the_waits_of_rows_are_known():
    waits = []
    with RemotePool("kuhn", 4, engines=2, command=host("native:kuhn", "--delay-ms", "5")) as pool:

        def look(waiting):
            time.sleep(0.002)
            waits.extend(pool.waited(waiting.slot))

        over, _ = play(pool, 80, each=look)
        found = pool.durations()
        assert over <= len(found) <= over + 4
        assert all(length > 0.01 for length in found)  # two decisions and more
        assert len(pool.durations()) == 0
    assert all(0.002 <= wait < 5.0 for wait in waits)
