"""Whole runs through the real command line, in processes of their own: what they leave behind, and
that killing, stopping or damaging them loses nothing."""

import json
import random
import shutil
import signal
import time
from pathlib import Path

import pytest

from playmill.checkpoints import Store, fingerprint, read, write
from tests.integration.program import PATIENCE, newest, start, train, wait_for

pytestmark = pytest.mark.integration

KUHN = "kuhn --games 128 --steps 16 --threads 2 --precision float32 --network.hidden 32 --ppo.minibatch 512"
KUHN += " --evaluation.every 40000 --evaluation.deals 20 --evaluation.final-deals 20 --plain"
SHORT = f"{KUHN} --evaluation.no-exploitability --evaluation.every 0 --checkpoints.every-updates 1"

EVENTFUL = (
    "skull_king --games 64 --steps 16 --threads 2 --precision float32 --network.hidden 32 "
    "--ppo.minibatch 256 --turns 40960 --checkpoints.every-updates 1 "
    "--opponents.past 0.4 --opponents.bots 0.3 --opponents.every 6 --opponents.keep 2 "
    "--ppo.regulariser average --evaluation.every 8192 --evaluation.deals 2 "
    "--evaluation.final-deals 2 --evaluation.against hard --plain"
)


def metrics(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def state(run):
    """All that the rest of a run depends on: weights, optimiser, past policies, games in flight."""
    path = Store(run / "checkpoints", keep=1).latest()
    assert path is not None
    checkpoint = read(path)
    assert any(name.startswith("adam/") for name in checkpoint.tensors)
    assert checkpoint.blobs
    meta = {key: checkpoint.meta[key] for key in ("updates", "turns", "games_played", "past", "seated")}
    return fingerprint(checkpoint.tensors), checkpoint.blobs, meta


@pytest.fixture(scope="module")
def kuhn_run(tmp_path_factory):
    run = tmp_path_factory.mktemp("kuhn") / "run"
    code, text = train(f"{KUHN} --turns 300000 --ppo.entropy 0.05", run)
    assert code == 0, text
    return run, text


@pytest.fixture(scope="module")
def short_run(tmp_path_factory):
    """A finished run with every checkpoint of its last updates, to be copied and damaged."""
    run = tmp_path_factory.mktemp("short") / "run"
    code, text = train(f"{SHORT} --turns 12288", run)
    assert code == 0, text
    return run


@pytest.fixture
def copied_run(short_run, tmp_path):
    return Path(shutil.copytree(short_run, tmp_path / "run"))


def test_a_run_leaves_its_files(kuhn_run):
    run, text = kuhn_run
    for name in ("config.json", "metrics.jsonl", "report.html", "ratings.json", "curves.png"):
        assert (run / name).stat().st_size > 0, name
    store = Store(run / "checkpoints", keep=1)
    assert newest(run) >= 300000
    assert store.best() is not None
    assert (run / "report.html").read_text().lstrip().startswith("<!doctype html>")
    assert "http" not in (run / "report.html").read_text().replace("http://www.w3.org/2000/svg", "")
    assert (run / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((run / "config.json").read_text())["game"] == "kuhn"
    assert {row["name"] for row in json.loads((run / "ratings.json").read_text())} > {"random"}
    assert "Done after" in text
    assert f"playmill play {run}" in text
    assert f"playmill train --resume {run} --turns 600000" in text


def test_metrics_cover_every_update_once(kuhn_run):
    run, _ = kuhn_run
    rows = [row for row in metrics(run) if "loss/policy" in row]
    assert [row["step"] for row in rows] == list(range(2048, 300000 + 2048, 2048))
    wanted = {"loss/entropy", "loss/kl", "time/engine", "time/update", "speed/turns_per_s", "guard/skipped"}
    assert all(wanted <= row.keys() for row in rows)
    assert all(row["guard/skipped"] == 0 for row in rows)


def test_exploitability_falls(kuhn_run):
    run, _ = kuhn_run
    found = [row["eval/exploitability"] for row in metrics(run) if "eval/exploitability" in row]
    assert len(found) >= 7
    assert found[-1] < 0.15 < 0.458  # uniform play has 0.458
    assert found[-1] < 0.6 * found[0]


def test_a_finished_run_can_go_on(kuhn_run, tmp_path):
    run = Path(shutil.copytree(kuhn_run[0], tmp_path / "run"))
    before = newest(run)
    code, text = train(f"--resume {run} --turns 310000 --plain", run)
    assert code == 0, text
    assert newest(run) > before
    steps = [row["step"] for row in metrics(run) if "loss/policy" in row]
    assert steps == sorted(set(steps))


def test_kills_at_any_moment_change_no_bit(tmp_path):
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    code, text = train(EVENTFUL, straight)
    assert code == 0, text

    rng = random.Random(6)
    log = tmp_path / "broken.log"
    process = start(EVENTFUL, broken, log)
    wait_for((broken / "config.json").exists, process)
    time.sleep(rng.uniform(0.0, 0.5))  # perhaps before the first checkpoint
    kills = 0
    for _ in range(6):
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += process.wait() == -signal.SIGKILL
        reached = newest(broken)
        process = start(f"--resume {broken}", broken, log)
        goal = min(reached + 1024 * rng.randint(1, 6), 40960)
        wait_for(lambda goal=goal: newest(broken) >= goal, process)
        time.sleep(rng.uniform(0.0, 0.04))
    assert process.wait(PATIENCE) == 0, log.read_text()
    assert kills >= 5
    assert state(broken) == state(straight)

    def losses(run):
        rows = [row for row in metrics(run) if "loss/policy" in row]
        return [{k: v for k, v in row.items() if k.startswith(("loss/", "step", "self/"))} for row in rows]

    assert losses(broken) == losses(straight)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_says_how_to_go_on(tmp_path, number):
    run, log = tmp_path / "run", tmp_path / "log"
    process = start(f"{SHORT} --turns 1000000000 --checkpoints.every-updates 0", run, log)
    wait_for(lambda: (run / "metrics.jsonl").exists() and len(metrics(run)) > 2, process)
    code, text = train(f"--resume {run}", run)  # while it is held by the first
    assert code == 2
    assert "is in use by another process" in text
    assert newest(run) == 0  # nothing was saved yet

    process.send_signal(number)
    assert process.wait(PATIENCE) == 0
    said = log.read_text()
    assert "Stopped after" in said
    assert f"playmill train --resume {run}" in said
    assert newest(run) == metrics(run)[-1]["step"] > 0
    assert (run / "report.html").exists()


def test_a_folder_that_is_a_run_is_not_begun_again(short_run):
    before = state(short_run)
    code, text = train(f"{SHORT} --turns 12288", short_run)
    assert code == 2
    assert "is a run already" in text
    assert f"--resume {short_run}" in text
    assert state(short_run) == before


def test_a_damaged_newest_checkpoint_costs_only_its_own_updates(copied_run, short_run):
    store = Store(copied_run / "checkpoints", keep=1)
    last = store.latest()
    weights = last / "weights.safetensors"
    data = bytearray(weights.read_bytes())
    data[len(data) // 2] ^= 1
    weights.write_bytes(data)
    code, text = train(f"--resume {copied_run} --plain", copied_run)
    assert code == 0, text
    assert "skipped a damaged checkpoint" in text
    assert "weights.safetensors: hash mismatch" in text
    assert state(copied_run) == state(short_run)  # done again, and bit for bit the same


def test_a_half_written_checkpoint_is_no_checkpoint(copied_run, short_run):
    last = Store(copied_run / "checkpoints", keep=1).latest()
    (last / "manifest.json").unlink()
    left = copied_run / "checkpoints" / ".step-000000099999.new-0123abcd"
    left.mkdir()
    code, text = train(f"--resume {copied_run} --plain", copied_run)
    assert code == 0, text
    assert state(copied_run) == state(short_run)
    assert not left.exists()


def refused(run, tensors, meta, blobs, says):
    """A newer checkpoint of somebody else in the run's folder: said why, and nothing trained."""
    write(run / "checkpoints" / "step-000000099999", tensors, meta, blobs)
    code, text = train(f"--resume {run} --plain", run)
    assert code == 2, text
    assert says in text
    assert "Traceback" not in text
    assert newest(run) == 99999


def test_a_checkpoint_of_another_schema_is_refused(copied_run):
    mine = read(Store(copied_run / "checkpoints", keep=1).latest())
    meta = {**mine.meta, "schema_hash": "0123456789abcdef"}
    refused(copied_run, mine.tensors, meta, mine.blobs, "its observations have schema 0123456789abcdef")


def test_a_checkpoint_of_another_program_is_refused(copied_run):
    mine = read(Store(copied_run / "checkpoints", keep=1).latest())
    refused(copied_run, mine.tensors, {"who": "knows"}, mine.blobs, "schema None")


def test_a_checkpoint_of_another_network_is_refused(copied_run):
    mine = read(Store(copied_run / "checkpoints", keep=1).latest())
    tensors = {name: tensor for name, tensor in mine.tensors.items() if "value_head" not in name}
    refused(copied_run, tensors, mine.meta, mine.blobs, "does not fit this run's config")


def test_games_of_another_pool_are_refused(copied_run):
    mine = read(Store(copied_run / "checkpoints", keep=1).latest())
    blobs = {name: blob[:-1] for name, blob in mine.blobs.items()}
    refused(copied_run, mine.tensors, mine.meta, blobs, "this snapshot is of another pool")


def test_what_a_run_is_cannot_be_changed_by_resuming(copied_run, short_run):
    code, text = train(f"--resume {copied_run} --seed 5", copied_run)
    assert code == 2
    assert "seed belongs to what the run is" in text
    assert (copied_run / "config.json").read_text() == (short_run / "config.json").read_text()


def test_fewer_games_than_threads_train_all_the_same(tmp_path):
    code, text = train(f"{SHORT} --games 1 --threads 2 --turns 320", tmp_path / "run")
    assert code == 0, text
