"""Actors, learners and the broker are killed at any moment: nothing is lost, nothing trained twice."""

import random
import time

import pytest

from tests.carriers import Redis, Rings
from tests.channel_processes import act, kill, learn, settle, start
from tests.redis_server import running_redis

LOGGED = ("--appendonly", "yes", "--appendfsync", "everysec")


def pull_plugs(carrier, path, kills, rng, broker=None):
    """Kills one of them after another, each at a moment of its own, and puts another in its place."""
    epochs = [0, 0]
    actors = [start(act, carrier, actor, 0, 40_000) for actor in range(2)]
    learner = start(learn, carrier, path)
    count = {"actor": 0, "learner": 0, "broker": 0}
    try:
        for turn in range(kills):
            time.sleep(rng.uniform(0.01, 0.12))
            if broker is not None and turn % 4 == 3:
                broker.kill()
                time.sleep(rng.uniform(0, 0.2))
                broker.start(*LOGGED)
                count["broker"] += 1
            elif turn % 2:
                kill(learner)
                learner = start(learn, carrier, path)
                count["learner"] += 1
            else:
                which = rng.randrange(2)
                kill(actors[which])
                epochs[which] += 1
                actors[which] = start(act, carrier, which, epochs[which], 40_000)
                count["actor"] += 1
        time.sleep(1.0)
    finally:
        for process in (*actors, learner):
            kill(process)
    return epochs, count


@pytest.mark.integration
def test_rings_survive_kills_of_actors_and_learner(tmp_path):
    carrier, path = Rings(tmp_path), tmp_path / "checkpoint.json"
    epochs, count = pull_plugs(carrier, path, 60, random.Random(1))
    proof = settle(carrier, path)
    assert count["actor"] == count["learner"] == 30
    assert proof.total("trained") > 500
    assert len(proof.rows) <= sum(epochs) + 2
    assert list((tmp_path / "rings").glob("*.ring")) == []


@pytest.mark.integration
def test_redis_survives_kills_of_actors_learner_and_broker(tmp_path):
    with running_redis(*LOGGED) as broker:
        carrier, path = Redis(tmp_path, broker.url), tmp_path / "checkpoint.json"
        _, count = pull_plugs(carrier, path, 48, random.Random(2), broker)
        for actor in range(2):  # what an actor left on disk is sent by its next process
            sender = carrier.sender(actor, 1000)
            assert sender.flush(20.0)
            sender.close()
        proof = settle(carrier, path)
    assert count["broker"] >= 12
    assert proof.total("trained") > 500
