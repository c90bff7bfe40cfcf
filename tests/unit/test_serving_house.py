"""The house: what no transport changes. Also keepers, and who a server lets in."""

import json
import time

import numpy as np
import pytest

from playmill.games import PlaymillError
from playmill.serving import Code, House, Limits, LocalClient, ServiceError, Standing
from playmill.serving.columns import Seats
from playmill.serving.grpc_server import Access, is_local
from playmill.serving.keeper import Keeper
from tests.contract.servers import step


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def seen(house, games):
    return [LocalClient(house).states(games, seat).observation.copy() for seat in range(games.spec.seats)]


def kept(folder, **settings):
    house = House()
    keeper = Keeper(house, folder, **settings)
    return house, keeper, keeper.load()


def test_arrays_of_the_wrong_shape_are_the_callers_mistake():
    house = House()
    games = LocalClient(house).create("kuhn", 3)
    good = games.seats(0)
    for wrong in (Seats(good.game, good.seat[:2], good.key), Seats(good.game, good.seat, good.key[:, :8])):
        with pytest.raises(ServiceError) as error:
            house.states(games.hall, wrong)
        assert error.value.code == Code.INVALID_ARGUMENT


def test_kinds_of_games_are_limited():
    client = LocalClient(House(Limits(halls=2)))
    client.create("kuhn", 1)
    client.create("leduc", 1)
    client.create("kuhn", 1)
    with pytest.raises(ServiceError) as error:
        client.create("liars_dice", 1)
    assert error.value.code == Code.RESOURCE_EXHAUSTED


def test_abandoned_games_are_closed(rng):
    now = [1000.0]
    house = House(Limits(idle_minutes=1), clock=lambda: now[0])
    client = LocalClient(house)
    games = client.create("skull_king", 4)
    now[0] += 50
    assert house.sweep() == 0
    step(client, games[:2], rng)
    now[0] += 30
    assert house.sweep() == 2
    assert client.states(games, 0).standing.tolist() == [0, 0, Standing.NO_GAME, Standing.NO_GAME]
    assert House().sweep() == 0


def test_games_come_back_from_a_checkpoint_as_they_were(tmp_path, rng):
    house, keeper, taken_up = kept(tmp_path / "kept")
    assert taken_up == 0
    client = LocalClient(house)
    skull = client.create("skull_king", 5, options={"players": 3}, request=b"r" * 16)
    leduc = client.create("leduc", 7, bots=["", "random"])
    for _ in range(3):
        step(client, skull, rng)
        step(client, leduc, rng)
    client.delete(leduc[:2])
    before = seen(house, skull) + seen(house, leduc)
    keeper.stop()
    house, keeper, taken_up = kept(tmp_path / "kept")
    assert taken_up == 10
    assert all(
        np.array_equal(a, b) for a, b in zip(seen(house, skull) + seen(house, leduc), before, strict=True)
    )
    again = LocalClient(house).create("skull_king", 5, options={"players": 3}, request=b"r" * 16)
    assert np.array_equal(again.keys, skull.keys)
    assert step(LocalClient(house), skull, rng)
    keeper.stop()


def test_nothing_new_is_not_written_again(tmp_path):
    house, keeper, _ = kept(tmp_path / "kept")
    LocalClient(house).create("kuhn", 1)
    keeper.save()
    first = sorted(path.name for path in (tmp_path / "kept").iterdir())
    keeper.save()
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == first


def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path, rng):
    house, keeper, _ = kept(tmp_path / "kept")
    client = LocalClient(house)
    games = client.create("leduc", 3)
    keeper.save()
    before = seen(house, games)
    step(client, games, rng)
    keeper.stop()
    newest = max(path for path in (tmp_path / "kept").iterdir() if path.name.startswith("step-"))
    blob = newest / "hall-0"
    blob.write_bytes(blob.read_bytes()[:-1] + b"?")
    house, keeper, taken_up = kept(tmp_path / "kept")
    assert taken_up == 3
    assert all(np.array_equal(a, b) for a, b in zip(seen(house, games), before, strict=True))
    keeper.stop()


def test_checkpoints_are_the_users_own_and_one_servers(tmp_path):
    _, keeper, _ = kept(tmp_path / "kept")
    assert (tmp_path / "kept").stat().st_mode & 0o077 == 0
    with pytest.raises(PlaymillError, match="in use by another process"):
        Keeper(House(), tmp_path / "kept")
    keeper.stop()


def test_a_keeper_saves_after_so_many_turns_by_itself(tmp_path, rng):
    house, keeper, _ = kept(tmp_path / "kept", turns=5, seconds=60)
    client = LocalClient(house)
    games = client.create("skull_king", 4)
    keeper.start()
    for _ in range(4):
        step(client, games, rng)
    deadline = time.monotonic() + 20
    while not (steps := sorted((tmp_path / "kept").glob("step-*"))):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    keeper.stop()
    meta = json.loads((steps[-1] / "meta.json").read_text())
    assert [hall["game"] for hall in meta["halls"]] == ["skull_king"]


@pytest.mark.parametrize("place", ["127.0.0.1:5", "localhost:0", "[::1]:80", "unix:/tmp/x", "127.9.9.9:1"])
def test_loopback_needs_nothing(place):
    assert is_local(place)
    Access([place])


@pytest.mark.parametrize("place", ["0.0.0.0:5", "[::]:5", "192.168.1.4:80", "games.example:443"])
def test_anything_wider_needs_a_token_or_tls(place):
    with pytest.raises(PlaymillError, match="token or a certificate"):
        Access([place])
    Access([place], token="t" * 16)
    Access([place], certificate=b"c", private_key=b"k")


def test_addresses_and_half_a_certificate_are_refused():
    for place in ("nowhere", "127.0.0.1", "127.0.0.1:http"):
        with pytest.raises(PlaymillError, match="is no address"):
            Access([place])
    with pytest.raises(PlaymillError, match="certificate and its key"):
        Access(["127.0.0.1:1"], certificate=b"c")
