"""Runs and evaluations on the card: they agree with the CPU's, and a killed run goes on."""

import copy
import dataclasses
import signal

import pytest
import torch

from playmill.algorithms import PPO
from playmill.checkpoints import Store, read
from playmill.games import PlaymillError, registry
from playmill.league.evaluate import evaluate
from playmill.league.exploitability import InformationStates
from playmill.league.policies import load_policy
from playmill.policies import Network, Policy
from playmill.replays import ReplayFile, ReplayWriter
from playmill.training.config import Checkpoints, Evaluation, Opponents, Train
from playmill.training.cuda.layers import FusedLayers
from playmill.training.judge import exact_exploitability
from playmill.training.runs import create_run, open_run
from playmill.training.trainer import Trainer
from tests.contract.cases import every_game
from tests.integration.test_training import metrics, newest, start, train, wait_for
from tests.unit.test_expansion import real_rows

pytestmark = pytest.mark.cuda

TURNS = 256 * 16


class Listener:
    """Keeps what it is told."""

    def __init__(self):
        self.notes, self.updates = [], 0

    def update(self, status):
        self.updates = status.updates

    def note(self, text):
        self.notes.append(text)


def settings(**more):
    given = {
        "game": "leduc",
        "games": 256,
        "steps": 16,
        "threads": 1,
        "device": "cuda",
        "turns": 10 * TURNS,
        "network": Network(hidden=(128, 128)),
        "ppo": PPO(minibatch=512, regulariser="average"),
        "opponents": Opponents(past=0.3, bots=0.2, keep=2, every=3),
        "evaluation": Evaluation(every=4 * TURNS, deals=20, final_deals=20, exploitability=False),
        "checkpoints": Checkpoints(every_updates=1),
    }
    return Train(**{**given, **more})


def lively(spec, network, seed=2):
    """A policy that is far from indifferent."""
    torch.manual_seed(seed)
    policy = Policy(spec, network)
    with torch.no_grad():
        policy.action_head.weight.normal_(0.0, 0.5)
    return policy


# Evaluations


@every_game
@pytest.mark.parametrize("sample", [False, True], ids=["likeliest", "drawn"])
def test_an_evaluation_on_the_card_is_that_on_the_cpu(game, sample):
    spec = registry.spec(game)
    policy = lively(spec, Network(hidden=(64, 32)))
    others = [spec.bots[-1], lively(spec, Network(hidden=(32,)), seed=9)]
    for other in others:
        on_card = (
            copy.deepcopy(policy).cuda(),
            other if isinstance(other, str) else copy.deepcopy(other).cuda(),
        )
        mine = evaluate(spec, policy, other, deals=400, sample=sample)
        theirs = evaluate(spec, *on_card, deals=400, sample=sample)
        assert theirs.games == mine.games == 400 * spec.seats
        # Drawn, the luck differs; likeliest, only logits that round to the other side of a tie.
        assert theirs.win_share == pytest.approx(mine.win_share, abs=0.1 if sample else 0.01)
        spread = max(1.0, abs(mine.reward))
        assert theirs.reward == pytest.approx(mine.reward, abs=(0.3 if sample else 0.02) * spread)
        if not sample:
            assert theirs.low == pytest.approx(mine.low, abs=0.02)
            assert theirs.score == pytest.approx(mine.score, rel=0.02, abs=0.02)


def test_games_of_an_evaluation_on_the_card_can_be_kept(tmp_path):
    spec = registry.spec("skull_king")
    policy = lively(spec, Network(hidden=(64, 32))).cuda()
    with ReplayWriter(tmp_path / "card.replays") as writer:
        evaluate(spec, policy, "greedy", deals=5, replays=writer)
    file = ReplayFile(tmp_path / "card.replays")
    assert [file.play(number).over for number in range(len(file))] == [True] * 20


def test_policies_of_two_devices_do_not_meet():
    spec = registry.spec("kuhn")
    policy = lively(spec, Network(hidden=(16,)))
    with pytest.raises(PlaymillError, match="live on one device"):
        evaluate(spec, policy, copy.deepcopy(policy).cuda(), deals=4)


def test_exact_exploitability_is_that_on_the_cpu():
    pytest.importorskip("pyspiel")
    states = InformationStates("kuhn")
    policy = lively(registry.spec("kuhn"), Network(hidden=(64,)))
    mine = exact_exploitability(policy, states)
    assert exact_exploitability(policy.cuda(), states) == pytest.approx(mine, abs=1e-4)


# Runs


def test_a_checkpoint_of_the_card_plays_on_the_cpu(tmp_path):
    folder = create_run(tmp_path / "run", settings())
    trainer = Trainer(folder, Listener())
    assert trainer.run() == "budget"
    folder.release()
    loaded = load_policy(Store(tmp_path / "run" / "checkpoints", keep=1).latest())
    assert (loaded.meta["device"], loaded.meta["precision"]) == ("cuda", "bfloat16")
    assert {p.device.type for p in loaded.policy.parameters()} == {"cpu"}
    _, rows = real_rows("leduc")
    rows = torch.from_numpy(rows)
    with torch.no_grad():
        mine, on_card = loaded.policy(rows), trainer.policy(rows.cuda())
    torch.testing.assert_close(on_card.logits.cpu(), mine.logits, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(on_card.value.cpu(), mine.value, rtol=1e-4, atol=1e-4)
    # And what the native layers said while it was trained, in their own precision.
    layers = FusedLayers(loaded.spec, loaded.policy.network, "bfloat16", len(rows), False)
    heads = torch.zeros(len(rows), layers.stride, device="cuda")
    layers.forward(trainer.lane.player, rows.cuda(), None, len(rows), heads)
    torch.cuda.synchronize()
    said = heads.cpu()[:, : loaded.spec.actions]
    assert float((said - mine.logits).norm() / mine.logits.norm()) < 2e-2
    result = evaluate(loaded.spec, loaded.policy, "random", deals=200)
    assert result.win_share > 0.3


def test_a_run_goes_on_from_its_checkpoint(tmp_path):
    folder = create_run(tmp_path / "run", settings(turns=7 * TURNS))
    first = Trainer(folder, Listener())
    first.run()
    folder.release()
    saved = read(Store(tmp_path / "run" / "checkpoints", keep=1).latest())
    assert (saved.meta["updates"], saved.meta["turns"]) == (7, 7 * TURNS)
    assert saved.meta["past"] == 2

    again = open_run(tmp_path / "run")
    listener = Listener()
    second = Trainer(dataclasses.replace(again, config=settings(turns=12 * TURNS)), listener)
    assert (second.updates, second.turns) == (7, 7 * TURNS)
    assert second.games_played == first.games_played == saved.meta["games_played"]
    assert second.seated == first.seated
    tensors, blobs = second.lane.tensors(), second.lane.blobs()
    assert tensors.keys() == saved.tensors.keys()
    for name, tensor in saved.tensors.items():
        assert torch.equal(tensors[name], tensor), name
    assert blobs == saved.blobs
    assert second.run() == "budget"
    again.release()
    assert (second.updates, second.turns) == (12, 12 * TURNS)
    assert second.games_played > first.games_played
    assert listener.notes == []


def test_a_run_of_the_card_does_not_take_games_of_the_cpu(tmp_path):
    folder = create_run(tmp_path / "cpu", settings(device="cpu", precision="bfloat16", turns=2 * TURNS))
    Trainer(folder, Listener()).run()
    folder.release()
    folder = open_run(tmp_path / "cpu")
    with pytest.raises(PlaymillError, match="does not fit this run's config"):
        Trainer(dataclasses.replace(folder, config=settings()), Listener())
    folder.release()


LINE = (
    "kuhn --device cuda --precision bfloat16 --games 256 --steps 16 --network.hidden 128 --ppo.minibatch 512 "
    "--evaluation.every 0 --evaluation.final-deals 20 --evaluation.no-exploitability "
    "--checkpoints.every-updates 5 --turns 1000000000 --plain"
)


@pytest.mark.integration
def test_a_killed_run_goes_on_where_its_last_checkpoint_was(tmp_path):
    run, log = tmp_path / "run", tmp_path / "log"
    process = start(LINE, run, log)
    wait_for(lambda: newest(run) >= 50 * TURNS, process)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, log.read_text()
    reached = newest(run)
    saved = read(Store(run / "checkpoints", keep=1).latest())
    assert saved.meta["turns"] == reached
    assert saved.meta["updates"] * TURNS == reached
    budget = reached + 60 * TURNS
    code, text = train(f"--resume {run} --turns {budget} --plain", run)
    assert code == 0, text
    assert newest(run) == budget
    after = read(Store(run / "checkpoints", keep=1).latest())
    assert after.meta["updates"] == saved.meta["updates"] + 60
    assert after.meta["games_played"] > saved.meta["games_played"]
    assert after.tensors["adam/action_head.bias/step"] > saved.tensors["adam/action_head.bias/step"]
    steps = [row["step"] for row in metrics(run) if "loss/policy" in row]
    assert steps == sorted(set(steps))
    assert steps[-1] > reached
    assert all(row.get("guard/skipped", 0) == 0 for row in metrics(run))
