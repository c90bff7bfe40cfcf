"""Rollout columns."""

from playmill.experience.rollout import Rollout

__all__ = ["Rollout"]
