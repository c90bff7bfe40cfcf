"""Rollout columns, and a buffer to draw from."""

from playmill.experience.replay import Column, Replay, columns_like
from playmill.experience.rollout import Rollout

__all__ = ["Column", "Replay", "Rollout", "columns_like"]
