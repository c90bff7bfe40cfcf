"""Limits: rates a peer, and settings that make no sense."""

import pytest

from playmill.games import PlaymillError
from playmill.serving import Code, Limits, ServiceError
from playmill.serving.limits import Meter


def test_a_peer_gets_its_rate_and_no_more():
    now = [0.0]
    meter = Meter(Limits(rate=100, rows=100), lambda: now[0])
    meter.admit("a", 100)
    with pytest.raises(ServiceError) as error:
        meter.admit("a", 10)
    assert error.value.code == Code.RESOURCE_EXHAUSTED
    assert "0.10 s" in str(error.value)
    now[0] = 0.1
    meter.admit("a", 10)
    with pytest.raises(ServiceError):
        meter.admit("a", 1)


def test_peers_do_not_take_from_each_other():
    meter = Meter(Limits(rate=10, rows=10), lambda: 0.0)
    meter.admit("a", 10)
    meter.admit("b", 10)
    with pytest.raises(ServiceError):
        meter.admit("a", 1)


def test_a_full_request_fits_any_rate():
    Meter(Limits(rate=1, rows=500), lambda: 0.0).admit("a", 500)


def test_quiet_peers_are_forgotten():
    meter = Meter(Limits(rate=10, rows=10), lambda: 0.0)
    for peer in range(Meter.PEERS + 100):
        meter.admit(str(peer), 1)
    assert len(meter._buckets) == Meter.PEERS


def test_without_a_rate_everything_is_let_in():
    Meter(Limits()).admit("a", 10**9)


@pytest.mark.parametrize(
    "wrong", [{"games": 0}, {"halls": 0}, {"rows": 0}, {"message": 10}, {"rate": -1}, {"idle_minutes": -1}]
)
def test_limits_that_make_no_sense_are_refused(wrong):
    with pytest.raises(PlaymillError):
        Limits(**wrong)
