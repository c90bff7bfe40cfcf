"""What both carriers of experience promise."""

import time

import pytest

from playmill.experience.channel import Backlog
from playmill.experience.ledger import Ledger
from playmill.experience.segment import BadSegment, Identity, decode
from playmill.games import PlaymillError
from tests.carriers import RUN, Redis, Rings, closing, flushed, hand_over, take
from tests.redis_server import running_redis
from tests.segments import SHAPE, a_message


@pytest.fixture(scope="module")
def broker():
    with running_redis() as server:
        yield server


@pytest.fixture(params=["rings", "redis"])
def carrier(request, tmp_path):
    if request.param == "rings":
        return Rings(tmp_path)
    broker = request.getfixturevalue("broker")
    carrier = Redis(tmp_path, broker.url)
    carrier.receiver()._link.client().flushall()
    return carrier


def proof(receiver, ledger):
    produced = receiver.produced()
    return ledger.prove(produced, list(receiver.waiting()))


def test_what_is_sent_comes_once_in_order_and_whole(carrier):
    with closing(carrier.sender(3, 8), carrier.receiver()) as (sender, receiver):
        names = hand_over(sender, 20, actor=3, epoch=8)
        got = take(receiver, 20)
        assert [delivery.identity for delivery in got] == names
        for delivery in got:
            assert bytes(delivery.message) == a_message(delivery.identity)
            assert decode(delivery.message, SHAPE, RUN).identity == delivery.identity
        assert receiver.receive(5, 0.0) == []
        assert receiver.produced() == {(3, 8): 20}
        assert set(receiver.waiting()) == set(names)
        receiver.acknowledge([delivery.spent() for delivery in got])
        assert set(receiver.waiting()) == set()
        assert receiver.receive(5, 0.01) == []
        assert receiver.backlog() == Backlog(0, 0, 0, 0.0)


def test_several_actors_are_received_together(carrier):
    senders = [carrier.sender(actor, 1) for actor in range(3)]
    with closing(carrier.receiver(), *senders) as (receiver, *_):
        names = [name for actor, sender in enumerate(senders) for name in hand_over(sender, 7, actor, 1)]
        got = [delivery.identity for delivery in take(receiver, 21)]
        assert sorted(got) == names
        for actor in range(3):
            assert [name.sequence for name in got if name.actor == actor] == list(range(7))


def test_the_next_receiver_gets_what_was_not_acknowledged(carrier):
    with closing(carrier.sender()) as (sender,):
        names = hand_over(sender, 10)
        with closing(carrier.receiver()) as (receiver,):
            got = take(receiver, 8)
            receiver.acknowledge(got[:3])
            del got
        with closing(carrier.receiver()) as (receiver,):
            assert [d.identity for d in take(receiver, 7)] == names[3:]


def test_acknowledged_out_of_order_loses_nothing(carrier):
    with closing(carrier.sender()) as (sender,):
        names = hand_over(sender, 6)
        with closing(carrier.receiver()) as (receiver,):
            got = take(receiver, 6)
            receiver.acknowledge([got[4], got[0], got[2]])
            assert set(receiver.waiting()) == {names[i] for i in (1, 3, 5)}
            del got
        with closing(carrier.receiver()) as (receiver,):
            left = {d.identity for d in take(receiver, 3)}
            assert {names[i] for i in (1, 3, 5)} <= left | {d.identity for d in receiver.receive(9, 0.05)}


def test_a_new_process_of_an_actor_goes_on_beside_the_rest_of_the_old_one(carrier):
    with closing(carrier.sender(0, 1)) as (sender,):
        old = hand_over(sender, 5, epoch=1)
    with closing(carrier.sender(0, 2), carrier.receiver()) as (sender, receiver):
        new = hand_over(sender, 5, epoch=2)
        got = take(receiver, 10)
        assert {d.identity for d in got} == {*old, *new}
        ledger = Ledger(RUN)
        ledger.train(d.identity for d in got)
        receiver.acknowledge(got)
        receiver.receive(1, 0.1)
        assert receiver.produced() == {(0, 1): 5, (0, 2): 5}
        assert proof(receiver, ledger).holds
    with closing(carrier.receiver()) as (receiver,):
        assert receiver.produced() == {(0, 1): 5, (0, 2): 5}
        assert receiver.receive(10, 0.05) == []


def test_senders_wait_for_room_and_go_on_when_there_is_some(carrier):
    with closing(carrier.sender(room=8192), carrier.receiver()) as (sender, receiver):
        sent = 0
        while sender.send(name := Identity(RUN, 0, 0, sent), a_message(name), 0.05):
            sent += 1
        assert 2 <= sent < 80
        assert sender.backlog().share > 0.5
        got = take(receiver, 2)
        assert not sender.send(name, a_message(name), 0.02)
        for _ in range(80):
            receiver.acknowledge(got)
            if sender.send(name, a_message(name), 0.02):
                break
            got = receiver.receive(8, 0.02)
        else:
            pytest.fail("room was freed, and not used")
        receiver.acknowledge(got)
        rest = []
        until = time.monotonic() + 10.0
        while not rest or rest[-1].identity != name:
            assert time.monotonic() < until
            more = receiver.receive(100, 0.2)
            rest += more
            receiver.acknowledge(more)
            sender.backlog()


def test_sequences_go_up_by_one_and_the_same_is_not_sent_twice(carrier):
    with closing(carrier.sender(), carrier.receiver()) as (sender, receiver):
        names = hand_over(sender, 2)
        assert sender.send(names[0], b"again", 0.0)
        flushed(sender)
        for wrong in (Identity(RUN, 0, 0, 3), Identity(RUN, 1, 0, 2), Identity("other", 0, 0, 2)):
            with pytest.raises(PlaymillError):
                sender.send(wrong, b"", 0.0)
        assert [d.identity for d in take(receiver, 2)] == names
        assert receiver.receive(3, 0.02) == []


def test_what_is_refused_goes_to_the_dead_letters_and_the_book_balances(carrier):
    with closing(carrier.sender(), carrier.receiver()) as (sender, receiver):
        good, ledger = Identity(RUN, 0, 0, 2), Ledger(RUN)
        assert sender.send(Identity(RUN, 0, 0, 0), b"poison", 1.0)
        assert sender.send(Identity(RUN, 0, 0, 1), a_message(good) + b"more", 1.0)
        assert sender.send(good, bytearray(a_message(good)), 1.0)
        flushed(sender)
        got = take(receiver, 3)
        for delivery in got:
            try:
                decode(delivery.message, SHAPE, RUN)
                ledger.train([delivery.identity])
            except BadSegment as error:
                receiver.refuse(delivery, str(error))
                ledger.drop([delivery.identity], "refused")
        assert proof(receiver, ledger).holds
        receiver.acknowledge(got)
        assert ledger.dropped == {"refused": 2}
        assert proof(receiver, ledger).holds
        if isinstance(carrier, Rings):
            assert receiver.dead_letters.count == 2
            letters = sorted((carrier.folder / "rings" / "dead").iterdir())
            assert letters[0].read_bytes().endswith(b"\npoison")
        else:
            assert sum(receiver.refused().values()) == 2


def test_messages_of_any_size_go_through(carrier):
    sizes = [0, 1, 15, 16, 17, 4095, 20_000, 70_000, 300_000]
    with closing(carrier.sender(room=4 << 20), carrier.receiver()) as (sender, receiver):
        for turn in range(5):
            for i, size in enumerate(sizes):
                identity = Identity(RUN, 0, 0, turn * len(sizes) + i)
                assert sender.send(identity, bytes([i]) * size, 5.0)
            flushed(sender)
            got = take(receiver, len(sizes))
            assert [bytes(d.message) for d in got] == [bytes([i]) * size for i, size in enumerate(sizes)]
            receiver.acknowledge(got)
