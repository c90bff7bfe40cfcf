"""Fleets: which runs there are, that each is the run it would be alone, and what their folder keeps."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from playmill.checkpoints import Store, fingerprint, read
from playmill.cli.main import main
from playmill.cli.train import parse
from playmill.games import PlaymillError
from playmill.policies import Network
from playmill.training.config import Checkpoints, Evaluation, Train, load_recipe
from playmill.training.fleet import FAILURE, Fleet, State
from playmill.training.fleet_folder import Ended, FleetFolder, Record, create_fleet, open_fleet, read_fleet
from playmill.training.fleet_plan import MOST, changed, difference, plan_members, settled
from playmill.training.fleet_report import load_fleet
from playmill.training.runs import create_run, read_config
from playmill.training.status import Status
from playmill.training.throughput import Throughput
from playmill.training.trainer import Trainer

TINY = Train(
    game="kuhn",
    games=16,
    steps=8,
    threads=1,
    precision="float32",
    turns=40 * 128,
    network=Network(hidden=(8,)),
    evaluation=Evaluation(every=1280, deals=4, final_deals=4, exploitability=False),
    checkpoints=Checkpoints(every_updates=3),
)


class Ear:
    """Remembers what it is told; fails where asked to."""

    def __init__(self, fails: bool = False) -> None:
        self.notes: list[str] = []
        self.states: list[tuple[str, State]] = []
        self.updates: list[str] = []
        self.found: Throughput | None = None
        self.fails = fails

    def update(self, name: str, status: Status) -> None:
        if self.fails:
            raise ZeroDivisionError("the screen")
        self.updates.append(f"{name}@{status.updates}")

    def state(self, name: str, state: State) -> None:
        self.states.append((name, state))

    def throughput(self, found: Throughput) -> None:
        self.found = found

    def note(self, text: str) -> None:
        self.notes.append(text)


class Mute:
    def update(self, status: Status) -> None: ...
    def note(self, text: str) -> None: ...


def begin(
    path: Path, seeds: tuple[int, ...] = (0, 1), vary: tuple[str, ...] = (), base: Train = TINY
) -> FleetFolder:
    return create_fleet(path, base, plan_members(base, seeds, vary))


def state(run: Path) -> tuple[str, dict[str, bytes], dict[str, Any]]:
    """All that the rest of a run depends on."""
    latest = Store(run / "checkpoints", keep=1).latest()
    assert latest is not None
    saved = read(latest)
    meta = {key: saved.meta[key] for key in ("updates", "turns", "games_played", "seed")}
    return fingerprint(saved.tensors), saved.blobs, meta


def alone(path: Path, config: Train) -> Path:
    run = create_run(path, config)
    assert Trainer(run, Mute()).run() == "budget"
    run.release()
    return path


# Which runs


def test_seeds_and_values_multiply_and_are_named() -> None:
    assert plan_members(TINY, (3, 5), ()) == {"seed-3": {"seed": 3}, "seed-5": {"seed": 5}}
    both = plan_members(TINY, (0, 1), ("ppo.lr=1e-3,3e-3", "network.hidden=8+4,16"))
    assert len(both) == 8
    assert next(iter(both)) == "lr=0.001,hidden=8+4,seed=0"
    config = changed(TINY, both["lr=0.003,hidden=16,seed=1"])
    assert (config.ppo.lr, config.network.hidden, config.seed) == (0.003, (16,), 1)
    assert list(plan_members(TINY, (), ("opponents.bot-names=random", "ppo.normalise=true,false"))) == [
        "bot_names=random,normalise=true",
        "bot_names=random,normalise=false",
    ]


def test_settings_that_share_their_last_word_are_named_in_full() -> None:
    names = plan_members(TINY, (), ("opponents.every=5,6", "evaluation.every=7"))
    assert list(names) == [
        "opponents.every=5,evaluation.every=7",
        "opponents.every=6,evaluation.every=7",
    ]


def test_names_are_names_of_folders() -> None:
    base = Train(game="skull_king")
    odd = plan_members(base, (), ("options.scoring=rascal,cannonball", "ppo.regulariser=none,magnet"))
    assert all(re.fullmatch(r"[A-Za-z0-9._=+,-]+", name) and not name.startswith(".") for name in odd)
    long = plan_members(TINY, (0, 1), ("network.hidden=" + "+".join(["16"] * 90),))
    assert len(long) == 2
    assert all(len(name) < 130 for name in long)


BAD = [
    ("--vary ppo.lrr=1,2", "no setting is called 'ppo.lrr'; did you mean 'ppo.lr'"),
    ("--vary pppo.lr=1,2", "no setting is called 'pppo.lr'; did you mean 'ppo.lr'"),
    ("--vary ppo.lr=fast", "run lr=fast: ppo.lr must be float, got 'fast'"),
    ("--vary games=0,1", "run games=0: games must be at least 1, got 0"),
    ("--vary ppo.lr_schedule=cosin", "no value of ppo.lr_schedule is called 'cosin'; did you mean 'cosine'"),
    ("--vary ppo=1", "ppo is a group of settings; name one of them, such as ppo.gamma=A,B"),
    ("--vary ppo.lr", "--vary takes SETTING=VALUE,VALUE such as ppo.lr=1e-3,3e-3, got 'ppo.lr'"),
    ("--vary ppo.lr=1,", "--vary takes SETTING=VALUE,VALUE"),
    ("--vary ppo.lr=1e-3,0.001", "ppo.lr has 0.001 twice"),
    ("--vary ppo.lr=1 ppo.lr=2", "--vary names ppo.lr twice"),
    ("--vary ppo.lr=1 --vary ppo.clip=1", "--vary is there twice; put all values behind one"),
    ("--vary seed=1,2", "seed cannot be varied; use --seeds"),
    ("--vary game=kuhn,leduc", "game cannot be varied; a fleet compares runs of one game"),
    ("--vary evaluation.against=radnom", "no bot of kuhn is called 'radnom'; did you mean 'random'"),
    ("--vary options.players=2", "no option of kuhn is called 'players'"),
    ("--seeds", "--seeds needs values, as `--seeds 0 1 2 3`"),
    ("--seeds 1 1", "--seeds has 1 twice"),
    ("--seeds 0 1 --seed 3", "--seeds names the seeds already; leave --seed out"),
    (f"--seeds {' '.join(map(str, range(MOST + 1)))}", "this makes 65 runs, a fleet has at most 64"),
    ("--seeds 0 1 2 --vary ppo.lr=1,2,3,4,5,6 games=1,2,3,4", "this makes 72 runs"),
]


@pytest.mark.parametrize(("line", "says"), BAD)
def test_a_wrong_fleet_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["train", "kuhn", *line.split()])
    out, err = capsys.readouterr()
    assert stop.value.code == 2
    assert says in err
    assert err.count("\n") == 1
    assert not out
    assert not list(tmp_path.iterdir())  # nothing was begun


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--seeds 1 2", "what is resumed has its runs already; leave --seeds and --vary out"),
        ("--vary ppo.lr=1,2", "what is resumed has its runs already"),
        ("--ppo.lr 0.5", "ppo.lr belongs to what the runs are and cannot be changed by --resume"),
        ("--run elsewhere", "--resume names the folder already; leave --run out"),
    ],
)
def test_a_resumed_fleet_is_what_it_was(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str, says: str
) -> None:
    begin(tmp_path / "fleet").release()
    before = (tmp_path / "fleet" / "fleet.json").read_text()
    with pytest.raises(SystemExit) as stop:
        main(["train", "--resume", str(tmp_path / "fleet"), *line.split()])
    assert stop.value.code == 2
    assert says in capsys.readouterr().err
    assert (tmp_path / "fleet" / "fleet.json").read_text() == before


@pytest.mark.parametrize("page", ["docs/fleets.md", "README.md"])
def test_the_documents_show_fleets_that_can_be_trained(page: str) -> None:
    text = (Path(__file__).parents[2] / page).read_text()
    lines = re.findall(r"^(?:playmill train) ((?!--resume).*(?:--seeds|--vary).*)$", text, re.MULTILINE)
    assert lines
    for line in lines:
        command = parse(line.partition("#")[0].split())
        assert len(plan_members(command.config, command.seeds, command.vary)) > 1


def test_every_recipe_can_be_varied() -> None:
    base = load_recipe("skull_king/quick")
    assert len(plan_members(base, (0, 1), ("ppo.lr=1e-4,1e-3",))) == 4


def test_what_differs_is_found_by_name() -> None:
    other = changed(TINY, {"turns": 5, "evaluation.every": 9, "options": {}})
    assert difference(TINY, other) == {"turns": 5, "evaluation.every": 9}
    assert difference(TINY, TINY) == {}


def test_the_precision_is_chosen_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    auto = changed(TINY, {"precision": "auto"})
    asked: list[object] = []
    monkeypatch.setattr("playmill.training.fleet_plan.faster_in_bfloat16", lambda *a: asked.append(a) or True)
    assert settled(auto, ["seed"]).precision == "bfloat16"
    assert len(asked) == 1
    assert settled(auto, ["precision"]).precision == "auto"
    assert settled(TINY, ["seed"]) == TINY


# Training


def test_each_run_is_the_run_it_would_be_alone(tmp_path: Path) -> None:
    ear = Ear()
    folder = begin(tmp_path / "fleet", (0, 7), ("ppo.lr=1e-3,3e-3",))
    states = Fleet(folder, ear).run()
    folder.release()
    assert set(states.values()) == {"done"}
    assert len(states) == 4
    seen = {}
    for name in states:
        config = read_config(tmp_path / "fleet" / name)
        seen[name] = state(tmp_path / "fleet" / name)
        assert seen[name] == state(alone(tmp_path / "alone" / name, config)), name
    assert len({weights for weights, _, _ in seen.values()}) == 4  # and no two are the same
    assert not ear.notes


def test_runs_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("playmill.training.fleet.measure", lambda *_: None)
    ear = Ear()
    folder = begin(tmp_path / "fleet", (0, 1, 2))
    Fleet(folder, ear).run()
    folder.release()
    assert ear.updates[:6] == [f"seed-{seed}@{update}" for update in (1, 2) for seed in (0, 1, 2)]
    assert len(ear.updates) == 3 * 40


def test_a_run_that_is_over_leaves_and_the_others_go_on(tmp_path: Path) -> None:
    ear = Ear()
    folder = begin(tmp_path / "fleet", (), ("turns=1280,5120",))
    assert Fleet(folder, ear).run() == {"turns=1280": "done", "turns=5120": "done"}
    folder.release()
    assert state(tmp_path / "fleet" / "turns=1280")[2]["turns"] == 1280
    assert state(tmp_path / "fleet" / "turns=5120")[2]["turns"] == 5120
    assert folder.record.ended["turns=1280"] == Ended("budget", 1280, pytest.approx(0, abs=60))
    # What is over is not trained again.
    metrics = tmp_path / "fleet" / "turns=1280" / "metrics.jsonl"
    before, lines = state(tmp_path / "fleet" / "turns=1280"), metrics.read_text()
    again, ear = open_fleet(tmp_path / "fleet"), Ear()
    assert set(Fleet(again, ear).run().values()) == {"done"}
    again.release()
    assert ear.updates == []
    assert metrics.read_text() == lines  # not even judged
    assert state(tmp_path / "fleet" / "turns=1280") == before


def fail_at(monkeypatch: pytest.MonkeyPatch, seed: int, turns: int, error: Exception) -> None:
    advance = Trainer.advance

    def failing(self: Trainer) -> str | None:
        if self.config.seed == seed and self.turns >= turns:
            raise error
        return advance(self)

    monkeypatch.setattr(Trainer, "advance", failing)


@pytest.mark.parametrize("turns", [0, 2560])
def test_one_that_fails_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    with monkeypatch.context() as broken:
        fail_at(broken, 1, turns, RuntimeError("out of\nluck"))
        ear = Ear()
        folder = begin(tmp_path / "fleet", (0, 1, 2))
        states = Fleet(folder, ear).run()
        folder.release()
    assert states == {"seed-0": "done", "seed-1": "failed", "seed-2": "done"}
    (note,) = ear.notes
    assert note.startswith("seed-1 failed (RuntimeError: out of luck); the others go on")
    assert "\n" not in note
    assert "Traceback" in (tmp_path / "fleet" / "seed-1" / FAILURE).read_text()
    assert load_fleet(tmp_path / "fleet").state("seed-1") == "failed"
    # Resumed, it goes on from its last checkpoint and ends as if nothing had happened.
    again = open_fleet(tmp_path / "fleet")
    assert set(Fleet(again, Ear()).run().values()) == {"done"}
    again.release()
    assert not (tmp_path / "fleet" / "seed-1" / FAILURE).exists()
    straight = alone(tmp_path / "alone", changed(TINY, {"seed": 1}))
    assert state(tmp_path / "fleet" / "seed-1") == state(straight)


def test_one_that_cannot_be_opened_does_not_stop_the_others(tmp_path: Path) -> None:
    begin(tmp_path / "fleet").release()
    (tmp_path / "fleet" / "seed-0" / "config.json").write_text("{")
    folder, ear = open_fleet(tmp_path / "fleet"), Ear()
    assert Fleet(folder, ear).run() == {"seed-0": "failed", "seed-1": "done"}
    folder.release()
    assert "seed-0 failed" in ear.notes[0]
    assert "config.json cannot be read" in ear.notes[0]


def test_a_screen_that_fails_costs_no_run(tmp_path: Path) -> None:
    folder = begin(tmp_path / "fleet")
    assert set(Fleet(folder, Ear(fails=True)).run().values()) == {"done"}
    folder.release()


def test_stop_ends_all_in_order_and_all_are_saved(tmp_path: Path) -> None:
    base = changed(TINY, {"turns": 0, "minutes": 60.0, "checkpoints.every_updates": 0})
    folder = begin(tmp_path / "fleet", (0, 1, 2), base=base)
    ear = Ear()
    fleet = Fleet(folder, ear)
    tell = ear.update

    def update(name: str, status: Status) -> None:
        tell(name, status)
        if len(ear.updates) == 100:
            fleet.stop("SIGINT")

    ear.update = update  # type: ignore[method-assign]
    assert set(fleet.run().values()) == {"stopped"}
    folder.release()
    assert len(ear.updates) == 100
    for name in ("seed-0", "seed-1", "seed-2"):
        trained = [int(one.partition("@")[2]) for one in ear.updates if one.startswith(name)]
        assert state(tmp_path / "fleet" / name)[2]["updates"] == max(trained) > 0


# The folder


def test_a_folder_holds_ordinary_runs_and_says_how_it_was_made(tmp_path: Path) -> None:
    folder = begin(tmp_path / "fleet", (4, 5))
    with pytest.raises(PlaymillError, match="in use by another process"):
        open_fleet(tmp_path / "fleet")
    with pytest.raises(PlaymillError, match="is a fleet already; go on by `playmill train --resume"):
        begin(tmp_path / "fleet")
    folder.release()
    assert read_fleet(tmp_path / "fleet") == Record(TINY, {"seed-4": {"seed": 4}, "seed-5": {"seed": 5}})
    assert read_config(tmp_path / "fleet" / "seed-5") == changed(TINY, {"seed": 5})
    create_run(tmp_path / "run", TINY).release()
    with pytest.raises(PlaymillError, match="is a run already"):
        begin(tmp_path / "run")
    (tmp_path / "fleet" / "fleet.json").write_text("{}")
    with pytest.raises(PlaymillError, match=r"fleet\.json cannot be read"):
        read_fleet(tmp_path / "fleet")


def test_a_kill_while_the_runs_are_made_loses_nothing(tmp_path: Path) -> None:
    begin(tmp_path / "fleet").release()
    for file in (tmp_path / "fleet" / "seed-1").iterdir():
        if file.name != "run.lock":
            file.unlink()
    folder = open_fleet(tmp_path / "fleet")
    run = folder.open("seed-1")
    assert run.config == changed(TINY, {"seed": 1})
    run.release()
    folder.release()


def test_a_resumed_fleet_may_have_a_new_budget_and_nothing_else(tmp_path: Path) -> None:
    folder = begin(tmp_path / "fleet", (0, 1), ("evaluation.deals=2,3",))
    folder.change({"turns": 9999})
    assert {read_config(tmp_path / "fleet" / name).turns for name in folder.record.members} == {9999}
    assert read_fleet(tmp_path / "fleet").config.turns == 9999
    with pytest.raises(PlaymillError, match=r"ppo\.lr belongs to what the runs are"):
        folder.change({"ppo.lr": 0.5})
    with pytest.raises(PlaymillError, match=r"evaluation\.deals is varied in this fleet"):
        folder.change({"evaluation.deals": 4})
    folder.release()


def test_a_fleet_is_not_taken_for_a_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = begin(tmp_path / "fleet")
    Fleet(folder, Ear()).run()
    folder.release()
    with pytest.raises(SystemExit):
        main(["evaluate", str(tmp_path / "fleet")])
    assert "holds several runs; name one of them: seed-0, seed-1" in capsys.readouterr().err
    main(["evaluate", str(tmp_path / "fleet" / "seed-1"), "--deals", "2", "--json"])
    assert json.loads(capsys.readouterr().out)["game"] == "kuhn"
