"""The live screen of a training: a picture on a terminal, plain lines everywhere else."""

from __future__ import annotations

import math
import time

from rich.console import Console

from playmill.cli.live import LiveScreen
from playmill.cli.screen_parts import picture
from playmill.training.status import EvaluationLike, Status
from playmill.training.units import clock, short

_REDRAW_S = 0.1
_LINE_S = 5.0


class Screen(LiveScreen):
    """Shows a training. It only watches: whatever fails here, the training goes on.

    On a terminal it keeps one picture up to date; elsewhere, or with `plain`, it prints a line at most
    every 5 s and one for each evaluation.
    """

    def __init__(
        self,
        title: str,
        total_turns: int | None,
        total_seconds: float | None,
        plain: bool | None = None,
        *,
        console: Console | None = None,
    ) -> None:
        super().__init__(title, plain, console)
        self._total_turns = total_turns
        self._total_seconds = total_seconds
        self._status: Status | None = None
        self._shown_at = -math.inf
        self._shown_evaluation: object = None

    def update(self, status: Status) -> None:
        """Shows a new moment; cheap to call as often as one likes."""
        self._status = status
        wait = _LINE_S if self.plain else _REDRAW_S
        fresh = evaluation_key(status) != self._shown_evaluation
        if fresh or time.monotonic() - self._shown_at >= wait:
            self._show(status)

    def _show_last(self) -> None:
        if self._status is not None:
            self._show(self._status, last=True)

    def _show(self, status: Status, last: bool = False) -> None:
        now = time.monotonic()
        fresh = evaluation_key(status) != self._shown_evaluation
        due = now - self._shown_at >= _LINE_S
        self._shown_evaluation = evaluation_key(status)
        done = self._done(status)
        if self._draw(lambda width, height: picture(self._title, status, done, width, height)):
            self._shown_at = now
            return
        if due or last:
            self._print(progress_line(status, done))
            self._shown_at = now
        if fresh and (status.evaluation or status.extras):
            self._print(evaluation_line(status))

    def _done(self, status: Status) -> float | None:
        """The share of the training that is done: of its turns or its time, whichever ends first."""
        shares = []
        if self._total_turns:
            shares.append(status.turns / self._total_turns)
        if self._total_seconds:
            shares.append(status.seconds / self._total_seconds)
        return min(1.0, max(shares)) if shares else None


def progress_line(status: Status, done: float | None) -> str:
    """One line on how far the training is and how fast it goes."""
    parts = [f"{short(status.turns)} turns", f"{status.updates} updates", clock(status.seconds)]
    if done is not None:
        parts.insert(0, f"{done * 100:.1f} %")
    parts.append(f"{short(status.turns_per_s)} turns/s")
    if status.eta_s is not None:
        parts.append(f"{clock(status.eta_s)} left")
    parts += [f"{name} {value:.4g}" for name, value in status.losses.items()]
    if status.checkpoint:
        parts.append(f"saved {status.checkpoint}")
    return "  ".join(parts)


def evaluation_line(status: Status) -> str:
    """One line on how strong the agent is."""
    parts = [_against(name, result) for name, result in status.evaluation.items()]
    parts += [f"{name} {value:.4g}" for name, value in status.extras.items()]
    return f"evaluation at {short(status.turns)} turns: " + "; ".join(parts)


def _against(name: str, result: EvaluationLike) -> str:
    low, high = result.low * 100, result.high * 100
    text = f"{name} {result.win_share * 100:.1f} % ({low:.1f}-{high:.1f}, fair {result.fair * 100:.1f})"
    if result.score is not None:
        text += f" score {result.score:.1f}"
    if result.bid_made is not None:
        text += f" bids {result.bid_made * 100:.1f} %"
    return text


def evaluation_key(status: Status) -> object:
    """Tells one evaluation from the next: two may agree in every figure, but not in their number."""
    return (
        {name: _against(name, result) for name, result in status.evaluation.items()},
        {name: len(line) for name, line in status.history.items()},
        # As text: nan differs from itself, and would be news for ever.
        {name: f"{value:.6g}" for name, value in status.extras.items()},
    )
