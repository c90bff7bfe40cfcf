"""Weights in shared memory: whole or not, whoever is killed; newer versions only; strangers refused."""

import hashlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load

from playmill.experience.weights import BadWeights, NoWeights, WeightsError, checked, pack, unpack
from playmill.experience.weights_shared import (
    BUFFER_HEAD,
    SharedFollower,
    SharedPublisher,
    WeightsInUse,
    shared_path,
)
from playmill.games import PlaymillError

ROOT = Path(__file__).resolve().parents[2]


def tensors(value, size=1000):
    return {"a": np.full((size,), value, np.float32), "b.weight": np.arange(6, dtype=np.int64).reshape(2, 3)}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.weights"


@pytest.fixture
def publisher(path):
    publisher = SharedPublisher(path)
    yield publisher
    publisher.close()


@pytest.fixture
def follower(path):
    follower = SharedFollower(path)
    yield follower
    follower.close()


def test_a_blob_is_safetensors_with_its_version_and_hash():
    blob = pack(7, tensors(1.5))
    assert hashlib.sha256(blob.data).digest() == blob.sha256
    np.testing.assert_array_equal(load(bytes(blob.data))["a"], tensors(1.5)["a"])
    assert checked(7, blob.sha256, blob.data) == blob


def test_arrays_in_any_order_of_memory_keep_their_values():
    across = np.arange(12, dtype=np.float32).reshape(3, 4).T
    found = unpack(pack(1, {"across": across, "part": across[::2], "number": np.float32(2.5)}))
    np.testing.assert_array_equal(found["across"], across)
    np.testing.assert_array_equal(found["part"], across[::2])
    found["across"][:] = 0  # the caller's own


@pytest.mark.parametrize("version", [0, -1, 1.0, True, "1", 1 << 60])
def test_a_version_is_a_whole_number_from_1(version):
    with pytest.raises(WeightsError, match="a version is a whole number"):
        pack(version, tensors(1))


@pytest.mark.parametrize(
    "bad", [{}, {"a": np.array(["text"])}, {"a": np.array([object()])}, {1: np.zeros(2)}]
)
def test_what_is_no_tensor_is_refused(bad):
    with pytest.raises(WeightsError):
        pack(1, bad)


def test_what_is_published_is_fetched(publisher, follower):
    assert follower.newest() == 0
    with pytest.raises(NoWeights):
        follower.fetch()
    for version in (1, 2, 7):
        publisher.publish(version, tensors(version))
        assert follower.newest() == version
        found, arrays = follower.fetch()
        assert found == version
        np.testing.assert_array_equal(arrays["a"], tensors(version)["a"])


def test_versions_only_grow(publisher, follower):
    publisher.publish(5, tensors(5))
    for version in (5, 4):
        with pytest.raises(WeightsError, match="go on with 6"):
            publisher.publish(version, tensors(version))
    assert follower.fetch()[0] == 5


def test_a_second_publisher_waits_until_the_first_is_gone(path, publisher, follower):
    publisher.publish(3, tensors(3))
    with pytest.raises(WeightsInUse, match="another process publishes"):
        SharedPublisher(path)
    publisher.close()
    other = SharedPublisher(path)
    assert other.newest() == 3
    other.publish(4, tensors(4))
    assert follower.fetch()[0] == 4
    other.close()


def test_larger_weights_move_to_a_larger_file_and_readers_follow(publisher, follower):
    publisher.publish(1, tensors(1, 100))
    assert follower.fetch()[0] == 1
    publisher.publish(2, tensors(2, 100_000))
    assert follower.newest() == 2
    assert follower.fetch()[1]["a"].shape == (100_000,)


def test_a_file_removed_by_hand_is_made_again_and_readers_follow(path, publisher, follower):
    publisher.publish(1, tensors(1))
    assert follower.fetch()[0] == 1
    path.unlink()
    publisher.publish(2, tensors(2))
    assert follower.newest() == 2
    assert SharedFollower(path).fetch()[0] == 2


def test_too_large_weights_are_refused_on_both_sides(path):
    small = SharedPublisher(path, most_bytes=10_000)
    with pytest.raises(WeightsError, match="at most 10,000 are taken"):
        small.publish(1, tensors(1, 10_000))
    small.publish(1, tensors(1))
    with pytest.raises(WeightsError, match="at most 100 are taken"):
        SharedFollower(path, most_bytes=100).fetch()
    small.close()


def spoil(path, offset, data=b"\xff"):
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def test_a_wrong_hash_is_refused_and_the_next_version_is_taken(path, publisher, follower):
    publisher.publish(1, tensors(1))
    spoil(path, os.sysconf("SC_PAGE_SIZE") + BUFFER_HEAD + 600)
    assert follower.newest() == 1
    with pytest.raises(BadWeights, match="sha256"):
        follower.fetch()
    publisher.publish(2, tensors(2))
    assert follower.fetch()[0] == 2


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b"\0" * 10_000, b"playwght", b"playwght" + b"\1\0\0\0" + b"\xff" * 12 + b"\0" * 9000],
)
def test_a_foreign_file_is_refused_and_left_alone(path, content):
    path.write_bytes(content)
    for open_ in (SharedPublisher, lambda p: SharedFollower(p).newest()):
        with pytest.raises(BadWeights, match=r"remove it"):
            open_(path)
    assert path.read_bytes() == content


def test_links_and_other_users_files_are_not_followed(path, tmp_path, publisher):
    publisher.publish(1, tensors(1))
    link = tmp_path / "link.weights"
    link.symlink_to(path)
    with pytest.raises(WeightsError):
        SharedFollower(link).newest()
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345)
        with pytest.raises(BadWeights, match="not a file of this user's"):
            SharedFollower(path).newest()


@pytest.mark.parametrize("name", ["", "-x", ".x", "a/b", "a\nb", "a;b", "..", "x" * 65, "a b"])
def test_names_that_could_be_a_path_or_an_option_are_refused(name):
    with pytest.raises(PlaymillError, match="cannot name a run"):
        shared_path(name)


def test_no_room_is_an_error_and_not_a_signal(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    publisher = SharedPublisher(tmp_path / "x.weights")
    with pytest.raises(WeightsError, match="no room for the weights"):
        publisher.publish(1, tensors(1))
    publisher.close()
    assert [p.name for p in tmp_path.iterdir()] == ["x.weights.lock"]


KILLS = textwrap.dedent("""
    # A process without threads, so that it may fork: a publisher is born, killed at a random moment, and
    # the reader, which lives on, must find whole versions that only grow.
    import os, random, signal, sys, time
    from pathlib import Path
    import numpy as np
    from playmill.experience.weights_shared import SharedFollower, SharedPublisher

    path, kills = Path(sys.argv[1]), int(sys.argv[2])
    random.seed(7)
    sizes = [np.full(20_000 + 4_000 * i, 0, np.int64) for i in range(3)]
    follower, seen, started, moved = SharedFollower(path), 0, 0, 0

    def publish_for_ever(size):
        publisher = SharedPublisher(path)
        os.write(write, b"x")
        while True:
            version = publisher.newest() + 1
            publisher.publish(version, {"x": sizes[size] + version, "y": np.full(5, version)})

    for kill in range(kills):
        read, write = os.pipe()
        size = min(2, kill * 3 // kills)
        child = os.fork()
        if child == 0:
            publish_for_ever(size)
        os.read(read, 1)
        os.close(read), os.close(write)
        until = time.perf_counter() + random.random() * 0.005
        while time.perf_counter() < until:
            if follower.newest():
                version, arrays = follower.fetch()
                assert version >= seen and (arrays["x"] == version).all() and (arrays["y"] == version).all()
                seen = version
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if follower.newest():
            left = follower.newest()
            version, arrays = follower.fetch()
            assert version == left >= seen, (version, left, seen)
            assert (arrays["x"] == version).all() and (arrays["y"] == version).all()
            assert SharedFollower(path).newest() == left
            seen = version
    print(seen)
""")


def test_a_publisher_killed_at_any_moment_leaves_a_whole_version(tmp_path):
    """Three hundred kills, some while the file is moved to a larger one."""
    command = [sys.executable, "-c", KILLS, str(tmp_path / "run.weights"), "300"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 300


@pytest.mark.parametrize("torn", ["head", "half", "whole", "moved"])
def test_every_state_a_kill_can_leave_shows_the_version_before(path, publisher, follower, torn):
    """The stores of a publisher, cut short after each kind."""
    publisher.publish(1, tensors(1))
    publisher.publish(2, tensors(2))
    memory = publisher._memory
    start = memory.start(2)
    if torn == "moved":
        memory.words[9] = 1
    else:
        memory.bytes[start : start + 48] = bytes(48)
    if torn in ("half", "whole"):
        blob = pack(3, tensors(3))
        part = blob.data if torn == "whole" else blob.data[: len(blob.data) // 2]
        memory.bytes[start + BUFFER_HEAD : start + BUFFER_HEAD + len(part)] = part
    publisher.close()
    assert follower.newest() == 2
    assert follower.fetch()[0] == 2
    heir = SharedPublisher(path)
    assert heir.newest() == 2
    heir.publish(3, tensors(3))
    assert follower.fetch()[0] == 3
    heir.close()
