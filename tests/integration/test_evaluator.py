"""Evaluation beside training: every checkpoint once, the newest first, and nothing that a kill could lose."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from playmill.checkpoints import Store
from playmill.league.evaluate import Evaluation as Result
from playmill.training.actors import ActorCrew
from playmill.training.config import Actors, Checkpoints, Evaluation, Train
from playmill.training.evaluations import COPIES, FILE, Found, Reader, append
from playmill.training.evaluator import Evaluator
from playmill.training.judge import Judge
from playmill.training.runs import create_run
from playmill.training.trainer import Trainer


def result(win, reward=0.0):
    return Result(win, win - 0.1, win + 0.1, 0.5, 20, reward, {}, {}, 60)


class Quiet:
    def update(self, status): ...
    def note(self, text): ...


@pytest.fixture
def run(tmp_path):
    """A short run of Kuhn poker with three checkpoints."""
    config = Train(
        game="kuhn",
        games=16,
        steps=8,
        turns=512,
        threads=1,
        evaluation=Evaluation(every=0, deals=10, final_deals=10),
        checkpoints=Checkpoints(every_updates=1, keep=3),
    )
    folder = create_run(tmp_path / "run", config)
    Trainer(folder, Quiet()).run()
    folder.release()
    return folder.path


def lines(folder):
    return [json.loads(line) for line in (folder / FILE).read_text().splitlines()]


def wait_for(done, within=60.0):
    until = time.monotonic() + within
    while not done():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_lines_are_whole_or_absent_and_strangers_are_passed_over(tmp_path):
    reader = Reader(tmp_path)
    assert reader.news() == []
    one, two = Found(1, 0.5, "random", 0.1, result(0.6)), Found(2, 0.5, "", 0.1, exploitability=0.25)
    append(tmp_path, [one])
    with (tmp_path / FILE).open("a") as file:
        file.write('{"step": 7}\nnonsense\n{"step": 9, "oppo')
    assert reader.news() == [one]
    append(tmp_path, [two])  # cuts off the torn line
    assert reader.news() == [two]
    assert reader.news() == []
    assert Reader(tmp_path).news() == [one, two]


def test_the_judge_takes_lines_in_any_order_and_again():
    config = Train(game="skull_king", lane="engines", evaluation=Evaluation(against=("random", "hard")))
    judge = Judge(config, config.spec, None)
    assert not judge.due(10**9)
    later = [Found(20, 2.0, bot, 0.1, result(win, 5.0)) for bot, win in (("random", 0.9), ("hard", 0.6))]
    earlier = [Found(10, 1.0, bot, 0.1, result(win, 3.0)) for bot, win in (("random", 0.8), ("hard", 0.5))]
    best = []
    for found in [*later, *earlier, *later]:
        assert judge.take(found)[f"eval/{found.opponent}/win_share"] == found.result.win_share
        best += [found.step] * judge.is_best()
    assert best == [20]
    assert judge.history == {"random": [(10, 0.8), (20, 0.9)], "hard": [(10, 0.5), (20, 0.6)]}
    assert judge.scores == [(1.0, 3.0), (2.0, 5.0)]
    assert judge.latest["hard"].win_share == 0.6


def test_every_checkpoint_is_evaluated_once_the_newest_first(run):
    steps = Store(run / "checkpoints", keep=1).steps()
    first = Evaluator(run, say=str)
    assert first.step() == steps[-1]
    again = Evaluator(run, say=str)  # another process after a kill
    assert [again.step() for _ in steps] == [*reversed(steps[:-1]), None]
    found = lines(run)
    assert sorted(line["step"] for line in found if line["opponent"] == "random") == steps
    assert {"win_share", "low", "high", "games", "seconds"} <= found[-1].keys()
    assert all(line["games"] == 20 for line in found if line["opponent"])
    exact = [line for line in found if not line["opponent"]]
    assert all(0 <= line["exploitability"] < 1 for line in exact)


def test_a_checkpoint_may_be_deleted_and_the_best_comes_back_from_its_copy(run):
    store = Store(run / "checkpoints", keep=1)
    step = store.steps()[-1]
    evaluator = Evaluator(run, say=str)
    assert evaluator.step() == step
    shutil.rmtree(store.path(step))
    copy = run / COPIES / store.path(step).name
    assert store.keep_best(step, 0.5, copy)
    assert store.best() == store.path(step)
    shutil.rmtree(store.path(step))
    shutil.rmtree(copy)
    assert not store.keep_best(step, 0.5, copy)
    assert evaluator._copy(step) is None


def test_a_killed_evaluator_goes_on_where_it_was_and_stands_back(run):
    def start():
        return subprocess.Popen([sys.executable, "-m", "playmill", "evaluator", str(run)])

    process = start()
    wait_for(lambda: (run / FILE).exists())
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == 10
    process.send_signal(signal.SIGKILL)
    process.wait()
    process = start()
    steps = Store(run / "checkpoints", keep=1).steps()
    wait_for(lambda: len([line for line in lines(run) if line["opponent"]]) >= len(steps))
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == -signal.SIGTERM
    assert sorted(line["step"] for line in lines(run) if line["opponent"]) == steps


def test_the_crew_starts_an_evaluator_and_starts_it_again(run):
    config = Train(game="kuhn", lane="engines")
    names = [member.name for member in ActorCrew(config, run).members]
    assert names == ["actor-0", "evaluator"]
    for without in (Evaluation(beside=False), Evaluation(every=0)):
        crew = ActorCrew(Train(game="kuhn", lane="engines", evaluation=without), run)
        assert [member.name for member in crew.members] == ["actor-0"]
    elsewhere = Train(game="kuhn", lane="engines", actors=Actors(count=0))
    assert ActorCrew(elsewhere, run).members == []

    crew = ActorCrew(config, run)
    crew.members = crew.members[1:]
    try:
        crew.look_after()
        crew.members[0]._process.kill()
        wait_for(lambda: crew.look_after() or crew.restarts == {"evaluator": 1})
        wait_for(lambda: (run / FILE).exists())
    finally:
        crew.close()


def test_training_with_engines_learns_of_its_strength_from_beside(tmp_path):
    run = tmp_path / "run"
    small = ["--steps", "16", "--actors.segments", "16", "--ppo.minibatch", "128", "--network.hidden", "16"]
    often = ["--checkpoints.every-s", "0.5", "--evaluation.deals", "10", "--evaluation.final-deals", "20"]
    command = ["train", "kuhn", "--lane", "engines", "--run", str(run), "--turns", "0", "--plain"]
    done = subprocess.run(
        [sys.executable, "-m", "playmill", *command, "--minutes", "0.15", *small, *often],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = {line["step"] for line in lines(run)}
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    told = [row["step"] for row in rows if "eval/random/win_share" in row]
    assert len(told) == len(set(told)) >= 2
    assert set(told[:-1]) <= found
    assert Store(run / "checkpoints", keep=1).best() is not None
