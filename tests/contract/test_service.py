"""What the batch game service promises, on each of its transports."""

import dataclasses

import numpy as np
import pytest

from playmill.games import Game, registry
from playmill.serving import NOBODY, Code, House, Limits, ServiceError, Standing, connect
from tests.contract.cases import every_game
from tests.contract.servers import TRANSPORTS, actions_of, serving, step, waiting


@pytest.fixture(params=TRANSPORTS)
def service(request, tmp_path):
    house = House(Limits(games=500, rows=300, halls=8))
    with serving(request.param, house, tmp_path) as where, connect(where) as client:
        yield house, client, where


@pytest.fixture
def client(service):
    return service[1]


@pytest.fixture
def rng():
    return np.random.default_rng(1)


@every_game
def test_a_game_is_the_one_its_seed_names(client, game, rng):
    games = client.create(game, 5, seeds=np.arange(40, 45))
    twins = [Game(game, seed=seed) for seed in range(40, 45)]
    rewards = np.zeros((5, games.spec.seats), np.float32)
    for turn in range(2000):
        to_act = np.array([NOBODY if twin.over else twin.seat for twin in twins], np.uint8)
        for seat in range(games.spec.seats):
            states = client.states(games, seat)
            assert np.array_equal(states.to_act, to_act)
            assert not states.standing.any()
            assert np.allclose(states.rewards, rewards, atol=1e-4)
            for i, twin in enumerate(twins):
                assert np.array_equal(states.observation[i], twin.observe(seat))
                legal = twin.legal_bits() if to_act[i] == seat else np.zeros(games.spec.legal_bytes, np.uint8)
                assert np.array_equal(states.legal[i], legal)
        alive = to_act != NOBODY
        if not alive.any():
            break
        actions = np.array([rng.choice(twin.legal()) if not twin.over else 0 for twin in twins])
        now = client.states(games, 0).turn.copy()
        assert (now[alive] == turn).all()
        answers = client.submit(games[alive], to_act[alive], now[alive], actions[alive])
        assert not answers.standing.any()
        assert (answers.turn == turn + 1).all()
        for i in np.flatnonzero(alive):
            rewards[i] += twins[i].act(int(actions[i]))
    states = client.states(games, 0)
    assert states.over.all()
    assert (states.to_act == NOBODY).all()
    assert not states.legal.any()


def test_a_turn_is_answered_once_however_often_it_is_sent(client, rng):
    games = client.create("leduc", 8, seeds=np.arange(8))
    to_act, turn = waiting(client, games)
    states = client.states(games, to_act)
    actions = actions_of(states, games.spec, rng)
    assert (client.submit(games, to_act, turn, actions).standing == Standing.OK).all()
    seen = client.states(games, 1).observation.copy()
    again = client.submit(games, to_act, turn, actions)
    assert (again.standing == Standing.REPEATED).all()
    assert (again.turn == turn + 1).all()
    other = client.submit(games, to_act, turn, (actions + 1) % games.spec.actions)
    assert (other.standing == Standing.STALE).all()
    assert np.array_equal(client.states(games, 1).observation, seen)


def test_the_same_answer_twice_in_one_batch_counts_once(client, rng):
    game = client.create("kuhn", 1)
    twice = game[[0, 0]]
    to_act, turn = waiting(client, twice)
    actions = actions_of(client.states(twice, to_act), game.spec, rng)
    answers = client.submit(twice, to_act, turn, np.repeat(actions[:1], 2))
    assert answers.standing.tolist() == [Standing.OK, Standing.REPEATED]
    assert client.states(game, 0).turn[0] == 1


def test_a_late_retry_is_known_and_a_very_late_one_is_not_applied(client, rng):
    games = client.create("skull_king", 1)
    sent = []
    for _ in range(12):
        to_act, turn = waiting(client, games)
        action = actions_of(client.states(games, to_act), games.spec, rng)
        assert not client.submit(games, to_act, turn, action).standing.any()
        sent.append((to_act, turn, action))
    standings = [client.submit(games, *old).standing[0] for old in sent]
    assert standings == [Standing.STALE] * 4 + [Standing.REPEATED] * 8
    assert client.states(games, 0).turn[0] == 12


def test_each_wrong_answer_has_its_own_standing_and_changes_nothing(client):
    games = client.create("leduc", 2, seeds=[1, 2])
    to_act, turn = waiting(client, games)
    before = [client.states(games, seat).observation.copy() for seat in range(2)]
    waits = 1 - to_act
    assert (client.submit(games, waits, turn, 0).standing == Standing.NOT_YOUR_TURN).all()
    assert (client.submit(games, to_act, turn + 1, 0).standing == Standing.AHEAD).all()
    for action in (-1, games.spec.actions, 2**31 - 1, -(2**31)):
        assert (client.submit(games, to_act, turn, action).standing == Standing.ILLEGAL).all()
    assert all(np.array_equal(client.states(games, seat).observation, before[seat]) for seat in range(2))
    assert (client.states(games, 0).turn == turn).all()


def test_an_answer_to_a_game_that_is_over_says_so(client, rng):
    games = client.create("kuhn", 3)
    while step(client, games, rng):
        pass
    turn = client.states(games, 0).turn.copy()
    assert (client.submit(games, 0, turn, 0).standing == Standing.OVER).all()
    assert client.states(games, 0).over.all()


def test_a_key_opens_its_own_seat_and_no_other(client):
    games = client.create("skull_king", 4)
    mine = games.only(2)
    assert not client.states(mine, 2).standing.any()
    for seat in (0, 1, 3):
        states = client.states(mine, seat)
        assert (states.standing == Standing.WRONG_KEY).all()
        assert not states.observation.any()
        assert not states.turn.any()
    stolen = games.only(2)
    stolen.keys[:, 0] = stolen.keys[:, 2]
    assert (client.states(stolen, 0).standing == Standing.WRONG_KEY).all()
    assert (client.submit(stolen, 0, 0, 0).standing == Standing.WRONG_KEY).all()
    assert (client.reset(mine, 0).standing == Standing.WRONG_KEY).all()
    assert (client.delete(mine).standing == Standing.WRONG_KEY).all()
    assert not client.states(games, 0).standing.any()


def test_unknown_games_are_rows_not_failures(client):
    games = client.create("kuhn", 3)
    games = dataclasses.replace(games, game=games.game ^ np.array([0, 1 << 40, 0], np.uint64), _of_seat={})
    assert client.states(games, 0).standing.tolist() == [0, Standing.NO_GAME, 0]
    assert client.submit(games, 0, 0, 99).standing[1] == Standing.NO_GAME


def test_ids_and_keys_do_not_repeat(client):
    games = client.create("kuhn", 100, seeds=np.zeros(100))
    keys = {key.tobytes() for key in games.keys.reshape(-1, 16)}
    assert len(keys) == 300
    assert len(set(games.game.tolist())) == 100


def test_bots_play_their_seats_inside(client, rng):
    games = client.create("skull_king", 6, bots=["", "greedy", "random", "hard"])
    while True:
        states = client.states(games, 0)
        alive = states.over == 0
        if not alive.any():
            break
        assert (states.to_act[alive] == 0).all()
        turn, actions = states.turn.copy(), actions_of(states, games.spec, rng)
        assert not client.submit(games[alive], 0, turn[alive], actions[alive]).standing.any()


def test_a_reset_happens_once_and_old_answers_do_not_reach_the_new_game(client, rng):
    games = client.create("leduc", 4, seeds=np.arange(4))
    first = client.states(games, 0).observation.copy()
    step(client, games, rng)
    _, turn = waiting(client, games)
    assert not client.reset(games, turn, seeds=np.arange(4)).standing.any()
    assert np.array_equal(client.states(games, 0).observation, first)
    assert (client.states(games, 0).turn == turn + 1).all()
    assert (client.submit(games, 0, turn, 0).standing == Standing.STALE).all()
    assert (client.reset(games, turn).standing == Standing.REPEATED).all()
    assert (client.reset(games, turn + 2).standing == Standing.AHEAD).all()
    assert np.array_equal(client.states(games, 0).observation, first)


def test_deleted_games_are_gone_and_their_place_is_free(service, rng):
    house, client, _ = service
    games, kept = client.create("kuhn", 300), client.create("kuhn", 100)
    with pytest.raises(ServiceError) as error:
        client.create("kuhn", 200)
    assert error.value.code == Code.RESOURCE_EXHAUSTED
    assert not client.delete(games).standing.any()
    assert house.games == 100
    assert (client.states(games, 0).standing == Standing.NO_GAME).all()
    assert (client.delete(games).standing == Standing.NO_GAME).all()
    later = client.create("kuhn", 200)
    assert (client.states(games, 0).standing == Standing.NO_GAME).all()
    assert not client.states(later, 0).standing.any()
    assert step(client, kept, rng)


def test_the_same_request_is_answered_with_the_same_games(client):
    first = client.create("kuhn", 4, request=b"0123456789abcdef")
    again = client.create("kuhn", 4, request=b"0123456789abcdef")
    assert np.array_equal(first.game, again.game)
    assert np.array_equal(first.keys, again.keys)
    with pytest.raises(ServiceError, match="made before"):
        client.create("kuhn", 5, request=b"0123456789abcdef")


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"count": 0}, Code.INVALID_ARGUMENT),
        ({"count": 301}, Code.RESOURCE_EXHAUSTED),
        ({"seeds": [1, 2]}, Code.INVALID_ARGUMENT),
        ({"bots": ["random"]}, Code.INVALID_ARGUMENT),
        ({"bots": ["random", "random"]}, Code.INVALID_ARGUMENT),
        ({"bots": ["nobody", ""]}, Code.INVALID_ARGUMENT),
        ({"request": b"short"}, Code.INVALID_ARGUMENT),
    ],
)
def test_wrong_requests_for_games_are_refused(client, wrong, code):
    with pytest.raises(ServiceError) as error:
        client.create("kuhn", **{"count": 3, **wrong})
    assert error.value.code == code
    assert not client.states(client.create("kuhn", 1), 0).standing.any()


def test_too_many_rows_are_refused(client):
    games = client.create("kuhn", 200)
    with pytest.raises(ServiceError) as error:
        client.states(games[np.arange(301) % 200], 0)
    assert error.value.code == Code.RESOURCE_EXHAUSTED


def test_an_unknown_hall_is_refused(client):
    games = dataclasses.replace(client.create("kuhn", 2), hall=77)
    with pytest.raises(ServiceError) as error:
        client.states(games, 0)
    assert error.value.code == Code.NOT_FOUND
    with pytest.raises(ServiceError):
        client.submit(games, 0, 0, 0)


def test_games_of_other_options_lie_in_other_halls(client):
    two = client.create("skull_king", 2, options={"players": 2})
    four = client.create("skull_king", 2, options={"players": 4})
    default = client.create("skull_king", 2)
    assert two.hall != four.hall
    assert four.hall == default.hall
    assert client.states(two, 1).rewards.shape == (2, 2)
    assert (client.states(two[:], 0).standing == 0).all()


def test_two_clients_play_one_game(service, rng):
    _, host, where = service
    with connect(where) as guest:
        games = host.create("leduc", 10)
        players = [(host, games.only(0)), (guest, games.only(1))]
        for _ in range(40):
            for seat, (client, mine) in enumerate(players):
                states = client.states(mine, seat)
                turn, turns = states.turn.copy(), states.to_act == seat
                actions = actions_of(states, mine.spec, rng)
                if turns.any():
                    assert not client.submit(mine[turns], seat, turn[turns], actions[turns]).standing.any()
        assert host.states(games, 0).over.all()


def test_watching_shows_all_rows_first_and_then_those_that_changed(service, rng):
    _, client, where = service
    games = client.create("leduc", 6)
    with connect(where) as other:
        seen = other.watch(games, 0, interval=0.005)
        rows, states = next(seen)
        assert rows.tolist() == list(range(6))
        to_act, turn = waiting(client, games)
        actions = actions_of(client.states(games, to_act), games.spec, rng)
        client.submit(games[[2, 4]], to_act[[2, 4]], turn[[2, 4]], actions[[2, 4]])
        rows, states = next(seen)
        assert set(rows.tolist()) <= {2, 4}
        assert (states.turn == 1).all()
        seen.close()


def test_a_draining_house_shows_states_and_changes_nothing(service):
    house, client, _ = service
    games = client.create("kuhn", 2)
    house.drain()
    assert not client.states(games, 0).standing.any()
    for change in (
        lambda: client.submit(games, 0, 0, 0),
        lambda: client.create("kuhn", 1),
        lambda: client.reset(games, 0),
        lambda: client.delete(games),
    ):
        with pytest.raises(ServiceError) as error:
            change()
        assert error.value.code == Code.UNAVAILABLE


def test_no_rows_are_no_mistake(client):
    games = client.create("kuhn", 1)[:0]
    assert len(client.states(games, 0)) == 0
    assert len(client.submit(games, 0, 0, 0)) == 0


def test_every_native_game_is_served(client):
    for name in registry.names():
        games = client.create(name, 2)
        assert client.states(games, 0).observation.shape == (2, games.spec.schema.bytes)
