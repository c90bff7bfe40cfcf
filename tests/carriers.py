"""Both carriers of experience behind one face, for tests."""

import contextlib
from pathlib import Path

from playmill.experience.redis_receiver import RedisReceiver
from playmill.experience.redis_sender import Limits, RedisSender
from playmill.experience.ring import RingReceiver, RingSender
from playmill.experience.segment import Identity
from tests.segments import a_message

RUN = "run"


class Rings:
    """Shared memory."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def sender(self, actor=0, epoch=0, room=1 << 20):
        return RingSender(self.folder / "rings", RUN, actor, epoch, room)

    def receiver(self):
        return RingReceiver(self.folder / "rings", RUN)


class Redis:
    """A broker."""

    def __init__(self, folder, url):
        self.folder = Path(folder)
        self.url = url

    def sender(self, actor=0, epoch=0, room=1 << 20, spool=4 << 20):
        limits = Limits(bytes=room, spool=spool)
        return RedisSender(self.url, RUN, actor, epoch, self.folder / f"spool-{actor}", limits=limits)

    def receiver(self, **settings):
        return RedisReceiver(self.url, RUN, **settings)


@contextlib.contextmanager
def closing(*ends):
    try:
        yield ends
    finally:
        for end in ends:
            end.close()


def flushed(sender):
    """Everything handed over is at the broker, where there is one."""
    assert not hasattr(sender, "flush") or sender.flush(10.0)


def hand_over(sender, count, actor=0, epoch=0, first=0, within=5.0):
    """Sends so many; the identities."""
    names = [Identity(RUN, actor, epoch, first + n) for n in range(count)]
    for name in names:
        assert sender.send(name, a_message(name), within)
    flushed(sender)
    return names


def take(receiver, count, within=5.0):
    """Receives so many."""
    out = []
    while len(out) < count:
        got = receiver.receive(count - len(out), within)
        assert got, f"{len(out)} of {count} came"
        out += got
    return out
