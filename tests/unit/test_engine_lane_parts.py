"""Parts of the engine lane that a real run shows only in bad hours."""

from types import SimpleNamespace

import numpy as np
import pytest

from playmill.experience.segment_writer import Sealed
from playmill.experience.weights import WeightsAway
from playmill.serving.batching import Batching
from playmill.training import exchange
from playmill.training.actor import Actor
from playmill.training.config import Opponents
from playmill.training.roles import new_epoch


def test_an_actor_with_a_full_channel_stops_playing_and_goes_on_when_there_is_room():
    room = [False]
    sent: list[int] = []
    sender = SimpleNamespace(send=lambda identity, _message, _within: room[0] and not sent.append(identity))
    empty = np.zeros(0, np.int64)
    rows = SimpleNamespace(slot=empty, lost=empty, rewards=empty, over=empty)
    asked: list[int] = []
    pool = SimpleNamespace(slots=4, turns=lambda *_: asked.append(1) or rows)
    writer = SimpleNamespace(outcome=lambda *_: [])
    actor = Actor(
        pool,
        SimpleNamespace(past=0, opponents=0, renew=lambda: None),
        writer,
        sender,
        Batching(),
        Opponents(past=0, bots=0),
        1,
    )
    actor._unsent.extend(Sealed(number, b"") for number in range(5))
    for _ in range(3):
        assert actor.step() == 0
    assert not asked
    assert len(actor._unsent) == 5
    room[0] = True
    actor.step()
    assert sent == [0, 1, 2, 3, 4]
    assert asked


def test_a_broker_that_is_away_is_waited_for_unless_one_is_told_to_stop(monkeypatch):
    tries = iter([WeightsAway("away"), WeightsAway("away"), None])

    def make():
        error = next(tries)
        if error is not None:
            raise error
        return "made"

    monkeypatch.setattr(exchange.time, "sleep", lambda _: None)
    assert exchange.patiently(make) == "made"
    tries = iter([WeightsAway("away")])
    with pytest.raises(WeightsAway):
        exchange.patiently(make, lambda: True)


def test_folders_of_runs_that_are_gone_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(exchange, "rings_root", lambda: tmp_path / "memory")
    for name in ("alive-1", "gone-2", "foreign-3"):
        (tmp_path / "memory" / name).mkdir(parents=True)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "id").write_text("alive-1\n")
    (tmp_path / "memory" / "alive-1" / "run").write_text(f"{tmp_path / 'run'}\n")
    (tmp_path / "memory" / "gone-2" / "run").write_text(f"{tmp_path / 'deleted'}\n")
    assert exchange.left_behind() == [tmp_path / "memory" / "gone-2"]


def test_later_epochs_are_larger_and_none_is_given_twice():
    epochs = [new_epoch() for _ in range(100)]
    assert len(set(epochs)) == 100
    assert max(epochs) < 1 << 63
