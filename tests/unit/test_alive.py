"""Signs of life: a file's time, seldom written, and ahead where silence is expected."""

import time

import pytest

from playmill.cli.train import train_command
from playmill.games import PlaymillError
from playmill.telemetry import alive
from playmill.telemetry.alive import Alive


def test_the_file_is_touched_once_a_second(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(alive.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(alive.time, "time", lambda: 1000.0 + now[0])
    file = tmp_path / "alive"
    signs = Alive(file)
    assert not file.exists()
    times = []
    for _ in range(25):
        signs.sign()
        times.append(file.stat().st_mtime)
        now[0] += 0.125
    assert sorted(set(times)) == [1100.0, 1101.0, 1102.0, 1103.0]


def test_expected_silence_is_no_hang_and_ends_with_the_next_sign(tmp_path):
    signs = Alive(tmp_path / "alive")
    signs.sign()
    signs.expect(3600.0)
    assert signs.path.stat().st_mtime > time.time() + 3500.0
    signs.sign()
    assert signs.path.stat().st_mtime < time.time() + 1.0


def test_without_a_file_or_a_place_for_it_nothing_happens(tmp_path):
    for path in (None, tmp_path / "nowhere" / "alive"):
        signs = Alive(path)
        signs.sign()
        signs.expect(1.0)
    assert list(tmp_path.iterdir()) == []


def test_a_fleet_has_no_sign_of_its_own(tmp_path):
    words = ["leduc/quick", "--seeds", "1", "2", "--alive", str(tmp_path / "alive")]
    with pytest.raises(PlaymillError, match="leave --alive out"):
        train_command(words)
