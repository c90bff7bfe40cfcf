"""Returns and losses as pure functions."""

from playmill.algorithms.ppo import PPO, Batch, Loss, fused_ppo_loss, ppo_loss
from playmill.algorithms.returns import Returns, rows_by_advantage, seat_returns, seat_returns_plain
from playmill.algorithms.vtrace import Age, vtrace_returns, vtrace_returns_plain

__all__ = [
    "PPO",
    "Age",
    "Batch",
    "Loss",
    "Returns",
    "fused_ppo_loss",
    "ppo_loss",
    "rows_by_advantage",
    "seat_returns",
    "seat_returns_plain",
    "vtrace_returns",
    "vtrace_returns_plain",
]
