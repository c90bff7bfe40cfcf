"""Files of replays: every game, whole or absent, and only by its own rules."""

import os
import signal
import struct
import subprocess
import sys
import time
import zlib

import pytest

from playmill.games import Game, PlaymillError, registry
from playmill.league.agents import BotAgent, play_out
from playmill.replays import Replay, ReplayFile, ReplayWriter, Timeline, rules_signature
from playmill.replays import file as format_of

every_game = pytest.mark.parametrize("game", registry.names())
SMALL = {"generals": {"width": 8, "height": 8, "max_ticks": 80}}


def a_game(game, seed=5, bot=-1, **options):
    options = {**SMALL.get(game, {}), **options}
    spec = registry.spec(game, options)
    return play_out(game, options, [BotAgent(spec, spec.bots[bot])], seed)[0]


def written(path, *replays):
    with ReplayWriter(path) as writer:
        for replay in replays:
            writer.add(replay)
    return path


def read(path):
    file = ReplayFile(path)
    return [file[number].replay for number in range(len(file))]


@every_game
def test_games_survive_the_disk(game, tmp_path):
    replays = [a_game(game, seed) for seed in (0, 1, 2**64 - 1)]
    path = written(tmp_path / "deep" / "a.replays", *replays)
    assert read(path) == replays
    file = ReplayFile(path)
    assert file.warning == ""
    for number, replay in enumerate(replays):
        timeline = file.play(number)
        assert timeline.over
        assert timeline.replay == replay
        assert file[number].rewards == pytest.approx(timeline.rewards)


def test_one_file_holds_games_of_every_kind_and_more_can_be_added(tmp_path):
    path = tmp_path / "mixed.replays"
    replays = [a_game(game) for game in registry.names()]
    for replay in [*replays, *replays]:
        written(path, replay)
    assert read(path) == [*replays, *replays]
    assert path.read_bytes().count(b'"schema"') == len(replays), "a table is written once"


def test_a_game_takes_about_a_kilobyte(tmp_path):
    options = {"max_ticks": 500}
    bots = [BotAgent(registry.spec("generals", options), bot) for bot in ("hunter", "expander")]
    replays = [play_out("generals", options, bots, seed)[0] for seed in range(4)]
    assert written(tmp_path / "a.replays", *replays).stat().st_size / 4 < 1300
    small = written(tmp_path / "b.replays", *(a_game("kuhn", seed) for seed in range(200)))
    assert small.stat().st_size / 200 < 60


def test_a_game_that_was_left_in_the_middle_is_kept_as_far_as_it_went(tmp_path):
    whole = a_game("leduc")
    half = Replay(whole.game, whole.options, whole.seed, whole.names, whole.actions[:1])
    empty = Replay(whole.game, whole.options, whole.seed, whole.names, ())
    path = written(tmp_path / "a.replays", half, empty)
    assert read(path) == [half, empty]
    assert not ReplayFile(path).play(0).over


def test_a_timeline_has_every_position():
    replay = a_game("generals")
    timeline, game = Timeline(replay), Game(replay.game, replay.options, replay.seed)

    def seen(game):
        return game.over, game.seat, [game.table_text(s) + str(game.observe(s)) for s in (0, 1)]

    for number, action in enumerate(replay.actions):
        assert seen(timeline.at(number)) == seen(game)
        game.act(action)
    assert seen(timeline.at(len(timeline))) == seen(game)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"actions": (0, 7)}, "move 2 cannot be played"),
        ({"actions": (0, 0, 0)}, "move 3 cannot be played"),
        ({"names": ("a",)}, "2 seats here, but 1 are named"),
        ({"game": "kuhnn"}, "did you mean 'kuhn'"),
    ],
)
def test_what_cannot_be_played_is_not_written(tmp_path, change, message):
    good = {"game": "kuhn", "options": {}, "seed": 1, "names": ("a", "b"), "actions": (0, 0)}
    with ReplayWriter(tmp_path / "a.replays") as writer:
        with pytest.raises(PlaymillError, match=message):
            writer.add(Replay(**good | change))
        writer.add(Replay(**good))
    assert read(tmp_path / "a.replays") == [Replay(**good)]


# Whole or absent


def test_cut_anywhere_a_file_gives_the_games_that_are_whole(tmp_path):
    replays = [a_game(game) for game in ("kuhn", "leduc", "kuhn")]
    data = written(tmp_path / "whole.replays", *replays).read_bytes()
    path, counts = tmp_path / "cut.replays", []
    ends = [0, len(format_of.MAGIC)]
    while ends[-1] < len(data):
        ends.append(ends[-1] + 9 + struct.unpack_from("<cII", data, ends[-1])[1])
    for size in range(len(data)):
        path.write_bytes(data[:size])
        file = ReplayFile(path)
        counts.append(len(file))
        assert read(path) == replays[: counts[-1]]
        assert ("not written to its end" in file.warning) == (size not in ends)
    assert counts == sorted(counts)
    assert set(counts) == {0, 1, 2}


def test_a_writer_cuts_off_what_was_left_unfinished(tmp_path):
    first, second = a_game("kuhn", 1), a_game("leduc", 2)
    path = written(tmp_path / "a.replays", first, second)
    for cut in (1, 30, path.stat().st_size - 3):
        path.write_bytes(path.read_bytes()[:-cut])
        written(path, second)
        assert read(path)[-1] == second
        assert ReplayFile(path).warning == ""
    assert read(path) == [second]


def test_damage_ends_the_reading_and_forbids_the_writing(tmp_path):
    replays = [a_game("kuhn", seed) for seed in range(3)]
    path = written(tmp_path / "a.replays", *replays)
    data = bytearray(path.read_bytes())
    data[-70] ^= 1  # in the second game
    path.write_bytes(data)
    assert read(path) == replays[:1]
    assert "damaged" in ReplayFile(path).warning
    with pytest.raises(PlaymillError, match="damaged before its end; name another file"):
        ReplayWriter(path)
    assert path.read_bytes() == data


WRITER = """
import sys
from pathlib import Path
from playmill.games import registry
from playmill.league.agents import BotAgent, play_out
from playmill.replays import ReplayWriter
spec = registry.spec("skull_king")
replay = play_out("skull_king", {}, [BotAgent(spec, "greedy")], 3)[0]
with ReplayWriter(Path(sys.argv[1])) as writer:
    while True:
        writer.add(replay)
"""


def test_a_writer_that_is_killed_loses_at_most_the_game_it_writes(tmp_path):
    path, before = tmp_path / "a.replays", 0
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)])
        deadline = time.monotonic() + 60
        while not path.exists() or len(ReplayFile(path)) < before + 5:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        file = ReplayFile(path)
        assert len(file) >= before + 5
        assert {file[number].replay.seed for number in range(len(file))} == {3}
        file.play(len(file) - 1)
        before = len(file)


def test_two_writers_do_not_share_a_file(tmp_path):
    with ReplayWriter(tmp_path / "a.replays"), pytest.raises(PlaymillError, match="another process"):
        ReplayWriter(tmp_path / "a.replays")
    written(tmp_path / "a.replays", a_game("kuhn"))


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path, replay = tmp_path / "a.replays", a_game("kuhn")
    with ReplayWriter(path) as writer:
        writer.add(replay)
        real = os.pwrite
        monkeypatch.setattr(os, "pwrite", lambda handle, data, at: real(handle, data[:9], at))
        with pytest.raises(PlaymillError, match="the disk is full"):
            writer.add(replay)
        monkeypatch.undo()
        writer.add(replay)
    assert read(path) == [replay, replay]


def test_what_is_no_file_of_replays_says_so_and_is_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    with pytest.raises(PlaymillError, match="cannot read"):
        ReplayFile(path)
    path.write_text("my notes")
    for kind in (ReplayFile, ReplayWriter):
        with pytest.raises(PlaymillError, match="not a file of replays"):
            kind(path)
    assert path.read_text() == "my notes"
    with pytest.raises(PlaymillError, match="cannot write"):
        ReplayWriter(path / "deeper")


# Other rules


def altered(path, old, new):
    """The file with something else in its tables, as if it had been written so."""
    data, out, at = path.read_bytes(), format_of.MAGIC, len(format_of.MAGIC)
    while at < len(data):
        kind, size, _ = struct.unpack_from("<cII", data, at)
        content = data[at + 9 : at + 9 + size]
        content = content.replace(old, new) if kind == b"T" else content
        out += struct.pack("<cII", kind, len(content), zlib.crc32(kind + content)) + content
        at += 9 + size
    path.write_bytes(out)
    return path


def test_a_replay_of_other_rules_is_refused(tmp_path):
    replay = a_game("kuhn")
    spec = registry.spec("kuhn")
    path = tmp_path / "a.replays"
    changes = [
        (f"{spec.schema.hash:016x}".encode(), b"0" * 16, "observations of kuhn were others"),
        (f"{rules_signature(spec):08x}".encode(), b"0" * 8, "the rules of kuhn were others"),
        (b'"kuhn"', b'"chess"', "no game is called 'chess'"),
        (b'"options":{}', b'"options":{"players":4}', "no option of kuhn is called"),
        (b'"options":{}', b'"options":{"players":[4]}', "cannot be unpacked"),
        (b'"names":[', b'"mames":[', "cannot be unpacked"),
    ]
    for old, new, message in changes:
        path.unlink(missing_ok=True)
        altered(written(path, replay), old, new)
        with pytest.raises(PlaymillError, match=f"a.replays, game 1: .*{message}"):
            ReplayFile(path).play(0)


def test_a_game_that_ends_otherwise_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "a.replays"
    monkeypatch.setattr(Timeline, "checksum", lambda _: 7)
    written(path, a_game("kuhn"))
    monkeypatch.undo()
    with pytest.raises(PlaymillError, match="ends otherwise"):
        ReplayFile(path).play(0)


def test_the_signature_is_that_of_the_rules_and_the_options():
    plain, other = registry.spec("generals"), registry.spec("generals", {"order": "smaller"})
    numbers = {rules_signature(spec) for spec in (plain, other, registry.spec("kuhn"))}
    assert len(numbers) == 3
    assert rules_signature(registry.spec("generals")) == rules_signature(plain)


def test_games_of_a_stranger_are_refused_not_trusted(tmp_path):
    path = tmp_path / "a.replays"

    def with_game(content):
        data = written(path, a_game("kuhn")).read_bytes()
        path.write_bytes(data + format_of._block(b"G", content))

    for content in (b"", b"x" * 40, struct.pack("<IQII", 9, 1, 1, 1), struct.pack("<IQII", 0, 1, 1, 1 << 31)):
        path.unlink(missing_ok=True)
        with_game(content)
        with pytest.raises(PlaymillError, match="game 2: it cannot be unpacked"):
            ReplayFile(path)[1]
