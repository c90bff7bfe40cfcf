"""Restarts: their delays grow, are spread, and begin again after a healthy while. No test sleeps."""

import pytest

from playmill.engines.names import Launch
from playmill.games import PlaymillError, registry
from playmill.pools.remote_engine import Engine, State
from playmill.pools.remote_settings import Backoff, Supervision

SETTINGS = Supervision(restart_delay=1.0, restart_delay_most=10.0, healthy_after=60.0, lies_most=3)


def engine(settings=SETTINGS):
    return Engine(0, Launch(("none",)), registry.spec("kuhn"), settings, 1)


def test_delays_double_up_to_the_most_and_half_of_each_is_random():
    backoff = Backoff(SETTINGS, 7)
    delays = [backoff.next() for _ in range(200)]
    for delay, full in zip(delays, [1, 2, 4, 8, *[10] * 196], strict=True):
        assert full / 2 <= delay <= full
    assert len(set(delays)) == 200
    backoff.reset()
    assert backoff.next() <= 1


def test_engines_do_not_restart_in_step():
    assert Backoff(SETTINGS, 1).next() != Backoff(SETTINGS, 2).next()


def failed(made, now, why="died"):
    made.fail("a test", now, why)
    return made.start_at - now


def test_an_engine_that_keeps_failing_waits_longer_and_longer():
    made = engine()
    delays = [failed(made, now) for now in (0, 100, 200, 300, 400)]
    assert delays == sorted(delays)
    assert delays[-1] >= 5
    assert made.state is State.WAITING


def test_a_healthy_while_makes_the_next_delay_the_first():
    made = engine()
    for now in (0, 10, 20):
        failed(made, now)
    made.state, made._since, made._heard = State.READY, 30.0, 30.0
    assert made.overdue(80.0) == ""
    assert failed(made, 80.0) > 1
    made.state, made._since, made._heard = State.READY, 100.0, 161.0
    assert made.overdue(161.0) == ""
    assert failed(made, 161.0) <= 1


def test_an_engine_that_lies_too_often_is_out_for_good():
    made = engine()
    for _ in range(2):
        failed(made, 0.0, "lied")
        assert made.state is State.WAITING
    failed(made, 0.0, "lied")
    assert made.state is State.OUT
    assert made.health(1.0).quarantines == 3
    assert made.health(1.0).again == {"died": 0, "late": 0, "lied": 2}


def test_an_engine_of_another_game_is_not_started_again():
    made = engine()
    failed(made, 0.0, "late")
    failed(made, 10.0, "unfit")
    assert made.state is State.OUT
    assert made.health(11.0).again == {"died": 0, "late": 1, "lied": 0}


def test_an_idle_engine_is_asked_for_a_sign_of_life_and_given_up_without_one():
    made = engine(Supervision(ping_every=5, decision_timeout=2))
    made.state = State.READY
    assert made.overdue(4.9) == ""
    assert made.out == []
    assert made.overdue(5.1) == ""
    assert len(made.out) == 1
    assert made.overdue(6.9) == ""
    assert "sign of life" in made.overdue(7.1)
    made.heard(7.2)
    assert made.overdue(7.3) == ""


def test_the_oldest_question_counts_for_the_time_out():
    made = engine(Supervision(decision_timeout=2))
    made.state = State.READY
    first = made.open(0, 1, 0.0)
    made.open(1, 2, 1.5)
    assert "longer than 2 s" in made.overdue(2.1)
    made.answered(first, 2.1)
    assert made.overdue(2.2) == ""
    assert made.health(2.2).waited == pytest.approx(2.1)


@pytest.mark.parametrize(
    "wrong", [{"decision_timeout": 0}, {"ping_every": -1}, {"lies_most": 0}, {"restart_delay": 60}]
)
def test_settings_that_cannot_be_are_refused(wrong):
    with pytest.raises(PlaymillError):
        Supervision(**wrong)
