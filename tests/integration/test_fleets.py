"""Whole fleets through the real command line: killed, stopped, resumed, and no bit is lost."""

import json
import signal

import pytest

from playmill.checkpoints import Store, fingerprint, read, write
from tests.integration.program import PATIENCE, newest, start, train, wait_for

pytestmark = pytest.mark.integration

KUHN = "kuhn --games 64 --steps 16 --threads 1 --precision float32 --network.hidden 16 --ppo.minibatch 256"
KUHN += " --evaluation.every 8192 --evaluation.deals 4 --evaluation.final-deals 4 --plain"
KUHN += " --evaluation.no-exploitability --checkpoints.every-updates 1"
FLEET = f"{KUHN} --seeds 0 1 --vary ppo.lr=1e-3,3e-3 --turns 40960"
MEMBERS = ["lr=0.001,seed=0", "lr=0.001,seed=1", "lr=0.003,seed=0", "lr=0.003,seed=1"]


def state(run):
    checkpoint = read(Store(run / "checkpoints", keep=1).latest())
    meta = {key: checkpoint.meta[key] for key in ("updates", "turns", "games_played", "seed")}
    return fingerprint(checkpoint.tensors), checkpoint.blobs, meta


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    folder = tmp_path_factory.mktemp("straight") / "fleet"
    code, text = train(FLEET, folder)
    assert code == 0, text
    return folder, text


def test_a_fleet_leaves_its_files_and_says_what_came_out(straight):
    folder, text = straight
    assert sorted(json.loads((folder / "fleet.json").read_text())["members"]) == MEMBERS
    for name in ("report.html", "metrics.jsonl", *(f"{member}/report.html" for member in MEMBERS)):
        assert (folder / name).stat().st_size > 0, name
    assert "4 together" in text
    assert all(text.count(member) >= 3 for member in MEMBERS)
    assert f"playmill train --resume {folder} --turns 81920" in text


def test_a_member_is_the_run_it_would_be_alone(straight, tmp_path):
    folder, _ = straight
    code, text = train(f"{KUHN} --turns 40960 --seed 1 --ppo.lr 3e-3", tmp_path / "run")
    assert code == 0, text
    assert state(tmp_path / "run") == state(folder / "lr=0.003,seed=1")


def test_kills_change_no_bit(straight, tmp_path):
    folder, log = tmp_path / "fleet", tmp_path / "log"
    process = start(FLEET, folder, log)
    kills = 0
    for goal in (1, 2048, 16384, 24576):
        wait_for(lambda goal=goal: newest(folder / MEMBERS[-1]) >= goal, process)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += process.wait() == -signal.SIGKILL
        process = start(f"--resume {folder} --plain", folder, log)
    assert process.wait(PATIENCE) == 0, log.read_text()
    assert kills >= 3
    for member in MEMBERS:
        assert state(folder / member) == state(straight[0] / member), member


def test_a_signal_saves_all_and_the_fleet_goes_on(straight, tmp_path):
    folder, log = tmp_path / "fleet", tmp_path / "log"
    process = start(f"{FLEET} --checkpoints.every-updates 0", folder, log)
    metrics = folder / MEMBERS[-1] / "metrics.jsonl"
    wait_for(lambda: metrics.exists() and metrics.read_text().count("\n") > 3, process)
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0, log.read_text()
    assert log.read_text().count("stopped") >= 4
    assert all(0 < newest(folder / member) < 40960 for member in MEMBERS)
    assert (folder / "report.html").exists()
    code, text = train(f"--resume {folder} --plain", folder)
    assert code == 0, text
    for member in MEMBERS:
        assert state(folder / member) == state(straight[0] / member), member


def test_a_fleet_is_held_by_one_process(tmp_path):
    folder, log = tmp_path / "fleet", tmp_path / "log"
    process = start(f"{KUHN} --seeds 0 1 --turns 1000000000", folder, log)
    wait_for(lambda: (folder / "seed-1" / "metrics.jsonl").exists(), process)
    code, text = train(f"--resume {folder} --plain", folder)
    process.kill()
    process.wait(PATIENCE)
    assert code == 2
    assert "is in use by another process" in text


def test_a_member_goes_on_by_itself_and_the_fleet_with_a_larger_budget(tmp_path):
    folder = tmp_path / "fleet"
    code, text = train(f"{KUHN} --seeds 0 1 --turns 4096", folder)
    assert code == 0, text
    code, text = train(f"--resume {folder / 'seed-0'} --turns 8192 --plain", folder / "seed-0")
    assert code == 0, text
    assert newest(folder / "seed-0") == 8192
    code, text = train(f"--resume {folder} --turns 40960 --plain", folder)
    assert code == 0, text
    for seed in (0, 1):
        assert newest(folder / f"seed-{seed}") == 40960


def test_a_failing_member_is_named_and_the_exit_code_says_so(tmp_path):
    folder = tmp_path / "fleet"
    code, text = train(f"{KUHN} --seeds 0 1 --turns 4096", folder)
    assert code == 0, text
    latest = Store(folder / "seed-0" / "checkpoints", keep=1).latest()
    saved = read(latest)
    foreign = {**saved.meta, "schema_hash": "0123456789abcdef"}
    write(latest.with_name("step-000000099999"), saved.tensors, foreign, saved.blobs)
    code, text = train(f"--resume {folder} --turns 8192 --plain", folder)
    assert code == 1, text
    assert "seed-0 failed (PlaymillError: " in text
    assert "its observations have schema 0123456789abcdef" in text
    assert newest(folder / "seed-1") == 8192
