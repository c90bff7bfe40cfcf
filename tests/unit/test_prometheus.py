"""Metrics for Prometheus: every declared one is there, under our name and the alias; strangers cannot."""

import http.client
import importlib
import math
import socket
import threading

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse

from playmill.telemetry import TelemetryError
from playmill.telemetry.catalogue import ALIASES, CATALOGUE, Kind
from playmill.telemetry.endpoint import AT_ONCE, MetricsEndpoint
from playmill.telemetry.meters import Meters, PrometheusMeters, Totals

TOKEN = "a token of the test's own"


def scrape(endpoint, path="/metrics", method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=10)
    try:
        connection.request(method, path, headers=headers)
        reply = connection.getresponse()
        return reply.status, reply.read().decode(), reply
    finally:
        connection.close()


def samples(text, parser=parse):
    return {
        (s.name, tuple(sorted(s.labels.items()))): s.value for family in parser(text) for s in family.samples
    }


def fill(meters):
    """Something of every kind that is declared."""
    for number, metric in enumerate(CATALOGUE, 1):
        labels = {label: f"a {label}" for label in metric.labels}
        {Kind.COUNTER: meters.count, Kind.GAUGE: meters.set, Kind.HISTOGRAM: meters.observe}[metric.kind](
            metric.name, number, **labels
        )


def test_a_live_endpoint_shows_every_metric_with_its_value():
    meters = PrometheusMeters()
    fill(meters)
    with MetricsEndpoint(meters) as endpoint:
        status, text, reply = scrape(endpoint)
    assert status == 200
    assert reply.headers["Content-Type"].startswith("text/plain")
    families = {family.name: family for family in parse(text)}
    found = samples(text)
    for number, metric in enumerate(CATALOGUE, 1):
        family = families[f"playmill_{metric.name}"]
        assert (family.type, family.documentation) == (metric.kind.value, metric.help)
        labels = tuple(sorted((label, f"a {label}") for label in metric.labels))
        ending = {Kind.COUNTER: "_total", Kind.GAUGE: "", Kind.HISTOGRAM: "_sum"}[metric.kind]
        assert found[f"playmill_{metric.name}{ending}", labels] == number
    assert ("process_resident_memory_bytes", ()) in found


def test_openmetrics_is_spoken_to_who_accepts_it():
    meters = PrometheusMeters("mtg")
    fill(meters)
    with MetricsEndpoint(meters) as endpoint:
        _, text, reply = scrape(endpoint, Accept="application/openmetrics-text; version=1.0.0")
    assert "openmetrics" in reply.headers["Content-Type"]
    number = [metric.name for metric in CATALOGUE].index("games") + 1
    assert samples(text, parse_open)[("mtg_games_total", ())] == number


@pytest.mark.parametrize("prefix", ["mtg", "generals"])
def test_the_seeds_names_are_the_same_numbers_under_their_prefix(prefix):
    meters = PrometheusMeters(prefix)
    meters.count("games", 3)
    meters.count("turns", 40)
    meters.set("games_active", 7)
    meters.observe("game_duration_seconds", 7.3)
    meters.observe("decision_seconds", 0.002)
    meters.observe("game_state_bytes", 900)
    meters.set("engine_utilisation", 0.5, engine="3")
    meters.set("buffer_size_bytes", 12, buffer="replay")
    meters.set("queue_depth", 5, queue="experience")
    meters.set("win_rate", 0.6, opponent="greedy")
    found = samples(meters.page()[0].decode())
    wanted = {
        ("games_total", ()): 3,
        ("games_played_total", ()): 3,
        ("turns_processed_total", ()): 40,
        ("games_active", ()): 7,
        ("game_duration_seconds_count", ()): 1,
        ("game_duration_seconds_bucket", (("le", "5.0"),)): 0,
        ("game_duration_seconds_bucket", (("le", "10.0"),)): 1,
        ("action_processing_seconds_sum", ()): 0.002,
        ("game_state_bytes_sum", ()): 900,
        ("daemon_utilization", (("daemon_id", "3"),)): 0.5,
        ("buffer_size", (("buffer", "replay"),)): 12,
        ("transition_queue_depth", (("queue", "experience"),)): 5,
        ("win_rate", (("opponent", "greedy"),)): 0.6,
    }
    for (name, labels), value in wanted.items():
        assert found[f"{prefix}_{name}", labels] == value


def test_without_a_prefix_there_are_no_aliases():
    assert all(
        name.startswith(("playmill_", "process_"))
        for name, _ in samples(PrometheusMeters().page()[0].decode())
    )


@pytest.mark.parametrize("alias", ["playmill", "Mtg", "a-b", "1x", "x" * 40, "a\nb"])
def test_a_prefix_is_a_short_word(alias):
    with pytest.raises(TelemetryError, match="no prefix of metrics"):
        PrometheusMeters(alias)


def test_names_are_declared_once_and_aliases_name_what_there_is():
    names = [metric.name for metric in CATALOGUE]
    assert len(set(names)) == len(names)
    assert {alias.of for alias in ALIASES} <= set(names)
    assert all(len(alias.labels) <= 1 for alias in ALIASES)
    assert not any(metric.labels for metric in CATALOGUE if metric.kind is Kind.HISTOGRAM)


def test_what_is_not_declared_cannot_be_counted():
    meters = PrometheusMeters()
    for wrong in (
        lambda: meters.count("gmaes"),
        lambda: meters.set("games", 1),
        lambda: meters.count("games", seat="1"),
        lambda: meters.set("queue_depth", 1),
    ):
        with pytest.raises(ValueError, match=r"telemetry/catalogue\.py"):
            wrong()


def test_a_page_shows_what_was_told_and_nothing_else():
    meters = PrometheusMeters("mtg")
    meters.count("games", 0)
    meters.observe_all("decision_seconds", ())
    found = samples(meters.page()[0].decode())
    assert {name for name, _ in found if not name.startswith("process_")} == {
        "playmill_games_total",
        "mtg_games_total",
        "mtg_games_played_total",
        *(f"{name}_{part}" for name in TIMED for part in ("bucket", "count", "sum")),
    }


TIMED = ("playmill_decision_seconds", "mtg_action_processing_seconds")


def test_values_are_told_many_at_once():
    meters = PrometheusMeters()
    meters.observe("game_duration_seconds", 0.5, 3)
    meters.observe_all("game_duration_seconds", [0.01, 0.011, 1e9])
    found = samples(meters.page()[0].decode())
    buckets = {dict(labels)["le"]: n for (name, labels), n in found.items() if name.endswith("_bucket")}
    assert [buckets[le] for le in ("0.01", "0.1", "0.5", "1800.0", "+Inf")] == [1, 2, 5, 5, 6]
    assert found["playmill_game_duration_seconds_count", ()] == 6
    assert found["playmill_game_duration_seconds_sum", ()] == pytest.approx(1.5 + 0.021 + 1e9)


def test_totals_count_what_came_since():
    meters = PrometheusMeters()
    totals = Totals(meters)
    for total in (0, 3, 3, 10):
        totals.count("games", total)
        totals.count("segments_dropped", 2 * total, reason="old")
    found = samples(meters.page()[0].decode())
    assert found["playmill_games_total", ()] == 10
    assert found["playmill_segments_dropped_total", (("reason", "old"),)] == 20


def test_threads_may_tell_and_look_at_once():
    meters = PrometheusMeters()

    def tell(number):
        for _ in range(2000):
            meters.count("turns")
            meters.observe("decision_seconds", 1e-3)
            meters.set("win_rate", 0.5, opponent=str(number))

    threads = [threading.Thread(target=tell, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        meters.page()
    found = samples(meters.page()[0].decode())
    assert found["playmill_turns_total", ()] == found["playmill_decision_seconds_count", ()] == 8000


def test_a_followed_gauge_is_asked_when_somebody_looks():
    meters, values = PrometheusMeters(), iter([1.5, 2.5])
    meters.follow("weight_age_seconds", lambda: next(values))
    for value in (1.5, 2.5):
        assert samples(meters.page()[0].decode())["playmill_weight_age_seconds", ()] == value
    assert math.isnan(samples(meters.page()[0].decode())["playmill_weight_age_seconds", ()])


def test_meters_that_nobody_scrapes_take_everything():
    fill(Meters())
    Meters().follow("games", lambda: 1 / 0)


def test_with_a_token_only_its_bearer_may_scrape():
    with MetricsEndpoint(PrometheusMeters(), "127.0.0.1:0", TOKEN) as endpoint:
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert scrape(endpoint, **bearer)[0] == 200
        for wrong in (
            {},
            {"Authorization": TOKEN},
            {"Authorization": f"Bearer {TOKEN}x"},
            {"Authorization": "\xff"},
        ):
            status, text, reply = scrape(endpoint, **wrong)
            assert (status, reply.headers["WWW-Authenticate"]) == (401, "Bearer")
            assert "playmill_" not in text
        assert scrape(endpoint, "/", **bearer)[0] == 404
        assert scrape(endpoint, method="POST", **bearer)[0] == 501


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "192.0.2.1:9400", "example.org:9400"])
def test_wider_than_this_machine_needs_a_token(listen):
    with pytest.raises(TelemetryError, match="set a token"):
        MetricsEndpoint(PrometheusMeters(), listen)


def test_with_a_token_it_may_be_wider():
    with MetricsEndpoint(PrometheusMeters(), "0.0.0.0:0", TOKEN) as endpoint:
        assert scrape(endpoint, Authorization=f"Bearer {TOKEN}", Host="actor-3:9400")[0] == 200


def test_short_tokens_and_bad_addresses_are_refused():
    with pytest.raises(TelemetryError, match="at least 16 characters"):
        MetricsEndpoint(PrometheusMeters(), token="short")
    for listen in ("", "9400", ":9400", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999"):
        with pytest.raises(TelemetryError, match="no address for metrics"):
            MetricsEndpoint(PrometheusMeters(), listen)


@pytest.mark.parametrize(("host", "status"), [("localhost:9", 200), ("[::1]:9", 200), ("evil.example", 421)])
def test_a_name_that_was_bent_to_this_machine_gets_nothing(host, status):
    with MetricsEndpoint(PrometheusMeters()) as endpoint:
        assert scrape(endpoint, Host=host)[0] == status


def test_a_port_in_use_says_so():
    with MetricsEndpoint(PrometheusMeters()) as endpoint:
        listen = f"127.0.0.1:{endpoint.port}"
        with pytest.raises(TelemetryError, match=f"{listen} is in use; give the metrics another port"):
            MetricsEndpoint(PrometheusMeters(), listen)


def test_idle_connections_leave_room_once_they_go():
    with MetricsEndpoint(PrometheusMeters()) as endpoint:
        idle = [socket.create_connection(("127.0.0.1", endpoint.port), 5) for _ in range(AT_ONCE)]
        one_more = socket.create_connection(("127.0.0.1", endpoint.port), 5)
        assert one_more.recv(1) == b""  # hung up on
        for connection in (*idle, one_more):
            connection.close()
        for _ in range(100):
            try:
                assert scrape(endpoint)[0] == 200
                return
            except (http.client.HTTPException, OSError):
                continue
        pytest.fail("no room came back")


def test_a_missing_client_says_what_to_install(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(TelemetryError, match=r"pip install 'playmill\[metrics\]'"):
        PrometheusMeters()
