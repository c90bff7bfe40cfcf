"""Actors and learners that are killed: each a process of its own, which does nothing but send, or receive,
train and checkpoint, for ever."""

import json
import multiprocessing
import os
import signal
import time
from pathlib import Path

from playmill.experience.ledger import Ledger
from playmill.experience.segment import BadSegment, Identity, decode
from tests.carriers import RUN, closing
from tests.segments import SHAPE, a_message

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.channel_processes"])


def act(carrier, actor, epoch, room):
    sender, sequence = carrier.sender(actor, epoch, room), 0
    while True:
        name = Identity(RUN, actor, epoch, sequence)
        if sender.send(name, a_message(name), 1.0):
            sequence += 1


class Learner:
    """Trains by adding up: what was trained twice, or never, shows in the sums of the checkpoint."""

    def __init__(self, carrier, path):
        self.path = Path(path)
        self.ledger, self.sums = Ledger(RUN), {}
        if self.path.exists():
            state = json.loads(self.path.read_text())
            self.ledger, self.sums = Ledger.from_state(state["ledger"]), state["sums"]
        self.receiver = carrier.receiver()
        self.handled = []
        self.again = 0

    def step(self, within=0.2):
        got = self.receiver.receive(50, within)
        for delivery in got:
            if self.ledger.seen(delivery.identity):
                self.again += 1
                continue
            try:
                segment = decode(delivery.message, SHAPE, RUN)
                assert segment.identity == delivery.identity
                self.ledger.train([segment.identity])
                name = f"{segment.identity.actor}:{segment.identity.epoch}"
                self.sums[name] = self.sums.get(name, 0) + segment.identity.sequence + 1
            except BadSegment as error:
                self.receiver.refuse(delivery, str(error))
                self.ledger.drop([delivery.identity], "refused")
        self.handled += [delivery.spent() for delivery in got]
        return len(got)

    def checkpoint(self):
        half = self.path.with_suffix(".tmp")
        half.write_text(json.dumps({"ledger": self.ledger.state(), "sums": self.sums}))
        half.replace(self.path)
        self.receiver.acknowledge(self.handled)
        self.handled = []


def learn(carrier, path):
    learner = Learner(carrier, path)
    while True:
        for _ in range(3):
            learner.step()
        learner.checkpoint()


def start(function, *arguments):
    process = CONTEXT.Process(target=function, args=arguments, daemon=True)
    process.start()
    return process


def kill(process):
    os.kill(process.pid, signal.SIGKILL)
    process.join()


def settle(carrier, path, quiet=0.5):
    """Trains whatever is left, and proves that all sums are right; the proof."""
    learner = Learner(carrier, path)
    with closing(learner.receiver):
        last = time.monotonic()
        while time.monotonic() - last < quiet:
            if learner.step(0.05):
                last = time.monotonic()
                learner.checkpoint()
        produced = learner.receiver.produced()
        proof = learner.ledger.prove(produced, list(learner.receiver.waiting()))
    assert proof.holds, proof.table()
    assert proof.total("in_flight") == 0, proof.table()
    for row in proof.rows:
        expected = row.produced * (row.produced + 1) // 2
        assert learner.sums.get(f"{row.actor}:{row.epoch}", 0) == expected, proof.table()
    return proof
