"""Segments that are learnt from more than once."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from playmill.experience import Rollout
from playmill.games import PlaymillError, registry
from playmill.training.config import Train, from_dict
from playmill.training.engine_settings import Replaying
from playmill.training.reused import Reused

SPEC = registry.spec("kuhn")


def filled(rollout: Rollout, fresh: int, mark: int) -> None:
    """New segments, whose actions say which they are."""
    for i in range(fresh):
        rollout.action[:, i] = 100 * mark + i
        rollout.value[:, i] = float(mark)


def test_what_was_learnt_from_comes_again_behind_the_new_segments() -> None:
    rollout = Rollout.empty(SPEC, 4, 6)
    reused = Reused(Replaying(share=0.5, mb=1), rollout, fresh=3, seed=1)
    filled(rollout, 3, 1)
    assert reused.draw(0) is None
    reused.learnt(torch.ones(3), version=1)
    filled(rollout, 3, 2)
    weights = reused.draw(1)
    assert weights is not None
    assert weights.tolist() == [1.0] * 6
    assert rollout.action[0, :3].tolist() == [200, 201, 202]
    assert set(rollout.action[0, 3:].tolist()) <= {100, 101, 102}
    assert (rollout.action == rollout.action[0]).all()
    assert rollout.value[0, 3:].tolist() == [1.0] * 3
    reused.learnt(torch.ones(6), version=2)
    assert len(reused.replay) == 6


def test_what_surprised_is_drawn_more_often_and_counts_less() -> None:
    rollout = Rollout.empty(SPEC, 4, 28)
    reused = Reused(Replaying(share=6 / 7, mb=1, alpha=1.0, beta=1.0), rollout, fresh=4, seed=1)
    filled(rollout, 4, 1)
    reused.learnt(torch.tensor([1.0, 1.0, 1.0, 3.0]), version=1)
    weights = reused.draw(1)
    assert weights is not None
    drawn = rollout.action[0, 4:].numpy()
    assert np.count_nonzero(drawn == 103) == pytest.approx(12, abs=1)
    assert weights[4:][drawn == 103].tolist() == pytest.approx(
        [1 / 3] * np.count_nonzero(drawn == 103), rel=0.01
    )
    assert weights[4:][drawn != 103].tolist() == [1.0] * np.count_nonzero(drawn != 103)
    # It surprises no longer than the others, new ones included: it is as likely as they are.
    filled(rollout, 4, 2)
    reused.learnt(torch.ones(28), version=2)
    reused.draw(2)
    assert np.count_nonzero(rollout.action[0, 4:].numpy() == 103) == pytest.approx(3, abs=1)


@pytest.mark.parametrize("wrong", [{"share": 1.0}, {"mb": 0}, {"alpha": 2.0}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(PlaymillError, match=r"replay\."):
        Replaying(**wrong)  # type: ignore[arg-type]


def test_replay_is_for_engines_and_for_corrected_ages() -> None:
    with pytest.raises(PlaymillError, match="played by engines"):
        from_dict(Train, {"game": "kuhn", "replay": {"share": 0.5}})
    with pytest.raises(PlaymillError, match="vtrace"):
        from_dict(
            Train,
            {"game": "kuhn", "lane": "engines", "replay": {"share": 0.5}, "age": {"correction": "none"}},
        )
