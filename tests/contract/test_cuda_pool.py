"""What the pool on the card promises beside the contract: arrays that live there, of any library."""

import numpy as np
import pytest
import torch

from playmill.games import PlaymillError
from playmill.pools import NativePool
from playmill.pools.cuda import CudaOutcome, CudaPool, DeviceArray
from tests.contract.cases import every_game

pytestmark = pytest.mark.cuda


def torch_array(array):
    """The same memory as a tensor."""
    return torch.from_dlpack(array)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32"])
def test_an_array_begins_with_zeros_and_keeps_what_is_written(dtype):
    array = DeviceArray((3, 4), dtype)
    assert array.shape == (3, 4)
    assert len(array) == 3
    np.testing.assert_array_equal(np.asarray(array), np.zeros((3, 4), dtype))
    values = np.arange(12).reshape(3, 4).astype(dtype)
    array.fill(values)
    found = np.asarray(array)
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found, values)
    np.testing.assert_array_equal(np.asarray(array, dtype=np.float64), values.astype(np.float64))


def test_an_array_takes_values_of_its_own_shape_alone():
    array = DeviceArray((3, 4), "uint8")
    with pytest.raises(ValueError, match=r"shape \(3, 4\), got \(4, 3\)"):
        array.fill(np.zeros((4, 3), np.uint8))
    with pytest.raises(ValueError, match="without a copy"):
        array.__array__(copy=False)


def test_torch_shares_the_memory_of_an_array():
    array = DeviceArray((5,), "int32")
    tensor = torch_array(array)
    assert tensor.device.type == "cuda"
    assert tensor.dtype == torch.int32
    assert tensor.data_ptr() == array.__cuda_array_interface__["data"][0]
    tensor += 7
    assert np.asarray(array).tolist() == [7] * 5


def test_an_array_outlives_its_owner_where_torch_holds_it():
    tensor = torch_array(DeviceArray((1000,), "float32"))
    others = [DeviceArray((1000,), "float32") for _ in range(20)]
    for other in others:
        other.fill(np.ones(1000, np.float32))
    assert float(tensor.sum()) == 0.0


@every_game
def test_the_caller_may_bring_arrays_of_any_library(game):
    """The pool's own, fresh ones, and tensors of torch: all the same games."""
    pools = [CudaPool(game, 6, seed=4) for _ in range(3)]
    spec = pools[0].spec
    turns = [
        None,
        pools[1].empty_turns(),
        pools[2]
        .empty_turns()
        ._replace(
            observation=torch.zeros(6, spec.schema.bytes, dtype=torch.uint8, device="cuda"),
            seat=torch.zeros(6, dtype=torch.uint8, device="cuda"),
        ),
    ]
    outcomes = [
        None,
        pools[1].empty_outcome(),
        CudaOutcome(
            torch.zeros(6, spec.seats, device="cuda"), torch.zeros(6, dtype=torch.uint8, device="cuda")
        ),
    ]

    def host(column):
        return column.cpu().numpy() if isinstance(column, torch.Tensor) else np.asarray(column)

    for _ in range(20):
        shown = [pool.turns(out) for pool, out in zip(pools, turns, strict=True)]
        assert shown[1] is turns[1]
        assert shown[2] is turns[2]
        actions = pools[0].bot_actions()
        results = [pool.act(actions, out) for pool, out in zip(pools, outcomes, strict=True)]
        assert results[1] is outcomes[1]
        for given in (shown, results):
            for columns in zip(*given, strict=True):
                np.testing.assert_array_equal(host(columns[0]), host(columns[1]))
                np.testing.assert_array_equal(host(columns[0]), host(columns[2]))


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        (lambda good: good[:-1], ValueError, r"actions must have shape \(8,\), got \(7,\)"),
        (lambda good: good[:, None], ValueError, r"actions must have shape \(8,\), got \(8, 1\)"),
        (lambda good: good.long(), TypeError, "actions must be int32, got int64"),
        (lambda good: good.float(), TypeError, "actions must be int32, got float32"),
        (lambda good: good.repeat_interleave(2)[::2], ValueError, "actions must be contiguous"),
        (lambda good: good.cpu().numpy(), TypeError, "actions must be an array on the card, got ndarray"),
        (lambda good: good.tolist(), TypeError, "actions must be an array on the card, got list"),
    ],
)
def test_actions_that_are_not_int32_on_the_card_change_nothing(wrong, error, says):
    pool = CudaPool("leduc", 8)
    pool.turns()
    good = torch_array(pool.bot_actions()).clone()
    before = pool.snapshot()
    with pytest.raises(error, match=says):
        pool.act(wrong(good))
    assert pool.snapshot() == before
    pool.act(good)  # the turns still wait


@every_game
def test_foreign_columns_are_refused(game):
    pool = CudaPool(game, 4)
    rows, results = pool.empty_turns(), pool.empty_outcome()
    width = pool.spec.schema.bytes
    before = pool.snapshot()
    with pytest.raises(ValueError, match=rf"observation must have shape \(4, {width}\), got \(3, {width}\)"):
        pool.turns(rows._replace(observation=DeviceArray((3, width), "uint8")))
    with pytest.raises(TypeError, match="seat must be uint8, got int32"):
        pool.turns(rows._replace(seat=DeviceArray((4,), "int32")))
    with pytest.raises(TypeError, match="legal must be an array on the card, got ndarray"):
        pool.turns(rows._replace(legal=np.zeros((4, pool.spec.legal_bytes), np.uint8)))
    pool.turns()
    actions = pool.bot_actions()
    with pytest.raises(TypeError, match="rewards must be float32, got uint8"):
        pool.act(actions, results._replace(rewards=DeviceArray((4, pool.spec.seats), "uint8")))
    with pytest.raises(ValueError, match=r"over must have shape \(4,\), got \(5,\)"):
        pool.act(actions, results._replace(over=DeviceArray((5,), "uint8")))
    with pytest.raises(TypeError, match="bots must be an array on the card, got ndarray"):
        pool.bot_actions(np.zeros(4, np.uint8))
    assert pool.snapshot() == before


@every_game
def test_a_snapshot_of_the_other_device_is_refused(game):
    card, host = CudaPool(game, 4, seed=1), NativePool(game, 4, seed=1)
    for pool, other in ((card, host), (host, card)):
        before = pool.snapshot()
        with pytest.raises(PlaymillError, match="another pool: device"):
            pool.restore(other.snapshot())
        assert pool.snapshot() == before


def test_pools_on_streams_of_their_own_do_not_mix():
    streams = [torch.cuda.Stream() for _ in range(3)]
    pools = [CudaPool("leduc", 2000, seed=i, stream=s.cuda_stream) for i, s in enumerate(streams)]
    alone = [CudaPool("leduc", 2000, seed=i) for i in range(3)]
    for _ in range(50):
        for pool in pools:
            pool.turns()
        for pool in pools:
            pool.act(pool.bot_actions("random"))
    for pool in alone:
        for _ in range(50):
            pool.turns()
            pool.act(pool.bot_actions("random"))
    for a, b in zip(pools, alone, strict=True):
        assert a.snapshot() == b.snapshot()


def test_more_games_than_the_card_holds_is_one_line_that_names_the_setting():
    with pytest.raises(PlaymillError, match=r"100,000,000,000 games do not fit the card .*lower --games"):
        CudaPool("skull_king", 100_000_000_000)
