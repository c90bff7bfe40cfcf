"""Assignments at a real broker: what is asked for, who takes it, and what the lag says meanwhile."""

import math
import subprocess
import sys
import time

import numpy as np
import pytest

from playmill.experience import assignments
from playmill.experience.assignments import GROUP, AssignmentBoard, Leave, Posted, assignments_key
from playmill.experience.channel import Backlog
from playmill.experience.redis_link import Link
from playmill.games import PlaymillError
from playmill.pools.remote import RemotePool
from playmill.pools.remote_settings import Supervision
from playmill.training import demand
from playmill.training.demand import Demand
from playmill.training.engine_settings import Actors
from tests.redis_server import running_redis

NAME = "mine"
NOTHING = Backlog(messages=0, bytes=0, unacknowledged=0, share=0.0)
LOGGED = ("--appendonly", "yes", "--appendfsync", "always")


class Stream:
    """The stream as the cluster's autoscaler sees it, and those at its ends."""

    def __init__(self, broker):
        self.broker = broker
        self.link = Link(broker.bare_url, broker.password, tries=3)
        self.board = AssignmentBoard(broker.bare_url, NAME, password=broker.password)

    def lag(self):
        groups = self.link.client().xinfo_groups(assignments_key(NAME))
        return next(group["lag"] for group in groups if group["name"] == GROUP.encode())

    def length(self):
        return self.link.client().xlen(assignments_key(NAME))

    def demand(self, **settings):
        actors = Actors(channel=self.broker.bare_url, assigned=True, **settings)
        return Demand(actors, self.board)

    def leave(self, actor):
        return Leave(self.broker.bare_url, NAME, actor, password=self.broker.password)


@pytest.fixture
def stream(redis_server):
    return Stream(redis_server)


def look(demand_, backlog=NOTHING):
    """One look, as if the time for it had come."""
    demand_._looked_at -= demand.LOOK_S
    demand_.look(lambda: backlog)


def test_a_learner_that_starves_keeps_all_it_may_ask_for_untaken(stream):
    wanting = stream.demand(ahead=5)
    for _ in range(3):
        look(wanting)
        assert stream.lag() == 5
    one = stream.leave(0)
    assert one.given(1.0)
    assert stream.lag() == 4
    look(wanting)
    assert stream.lag() == 5
    assert stream.board.look() == Posted(untaken=5, taken=1)


def test_a_full_channel_and_a_learner_with_enough_ask_for_nothing(stream):
    wanting = stream.demand(ahead=5, segments=8, assignment=8)
    look(wanting, NOTHING._replace(share=0.6))
    assert stream.lag() == 0
    wanting.starved = 0.0
    look(wanting, NOTHING._replace(messages=40, unacknowledged=24))
    assert stream.lag() == 0
    # One update's worth is missing to two; what is delivered and not acknowledged is not unread.
    look(wanting, NOTHING._replace(messages=32, unacknowledged=24))
    assert stream.lag() == 1
    wanting.waited(60.0)
    wanting._looked_at -= 60.0
    look(wanting)
    assert stream.lag() == 5


def test_actors_share_the_work_and_the_lag_falls(stream):
    stream.board.look()
    stream.board.add(6, 3)
    actors, lags = [stream.leave(0), stream.leave(1)], []
    played = [0, 0]
    while sum(actor.given(0.01) for actor in actors):
        lags.append(stream.lag())
        for i, actor in enumerate(actors):
            if actor.held:
                actor.used(1)
                played[i] += 1
    assert played == [9, 9]
    assert lags == sorted(lags, reverse=True)
    assert (lags[0], stream.lag()) == (4, 0)
    assert stream.board.look() == Posted(0, 0)


def test_what_was_handed_over_beyond_an_assignment_counts_to_the_next(stream):
    stream.board.look()
    stream.board.add(3, 4)
    actor = stream.leave(0)
    assert actor.given(1.0)
    actor.used(7)
    assert actor.given(1.0)
    actor.used(1)
    assert not actor.held
    assert stream.lag() == 1
    actor.used(9)
    for _ in range(2):
        assert not actor.given(0.01)
    assert stream.board.look() == Posted(0, 0)


def test_the_stream_stays_short_and_the_lag_known(stream):
    """Actors end their assignments in another order than they took them."""
    wanting = stream.demand(ahead=4, assignment=1)
    actors = [stream.leave(number) for number in range(5)]
    for turn in range(60):
        look(wanting)
        for actor in actors:
            assert actor.given(1.0) or stream.lag() == 0
        actors[turn * 3 % 5].used(1)
        assert isinstance(stream.lag(), int)
    assert stream.length() < 20


def test_the_assignment_of_a_killed_actor_is_taken_over(stream, monkeypatch):
    stream.board.look()
    stream.board.add(1, 4)
    script = f"""
import sys, time
from playmill.experience.assignments import Leave
password = sys.stdin.readline().strip()
print(Leave({stream.broker.bare_url!r}, {NAME!r}, 7, password=password).given(5.0), flush=True)
time.sleep(60)
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", script], text=True, **pipes)
    try:
        process.stdin.write(f"{stream.broker.password}\n")
        process.stdin.flush()
        assert process.stdout.readline() == "True\n"
    finally:
        process.kill()
        process.wait()
    monkeypatch.setattr(assignments, "ABANDONED_S", 0.5)
    monkeypatch.setattr(assignments, "RENEW_S", 0.1)
    other = stream.leave(1)
    until = time.monotonic() + 5.0
    while not other.given(0.05):
        assert time.monotonic() < until
    assert stream.board.look() == Posted(untaken=0, taken=1)
    # Who lives gives signs, and keeps its own.
    third = stream.leave(2)
    for _ in range(20):
        assert other.given(0.0)
        assert not third.given(0.05)


def test_a_broker_that_was_away_or_forgot_all_is_gone_on_with():
    with running_redis(*LOGGED) as broker:
        stream = Stream(broker)
        wanting, actor = stream.demand(ahead=3, assignment=2), stream.leave(0)
        look(wanting)
        assert actor.given(1.0)
        broker.kill()
        look(wanting)
        actor.used(2)
        began = time.monotonic()
        assert not actor.given(0.1)
        assert time.monotonic() - began >= 0.1
        broker.start(*LOGGED)
        # Redis 7.0 forgets with a restart how many were read, so that it may not know the lag.
        assert stream.length() == 3
        assert actor.given(1.0)
        look(wanting)
        look(wanting)
        assert stream.lag() == 3
        stream.link.client().flushall()
        actor._renew_at = 0.0
        assert not actor.given(0.01)
        look(wanting)
        look(wanting)
        assert stream.lag() == 3
        assert actor.given(1.0)


def test_where_the_lag_is_unknown_the_stream_is_begun_anew(stream):
    wanting, client = stream.demand(ahead=4), stream.link.client()
    look(wanting)
    entries = client.xrange(assignments_key(NAME))
    assert stream.leave(0).given(1.0)
    client.xdel(assignments_key(NAME), entries[2][0])
    assert stream.lag() is None
    look(wanting)
    assert stream.lag() == 4


def test_at_the_end_the_lag_is_0_and_not_an_error(stream):
    wanting, actor = stream.demand(ahead=4), stream.leave(0)
    look(wanting)
    assert actor.given(1.0)
    wanting.withdraw()
    assert stream.lag() == 0
    assert stream.length() == 0
    actor._renew_at = 0.0
    assert not actor.given(0.01)


def test_what_a_stranger_puts_there_is_no_leave(stream):
    stream.board.look()
    for fields in ({"segments": "9" * 30}, {"segments": "-4"}, {"x": "y"}):
        stream.link.client().xadd(assignments_key(NAME), fields)
    actor = stream.leave(0)
    for _ in range(3):
        assert not actor.given(0.05)
    assert stream.board.look().untaken == 0
    stream.link.client().set(assignments_key("other"), "text")
    with pytest.raises(PlaymillError, match="refuses assignments"):
        AssignmentBoard(stream.broker.bare_url, "other", password=stream.broker.password).look()


def test_assignments_need_a_broker():
    with pytest.raises(PlaymillError, match=r"actors\.assigned needs a broker"):
        Actors(assigned=True)
    for wrong in ({"assignment": 0}, {"ahead": 0}, {"assigned_name": "-a b"}):
        with pytest.raises(PlaymillError):
            Actors(**wrong)


def test_the_share_of_waiting_is_forgotten_in_time(stream):
    wanting = stream.demand(ahead=1)
    for _ in range(240):
        look(wanting)
    assert wanting.starved == pytest.approx(math.exp(-240 * demand.LOOK_S / demand.MEMORY_S), rel=0.05)


def test_games_that_wait_for_leave_are_not_taken_for_hung():
    strict = Supervision(decision_timeout=0.5, game_timeout=1.5, ping_every=0.2)
    with RemotePool("leduc", 4, engines=1, supervision=strict) as pool:
        for _ in range(2):
            rows = pool.turns(4, 5.0)
            assert len(rows.slot) == 4
            assert not rows.lost.any()
            first = np.unpackbits(rows.legal, axis=1, bitorder="little").argmax(axis=1)
            pool.act(rows.slot, first)
            time.sleep(2.0)
        assert not pool.turns(4, 5.0).lost.any()
        assert [engine.restarts for engine in pool.health()] == [0]
