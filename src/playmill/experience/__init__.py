"""What was played: rollout columns on a device, and segments that travel between processes and hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playmill.experience.rollout import Rollout

__all__ = ["Rollout"]


def __getattr__(name: str) -> Any:
    """Rollouts need torch, and who sends or receives segments may not: they are imported when asked for."""
    if name == "Rollout":
        from playmill.experience.rollout import Rollout

        return Rollout
    raise AttributeError(name)
