"""The replay buffer: what it holds, what it draws, what it counts, and what it refuses."""

import json
import math
import threading

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from playmill import _native, checkpoints
from playmill.experience import Column, Replay, columns_like
from playmill.games import PlaymillError

COLUMNS = {"number": Column(np.dtype(np.int64)), "bytes": Column(np.dtype(np.uint8), (3, 2))}
EACH = 8 + 6 + 8  # its columns, version, times sampled


def batch(first, count):
    """Entries that say which they are."""
    number = np.arange(first, first + count)
    return {"number": number, "bytes": np.repeat(number.astype(np.uint8), 6).reshape(count, 3, 2)}


def buffer(entries=100, alpha=0.0):
    """A buffer for exactly so many entries."""
    tree = _native.SumTree.bytes_for(entries) + 4 * entries if alpha else 0
    replay = Replay(COLUMNS, entries * EACH + tree, alpha)
    assert replay.capacity == entries
    return replay


both = pytest.mark.parametrize("alpha", [0.0, 0.7], ids=["even", "by priority"])


@both
def test_the_oldest_are_overwritten_and_the_newest_are_drawn(alpha):
    replay = buffer(100, alpha)
    for first, count in ((0, 60), (60, 30), (90, 100), (190, 0), (190, 7)):
        added = replay.add(batch(first, count), version=first)
        assert added.tolist() == list(range(first, first + count))
    drawn = replay.sample(1000, seed=1, counter=0)
    assert set(drawn.number.tolist()) == set(range(97, 197))
    assert np.array_equal(drawn.columns["number"], drawn.number)
    assert np.array_equal(drawn.columns["bytes"][:, 2, 1], drawn.number.astype(np.uint8))
    assert np.array_equal(drawn.version, np.where(drawn.number < 190, 90, 190))
    assert drawn.importance.tolist() == [1.0] * 1000


@both
def test_draws_are_a_function_of_seed_and_counter(alpha):
    one, two = buffer(50, alpha), buffer(50, alpha)
    for replay in (one, two):
        replay.add(batch(0, 50), 1)
    draws = [r.sample(20, 5, c).number.tolist() for c in (0, 1) for r in (one, two)]
    assert draws[0] == draws[1] != draws[2] == draws[3]


def test_even_draws_are_even():
    replay = buffer(128)
    replay.add(batch(0, 100), 1)
    found = np.zeros(100)
    for counter in range(300):
        np.add.at(found, replay.sample(70, 3, counter).number, 1)
    expected = 300 * 70 / 100
    assert float(((found - expected) ** 2 / expected).sum()) < 99 + 4 * math.sqrt(2 * 99)


def test_entries_come_as_often_as_their_priority_says():
    replay = buffer(200, alpha=0.6)
    replay.add(batch(0, 150), 1)
    replay.add(batch(150, 150), 2)
    priority = np.random.default_rng(0).exponential(size=200) + 0.01
    assert replay.update(np.arange(100, 300), priority) == 200
    found = np.zeros(200)
    for counter in range(500):
        drawn = replay.sample(100, 9, counter, beta=1.0, columns=())
        assert not drawn.columns
        np.add.at(found, drawn.number - 100, 1)
    share = priority.astype(np.float32) ** 0.6
    share = share / share.sum()
    expected = share * 500 * 100
    assert float(((found - expected) ** 2 / expected).sum()) < 199 + 4 * math.sqrt(2 * 199)
    wanted = 1 / share[drawn.number - 100]
    np.testing.assert_allclose(drawn.importance, wanted / wanted.max(), rtol=1e-4)


def test_new_entries_have_the_largest_priority_there_has_been():
    replay = buffer(100, alpha=1.0)
    replay.add(batch(0, 50), 1)
    replay.update(np.array([7]), [5.0])
    replay.update(np.array([7]), [0.25])
    replay.add(batch(50, 1), 1)
    stats = replay.statistics()
    assert stats.max_priority == 5.0
    assert stats.mean_priority == pytest.approx((49 + 0.25 + 5) / 51)
    replay.add(batch(51, 2), 1, priority=[0.5, 8.0])
    assert replay.statistics().max_priority == 8.0


def test_priorities_of_overwritten_entries_are_ignored_and_counted():
    replay = buffer(10, alpha=1.0)
    numbers = replay.add(batch(0, 10), 1)
    replay.add(batch(10, 4), 1, priority=[1.0] * 4)
    assert replay.update(numbers, [3.0] * 10) == 6
    counts = replay.statistics().counts
    assert (counts.updates, counts.stale_updates) == (6, 4)
    # entry 10 lies where entry 0 was, and kept its own
    drawn = replay.sample(2200, 0, 0).number
    assert int((drawn == 10).sum()) == pytest.approx(100, abs=1)
    assert int((drawn == 9).sum()) == pytest.approx(300, abs=1)


def test_of_two_priorities_for_one_entry_the_later_holds():
    replay = buffer(10, alpha=1.0)
    replay.add(batch(0, 10), 1)
    assert replay.update(np.array([3, 3]), [100.0, 1.0]) == 2
    assert replay.statistics().mean_priority == 1.0


@both
def test_statistics_count_what_happened(alpha):
    replay = buffer(10, alpha)
    empty = replay.statistics()
    assert (empty.entries, empty.oldest_version, empty.newest_version, empty.mean_priority) == (0, 0, 0, 0.0)
    replay.add(batch(0, 5), 3)
    replay.add(batch(5, 3), np.array([4, 9, 5]))
    replay.sample(16, 0, 0)
    found = replay.statistics()
    assert (found.entries, found.capacity) == (8, 10)
    assert (found.oldest_version, found.newest_version) == (3, 9)
    assert found.mean_times_sampled == 2.0
    assert found.counts.samples == 16
    assert found.bytes < found.capacity_bytes
    replay.add(batch(8, 2), 10)  # never drawn
    replay.add(batch(10, 10), 11)
    counts = replay.statistics().counts
    assert (counts.added, counts.overwritten, counts.overwritten_unsampled) == (20, 10, 2)
    assert replay.statistics().max_times_sampled == 0


@given(budget=st.integers(0, 1_000_000), alpha=st.sampled_from([0.0, 0.5]))
def test_the_capacity_in_bytes_is_kept_and_used(budget, alpha):
    tree = _native.SumTree.bytes_for if alpha else lambda _: 0
    each = EACH + (4 if alpha else 0)
    if each + tree(1) > budget:
        with pytest.raises(PlaymillError, match="do not hold one entry"):
            Replay(COLUMNS, budget, alpha)
        return
    replay = Replay(COLUMNS, budget, alpha)
    held = sum(array.nbytes for array in (*replay._columns.values(), *replay._own.values()))
    assert held == replay.capacity * each
    assert held + tree(replay.capacity) <= budget < held + each + tree(replay.capacity + 1)
    assert replay.overhead == pytest.approx(each - 14 + tree(replay.capacity) / replay.capacity)


@settings(max_examples=50, deadline=None)
@given(data=st.data(), entries=st.integers(1, 40), alpha=st.sampled_from([0.0, 0.5, 1.0]))
def test_whatever_is_done_it_holds_the_newest(data, entries, alpha):
    replay = buffer(entries, alpha)
    held = {}  # number -> priority, in order
    added = stale = 0
    for counter in range(data.draw(st.integers(1, 8))):
        count = data.draw(st.integers(0, entries))
        replay.add(batch(added, count), counter, np.full(count, counter + 1.0) if alpha else None)
        held |= dict.fromkeys(range(added, added + count), counter + 1.0)
        added += count
        held = dict(list(held.items())[-entries:])
        if not added:
            continue
        if alpha:
            numbers = data.draw(st.lists(st.integers(0, added - 1), max_size=10))
            assert replay.update(np.array(numbers, np.int64), [2.5] * len(numbers)) == sum(
                n in held for n in numbers
            )
            held |= {n: 2.5 for n in numbers if n in held}
            stale += sum(n not in held for n in numbers)
        drawn = replay.sample(17, 1, counter)
        assert set(drawn.number.tolist()) <= held.keys()
        assert np.array_equal(drawn.columns["number"], drawn.number)
    found = replay.statistics()
    assert found.entries == len(held)
    assert found.counts.stale_updates == stale
    if alpha and held:
        assert found.mean_priority == pytest.approx(sum(held.values()) / len(held))


@both
def test_a_state_goes_through_a_checkpoint_and_draws_go_on(alpha, tmp_path):
    replay = buffer(100, alpha)
    replay.add(batch(0, 100), 1)
    replay.add(batch(100, 37), 2)
    if alpha:
        replay.update(np.arange(50, 137), np.linspace(0.1, 9, 87))
    arrays, meta = replay.state()
    checkpoints.write(
        tmp_path / "step", {n: torch.from_numpy(a) for n, a in arrays.items()}, {"replay": meta}
    )
    read = checkpoints.read(tmp_path / "step")
    again = buffer(100, alpha)
    again.add(batch(500, 80), 7)
    again.restore({name: tensor.numpy() for name, tensor in read.tensors.items()}, read.meta["replay"])
    assert again.statistics() == replay.statistics()
    for counter in range(3):
        a, b = (r.sample(40, 1, counter, beta=0.5) for r in (replay, again))
        assert np.array_equal(a.number, b.number)
        assert np.array_equal(a.importance, b.importance)
        assert np.array_equal(a.columns["bytes"], b.columns["bytes"])
    assert replay.add(batch(137, 9), 3).tolist() == again.add(batch(137, 9), 3).tolist()


@both
@pytest.mark.parametrize("entries", [30, 300])
def test_a_state_fits_a_buffer_of_another_size(alpha, entries):
    replay = buffer(100, alpha)
    replay.add(batch(0, 100), 1)
    replay.add(batch(100, 50), 2)
    other = buffer(entries, alpha)
    other.restore(*replay.state())
    kept = min(100, entries)
    assert set(other.sample(3000, 0, 0).columns["number"].tolist()) == set(range(150 - kept, 150))
    assert other.statistics().entries == kept
    other.add(batch(150, 30), 3)
    assert set(other.sample(3000, 0, 1).columns["number"].tolist()) == set(range(max(50, 180 - entries), 180))


def test_a_state_of_another_buffer_is_refused():
    replay = buffer(10, 0.5)
    replay.add(batch(0, 10), 1)
    arrays, meta = replay.state()
    json.dumps(meta)
    wrong = [
        (arrays, {**meta, "format": 2}, "format 2"),
        (arrays, {**meta, "alpha": 0.6}, "alpha 0.6"),
        (arrays, {**meta, "next": 9}, "do not have the entries"),
        ({**arrays, "more": arrays["version"]}, meta, "the buffer takes"),
        ({**arrays, "columns.bytes": arrays["columns.bytes"][:, :2]}, meta, "another type or shape"),
        ({**arrays, "version": arrays["version"].astype(np.int64)}, meta, "another type or shape"),
        ({**arrays, "version": arrays["version"][1:]}, meta, "do not have the entries"),
        ({**arrays, "priority": arrays["priority"] * 0}, meta, "must be finite and at least"),
        (arrays, {**meta, "largest_priority": math.inf}, "must be finite and at least"),
    ]
    for bad_arrays, bad_meta, says in wrong:
        fresh = buffer(10, 0.5)
        with pytest.raises(PlaymillError, match=says):
            fresh.restore(bad_arrays, bad_meta)
        assert len(fresh) == 0


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, -math.inf, 1e-45, 1e39])
def test_priorities_that_cannot_be_are_refused_and_change_nothing(bad):
    replay = buffer(10, alpha=0.5)
    replay.add(batch(0, 5), 1)
    before = replay.statistics()
    with pytest.raises(PlaymillError, match=r"priority 1 is .* must be finite and at least"):
        replay.update(np.array([0, 1]), [2.0, bad])
    with pytest.raises(PlaymillError, match="priority 1 is"):
        replay.add(batch(5, 2), 1, priority=[2.0, bad])
    assert replay.statistics() == before


def test_the_smallest_and_the_largest_priority_can_be_drawn():
    replay = buffer(10, alpha=1.0)
    limits = np.finfo(np.float32)
    replay.add(batch(0, 2), 1, priority=[limits.tiny, limits.max])
    drawn = replay.sample(10, 0, 0, beta=1.0)
    assert np.all(drawn.number == 1)
    assert np.isfinite(drawn.importance).all()


def test_batches_that_do_not_fit_are_refused():
    replay = buffer(10)
    good = batch(0, 4)
    wrong = [
        ({"number": good["number"]}, "must have the columns"),
        ({**good, "bytes": good["bytes"][:3]}, "same number of entries"),
        ({**good, "bytes": good["bytes"][:, :2]}, "column bytes takes uint8 of shape"),
        ({**good, "number": good["number"].astype(np.float32)}, "column number takes int64"),
        (batch(0, 11), "11 entries at once do not fit into 10"),
    ]
    for bad, says in wrong:
        with pytest.raises(PlaymillError, match=says):
            replay.add(bad, 1)
    for version in (-1, 2**32):
        with pytest.raises(PlaymillError, match="version must be"):
            replay.add(good, version)
    assert len(replay) == 0


def test_what_cannot_be_done_says_what_to_do():
    even, ranked = buffer(10), buffer(10, 0.5)
    with pytest.raises(PlaymillError, match="is empty: add something"):
        even.sample(1, 0, 0)
    for replay in (even, ranked):
        replay.add(batch(0, 3), 1)
    with pytest.raises(PlaymillError, match="give it an alpha"):
        even.update(np.array([0]), [1.0])
    with pytest.raises(PlaymillError, match="give it an alpha"):
        even.add(batch(3, 1), 1, priority=[1.0])
    with pytest.raises(PlaymillError, match="from 0 to 2"):
        ranked.update(np.array([3]), [1.0])
    with pytest.raises(PlaymillError, match="one axis"):
        ranked.update(np.array([[0]]), [1.0])
    with pytest.raises(PlaymillError, match="there must be 1 priorities"):
        ranked.update(np.array([0]), [1.0, 2.0])
    with pytest.raises(PlaymillError, match="at least one entry"):
        even.sample(0, 0, 0)
    with pytest.raises(PlaymillError, match="beta must be"):
        ranked.sample(1, 0, 0, beta=1.5)
    with pytest.raises(PlaymillError, match="no column colour; there are number, bytes"):
        even.sample(1, 0, 0, columns=["colour"])
    with pytest.raises(PlaymillError, match="alpha must be"):
        Replay(COLUMNS, 10_000, alpha=1.5)
    with pytest.raises(PlaymillError, match="at least one column"):
        Replay({}, 10_000)
    with pytest.raises(PlaymillError, match="Python objects"):
        Replay({"thing": Column(np.dtype(object))}, 10_000)


def test_columns_are_read_off_a_batch():
    assert columns_like(batch(0, 4)) == COLUMNS


def test_a_writer_and_a_sampler_at_once_see_whole_entries():
    replay = buffer(500, alpha=0.6)
    replay.add(batch(0, 100), 0)
    done = threading.Event()

    def write():
        for i in range(1, 300):
            replay.add(batch(100 * i, 100), i)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    counter = 0
    while not done.is_set() or counter == 0:
        drawn = replay.sample(64, 0, counter)
        assert np.array_equal(drawn.columns["number"], drawn.number)
        assert np.array_equal(drawn.columns["bytes"][:, 0, 0], drawn.number.astype(np.uint8))
        assert np.array_equal(drawn.version, drawn.number // 100)
        replay.update(drawn.number, np.full(64, 2.0))
        counter += 1
    writer.join()
    found = replay.statistics().counts
    assert found.added == 30_000
    assert found.updates + found.stale_updates == found.samples == 64 * counter
