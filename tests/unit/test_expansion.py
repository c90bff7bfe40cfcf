"""Packed rows become the same floats in numpy, torch and the native core, and the first layer that
never expands them is the dense layer that would."""

import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from playmill import _native
from playmill.games import Encoding, Schema, registry
from playmill.policies import PackedLinear, expand, unpack_bits
from playmill.pools import NativePool

every_game = pytest.mark.parametrize("game", registry.names())


def native_expand(schema, rows, threads=1):
    out = np.full((len(rows), schema.features), np.nan, np.float32)
    _native.Expander(schema.to_native(), threads).expand(rows, out)
    return out


def real_rows(game, steps=40):
    """Packed rows of every phase of a game."""
    pool = NativePool(game, 32, seed=11)
    rows = []
    for step in range(steps):
        rows.append(pool.turns().observation.copy())
        pool.act(pool.bot_actions(pool.spec.bots[step % len(pool.spec.bots)]))
    return pool.spec.schema, np.concatenate(rows)


def agree(schema, rows):
    reference = schema.expand(rows)
    np.testing.assert_allclose(
        expand(schema, torch.from_numpy(rows)).numpy(), reference, rtol=1e-6, atol=1e-7
    )
    np.testing.assert_allclose(native_expand(schema, rows), reference, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(native_expand(schema, rows, threads=3), native_expand(schema, rows))
    return reference


@every_game
def test_three_expansions_agree_on_real_rows(game):
    schema, rows = real_rows(game)
    floats = agree(schema, rows)
    assert floats.shape == (len(rows), schema.features)
    assert floats.any(axis=1).all()
    assert np.abs(floats).max() <= 30


@every_game
def test_the_layout_in_python_is_the_native_one(game):
    schema = registry.spec(game).schema
    expander = _native.Expander(schema.to_native(), 1)
    assert expander.bytes == schema.bytes
    assert expander.features == schema.features
    assert schema == Schema.from_native(schema.to_native(), schema.hash)


NUMBERS = (Encoding.U8, Encoding.U16, Encoding.I16, Encoding.LOG16, Encoding.F16)


@st.composite
def schemas(draw):
    """Any layout there can be: a count first, then fields of all encodings, some of them counted."""
    fields = [("count", int(Encoding.U8), 1, 1, 0, 0.5, "")]
    for i in range(draw(st.integers(1, 6))):
        encoding = draw(st.sampled_from(Encoding))
        columns = draw(st.integers(1, 75 if encoding is Encoding.BITS else 4))
        size = draw(st.sampled_from([1, 2, 7, 255])) if encoding is Encoding.CATEGORY else 0
        scale = draw(st.sampled_from([1.0, -0.5, 0.01])) if encoding in NUMBERS else 1.0
        counted = draw(st.sampled_from(["", "count"]))
        fields.append((f"f{i}", int(encoding), draw(st.integers(1, 5)), columns, size, scale, counted))
    return Schema.from_native(fields, 0)


def random_rows(schema, seed, count=9):
    """Bytes of all kinds; counts from none to more than there are rows."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 256, (count, schema.bytes), dtype=np.uint8)
    small = rng.random(rows.shape) < 0.4
    rows[small] %= 8
    rows[:, 0] = rng.integers(0, 8, count)
    return rows


@settings(max_examples=120, deadline=None, derandomize=True)
@given(schemas(), st.integers(0, 2**32))
def test_three_expansions_agree_on_any_schema(schema, seed):
    agree(schema, random_rows(schema, seed))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(schemas(), st.sampled_from([1, 7, 16, 33, 130]), st.integers(0, 2**32))
def test_the_packed_layer_is_the_dense_layer_on_any_schema(schema, width, seed):
    rows = torch.from_numpy(random_rows(schema, seed))
    compare_with_dense(schema, rows, width, seed)


@every_game
@pytest.mark.parametrize("width", [24, 256])
def test_the_packed_layer_is_the_dense_layer_on_real_rows(game, width):
    schema, rows = real_rows(game, steps=12)
    compare_with_dense(schema, torch.from_numpy(rows), width, 3)


def compare_with_dense(schema, rows, width, seed):
    generator = torch.Generator().manual_seed(seed)
    layer = PackedLinear(schema, width)
    with torch.no_grad():
        layer.bias.normal_(generator=generator)
        layer.weight.normal_(generator=generator)
    weight, bias = (p.detach().double().requires_grad_() for p in (layer.weight, layer.bias))
    dense = torch.from_numpy(schema.expand(rows.numpy())).double() @ weight + bias
    out = layer(rows)
    scale = max(1.0, float(dense.detach().abs().max()))
    assert out.dtype == torch.float32
    torch.testing.assert_close(out.double(), dense, atol=2e-5 * scale, rtol=1e-5)

    upstream = torch.randn(out.shape, generator=generator)
    out.backward(upstream)
    dense.backward(upstream.double())
    scale = max(1.0, float(weight.grad.abs().max()))
    torch.testing.assert_close(layer.weight.grad.double(), weight.grad, atol=2e-5 * scale, rtol=1e-5)
    torch.testing.assert_close(layer.bias.grad.double(), bias.grad, atol=1e-4, rtol=1e-5)


def test_rows_beyond_the_count_are_zeros_whatever_they_hold():
    fields = [("n", Encoding.U8, 1, 1, 0, 1.0, ""), ("team", Encoding.CATEGORY, 3, 1, 4, 1.0, "n")]
    schema = Schema.from_native(fields, 0)
    rows = np.array([[0, 1, 2, 3], [2, 1, 2, 3], [200, 1, 2, 3]], np.uint8)
    floats = agree(schema, rows)
    lit = [np.flatnonzero(row[1:]).tolist() for row in floats]
    assert lit == [[], [1, 6], [1, 6, 11]]


def test_ids_outside_the_categories_are_zeros():
    schema = Schema.from_native([("kind", Encoding.CATEGORY, 1, 3, 5, 1.0, "")], 0)
    floats = agree(schema, np.array([[4, 5, 255]], np.uint8))
    assert np.flatnonzero(floats).tolist() == [4]


def test_numbers_are_scaled_and_signed():
    fields = [(name, Encoding[name], 1, 1, 0, 0.5, "") for name in ("U8", "U16", "I16", "LOG16")]
    schema = Schema.from_native(fields, 0)
    floats = agree(schema, np.array([[200, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x03]], np.uint8))
    np.testing.assert_allclose(floats, [[100.0, 32767.5, -0.5, 5.0]])


def test_unpacked_bits_come_lowest_first():
    packed = torch.tensor([[0b00000101, 0b10000000]], dtype=torch.uint8)
    assert unpack_bits(packed, 16).nonzero()[:, 1].tolist() == [0, 2, 15]
    assert unpack_bits(packed, 3).tolist() == [[True, False, True]]


def test_the_packed_layer_refuses_what_is_not_packed_rows():
    schema = registry.spec("leduc").schema
    layer = PackedLinear(schema, 8)
    with pytest.raises(ValueError, match=rf"uint8 \[n, {schema.bytes}\], got torch.float32"):
        layer(torch.zeros(3, schema.bytes))
    with pytest.raises(ValueError, match=rf"\(3, {schema.bytes + 1}\)"):
        layer(torch.zeros(3, schema.bytes + 1, dtype=torch.uint8))


def test_the_native_expander_refuses_wrong_shapes():
    schema = registry.spec("leduc").schema
    expander = _native.Expander(schema.to_native(), 1)
    rows = np.zeros((3, schema.bytes), np.uint8)
    with pytest.raises(ValueError, match=f"rows must have {schema.bytes} along axis 1"):
        expander.expand(rows[:, :-1].copy(), np.zeros((3, schema.features), np.float32))
    with pytest.raises(ValueError, match="out must have 3 along axis 0, got 2"):
        expander.expand(rows, np.zeros((2, schema.features), np.float32))
    with pytest.raises(ValueError, match=f"weight must have {schema.features} along axis 0"):
        expander.forward(
            rows, np.zeros((5, 8), np.float32), np.zeros(8, np.float32), np.zeros((3, 8), np.float32)
        )


def test_results_are_never_lost_in_a_converted_copy():
    schema = registry.spec("leduc").schema
    expander = _native.Expander(schema.to_native(), 1)
    rows = np.zeros((3, schema.bytes), np.uint8)
    for out in (np.zeros((3, schema.features)), np.zeros((3, schema.features), np.float32, order="F")):
        with pytest.raises(TypeError):
            expander.expand(rows, out)


def test_a_packed_layer_can_be_copied_and_pickled_after_use():
    schema, rows = real_rows("kuhn", steps=2)
    layer = PackedLinear(schema, 8)
    rows = torch.from_numpy(rows)
    out = layer(rows)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        torch.testing.assert_close(other(rows), out, atol=0, rtol=0)


def test_no_rows_give_no_outputs():
    schema = registry.spec("skull_king").schema
    layer = PackedLinear(schema, 16)
    out = layer(torch.zeros(0, schema.bytes, dtype=torch.uint8))
    assert out.shape == (0, 16)
    out.sum().backward()
    assert not layer.weight.grad.any()
