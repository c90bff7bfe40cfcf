"""Maps made beforehand, and maps smaller than their board."""

import numpy as np
import pytest

from playmill.games import Game, PlaymillError, registry
from playmill.pools import NativePool

from .board import parse_board


def start(seed, **options):
    return Game("generals", options, seed).table_text(-1)


def test_every_game_has_one_of_the_maps_and_all_are_met():
    starts = [start(seed, width=8, height=8, maps=5) for seed in range(200)]
    assert len(set(starts)) == 5
    assert min(starts.count(board) for board in set(starts)) > 20
    assert len({start(seed, width=8, height=8) for seed in range(200)}) == 200


@pytest.mark.parametrize("players", [2, 3])
def test_a_pool_that_made_the_maps_plays_those_a_single_game_makes(players):
    options = {"width": 9, "height": 7, "players": players, "maps": 7}
    seeds = np.arange(40, dtype=np.uint64)
    pool = NativePool("generals", 40, options=options)
    pool.reset(seeds)
    for row, seed in zip(pool.turns().observation, seeds, strict=True):
        game = Game("generals", options, int(seed))
        assert row.tobytes() == bytes(game.observe(game.seat))


def test_pools_of_other_options_have_maps_of_their_own():
    options = {"width": 8, "height": 8, "maps": 3}
    plain = NativePool("generals", 30, options=options)
    cities = NativePool("generals", 30, options={**options, "cities": 150})
    again = NativePool("generals", 30, options=options)
    assert plain.turns().observation.tobytes() == again.turns().observation.tobytes()
    assert plain.turns().observation.tobytes() != cities.turns().observation.tobytes()


def sides(text):
    """Width and height of what is no mountain, from the top left."""
    board = parse_board(text)
    ground = [divmod(n, board.width) for n, square in enumerate(board.squares) if square.kind != "mountain"]
    return max(x for _, x in ground) + 1, max(y for y, _ in ground) + 1


def test_maps_are_as_large_as_smallest_and_largest_say():
    options = {"width": 15, "height": 15, "mountains": 0}
    found = {sides(start(seed, **options, smallest=10, largest=12)) for seed in range(60)}
    assert found == {(10, 10), (11, 11), (12, 12)}
    oblong = {**options, "height": 14}
    found = {sides(start(seed, **oblong, smallest=10, largest=12)) for seed in range(120)}
    assert found == {(w, h) for w in (10, 11, 12) for h in (10, 11, 12)}
    assert {sides(start(seed, **options, smallest=10, largest=10)) for seed in range(20)} == {(10, 10)}
    assert max(max(sides(start(seed, **options, smallest=10))) for seed in range(60)) == 15
    stepped = {sides(start(seed, **options, smallest=10, size_step=5)) for seed in range(60)}
    assert stepped == {(10, 10), (15, 15)}
    assert {sides(start(seed, **options, smallest=10, size_step=6)) for seed in range(20)} == {(10, 10)}


def apart(text):
    """Steps between two generals over open ground."""
    board = parse_board(text)
    (y, x), (v, u) = (
        divmod(n, board.width) for n, square in enumerate(board.squares) if square.kind == "general"
    )
    return abs(y - v) + abs(x - u)


def test_generals_of_a_small_map_are_as_far_apart_as_on_a_board_of_its_size():
    small = [
        apart(start(seed, width=15, height=15, smallest=10, largest=10, mountains=0)) for seed in range(60)
    ]
    alone = [apart(start(seed, width=10, height=10, mountains=0)) for seed in range(60)]
    assert min(small) == min(alone) == 10
    assert abs(sum(small) - sum(alone)) < 60


@pytest.mark.parametrize("wrong", [{"largest": 9}, {"smallest": 10, "largest": 9}])
def test_largest_without_a_smaller_smallest_is_refused(wrong):
    with pytest.raises(PlaymillError, match="largest goes with smallest"):
        registry.spec("generals", {"width": 15, "height": 15, **wrong})
