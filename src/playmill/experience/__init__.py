"""What was played: rollout columns on a device, segments that travel between processes and hosts, and a
buffer to draw from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from playmill.experience.replay import Column, Replay, columns_like

if TYPE_CHECKING:
    from playmill.experience.rollout import Rollout

__all__ = ["Column", "Replay", "Rollout", "columns_like"]


def __getattr__(name: str) -> Any:
    """Rollouts need torch, and who sends or receives segments may not: they are imported when asked for."""
    if name == "Rollout":
        from playmill.experience.rollout import Rollout

        return Rollout
    raise AttributeError(name)
