"""The layout of safetensors: the library reads ours, we read the library's, what is neither is refused."""

import json
import random

import numpy as np
import pytest
from safetensors.numpy import load, save

from playmill.experience.weights import BadWeights, WeightsError, pack, unpack
from playmill.experience.weights_format import DTYPES, draft, read, read_notes

RANDOM = np.random.default_rng(5)


def some(dtype, shape):
    return RANDOM.integers(0, 2, shape).astype(dtype)


EVERY = {
    f"{name} {'x'.join(map(str, shape))}": some(dtype, shape)
    for name, dtype in DTYPES.items()
    for shape in ((), (0,), (5,), (3, 1, 7))
}


def written(tensors, notes):
    plan = draft(tensors, notes)
    out = bytearray(plan.size)
    plan.write(memoryview(out))
    return out


def same(found, wanted):
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found[name], array)


def test_the_library_reads_what_is_written_here():
    same(load(bytes(written(EVERY, {"version": "3"}))), EVERY)


def test_what_the_library_writes_is_read_here():
    data = memoryview(save(EVERY, metadata={"version": "3"}))
    same(read(data), EVERY)
    assert read_notes(data) == {"version": "3"}


def test_arrays_in_any_order_of_memory_are_written_right_and_read_aligned():
    across = np.arange(24, dtype=np.float64).reshape(4, 6).T[::2]
    found = read(
        memoryview(written({"x": across, "flag": np.array([True]), "y": across.astype(np.float16)}, {}))
    )
    np.testing.assert_array_equal(found["x"], across)
    assert all(array.flags.aligned for array in found.values())


@pytest.mark.parametrize(
    "array",
    [np.array(["text"]), np.array([object()]), np.array([1j]), np.zeros(2, ">f4"), np.zeros(2, "f4,f4")],
)
def test_what_has_no_place_in_the_layout_is_refused(array):
    with pytest.raises(WeightsError, match="cannot be published"):
        pack(1, {"a": array})


def whole(entries, size=64):
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text + bytes(size)


def tensor(**changed):
    return whole({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16], **changed}})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"1234567",
        (1 << 40).to_bytes(8, "little") + b"{}",
        (3).to_bytes(8, "little") + b"{}",
        whole([]),
        whole({"a": None}),
        whole({"a": []}),
        tensor(dtype="F99"),
        tensor(dtype=[]),
        tensor(shape=[5]),
        tensor(shape=[-4]),
        tensor(shape=[True] * 4),
        tensor(shape=[2.0, 2]),
        tensor(shape=7),
        tensor(shape=[1 << 62, 1 << 62]),
        tensor(shape=[1] * 40 + [4]),
        tensor(data_offsets=[0, 17]),
        tensor(data_offsets=[-16, 0]),
        tensor(data_offsets=[1000, 1016]),
        tensor(data_offsets=[0, 16, 32]),
        (100_002).to_bytes(8, "little") + b"[" * 100_002,
        (4).to_bytes(8, "little") + b"\xff\xfe{}",
    ],
)
def test_damaged_layouts_are_refused(data):
    with pytest.raises(ValueError, match=r".+"):
        read(memoryview(data))


def test_random_damage_gives_tensors_or_an_error_and_nothing_else():
    blob = pack(1, {"a": np.arange(40, dtype=np.float32).reshape(5, 8), "b": np.ones(3, np.int8)})
    random.seed(11)
    for _ in range(3000):
        data = bytearray(blob.data)
        for _ in range(random.randint(1, 4)):
            data[random.randrange(220)] = random.randrange(256)
        try:
            found = unpack(
                blob._replace(data=bytes(data[: random.choice((len(data), random.randrange(len(data))))]))
            )
        except BadWeights:
            continue
        assert sum(array.nbytes for array in found.values()) <= 2 * len(data)
