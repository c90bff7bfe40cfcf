"""A real run whose actors play by assignment: the learner asks, parts die, the books agree at its end."""

import os
import random
import signal
import time

import pytest

from benchmarks.chaos_run import LOGGED
from playmill.experience.assignments import GROUP, assignments_key
from playmill.experience.redis_link import Link
from tests.integration.trials import running
from tests.redis_server import running_redis

pytestmark = pytest.mark.integration
SETTINGS = "--actors.assigned --actors.assignment 4 --actors.ahead 6"


@pytest.fixture
def trial(tmp_path):
    with (
        running_redis(*LOGGED) as broker,
        running(tmp_path, 2, broker, settings=SETTINGS) as made,
    ):
        yield made


def group(trial):
    link = Link(trial.broker.bare_url, trial.broker.password, tries=3)
    found = link.client().xinfo_groups(assignments_key(trial.exchange.run))
    link.close()
    return next(one for one in found if one["name"] == GROUP.encode())


def test_it_plays_what_is_asked_for_and_trains_to_its_end(trial):
    trial.wait(lambda: group(trial)["pending"] > 0, "the actors do not play")
    # While actors stand still, nobody takes what the learner asks for.
    stopped = list(trial.actors().values())
    for actor in stopped:
        os.kill(actor, signal.SIGSTOP)
    try:
        trial.wait(lambda: group(trial)["lag"] == 6, "the learner does not ask")
    finally:
        for actor in stopped:
            os.kill(actor, signal.SIGCONT)
    # While the learner stands still, what it had asked for is played, and no more.
    os.kill(trial.learner.pid, signal.SIGSTOP)
    try:
        trial.wait(lambda: group(trial)["lag"] == group(trial)["pending"] == 0, "actors do not play on")
        time.sleep(0.3)
        before = sum(trial.produced().values())
        time.sleep(0.7)
        assert sum(trial.produced().values()) == before
    finally:
        os.kill(trial.learner.pid, signal.SIGCONT)
    trial.wait(lambda: group(trial)["pending"] == 2, "the actors do not take")
    trial.wait(trial.kill("broker", random.Random(3)), "the broker did not come back")
    trial.wait(lambda: isinstance(group(trial)["lag"], int), "the lag is not known any more")
    end = trial.finish()
    assert end["stopped"]["holds"]
    assert end["drained"]["holds"]
    assert end["over"] == end["drained"]["in_flight"] == end["left_behind"] == 0
    assert group(trial)["lag"] == group(trial)["pending"] == 0
