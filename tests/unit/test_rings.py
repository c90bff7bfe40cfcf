"""Rings: what a writer leaves behind when it dies, and what is no ring at all."""

import json
import os

import pytest

from playmill.experience import ring as rings
from playmill.experience.dead_letters import DeadLetters
from playmill.experience.ring import RingReceiver, RingSender, ring_folder
from playmill.experience.ring_file import HEADER, RECORD, RingFile
from playmill.experience.segment import Identity
from playmill.games import PlaymillError

RUN = "run"


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "rings"
    path.mkdir(mode=0o700)
    return path


def send(sender, sequence, message, epoch=0):
    return sender.send(Identity(RUN, 0, epoch, sequence), message, 0.0)


def messages(receiver, at_most=100):
    return [bytes(delivery.message) for delivery in receiver.receive(at_most, 0.0)]


def test_a_record_that_was_not_committed_does_not_exist(folder):
    sender = RingSender(folder, RUN, 0, 0, 1 << 16)
    assert send(sender, 0, b"whole")
    at = sender._head
    RECORD.pack_into(sender._ring.bytes, at, 100, 1)
    sender._ring.bytes[at + 16 : at + 66] = b"h" * 50
    receiver = RingReceiver(folder, RUN)
    assert messages(receiver) == [b"whole"]
    assert receiver.produced() == {(0, 0): 1}
    # Killed between the two words of a commit: the place that counts was not touched.
    sender._ring.words[24 + (2 & 1)] = at + 128
    assert messages(receiver) == []
    assert send(sender, 1, b"next")
    assert messages(receiver) == [b"next"]


def test_a_ring_goes_when_its_writer_is_gone_and_all_is_acknowledged(folder):
    sender = RingSender(folder, RUN, 0, 5, 1 << 16)
    assert send(sender, 0, b"a", 5)
    receiver = RingReceiver(folder, RUN)
    got = receiver.receive(9, 0.0)
    receiver.acknowledge(got)
    receiver.produced()
    assert (folder / "0-5.ring").exists(), "its writer lives"
    assert send(sender, 1, b"b", 5)
    sender.close()
    got = receiver.receive(9, 0.0)
    receiver.produced()
    assert (folder / "0-5.ring").exists(), "not all of it is acknowledged"
    receiver.acknowledge(got)
    assert receiver.produced() == {(0, 5): 2}
    assert not (folder / "0-5.ring").exists()
    receiver.close()
    with (folder / "finished").open("a") as book:
        book.write("0 6 x\ntorn")
    assert RingReceiver(folder, RUN).produced() == {(0, 5): 2}


def test_views_outlive_the_file(folder):
    sender = RingSender(folder, RUN, 0, 0, 1 << 16)
    assert send(sender, 0, b"message")
    sender.close()
    receiver = RingReceiver(folder, RUN)
    got = receiver.receive(1, 0.0)
    receiver.acknowledge(got)
    receiver.produced()
    receiver.close()
    assert bytes(got[0].message) == b"message"
    with pytest.raises(TypeError):
        got[0].message[0] = 1


def test_one_look_changes_nothing(folder):
    sender = RingSender(folder, RUN, 0, 0, 1 << 16)
    assert send(sender, 0, b"message")
    sender.close()
    receiver = RingReceiver(folder, RUN)
    receiver.acknowledge(receiver.receive(1, 0.0))
    looker = RingReceiver(folder, RUN, look=True)
    assert looker.produced() == {(0, 0): 1}
    assert list(looker.waiting()) == []
    assert (folder / "0-0.ring").exists()
    with pytest.raises(PlaymillError, match="only looks"):
        looker.receive(1, 0.0)
    with pytest.raises(PlaymillError, match="another process"):
        RingReceiver(folder, RUN)


def ring_bytes(folder, name="0-0.ring"):
    RingFile.create(folder / name, RUN, 0, 0, 1 << 16).close()
    return (folder / name).read_bytes()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda data: data[:0], "too short"),
        (lambda data: data[:-1], "size"),
        (lambda data: data + b"x", "size"),
        (lambda data: b"x" * 8 + data[8:], "no ring"),
        (lambda data: data[:16] + bytes(32) + data[48:], "another run"),
        (lambda data: data[:48] + b"\7" + data[49:], "not the ring"),
    ],
)
def test_files_that_are_no_ring_of_the_run_are_left_alone(folder, change, says):
    data = change(ring_bytes(folder))
    (folder / "0-0.ring").write_bytes(data)
    (folder / "..ring").write_bytes(b"")
    receiver = RingReceiver(folder, RUN)
    assert receiver.receive(1, 0.0) == []
    assert says in receiver.broken["0-0.ring"]
    assert list(receiver.broken) == ["0-0.ring"]
    assert receiver.produced() == {}


@pytest.mark.parametrize(("place", "number"), [(0, 1 << 40), (0, 99_999), (8, 7)])
def test_a_ring_with_a_record_that_lies_is_set_aside_and_the_loss_shows(folder, place, number):
    sender = RingSender(folder, RUN, 0, 0, 1 << 16)
    assert send(sender, 0, b"first")
    assert send(sender, 1, b"second")
    receiver = RingReceiver(folder, RUN)
    assert messages(receiver, 1) == [b"first"]
    data = (folder / "0-0.ring").open("r+b")
    data.seek(HEADER + 32 + place)
    data.write(number.to_bytes(8, "little"))
    data.close()
    assert messages(receiver) == []
    assert "0-0.ring" in receiver.broken
    assert receiver.produced() == {(0, 0): 2}
    assert list(receiver.waiting()) == []


def test_an_epoch_is_used_once_and_messages_must_fit(folder):
    sender = RingSender(folder, RUN, 0, 0, 1 << 16)
    with pytest.raises(PlaymillError, match="epoch of its own"):
        RingSender(folder, RUN, 0, 0)
    with pytest.raises(PlaymillError, match="make it larger"):
        send(sender, 0, bytes(1 << 15))
    assert [path.name for path in folder.iterdir()] == ["0-0.ring"]


def test_memory_that_is_not_there_is_an_error_at_once(folder, monkeypatch):
    def none_left(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", none_left)
    with pytest.raises(PlaymillError, match="No space left"):
        RingSender(folder, RUN, 0, 0)
    assert list(folder.iterdir()) == []


def test_an_actor_that_dies_again_and_again_does_not_fill_the_memory(folder, monkeypatch):
    monkeypatch.setattr(rings, "LEFT_BEHIND", 3)
    for epoch in range(3):
        sender = RingSender(folder, RUN, 0, epoch, 1 << 16)
        assert send(sender, 0, b"x", epoch)
        sender.close()
    with pytest.raises(PlaymillError, match="start the learner"):
        RingSender(folder, RUN, 0, 3, 1 << 16)
    RingSender(folder, RUN, 1, 0, 1 << 16)


def test_folders_that_others_can_write_to_are_refused(tmp_path):
    assert ring_folder("run", tmp_path).stat().st_mode & 0o777 == 0o700
    (tmp_path / f"playmill-{os.getuid()}").chmod(0o777)
    with pytest.raises(PlaymillError, match="not yours alone"):
        ring_folder("run", tmp_path)
    with pytest.raises(PlaymillError, match="cannot name a run"):
        ring_folder("../run", tmp_path / "other")


def test_dead_letters_are_bounded_and_counted(tmp_path):
    letters = DeadLetters(tmp_path / "dead", most=5, most_bytes=10_000, largest=4000)
    for number in range(12):
        letters.put(Identity(RUN, 0, 0, number), memoryview(b"x" * 100), "why")
    assert letters.count == 12
    kept = sorted((tmp_path / "dead").iterdir())
    assert [path.stem for path in kept] == [f"{n:012}" for n in range(8, 13)]
    about = json.loads(kept[-1].read_bytes().split(b"\n", 1)[0])
    assert about == {"identity": [RUN, 0, 0, 11], "reason": "why", "bytes": 100}
    for _ in range(5):
        letters.put(None, memoryview(bytes(1 << 20)), "large")
    assert sum(path.stat().st_size for path in (tmp_path / "dead").iterdir()) < 10_000
    assert letters.count == 17
