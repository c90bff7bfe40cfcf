"""Games of the service on file, whatever the transport."""

import threading

import numpy as np
import pytest

from playmill.games import registry
from playmill.replays import ReplayFile
from playmill.serving import House, Limits, LocalClient, Standing, connect
from playmill.serving.recorder import Recorder
from tests.contract.servers import TRANSPORTS, actions_of, serving, step

KINDS = {
    "generals": ({"width": 5, "height": 5, "max_ticks": 30}, ["", "hunter"]),
    "kuhn": ({}, []),
    "leduc": ({}, ["tight", ""]),
    "liars_dice": ({}, []),
    "skull_king": ({"players": 3}, ["greedy", "", "random"]),
}


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "served.replays"


def played(client, games, rng):
    while step(client, games, rng):
        pass


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_games_played_to_their_end_are_written_down(transport, tmp_path, path, rng):
    recorder = Recorder(path)
    rewards = {}
    with serving(transport, House(recorder=recorder), tmp_path) as place, connect(place) as client:
        for game, (options, bots) in KINDS.items():
            seeds = np.arange(5, dtype=np.uint64)
            games = client.create(game, 5, options=options, seeds=seeds, bots=bots)
            played(client, games, rng)
            rewards[game] = client.states(games, 0).rewards.copy()
            names = tuple(bot or "client" for bot in bots) or ("client",) * games.spec.seats
            rewards[game, "names"] = names
        client.create("kuhn", 3)  # never played
    recorder.close()
    file = ReplayFile(path)
    assert len(file) == 5 * len(KINDS)
    for number in range(len(file)):
        timeline = file.play(number)
        replay = timeline.replay
        assert timeline.over
        assert replay.names == rewards[replay.game, "names"]
        assert timeline.rewards == pytest.approx(rewards[replay.game][replay.seed].tolist(), abs=1e-5)
    assert set(KINDS) == set(registry.names())


def test_a_reset_begins_another_game_and_what_was_left_is_not_kept(path, rng):
    recorder = Recorder(path)
    client = LocalClient(House(recorder=recorder))
    games = client.create("skull_king", 2, seeds=np.array([1, 2], np.uint64))
    step(client, games, rng)
    turn = client.states(games, 0).turn.copy()
    client.reset(games, turn, np.array([3, 4], np.uint64))
    played(client, games, rng)
    turn = client.states(games, 0).turn.copy()
    client.reset(games, turn, np.array([5, 6], np.uint64))
    played(client, games[:1], rng)
    client.delete(games)
    recorder.close()
    file = ReplayFile(path)
    assert sorted(file[number].replay.seed for number in range(len(file))) == [3, 4, 5]
    assert len(recorder.games) == 0


def test_answers_that_do_not_count_are_not_in_it(path, rng):
    recorder = Recorder(path)
    client = LocalClient(House(recorder=recorder))
    games = client.create("leduc", 1)
    while (to_act := int(client.states(games, 0).to_act[0])) != 255:
        states = client.states(games, to_act)
        turn, action = states.turn.copy(), actions_of(states, games.spec, rng)
        for wanted in (Standing.OK, Standing.REPEATED):
            assert client.submit(games, to_act, turn, action).standing[0] == wanted
        client.submit(games, 1 - to_act, turn, action)
        client.submit(games, to_act, turn + 1, 99)
    recorder.close()
    assert ReplayFile(path).play(0).over


def test_games_that_are_swept_are_forgotten(path, rng):
    now = [1000.0]
    recorder = Recorder(path)
    house = House(Limits(idle_minutes=1), clock=lambda: now[0], recorder=recorder)
    client = LocalClient(house)
    games = client.create("skull_king", 4)
    other = client.create("kuhn", 2)
    now[0] += 50
    step(client, games[:2], rng)
    now[0] += 30
    assert house.sweep() == 4
    assert set(recorder.games.tolist()) == set(games.game[:2].tolist())
    assert not set(recorder.games.tolist()) & set(other.game.tolist())
    recorder.close()


def test_games_taken_up_from_a_checkpoint_are_left_out(path, rng):
    before = House()
    games = LocalClient(before).create("kuhn", 2)
    recorder = Recorder(path)
    house = House(recorder=recorder)
    house.restore(*before.snapshot())
    played(LocalClient(house), games, rng)
    recorder.close()
    assert not path.read_bytes()


def test_players_on_many_threads_do_not_mix_up_a_game(path):
    recorder = Recorder(path)
    house = House(recorder=recorder)
    games = LocalClient(house).create("generals", 6, options=KINDS["generals"][0])

    def sit(seat):
        client, rng = LocalClient(house), np.random.default_rng(seat)
        while not (states := client.states(games, seat)).over.all():
            mine = states.to_act == seat
            if mine.any():
                turn, actions = states.turn.copy(), actions_of(states, games.spec, rng)
                client.submit(games[mine], seat, turn[mine], actions[mine])

    threads = [threading.Thread(target=sit, args=(seat,)) for seat in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.close()
    file = ReplayFile(path)
    assert [file.play(number).over for number in range(len(file))] == [True] * 6
