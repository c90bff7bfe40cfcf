"""Settings: round trips, recipes, the command line's precedence, and one clear line for each mistake."""

import dataclasses
import json

import pytest

from playmill.algorithms import PPO
from playmill.cli.main import COMMANDS, main
from playmill.cli.train import DEFAULT_RECIPE, parse
from playmill.games import PlaymillError, UnknownName, registry
from playmill.policies import Network
from playmill.training.config import (
    Checkpoints,
    Evaluation,
    Opponents,
    Teacher,
    Train,
    from_dict,
    load_recipe,
    recipe_names,
    to_dict,
)
from playmill.training.runs import create_run, new_run_path, open_run, read_config

UNUSUAL = Train(
    game="skull_king",
    options={"players": "3", "scoring": "rascal"},
    seed=9,
    turns=1234,
    games=7,
    network=Network(hidden=(12, 34, 56), separate=False, activation="tanh"),
    ppo=PPO(lr=0.5, regulariser="magnet", lr_schedule="cosine"),
    opponents=Opponents(past=0.25, bots=0.5, bot_names=("hard", "easy")),
    teacher=Teacher("hard", 700),
    evaluation=Evaluation(against=("greedy",), sample=True),
    checkpoints=Checkpoints(every_updates=3),
)


@pytest.mark.parametrize("config", [Train(), UNUSUAL], ids=["default", "unusual"])
def test_settings_come_back_from_json(config):
    assert from_dict(Train, json.loads(json.dumps(to_dict(config)))) == config


def test_what_is_not_named_keeps_its_default():
    config = from_dict(Train, {"game": "kuhn", "ppo": {"lr": 2}})
    assert config == Train(game="kuhn", ppo=PPO(lr=2.0))
    assert isinstance(config.ppo.lr, float)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"gmae": "kuhn"}, "no setting is called 'gmae'; did you mean 'game'"),
        ({"ppo": {"entropie": 1.0}}, "no setting is called 'ppo.entropie'; did you mean 'ppo.entropy'"),
        ({"game": "skul_king"}, "no game is called 'skul_king'; did you mean 'skull_king'"),
        ({"options": {"player": 3}}, "no option of skull_king is called 'player'; did you mean 'players'"),
        ({"options": {"deck": "75"}}, "no value of option deck is called '75'; did you mean '74' or '70'"),
        (
            {"opponents": {"bot_names": ["gredy"]}},
            "no bot of skull_king is called 'gredy'; did you mean 'greedy'",
        ),
        ({"evaluation": {"against": ["hrd"]}}, "did you mean 'hard'"),
        (
            {"ppo": {"lr_schedule": "cosin"}},
            "no value of ppo.lr_schedule is called 'cosin'; did you mean 'cosine'",
        ),
        ({"ppo": {"regulariser": "magnt"}}, "did you mean 'magnet'"),
        ({"network": {"activation": "rellu"}}, "did you mean 'relu'"),
        ({"precision": "float3"}, "did you mean 'float32'"),
    ],
)
def test_an_unknown_name_is_offered_the_nearest(values, says):
    with pytest.raises(UnknownName, match=says) as caught:
        from_dict(Train, values)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"games": "many"}, "games must be int, got 'many'"),
        ({"games": 1.5}, "games must be int, got 1.5"),
        ({"games": True}, "games must be int, got True"),
        ({"minutes": "5"}, "minutes must be float, got '5'"),
        ({"ppo": {"normalise": 1}}, "ppo.normalise must be bool, got 1"),
        ({"ppo": 3}, "ppo must be a table of settings, got 3"),
        ({"network": {"hidden": 64}}, "network.hidden must be a list, got 64"),
        ({"network": {"hidden": ["wide"]}}, "network.hidden must be int, got 'wide'"),
        ({"network": {"hidden": []}}, "network.hidden needs one or more positive widths"),
        ({"evaluation": {"against": "hard"}}, "evaluation.against must be a list, got 'hard'"),
        ({"options": 4}, "options must be a table, got 4"),
        ({"game": 1}, "game must be str, got 1"),
        ({"options": {"players": 9}}, "option players must be from 2 to 8, got 9"),
        ({"options": {"players": "two"}}, "option players must be a number, got 'two'"),
        ({"options": {"first_round": 9, "schedule": "even_keeled"}}, "first_round 9 is beyond"),
        ({"games": 0}, "games must be at least 1, got 0"),
        ({"steps": 1}, "steps must be at least 2, got 1"),
        ({"threads": 0}, "threads must be at least 1, got 0"),
        ({"turns": -1}, "must not be negative"),
        ({"opponents": {"past": 0.7, "bots": 0.7}}, "together must not be over 1"),
        ({"opponents": {"keep": 40}}, "opponents.keep must be from 1 to 31, got 40"),
        ({"checkpoints": {"keep": 0}}, "checkpoints.keep must be at least 1, got 0"),
        ({"evaluation": {"deals": 0}}, "evaluation.deals must be at least 1"),
    ],
)
def test_a_wrong_value_gets_one_clear_line(values, says):
    with pytest.raises(PlaymillError, match=says) as caught:
        from_dict(Train, values)
    assert "\n" not in str(caught.value)


# Recipes


def test_the_games_to_begin_with_have_a_quick_recipe():
    assert {"skull_king/quick", "kuhn/quick", "leduc/quick"} <= set(recipe_names())


@pytest.mark.parametrize("name", recipe_names())
def test_recipes_load_and_name_their_game(name):
    config = load_recipe(name)
    assert config.game == name.split("/")[0]
    assert config.turns or config.minutes
    assert from_dict(Train, to_dict(config)) == config


def test_a_recipe_may_be_any_toml_file(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('game = "leduc"\nturns = 5\n[ppo]\nlr = 1\n')
    assert load_recipe(str(file)) == Train(game="leduc", turns=5, ppo=PPO(lr=1.0))
    file.write_text("game = ")
    with pytest.raises(PlaymillError, match="is not valid TOML"):
        load_recipe(str(file))
    with pytest.raises(PlaymillError, match="there is no file"):
        load_recipe(str(tmp_path / "none.toml"))
    with pytest.raises(UnknownName, match="did you mean 'skull_king/quick'"):
        load_recipe("skull_king/quik")


# The command line of `train`


def test_flags_change_the_recipe_and_nothing_else():
    recipe = load_recipe("skull_king/quick")
    command = parse(["skull_king/quick", "--games", "64", "--ppo.lr", "0.5", "--network.hidden", "32", "16"])
    wanted = dataclasses.replace(
        recipe,
        games=64,
        ppo=dataclasses.replace(recipe.ppo, lr=0.5),
        network=dataclasses.replace(recipe.network, hidden=(32, 16)),
    )
    assert command.config == wanted
    assert command.run is None
    assert not command.plain


def test_without_a_recipe_the_default_one_is_taken():
    assert parse([]).config == load_recipe(DEFAULT_RECIPE)
    assert parse(["--seed", "3"]).config == dataclasses.replace(load_recipe(DEFAULT_RECIPE), seed=3)


@pytest.mark.parametrize("game", registry.names())
def test_a_game_stands_for_its_quick_recipe(game):
    quick = f"{game}/quick"
    wanted = load_recipe(quick) if quick in recipe_names() else Train(game=game, turns=10_000_000)
    assert parse([game]).config == wanted


def test_every_setting_is_on_the_command_line():
    command = parse(
        [
            "leduc",
            "--options",
            "--opponents.past",
            "0.25",
            "--opponents.bots",
            "0.5",
            "--opponents.bot-names",
            "tight",
            "--evaluation.against",
            "random",
            "tight",
            "--evaluation.sample",
            "--ppo.no-normalise",
            "--ppo.regulariser",
            "average",
            "--checkpoints.every-updates",
            "2",
            "--plateau.on",
            "--precision",
            "bfloat16",
            "--network.no-separate",
            "--plain",
        ]
    )
    config = command.config
    assert command.plain
    assert config.opponents == Opponents(past=0.25, bots=0.5, bot_names=("tight",))
    assert config.evaluation.against == ("random", "tight")
    assert config.evaluation.sample
    assert config.plateau.on
    assert not config.ppo.normalise
    assert config.ppo.regulariser == "average"
    assert config.checkpoints.every_updates == 2
    assert config.precision == "bfloat16"
    assert not config.network.separate


def test_options_of_the_game_are_given_in_pairs():
    config = parse(["skull_king", "--options", "players", "3", "deck", "70"]).config
    assert config.options == {"players": "3", "deck": "70"}
    assert config.spec.seats == 3


def test_a_resumed_run_brings_its_own_settings(tmp_path):
    run = create_run(tmp_path / "run", UNUSUAL)
    run.release()
    command = parse(["--resume", str(run.path), "--turns", "9999"])
    assert command.config == dataclasses.replace(UNUSUAL, turns=9999)
    assert parse([f"--resume={run.path}"]).config == UNUSUAL
    with pytest.raises(PlaymillError, match="leave one of the two out"):
        parse(["kuhn", "--resume", str(run.path)])


# Run folders


def test_a_run_folder_keeps_its_config_and_its_lock(tmp_path):
    run = create_run(tmp_path / "a" / "run", UNUSUAL)
    assert read_config(run.path) == UNUSUAL
    with pytest.raises(PlaymillError, match="in use by another process"):
        open_run(run.path)
    with pytest.raises(PlaymillError, match="is a run already; go on by `playmill train --resume"):
        create_run(run.path, UNUSUAL)
    run.release()
    again = open_run(run.path)
    assert again.config == UNUSUAL
    again.release()


def test_folders_that_are_no_runs_are_left_alone(tmp_path):
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(PlaymillError, match="is in use and is not a run"):
        create_run(tmp_path, Train())
    with pytest.raises(PlaymillError, match="is in use and is not a run"):
        create_run(tmp_path / "note.txt", Train())
    with pytest.raises(PlaymillError, match=r"is not a run: it has no config\.json"):
        open_run(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["note.txt"]


def test_a_damaged_config_is_named(tmp_path):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(PlaymillError, match=r"config\.json cannot be read"):
        read_config(tmp_path)


def test_new_runs_are_numbered(tmp_path):
    assert new_run_path(tmp_path, "kuhn") == tmp_path / "kuhn-1"
    (tmp_path / "kuhn-1").mkdir()
    assert new_run_path(tmp_path, "kuhn") == tmp_path / "kuhn-2"


# The program


def run_main(capsys, *args):
    """Exit code, stdout and stderr of a command."""
    code = 0
    try:
        main(args)
    except SystemExit as stop:
        code = stop.code
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("trian", "no command is called 'trian'; did you mean 'train'?"),
        ("games skull_kin", "no game is called 'skull_kin'; did you mean 'skull_king'?"),
        ("games [/red]", "no game is called '[/red]'; there are generals"),
        ("train kunh", "no recipe or game is called 'kunh'; did you mean 'kuhn'?"),
        ("train skull_king/quik", "did you mean 'skull_king/quick'"),
        ("train kuhn --game leducc", "no game is called 'leducc'; did you mean 'leduc'?"),
        (
            "train skull_king --options player 3",
            "no option of skull_king is called 'player'; did you mean 'players'",
        ),
        ("train skull_king --options players x", "option players must be a number, got 'x'"),
        (
            "train skull_king --evaluation.against hrd",
            "no bot of skull_king is called 'hrd'; did you mean 'hard'",
        ),
        ("train kuhn --games 0", "games must be at least 1, got 0"),
        ("train kuhn --ppo.clip -1", "ppo.clip must be positive, got -1.0"),
        ("train nowhere.toml", "there is no file nowhere.toml"),
        ("train --resume runs/nowhere", "runs/nowhere"),
        (
            "evaluate gredy",
            "no run, checkpoint or bot of skull_king is called 'gredy'; did you mean 'greedy'?",
        ),
        ("evaluate hard --against hrd", "did you mean 'hard'"),
        (
            "evaluate hard --game chess",
            "no game is called 'chess'; there are generals, kuhn, leduc, liars_dice, skull_king",
        ),
        ("evaluate runs/nowhere", "there is no run or checkpoint at runs/nowhere"),
        ("play nobody", "no run, checkpoint or bot of skull_king is called 'nobody'"),
        ("watch nowhere.replays", "cannot read nowhere.replays: No such file"),
        ("bench pol", "no benchmark is called 'pol'; did you mean 'pool'?"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(capsys, tmp_path, monkeypatch, line, says):
    monkeypatch.chdir(tmp_path)
    code, out, err = run_main(capsys, *line.split())
    assert code == 2
    assert err.startswith("playmill: ")
    assert says in err
    assert err.count("\n") == 1
    assert not out
    assert not list(tmp_path.iterdir())  # no run was begun


@pytest.mark.parametrize(
    "line", ["train kuhn --gamess 3", "train kuhn --games x", "games --nosuch", "evaluate"]
)
def test_flags_that_do_not_parse_are_exit_code_2(capsys, line):
    code, out, err = run_main(capsys, *line.split())
    assert code == 2
    assert "--help" in out + err


@pytest.mark.parametrize("command", ["train", *COMMANDS])
def test_every_command_has_help(capsys, command):
    code, out, err = run_main(capsys, command, "--help")
    assert code == 0
    assert "usage: playmill" in out
    assert not err


def test_help_lists_every_command(capsys):
    for args in ((), ("--help",), ("help",)):
        code, out, _ = run_main(capsys, *args)
        assert code == 0
        assert all(f"\n  {command} " in out for command in ("train", *COMMANDS))


def test_games_are_listed_with_their_bots(capsys):
    code, out, _ = run_main(capsys, "games")
    assert code == 0
    assert all(name in out for name in registry.names())
    assert "greedy" in out
    assert "skull_king/quick" in out


def test_a_game_is_described_with_its_options(capsys):
    code, out, _ = run_main(capsys, "games", "skull_king")
    spec = registry.spec("skull_king")
    assert code == 0
    assert "Skull King (skull_king): 4 seats" in out
    assert all(option.name in out for option in spec.option_specs)
    assert f"{spec.schema.hash:016x}" in out


def test_the_doctor_says_what_there_is(capsys):
    code, out, _ = run_main(capsys, "doctor")
    assert code == 0
    assert "CPU lane" in out
    assert "games: generals, kuhn, leduc, liars_dice, skull_king" in out
    assert "skull_king/quick" in out


def test_evaluate_prints_one_json_object(capsys):
    code, out, _ = run_main(
        capsys, *["evaluate", "hard", "--against", "random", "--deals", "5", "--ratings", "--json"]
    )
    assert code == 0
    found = json.loads(out)
    assert found["player"] == "hard"
    assert found["against"]["random"]["games"] == 20
    assert {row["name"] for row in found["ratings"]} == {"random", "hard"}
