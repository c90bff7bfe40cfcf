"""Another engine of Generals, stepped from Python as its users step it, in an interpreter that has it alone.

`python -P generals_peer.py numpy|bots SIDE SECONDS` prints ticks a CPU-second: a step with both
observations and both masks of legal moves. Moves are chosen between the clock's readings."""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
from generals.core.game import Game  # type: ignore[import-not-found,unused-ignore]
from generals.core.grid import Grid  # type: ignore[import-not-found,unused-ignore]

AGENTS = ["a", "b"]
PASS = -1


def board(side: int, dice: np.random.Generator) -> Grid:
    """A fifth of the squares mountains, a few cities, generals in opposite corners."""
    squares = dice.choice([".", "#", "5"], (side, side), p=[0.78, 0.2, 0.02])
    squares[0, :], squares[:, -1] = ".", "."  # a way between them
    squares[0, 0], squares[-1, -1] = "A", "B"
    return Grid("\n".join("".join(row) for row in squares))


def choose(mask: np.ndarray, dice: np.random.Generator) -> tuple[int, int, int, int]:
    """Row, column, direction, half; the row is PASS where nothing can move."""
    moves = np.argwhere(mask)
    if len(moves) == 0:
        return PASS, 0, 0, 0
    row, column, direction = moves[dice.integers(len(moves))]
    return int(row), int(column), int(direction), int(dice.integers(2))


def numpy_rate(side: int, seconds: float) -> float:
    """The PyPI package generals 1.0.0."""

    def action(move: tuple[int, int, int, int]) -> dict[str, Any]:
        row, column, direction, half = move
        cell = np.array([max(row, 0), column])
        return {"pass": int(row == PASS), "cell": cell, "direction": direction, "split": half}

    def step(game: Game, moves: dict[str, Any]) -> list[np.ndarray]:
        observations, _ = game.step({agent: action(moves[agent]) for agent in AGENTS})
        return [observations[agent]["action_mask"] for agent in AGENTS]

    return rate(side, seconds, step)


def bots_rate(side: int, seconds: float) -> float:
    """The PyPI package generals-bots 2.5."""
    from generals.core.action import (  # type: ignore[import-not-found,unused-ignore]
        Action,
        compute_valid_move_mask,
    )

    def step(game: Game, moves: dict[str, Any]) -> list[np.ndarray]:
        actions = {a: Action(m[0] == PASS, max(m[0], 0), *m[1:3], bool(m[3])) for a, m in moves.items()}
        observations, _ = game.step(actions)
        return [compute_valid_move_mask(observations[agent]) for agent in AGENTS]

    return rate(side, seconds, step)


def rate(side: int, seconds: float, step: Any) -> float:
    dice = np.random.default_rng(0)
    ticks, spent = 0, 0.0
    game, masks = Game(board(side, dice), AGENTS), [np.zeros((side, side, 4), bool)] * 2
    for warm in (True, False):
        while warm or spent < seconds:
            moves = {agent: choose(mask, dice) for agent, mask in zip(AGENTS, masks, strict=True)}
            begun = time.process_time()
            masks = step(game, moves)
            if not warm:
                spent += time.process_time() - begun
                ticks += 1
            if game.time >= 500 or game.is_done():
                game, masks = Game(board(side, dice), AGENTS), [np.zeros((side, side, 4), bool)] * 2
            if warm and game.time >= 20:
                break
    return ticks / spent


if __name__ == "__main__":
    which, side, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    print(numpy_rate(side, seconds) if which == "numpy" else bots_rate(side, seconds))
