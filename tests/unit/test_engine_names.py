"""Names from outside are checked before anything is started, what an engine says before it is believed."""

import contextlib
import dataclasses
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playmill import _native
from playmill.engines.facts import BadEngine, read_welcome, welcome_of
from playmill.engines.names import command_launch, launch_of, split
from playmill.engines.protocol import FrameError
from playmill.games import Game, PlaymillError, UnknownName, registry
from playmill.pools import NativePool

SPEC = registry.spec("leduc")
GOOD = json.loads(json.dumps(welcome_of(SPEC, "an engine", "1", 4)))


@pytest.mark.parametrize(
    "name",
    [
        "openspiel:",
        "openspiel:leduc poker",
        "openspiel:a;b",
        "openspiel:-x",
        "openspiel:x\n",
        "pettingzoo:../x",
        "pettingzoo:a//b",
        "pettingzoo:.a",
        "pettingzoo:a.",
        "pettingzoo:classic/a/b",
        "pettingzoo:os;rm",
        "engine:-o",
        "engine:..",
        "engine:a/b",
        "engine:a\nb",
        "native:Kuhn",
        "native:../kuhn",
        "shell:rm",
        ":",
    ],
)
def test_names_that_are_none_are_refused(name):
    with pytest.raises(PlaymillError):
        launch_of(name)


@given(st.text(max_size=40))
def test_any_name_is_taken_apart_or_refused(name):
    try:
        prefix, rest = split(name)
    except PlaymillError:
        return
    assert prefix in ("native", "openspiel", "pettingzoo", "engine")
    assert rest.isascii()
    assert not rest.startswith("-")
    assert not set(rest) & set(" \n;$`'\"\\")


def test_the_host_is_an_argument_list_that_no_shell_reads():
    command = (sys.executable, "-m", "playmill.engines.host", "openspiel:leduc_poker")
    assert launch_of("openspiel:leduc_poker").command == command


def test_a_game_without_a_prefix_or_with_native_is_the_native_one():
    assert registry.spec("native:kuhn") == registry.spec("kuhn")
    assert launch_of("kuhn") == launch_of("native:kuhn")


def test_an_unknown_prefix_names_those_there_are():
    with pytest.raises(UnknownName, match="openspiel"):
        registry.spec("openspeil:go")


@pytest.mark.parametrize("make", [Game, lambda name: NativePool(name, 1)], ids=["game", "pool"])
def test_what_needs_native_rules_says_so_for_a_foreign_game(make):
    with pytest.raises(PlaymillError, match="engine processes"):
        make("openspiel:kuhn_poker")


# ---- engines.toml ----


def engines_file(tmp_path, monkeypatch, text):
    path = tmp_path / "engines.toml"
    path.write_text(text)
    monkeypatch.setenv("PLAYMILL_ENGINES", str(path))


def test_an_engine_is_started_as_its_file_says(tmp_path, monkeypatch):
    engines_file(tmp_path, monkeypatch, '[engines.mine]\ncommand = ["sh", "-c", "x"]\n')
    launch = launch_of("engine:mine")
    assert launch.command[1:] == ("-c", "x")
    assert launch.folder == str(tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[engines.other]\ncommand = ['sh']\n", "other"),
        ("[engines.mine]\ncommand = 'sh x'\n", "list of words"),
        ("[engines.mine]\ncommand = []\n", "list of words"),
        ("[engines.mine]\ncommand = ['no-such-program-here']\n", "no program"),
        ("[engines.mine]\ncommand = ['sh']\nsockets = ['a']\n", "either"),
        ("[engines.mine]\n", "either"),
        ("engines = 3\n", "mine"),
        ("[engines", "engines.toml"),
    ],
)
def test_a_file_that_is_wrong_says_what_is(tmp_path, monkeypatch, text, says):
    engines_file(tmp_path, monkeypatch, text)
    with pytest.raises(PlaymillError, match=says):
        launch_of("engine:mine")


def test_without_a_file_it_says_what_to_write(tmp_path, monkeypatch):
    monkeypatch.delenv("PLAYMILL_ENGINES", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PlaymillError, match=r"\[engines.mine\]"):
        launch_of("engine:mine")


def test_a_command_must_be_words():
    with pytest.raises(PlaymillError):
        command_launch(("sh", "a\0b"))


# ---- WELCOME ----


def read(told, expected=None):
    return read_welcome(json.dumps(told).encode(), "engine:x", {}, expected)


@pytest.mark.parametrize("game", registry.names())
def test_a_native_game_is_read_back_as_it_is(game):
    spec = registry.spec(game)
    found = read(welcome_of(spec, "an engine", "1", 4), spec).spec
    for what in ("seats", "actions", "legal_bytes", "roles", "bots", "stats", "schema", "board"):
        assert getattr(found, what) == getattr(spec, what)
    assert _native.schema_hash(spec.schema.to_native()) == spec.schema.hash


def test_the_hash_may_be_left_to_the_pool():
    assert read({**GOOD, "schema_hash": None}, SPEC).spec.schema.hash == SPEC.schema.hash


@pytest.mark.parametrize("key", sorted(GOOD))
def test_every_part_of_a_welcome_is_needed(key):
    with pytest.raises(BadEngine, match=key):
        read({k: v for k, v in GOOD.items() if k != key})


@pytest.mark.parametrize(
    "wrong",
    [
        {"protocol": 2},
        {"schema_hash": "0x1"},
        {"schema_hash": 7},
        {"seats": 0},
        {"seats": True},
        {"seats": 1e3},
        {"actions": 1 << 30},
        {"games": 0},
        {"title": "\x1b[2J"},
        {"roles": []},
        {"roles": ["a", "a"]},
        {"roles": ["a\nb"]},
        {"bots": [3]},
        {"fields": []},
        {"fields": [["a", "u8", 1, 1, 0, 1.0]]},
        {"fields": [["a", "u9", 1, 1, 0, 1.0, ""]]},
        {"fields": [["a", "u8", 0, 1, 0, 1.0, ""]]},
        {"fields": [["a", "u8", 1 << 20, 1 << 20, 0, 1.0, ""]]},
        {"fields": [["a", "category", 1, 1, 0, 1.0, ""]]},
        {"fields": [["a", "u8", 1, 1, 0, float("inf"), ""]]},
        {"fields": [["a", "u8", 1, 1, 0, 1.0, "nowhere"]]},
        {"fields": [["a", "u8", 1, 1, 0, 1.0, ""]] * 2},
        {"board": {"height": 3, "width": 3, "groups": [[True, "."]]}},
        {"board": {"height": 3, "width": 3, "groups": [[True, "x"]]}},
        {"board": 3},
    ],
)
def test_a_welcome_that_cannot_be_is_refused(wrong):
    with pytest.raises(BadEngine):
        read({**GOOD, **wrong})


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(st.sampled_from(sorted(GOOD)), junk)
def test_whatever_an_engine_says_is_taken_or_refused(key, value):
    with contextlib.suppress(BadEngine, FrameError):
        read({**GOOD, key: value})


@pytest.mark.parametrize(
    "change", [{"seats": 3}, {"actions": 4}, {"stats": ("score",)}, {"roles": ("a", "b")}]
)
def test_an_engine_of_another_game_is_refused(change):
    with pytest.raises(BadEngine, match=next(iter(change))):
        read(GOOD, dataclasses.replace(SPEC, **change))


def test_an_engine_with_other_observations_is_refused_with_both_hashes():
    with pytest.raises(BadEngine, match=f"{SPEC.schema.hash:#x}.*{registry.spec('kuhn').schema.hash:#x}"):
        read(GOOD, registry.spec("kuhn"))
