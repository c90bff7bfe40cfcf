"""Runs over several ranks, in real processes: the same learning as in one, and nothing lost when one dies."""

import dataclasses
import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from playmill.algorithms import PPO
from playmill.checkpoints import Store, fingerprint, read
from playmill.cli.train import parse
from playmill.policies import Network
from playmill.training.config import Opponents, Teacher, Train
from playmill.training.lane import CpuLane
from playmill.training.ranked import Follower, LeadingLane
from playmill.training.ranks import MEETING_FILE, Group
from playmill.training.runs import create_run
from playmill.training.trainer import Trainer
from tests.integration.program import PATIENCE, newest, start, train, wait_for

pytestmark = pytest.mark.integration

SMALL = {"games": 24, "steps": 12, "precision": "float32", "network": Network(hidden=(16, 16))}
UNET = Network(body="unet", channels=8, halvings=1)
BOARD = {"height": "6", "width": "6"}
MIXED = Opponents(past=0.4, bots=0.3, keep=2)

CASES = {
    "everything": Train(
        game="skull_king",
        threads=2,
        opponents=MIXED,
        ppo=PPO(minibatch=64, weight_average=0.8, top_advantages=0.5, regulariser="magnet", magnet_every=2),
        **SMALL,
    ),
    "target": Train(
        game="leduc",
        threads=2,
        ppo=PPO(minibatch=50, epochs=6, lr=3e-2, target_kl=0.01, accumulate=2),
        **SMALL,
    ),
    "threads": Train(game="leduc", threads=4, ppo=PPO(minibatch=64, normalise=False), **SMALL),
    "lessons": Train(game="leduc", threads=2, teacher=Teacher("random", 500), ppo=PPO(minibatch=64), **SMALL),
    "board": Train(
        game="generals",
        options=BOARD,
        threads=2,
        opponents=MIXED,
        ppo=PPO(minibatch=64, symmetries=True, regulariser="average"),
        **{**SMALL, "network": UNET},
    ),
    "hardly a row": Train(
        game="leduc",
        threads=2,
        opponents=Opponents(bots=1.0),
        ppo=PPO(minibatch=64),
        **{**SMALL, "games": 2, "steps": 2},
    ),
}


def work(lane):
    """Some updates with opponents seated in between; then from what was saved on, once more."""
    done = []
    for number in range(4):
        if number % 2:
            lane.remember(2)
        lane.seat(number)
        done.append(lane.update(number, number / 8))
    tensors, blobs = lane.tensors(), lane.blobs()
    meta = {"past": len(lane.past), "skipped": done[-1].skipped, "restored": done[-1].restored}
    after = fingerprint_after(lane, 4)
    lane.load(tensors, blobs, meta)
    assert fingerprint_after(lane, 4) == after
    facts = [(d.losses, d.stats, d.games) for d in done]
    lane.close()
    return tensors, blobs, facts


def fingerprint_after(lane, number):
    lane.update(number, 0.5)
    return fingerprint(lane.tensors()), lane.blobs()


def rank_main(rank, file, cases, answers):
    os.environ |= {
        "RANK": str(rank),
        "WORLD_SIZE": "2",
        MEETING_FILE: str(file),
        "GLOO_SOCKET_IFNAME": "lo",
    }
    ranks = Group()
    for name, config in cases.items():
        if rank:
            Follower(ranks).run()
        else:
            tensors, *rest = work(LeadingLane(config, config.spec, None, ranks))
            answers.put((name, {k: t.numpy() for k, t in tensors.items()}, *rest))
    ranks.close()


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """What two ranks came to, by case."""
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    file = tmp_path_factory.mktemp("ranks") / "meeting"
    cases = {name: dataclasses.replace(config, ranks=2) for name, config in CASES.items()}
    processes = [context.Process(target=rank_main, args=(r, file, cases, answers)) for r in range(2)]
    for process in processes:
        process.start()
    found = {}
    for _ in cases:
        name, *came = answers.get(timeout=PATIENCE)
        found[name] = came
    for process in processes:
        process.join(PATIENCE)
        assert process.exitcode == 0
    return found


@pytest.mark.parametrize("name", CASES)
def test_two_ranks_come_to_what_one_comes_to(name, pairs):
    config = CASES[name]
    tensors, blobs, facts = work(CpuLane(config, config.spec, None))
    theirs, their_blobs, their_facts = pairs[name]
    assert their_blobs == blobs
    assert sorted(theirs) == sorted(tensors)
    for key, tensor in tensors.items():
        assert abs(theirs[key] - tensor.numpy()).max() <= 1e-5 * max(1.0, float(tensor.abs().max())), key
    for mine, other in zip(facts, their_facts, strict=True):
        assert other[0] == pytest.approx(mine[0], abs=1e-5)
        assert other[1] == pytest.approx(mine[1])
        assert other[2] == mine[2]


def test_the_cases_are_not_trivial(pairs):
    assert any(losses["epochs"] < 6 for losses, *_ in pairs["target"][2])
    assert "teacher_likelihood" in pairs["lessons"][2][0][0]
    assert len(pairs["threads"][1]) == 4
    assert any(key.startswith("past/1/") for key in pairs["everything"][0])


# --- the command line

LEDUC = (
    "leduc --ranks 2 --games 64 --steps 16 --threads 2 --precision float32 --network.hidden 16 "
    "--ppo.minibatch 256 --turns 40960 --checkpoints.every-updates 1 "
    "--opponents.past 0.4 --opponents.every 6 --opponents.keep 2 --evaluation.every 20480 "
    "--evaluation.deals 2 --evaluation.final-deals 2 --evaluation.no-exploitability --plain"
)


def rank_pids(process):
    """Process numbers by rank."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    found = {}
    for pid in children:
        settings = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        found |= {int(s[5:]): int(pid) for s in settings if s.startswith(b"RANK=")}
    return found


def state(run):
    checkpoint = read(Store(run / "checkpoints", keep=1).latest())
    meta = {key: checkpoint.meta[key] for key in ("updates", "turns", "games_played", "past", "seated")}
    return fingerprint(checkpoint.tensors), checkpoint.blobs, meta


def test_signals_and_kills_of_single_ranks_change_no_bit(tmp_path):
    """It ends with the bits of a run in one process that nobody disturbed."""
    straight, broken, log = tmp_path / "straight", tmp_path / "broken", tmp_path / "log"
    process = start(LEDUC, broken, log)
    wait_for(lambda: newest(broken) > 4000, process)
    os.kill(rank_pids(process)[1], signal.SIGTERM)
    assert process.wait(PATIENCE) == 0, log.read_text()
    assert "Stopped after" in log.read_text()
    assert f"playmill train --resume {broken}" in log.read_text()

    log.write_text("")
    reached = newest(broken)
    process = start(f"--resume {broken} --plain", broken, log)
    wait_for(lambda: newest(broken) > reached + 4000, process)
    ranks = rank_pids(process)
    os.kill(ranks[1], signal.SIGKILL)
    killed = time.monotonic()
    assert process.wait(PATIENCE) == 2
    assert time.monotonic() - killed < 20
    said = " ".join(log.read_text().split())
    assert "rank 1 of 2 was ended by SIGKILL, and the run with it; go on from the last checkpoint by" in said
    assert "Traceback" not in said
    assert not any(Path(f"/proc/{pid}").exists() for pid in ranks.values())

    assert newest(broken) < 40960
    code, text = train(f"--resume {broken} --plain", broken)
    assert code == 0, text
    assert text.count("Done after") == 1
    run = create_run(straight, dataclasses.replace(parse(LEDUC.split()).config, ranks=1))
    assert Trainer(run, Mute()).run() == "budget"
    run.release()
    assert state(broken) == state(straight)


class Mute:
    def update(self, status):
        pass

    def note(self, text):
        pass


def test_what_the_first_rank_refuses_is_said_once(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "other").write_text("")
    code, text = train(LEDUC, run)
    assert code == 2
    assert text.count("playmill:") == 1
    assert "is in use and is not a run" in text
