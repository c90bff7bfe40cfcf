"""Real runs of the engine lane whose parts die, lie and send rubbish: training goes on, the books agree."""

import json
import math
import os
import random
import signal
import time

import numpy as np
import pytest

from benchmarks.chaos_run import LOGGED, SEGMENTS
from playmill.checkpoints import Store, read
from playmill.cli.roles import prove
from playmill.experience.ring import RingSender, rings_root
from playmill.experience.segment import Identity
from playmill.telemetry.metrics import FILE
from playmill.training.exchange import left_behind
from tests.integration.trials import STRANGER, running
from tests.redis_server import running_redis
from tests.segments import a_message


def survive(trial, kinds, seed):
    """Kills in that order at moments the seed names; each must be got over."""
    rng = random.Random(seed)
    for kind in kinds:
        time.sleep(rng.uniform(0.0, 0.3))
        trial.wait(trial.kill(kind, rng), f"the {kind} did not come back")


def poison(trial, sender):
    """Three messages that are no segments of the run."""
    run = trial.exchange.run
    messages = [b"rubbish", a_message(Identity(run, STRANGER, 1, 1)), bytes(100_000)]
    for number, message in enumerate(messages):
        assert sender.send(Identity(run, STRANGER, 1, number), message, 5.0)
    sender.close()


def check_end(trial, bad):
    """Ends the run; the ledgers hold, nobody is left, what was learnt is sound."""
    trial.wait(lambda: prove(trial.run).dropped.get("bad") == bad, "rubbish was not counted")
    end = trial.finish()
    assert end["stopped"]["holds"]
    assert end["drained"]["holds"]
    assert end["drained"]["lost"] == end["drained"]["twice"] == end["drained"]["in_flight"] == 0
    assert end["drained"]["reasons"].get("bad", 0) == bad
    assert end["over"] == 0, "updates and trained segments do not match"
    assert end["left_behind"] == 0
    saved = read(Store(trial.run / "checkpoints", keep=1).latest())
    assert saved.meta["updates"] * SEGMENTS == end["drained"]["trained"] > 0
    assert all(np.isfinite(tensor.float().numpy()).all() for tensor in saved.tensors.values())
    lines = [json.loads(line) for line in (trial.run / FILE).read_text().splitlines()]
    entropy = [float(line["loss/entropy"]) for line in lines if "loss/entropy" in line]
    assert 0.0 < entropy[-1] <= math.log(3)


@pytest.mark.integration
def test_shared_memory_survives_kills_and_rubbish(tmp_path):
    with running(tmp_path, 1) as trial:
        exchange = trial.exchange
        poison(trial, RingSender(exchange.local, exchange.run, STRANGER, 1, 1 << 20))
        survive(trial, ("actor", "engine", "learner"), seed=1)
        check_end(trial, bad=3)
        assert len(list((exchange.local / "dead").iterdir())) == 3
        assert list(exchange.local.glob("*.ring")) == []


@pytest.mark.integration
def test_redis_survives_kills_and_rubbish(tmp_path):
    with running_redis(*LOGGED) as broker, running(tmp_path, 1, broker) as trial:
        poison(trial, trial.exchange.sender(STRANGER, 1))
        survive(trial, ("broker", "learner"), seed=2)
        check_end(trial, bad=3)
        receiver = trial.exchange.receiver(look=True)
        assert sum(receiver.refused().values()) == 3
        receiver.close()


@pytest.mark.integration
def test_a_liar_is_left_out_and_a_policy_process_may_die(tmp_path):
    settings = "--actors.inference process --actors.supervision.lies-most 1"
    with running(tmp_path, 1, settings=settings, lie="bad-reward") as trial:
        log = trial.run / "logs" / "actor-0.log"
        trial.wait(lambda: "left out for good: it lied" in log.read_text(), "the liar was not found out")
        first = trial.policy()
        os.kill(first, signal.SIGKILL)
        trial.wait(lambda: trial.policy() not in (0, first), "there is no policy")
        trial.wait(trial.trains_again(), "training did not go on")
        name = trial.exchange.run
        assert (rings_root() / name).is_dir()
        assert rings_root() / name not in left_behind()
        assert trial.finish()["drained"]["holds"]
        # A run that is over leaves nothing in memory, and a look at it makes nothing.
        assert prove(trial.run).holds
        assert not list(rings_root().parent.glob(f"**/*{name}*"))
