"""Real runs that are watched: every metric there is is fed by some process, and spans cross all of them."""

import contextlib
import os
import signal
import socket

import pytest

from playmill.experience.ring import RingSender
from playmill.experience.segment import Identity
from playmill.telemetry.catalogue import CATALOGUE, Kind
from playmill.training.telemetry_settings import OFFSETS
from tests.collector import running_collector
from tests.integration.pages import free_ports, page
from tests.integration.program import start, train, wait_for
from tests.integration.trials import STRANGER, running
from tests.redis_server import running_redis


def names(shown):
    """Metrics of the catalogue on a page."""
    there = {name for name, *_ in shown}
    endings = {Kind.COUNTER: "_total", Kind.GAUGE: "", Kind.HISTOGRAM: "_count"}
    return {metric.name for metric in CATALOGUE if metric.name + endings[metric.kind] in there}


class Watched:
    """A run on shared memory, and the pages of its processes."""

    def __init__(self, trial, port):
        self.trial = trial
        self.places = {role: port + offset for role, offset in OFFSETS.items()}

    def page(self, role):
        return page(self.places[role])

    def wait(self, role, *key, at_least=1.0):
        self.trial.wait(lambda: self.page(role).get(key, 0.0) >= at_least, f"{role} does not show {key}")


@pytest.mark.integration
def test_every_metric_is_fed_and_shows_what_happened(tmp_path):
    port = free_ports()
    settings = (
        f"--telemetry.port {port} --actors.inference process --replay.share 0.5 --evaluation.every 1000"
    )
    with running(tmp_path, 1, settings=settings) as trial:
        watched, exchange = Watched(trial, port), trial.exchange
        watched.wait("actor", "games_total")
        engine = trial.engines(0)[0]
        os.kill(engine, signal.SIGKILL)
        trial.wait(lambda: died(watched.page("actor")) == 1, "the restart of an engine does not show")
        os.kill(trial.actors()[0], signal.SIGKILL)
        watched.wait("learner", "process_restarts_total", "actor-0")
        with contextlib.closing(RingSender(exchange.local, exchange.run, STRANGER, 1, 1 << 20)) as sender:
            assert sender.send(Identity(exchange.run, STRANGER, 1, 0), b"rubbish", 5.0)
        watched.wait("learner", "dead_letters_total")
        for role in ("evaluator", "learner"):
            trial.wait(lambda role=role: ("win_rate", "tight") in watched.page(role), "no evaluation shows")
        watched.wait("actor", "games_total", at_least=20)
        pages = {role: watched.page(role) for role in OFFSETS}

    fed = {role: names(shown) for role, shown in pages.items()}
    assert set().union(*fed.values()) == {metric.name for metric in CATALOGUE}
    for role, shown in pages.items():
        assert shown["process_info", "leduc", "0", role, exchange.run] == 1
    learner, actor, policy = pages["learner"], pages["actor"], pages["policy"]
    assert learner["turns_total",] == 8 * learner["segments_trained_total",] > 0
    assert learner["segments_dropped_total", "bad"] == 1
    assert learner["buffer_size_bytes", "replay"] > 0
    assert learner["weight_version",] > 1
    assert learner["update_seconds_count",] * 8 == learner["segments_trained_total",]
    assert actor["turns_total",] > actor["games_total",]
    assert actor["game_duration_seconds_count",] >= actor["games_total",]
    assert actor["decision_seconds_count",] >= actor["turns_total",] == actor["game_state_bytes_count",]
    assert actor["games_active",] == 8
    assert actor["engines", "ready"] == 2
    assert 0 < actor["engine_utilisation", "0"] <= 1
    assert policy["weight_age_seconds",] < 60
    assert policy["weight_sync_seconds_count",] > 0
    assert 0 < policy["inference_batch_fill_sum",] <= policy["inference_batch_fill_count",]
    assert not fed["actor"] & {"weight_version", "inference_seconds"}, "those are the policy's"


def died(shown):
    """Restarts of engines that had died."""
    return sum(
        v for (name, *labels), v in shown.items() if name == "engine_restarts_total" and "died" in labels
    )


@pytest.mark.integration
def test_spans_of_actor_broker_and_learner_are_one_story(tmp_path, monkeypatch):
    with running_collector() as (address, got), running_redis() as broker:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "300")
        with running(tmp_path, 1, broker, settings="--telemetry.traces 0.5") as trial:

            def linked():
                segments = {span.span_id for span in got.named("actor.segment")}
                return any(link.span_id in segments for u in got.named("learner.update") for link in u.links)

            trial.wait(linked, "no update is linked to a segment")
            trial.wait(lambda: got.named("weights.load"), "no weights were loaded")
    segments = {span.span_id: span for span in got.named("actor.segment")}
    for name in ("channel.send", "channel.receive"):
        parents = [span.parent_span_id for span in got.named(name)]
        found = [segments[parent] for parent in parents if parent in segments]
        assert found, name
        assert {span.trace_id for span in found} <= {span.trace_id for span in got.named(name)}
    assert {link.span_id for span in got.named("broker.append") for link in span.links} & set(segments)
    updates = {span.span_id for span in got.named("learner.update")}
    assert {span.parent_span_id for span in got.named("weights.publish")} & updates
    assert got.services("actor.segment") == got.services("broker.append") == {"playmill-actor"}
    assert got.services("learner.update") == got.services("channel.receive") == {"playmill-learner"}
    for span in segments.values():
        assert span.start_time_unix_nano < span.end_time_unix_nano
        assert {"run", "actor", "sequence"} <= {attribute.key for attribute in span.attributes}


RESIDENT = "kuhn --plain --games 8 --steps 8 --threads 1 --evaluation.deals 4 --evaluation.final-deals 4"


@pytest.mark.integration
def test_a_run_in_one_process_shows_its_own(tmp_path):
    port, run = free_ports(), tmp_path / "run"
    process = start(
        f"{RESIDENT} --turns 1000000000 --evaluation.every 640 --telemetry.port {port}", run, tmp_path / "log"
    )
    try:
        wait_for(lambda: ("win_rate", "random") in page(port), process)
        shown = page(port)
    finally:
        process.kill()
        process.wait()
    assert shown["process_info", "kuhn", "0", "learner", "run"] == 1
    assert shown["turns_total",] == 64 * shown["update_seconds_count",] > 0
    assert 0 < shown["games_total",] < shown["turns_total",]
    assert shown["games_active",] == 8
    assert 0 <= shown["win_rate", "random"] <= 1
    assert shown["phase_seconds_total", "update"] > 0


@pytest.mark.integration
def test_a_port_in_use_stops_a_new_run_and_no_other(tmp_path):
    port, run, log = free_ports(), tmp_path / "run", tmp_path / "log"
    with socket.create_server(("127.0.0.1", port)):
        code, said = train(f"{RESIDENT} --turns 640 --telemetry.port {port}", run)
        assert code == 2
        assert f"127.0.0.1:{port} is in use; give the metrics another port" in " ".join(said.split())
        assert not run.exists()
    code, said = train(f"{RESIDENT} --turns 640", run)
    assert code == 0, said
    with socket.create_server(("127.0.0.1", port)):
        line = f"--resume {run} --plain --turns 1000000000 --telemetry.port {port}"
        process = start(line, run, log)
        try:
            wait_for(lambda: "no metrics yet" in log.read_text(), process)
            before = (run / "metrics.jsonl").stat().st_size
            wait_for(lambda: (run / "metrics.jsonl").stat().st_size > before, process)
        except BaseException:
            process.kill()
            raise
    try:
        wait_for(lambda: page(port).get(("turns_total",), 0.0) > 0, process)
    finally:
        process.kill()
        process.wait()


@pytest.mark.integration
def test_an_actor_whose_port_is_in_use_plays_on(tmp_path):
    port = free_ports()
    settings = f"--telemetry.port {port}"
    with (
        socket.create_server(("127.0.0.1", port + OFFSETS["actor"])),
        running(tmp_path, 1, settings=settings) as trial,
    ):
        trial.wait(trial.trains_again(), "training did not go on")
        assert "no metrics yet" in (trial.run / "logs" / "actor-0.log").read_text()
        assert page(port)["process_restarts_total", "actor-0"] == 0
