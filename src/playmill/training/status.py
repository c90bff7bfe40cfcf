"""What a training says about itself while it runs; screens, logs and dashboards draw from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


class EvaluationLike(Protocol):
    """The result against one opponent; shares are 0..1, `fair` is what equal players would get."""

    @property
    def win_share(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def fair(self) -> float: ...
    @property
    def score(self) -> float | None: ...
    @property
    def bid_made(self) -> float | None: ...


@dataclass(frozen=True)
class Status:
    """One moment of a training."""

    turns: int = 0
    updates: int = 0
    seconds: float = 0.0
    """Time spent training, resumed parts included."""
    turns_per_s: float = 0.0
    games_per_s: float = 0.0
    shares: Mapping[str, float] = field(default_factory=dict)
    """Phase to its share of the time, 0..1; what is missing to 1 is shown as other."""
    losses: Mapping[str, float] = field(default_factory=dict)
    evaluation: Mapping[str, EvaluationLike] = field(default_factory=dict)
    """Opponent to the latest result against it."""
    history: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    """Opponent to its (turns, win share), oldest first."""
    extras: Mapping[str, float] = field(default_factory=dict)
    """Other figures worth a place on the screen, such as exploitability."""
    checkpoint: str | None = None
    """The checkpoint saved last."""
    eta_s: float | None = None
