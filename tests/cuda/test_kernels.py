"""The learner's kernels on the card, each beside the plain computation it stands for: expansion, returns,
and the order of rows. The loss, the optimiser and the layers have files of their own."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from playmill.algorithms import seat_returns_plain
from playmill.games import Encoding, Schema
from playmill.policies import PackedLinear, expand
from playmill.pools.lanes import need_cuda
from playmill.training.cuda.control import Control
from playmill.training.cuda.layers import TYPES, stream_now
from tests.contract.cases import every_game
from tests.unit.test_expansion import random_rows, real_rows, schemas
from tests.unit.test_ppo import rollout_of

pytestmark = pytest.mark.cuda


# Expansion


def expanded(schema, rows, precision="float32", index=None):
    """What the kernel makes of packed rows on the card, [n, features] on the host."""
    expander = need_cuda().Expander(schema.to_native())
    count = len(rows) if index is None else len(index)
    out = torch.full((count, expander.padded), 7.0, dtype=TYPES[precision], device="cuda")
    at = 0 if index is None else index.data_ptr()
    expander.expand(rows.data_ptr(), at, count, precision, out.data_ptr(), stream_now())
    torch.cuda.synchronize()
    assert expander.padded % 8 == 0
    assert not out[:, schema.features :].any()  # padding is zeros
    return out[:, : schema.features].cpu()


def logarithms(schema):
    """Which features are logarithms, [features]: the last bit of those is the library's."""
    found = np.zeros(schema.features, bool)
    for f in schema.fields:
        found[f.feature : f.feature + f.features] = f.encoding is Encoding.LOG16
    return torch.from_numpy(found)


def agree(schema, rows):
    """Exact in float32, rounded once in the others."""
    on_card = torch.from_numpy(rows).cuda()
    wanted = torch.from_numpy(schema.expand(rows))
    logs = logarithms(schema)
    for precision, slack in (("float32", 1e-6), ("bfloat16", 1e-2), ("float16", 2e-3)):
        found = expanded(schema, on_card, precision)
        assert torch.equal(found[:, ~logs], wanted[:, ~logs].to(TYPES[precision])), precision
        torch.testing.assert_close(found[:, logs].float(), wanted[:, logs], rtol=slack, atol=1e-6)


@every_game
def test_the_kernel_expands_real_rows(game):
    schema, rows = real_rows(game)
    agree(schema, rows)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(schemas(), st.integers(0, 2**32), st.sampled_from([1, 9, 32, 33, 200]))
def test_the_kernel_expands_any_schema(schema, seed, count):
    agree(schema, random_rows(schema, seed, count))


@every_game
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_the_kernel_picks_rows_by_their_numbers(game, precision):
    schema, rows = real_rows(game, steps=20)
    on_card = torch.from_numpy(rows).cuda()
    rng = np.random.default_rng(2)
    index = rng.integers(0, len(rows), 777).astype(np.int32)
    whole = expanded(schema, on_card, precision)
    found = expanded(schema, on_card, precision, torch.from_numpy(index).cuda())
    assert torch.equal(found, whole[index])
    left_out = index.copy()
    left_out[5::7] = -1  # rows left out are read as something, and harm nobody else
    found = expanded(schema, on_card, precision, torch.from_numpy(left_out).cuda())
    assert torch.equal(found[left_out >= 0], whole[index[left_out >= 0]])
    assert torch.isfinite(found.float()).all()


@every_game
def test_rows_may_begin_anywhere_in_memory(game):
    schema, rows = real_rows(game, steps=10)
    on_card = torch.from_numpy(rows).cuda()
    whole = expanded(schema, on_card)
    for first in (1, 2, 3, 17):
        assert torch.equal(expanded(schema, on_card[first:]), whole[first:])


def test_counts_and_categories_out_of_range_are_zeros():
    fields = [("n", Encoding.U8, 1, 1, 0, 1.0, ""), ("team", Encoding.CATEGORY, 3, 1, 4, 1.0, "n")]
    agree(Schema.from_native(fields, 0), np.array([[0, 1, 2, 3], [2, 1, 2, 9], [200, 1, 2, 255]], np.uint8))


@every_game
def test_the_first_layer_on_the_card_is_the_one_on_the_cpu(game):
    schema, rows = real_rows(game, steps=10)
    layer = PackedLinear(schema, 48)
    upstream = torch.randn(len(rows), 48, generator=torch.Generator().manual_seed(1))
    results = []
    for device in ("cpu", "cuda"):
        there = PackedLinear(schema, 48).to(device)
        there.load_state_dict(layer.state_dict())
        out = there(torch.from_numpy(rows).to(device))
        out.backward(upstream.to(device))
        results.append([t.detach().cpu() for t in (out, there.weight.grad, there.bias.grad)])
    for mine, theirs in zip(*results, strict=True):
        torch.testing.assert_close(theirs, mine, rtol=1e-4, atol=1e-4)
    plain = expand(schema, torch.from_numpy(rows).cuda()).cpu()
    torch.testing.assert_close(plain, torch.from_numpy(schema.expand(rows)), rtol=1e-6, atol=1e-6)


# Returns


def returns_on_card(rollout, gamma, lam, with_driver=True):
    steps, games, seats = rollout.rewards.shape
    columns = {name: getattr(rollout, name).cuda() for name in ("rewards", "over", "seat", "driver", "value")}
    advantage = torch.full((steps, games), 9.0, device="cuda")
    usable = torch.full((steps, games), 9, dtype=torch.uint8, device="cuda")
    need_cuda().returns(
        steps,
        games,
        seats,
        columns["rewards"].data_ptr(),
        columns["over"].data_ptr(),
        columns["seat"].data_ptr(),
        columns["driver"].data_ptr() if with_driver else 0,
        columns["value"].data_ptr(),
        gamma,
        lam,
        advantage.data_ptr(),
        usable.data_ptr(),
        stream_now(),
    )
    torch.cuda.synchronize()
    return advantage.cpu(), usable.cpu()


@pytest.mark.parametrize("seats", [2, 3, 5, 8])
@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 0.95), (0.9, 0.5), (1.0, 1.0), (0.97, 0.0)])
def test_returns_on_the_card_are_the_plain_ones(seats, gamma, lam):
    rng = np.random.default_rng(seats)
    shape = (30, 131)
    rollout = rollout_of(
        seat=rng.integers(0, seats, shape),
        over=rng.random(shape) < 0.12,
        value=rng.normal(size=shape),
        rewards=rng.normal(size=(*shape, seats)),
        driver=rng.integers(0, 3, shape),
    )
    plain = seat_returns_plain(rollout, gamma, lam)
    advantage, usable = returns_on_card(rollout, gamma, lam)
    torch.testing.assert_close(advantage, plain.advantage, atol=1e-4, rtol=1e-4)
    assert torch.equal(usable, plain.usable.to(torch.uint8))
    assert 0 < int(usable.sum()) < usable.numel()
    _, anyone = returns_on_card(rollout, gamma, lam, with_driver=False)
    assert torch.equal(anyone[rollout.driver == 0], usable[rollout.driver == 0])
    assert int(anyone.sum()) > int(usable.sum())


# The order of rows


def read(control):
    return control.parse(control.tensor.cpu())


@pytest.mark.parametrize(("rows", "share"), [(1, 1.0), (5, 0.0), (1000, 0.3), (300_001, 0.9), (4096, 1.0)])
def test_usable_rows_are_listed_in_order_and_counted(rows, share):
    native, control = need_cuda(), Control("float32")
    rng = np.random.default_rng(rows)
    usable = torch.from_numpy((rng.random(rows) < share).astype(np.uint8)).cuda()
    over = torch.from_numpy((rng.random(rows) < 0.2).astype(np.uint8)).cuda()
    found = torch.full((rows,), -5, dtype=torch.int32, device="cuda")
    room = torch.zeros(max(1, native.usable_room(rows)), dtype=torch.uint8, device="cuda")
    for _ in range(2):  # a new rollout begins to count anew
        native.end_rollout(control.address, 64, stream_now())
        native.list_usable(
            usable.data_ptr(),
            over.data_ptr(),
            rows,
            found.data_ptr(),
            control.address,
            room.data_ptr(),
            len(room),
            stream_now(),
        )
    torch.cuda.synchronize()
    wanted = usable.cpu().nonzero().squeeze(1).int()
    numbers = read(control)
    assert numbers["usable"] == len(wanted)
    assert numbers["games"] == int(over.sum())
    assert numbers["draw"] == 128
    assert torch.equal(found.cpu()[: len(wanted)], wanted)


class Picker:
    """Draws minibatches of `size` rows from a list of usable ones."""

    def __init__(self, usable, size, seed=0):
        self.native, self.control, self.size = need_cuda(), Control("float32"), size
        rng = np.random.default_rng(seed)
        rows = 3 * usable + 10
        self.listed = np.sort(rng.choice(rows, usable, replace=False)).astype(np.int32)
        self.advantage = torch.from_numpy(rng.normal(2.0, 3.0, rows).astype(np.float32)).cuda()
        self.list = torch.from_numpy(self.listed).cuda()
        self.control.write(usable=usable)
        # What moves on to the next minibatch is the optimiser's step: here of weights that do not move.
        self.still = [torch.zeros(64, device="cuda") for _ in range(4)]
        self.norms = torch.zeros(self.native.adam_blocks(), dtype=torch.float64, device="cuda")

    def begin(self, key):
        self.native.begin_update(self.control.address, 0.0, 0.0, stream_now())
        self.native.begin_pass(self.control.address, key, 0.0, stream_now())

    def minibatch(self):
        index = torch.full((self.size,), 99, dtype=torch.int32, device="cuda")
        blocks = self.native.pick_blocks(self.size)
        sums = torch.zeros(blocks, 2, dtype=torch.float64, device="cuda")
        self.native.pick_rows(
            self.control.address,
            self.list.data_ptr(),
            self.advantage.data_ptr(),
            self.size,
            index.data_ptr(),
            sums.data_ptr(),
            stream_now(),
        )
        parameters, gradients, mean, square = (tensor.data_ptr() for tensor in self.still)
        self.native.adam_step(
            self.control.address,
            64,
            parameters,
            0,
            "float32",
            gradients,
            mean,
            square,
            [],
            1.0,
            False,
            0,
            0,
            self.norms.data_ptr(),
            stream_now(),
        )
        torch.cuda.synchronize()
        return index.cpu(), sums.cpu()

    def whole_pass(self, key):
        """All minibatches that have a row in them."""
        self.begin(key)
        return [self.minibatch() for _ in range(-(-len(self.listed) // self.size))]


@pytest.mark.parametrize("usable", [1, 2, 3, 31, 1000, 4096, 70_001])
@pytest.mark.parametrize("size", [64, 1000])
def test_one_pass_takes_every_usable_row_once(usable, size):
    picker = Picker(usable, size)
    found = picker.whole_pass(key=2**63 + 5)
    order = torch.cat([index for index, _ in found])
    assert (order[:usable] >= 0).all()
    assert (order[usable:] == -1).all()  # nothing is taken twice to fill up
    np.testing.assert_array_equal(np.sort(order[:usable].numpy()), picker.listed)
    advantage = picker.advantage.cpu().double()
    for index, sums in found:
        mine = advantage[index[index >= 0].long()]
        torch.testing.assert_close(sums.sum(0), torch.stack([mine.sum(), mine.square().sum()]))
    empty, sums = picker.minibatch()  # beyond the end
    assert (empty == -1).all()
    assert not sums.any()


def test_the_order_of_rows_is_named_by_its_key_and_looks_like_chance():
    picker = Picker(20_000, 1000)

    def order(key):
        return torch.cat([index for index, _ in picker.whole_pass(key)]).double()

    one = order(1)
    assert torch.equal(one, order(1))
    listed = torch.from_numpy(picker.listed).double()
    for key in (2, 3, 2**40, 2**64 - 1):
        other = order(key)
        assert (other == one).double().mean() < 0.01
        pairs = torch.stack([one, other, listed])
        off = torch.corrcoef(pairs)[np.triu_indices(3, 1)]
        assert off.abs().max() < 0.05  # 7 deviations
        minibatches = other.reshape(20, 1000).mean(1)
        assert (minibatches - listed.mean()).abs().max() < 5 * listed.std() / 1000**0.5


def test_no_usable_rows_give_empty_minibatches():
    picker = Picker(5, 64)
    picker.control.write(usable=0)
    picker.begin(1)
    index, sums = picker.minibatch()
    assert (index == -1).all()
    assert not sums.any()


# The control


def test_writing_a_field_of_the_control_keeps_all_others():
    control = Control("float16")
    data = np.random.default_rng(0).integers(0, 256, len(control.dump()), dtype=np.uint8).tobytes()
    control.load(data)
    assert control.dump() == data
    control.write(usable=77)
    assert read(control)["usable"] == 77
    changed = np.flatnonzero(np.frombuffer(control.dump(), np.uint8) != np.frombuffer(data, np.uint8))
    assert len(changed) <= 4
    assert changed.max() - changed.min() < 4
