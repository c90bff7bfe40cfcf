"""Strength in games that only engines can play: whole deals, rotated seats, engines that fail."""

import json
import subprocess
import sys

import pytest
import torch

from playmill.games import PlaymillError, UnknownName, registry
from playmill.league.evaluate import evaluate
from playmill.league.evaluate_remote import evaluate_remote
from playmill.policies import Network, Policy
from tests.contract.remote import QUICK, RemotePool, histories, host


def untrained(spec, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Policy(spec, Network(hidden=(16,)))


LEDUC = registry.spec("leduc")


def test_slots_that_are_alike_are_dealt_the_same_games():
    with RemotePool("leduc", 4, seed=3, alike=2, keep_results=True) as pool:
        found = histories(pool, 0)
        assert found[0] == found[1]
        assert found[2] == found[3]
        assert pool.numbers() == [0, 0, 0, 0]
        assert pool.results() == []
    with RemotePool("kuhn", 1) as pool, pytest.raises(PlaymillError, match="keep_results"):
        pool.results()


def test_a_policy_against_itself_is_exactly_fair_and_a_seed_names_the_deals():
    policy = untrained(LEDUC)
    result = evaluate_remote(LEDUC, policy, policy, deals=9, engines=2)
    assert result.win_share == result.low == result.high == result.fair == 0.5
    assert result.games == 18
    assert result.reward == 0
    first, again = (evaluate_remote(LEDUC, policy, "random", deals=9, seed=4) for _ in range(2))
    assert (first.win_share, first.reward) == (again.win_share, again.reward)


@pytest.mark.parametrize("bot", ["random", "hard"])
def test_engines_give_the_strength_that_the_native_game_gives(bot):
    """The deals are others; the intervals must meet. A bot of the engine's own plays there."""
    spec = registry.spec("skull_king", {"players": 2})
    policy = untrained(spec)
    native = evaluate(spec, policy, bot, deals=12)
    remote = evaluate_remote(spec, policy, bot, deals=12, engines=2)
    assert remote.games == native.games == 24
    assert remote.fair == 0.5
    assert remote.low <= native.high
    assert native.low <= remote.high
    assert remote.stats.keys() == native.stats.keys()
    assert remote.score == pytest.approx(native.score, abs=150)


def test_deals_that_are_lost_with_an_engine_are_made_up_for():
    command = host("native:leduc", "--crash-after", "150")
    result = evaluate_remote(
        LEDUC, untrained(LEDUC), "random", deals=60, engines=2, command=command, supervision=QUICK
    )
    assert result.games == 120


def test_when_time_is_over_deals_under_way_are_played_to_their_end():
    command = host("native:leduc", "--delay-ms", "5")
    result = evaluate_remote(LEDUC, untrained(LEDUC), "random", deals=10_000, command=command, within=1.0)
    assert 2 <= result.games < 400
    assert result.games % 2 == 0


def test_engines_that_never_finish_a_game_are_an_error_that_says_why():
    command = host("native:leduc", "--crash-after", "1")
    with pytest.raises(PlaymillError, match=r"no deal of leduc was played to its end"):
        evaluate_remote(
            LEDUC, untrained(LEDUC), "random", deals=5, command=command, within=0.5, supervision=QUICK
        )
    with pytest.raises(PlaymillError, match="no engine of leduc started"):
        evaluate_remote(LEDUC, untrained(LEDUC), "random", command=["false"])
    with pytest.raises(PlaymillError, match="name a run"):
        evaluate_remote(LEDUC, "random", "random")
    with pytest.raises(UnknownName):
        evaluate_remote(LEDUC, untrained(LEDUC), "nobody")


# As a user


def playmill(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "playmill", *arguments], capture_output=True, text=True, timeout=120
    )


QUICKLY = ["--steps", "16", "--actors.segments", "16", "--ppo.minibatch", "128", "--plain"]


def test_a_foreign_game_is_trained_evaluated_and_reported(tmp_path):
    run = tmp_path / "run"
    few = ["--evaluation.final-deals", "30", "--network.hidden", "16", "--actors.engines", "2"]
    done = playmill("train", "openspiel:tic_tac_toe", "--run", str(run), "--turns", "512", *QUICKLY, *few)
    assert done.returncode == 0, done.stderr
    assert "against random" in done.stdout
    assert "evaluate" in done.stdout
    assert "playmill play" not in done.stdout
    assert (run / "report.html").exists()
    assert not (run / "ratings.json").exists()
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert any(5 <= row.get("self/turns_a_game", 0) <= 9 for row in metrics)
    assert any("eval/random/win_share" in row for row in metrics)
    found = json.loads(playmill("evaluate", str(run), "--deals", "20", "--json").stdout)
    assert found["against"]["random"]["games"] == 40
    refused = playmill("evaluate", str(run), "--ratings")
    assert refused.returncode == 2
    assert "leave --ratings" in refused.stderr


def test_engines_that_are_gone_at_the_end_do_not_cost_the_run(tmp_path, monkeypatch):
    run, file = tmp_path / "run", tmp_path / "engines.toml"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\n[ -e {run}/report.html ] || exec {' '.join(host('native:kuhn'))}\n")
    program.chmod(0o755)
    file.write_text(f'[engines.mine]\ncommand = ["{program}"]\n')
    monkeypatch.setenv("PLAYMILL_ENGINES", str(file))
    # Without decisions in time there is no whole deal.
    late = ["--evaluation.engines-s", "0.0001", "--actors.engines", "1"]
    done = playmill("train", "engine:mine", "--run", str(run), "--turns", "256", *QUICKLY, *late)
    assert done.returncode == 0, done.stderr
    assert "could not be evaluated" in done.stdout
    assert (run / "report.html").exists()
    gone = playmill("evaluate", str(run))
    assert gone.returncode == 2
    assert "engine:mine" in gone.stderr
