"""Games of another implementation, replayed on referee and engine: see `record` for where they differ."""

from pathlib import Path

import pytest

from .board import parse_board
from .recording import FOLDER, Recording, checksum, read
from .referee import Referee, Rules
from .twin import Twin

FILES = sorted(FOLDER.glob("*.txt"))


def rows(table: Referee) -> str:
    return "\n".join(table.text().splitlines()[1:])


def replay(recording: Recording) -> Twin:
    table = Twin(Rules.of(recording.options), parse_board(recording.start))
    for number, tick in enumerate(recording.ticks, 1):
        actions = {s: table.board.passing if a is None else a for s, a in enumerate(tick.actions)}
        if recording.won and number == len(recording.ticks):
            table.again().tick(actions)  # with the engine
            table.carry_out(actions)  # nothing grows in their last tick
            position = checksum(rows(table))
        else:
            table.tick(actions)
            position = checksum(rows(table), [table.legal(seat) for seat in table.seats], table.sight)
        if tick.board:
            assert rows(table) == tick.board, f"after tick {number} of {recording.title}"
        assert position == tick.checksum, f"after tick {number} of {recording.title}:\n{rows(table)}"
    return table


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_game_goes_as_recorded(path: Path) -> None:
    recording = read(path)
    table = replay(recording)
    assert table.alive.count(True) == (1 if recording.won else 2)


def test_there_are_games_with_and_without_an_end() -> None:
    recordings = [read(path) for path in FILES]
    assert len(recordings) >= 20
    assert sum(recording.won for recording in recordings) >= 5
    assert sum(not recording.won for recording in recordings) >= 3


def test_a_recording_is_written_as_it_was_read() -> None:
    for path in FILES:
        assert read(path).text() == path.read_text(encoding="utf-8")
