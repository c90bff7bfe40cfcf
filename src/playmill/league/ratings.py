"""Elo-style ratings: who beats whom, from mixed tables, on one scale.

Every deal is played once from each rotation of its table, so that luck of the seat cancels. Each
pair at a table counts as a game won, lost or drawn between the two; a Bradley-Terry model is
fitted to all pairs. 400 points are odds of ten to one; the first entrant is put at 1000."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from playmill.games import GameSpec, PlaymillError
from playmill.league.evaluate import Player, play_tables

SCALE = 400.0 / np.log(10.0)
RESAMPLES = 100

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rating:
    """One entrant's place on the scale, with its 95 % interval over deals."""

    name: str
    rating: float
    low: float
    high: float
    games: int


def rate(
    spec: GameSpec, entrants: Mapping[str, Player], *, deals: int = 500, seed: int = 1, threads: int = 1
) -> list[Rating]:
    """Ratings of all entrants, best first."""
    if len(entrants) < 2:
        raise PlaymillError("ratings need at least two entrants")
    rng = np.random.default_rng(seed)
    tables = np.stack([_table(rng, len(entrants), spec.seats) for _ in range(deals)])
    rotations = np.stack([np.roll(tables, r, axis=1) for r in range(spec.seats)], axis=1)
    seats = rotations.reshape(-1, spec.seats)
    seeds = np.repeat(rng.integers(0, 2**63, deals).astype(np.uint64), spec.seats)
    played = play_tables(spec, list(entrants.values()), seats, seeds, threads=threads)
    wins = _pair_wins(seats, played.totals, deals, len(entrants))

    fitted = fit(wins.sum(axis=0))
    samples = [fit(wins[rng.integers(0, deals, deals)].sum(axis=0)) for _ in range(RESAMPLES)]
    low, high = np.percentile(np.stack(samples), [2.5, 97.5], axis=0)
    games = [(seats == i).any(axis=1).sum() for i in range(len(entrants))]
    rows = [
        Rating(name, float(fitted[i]), float(low[i]), float(high[i]), int(games[i]))
        for i, name in enumerate(entrants)
    ]
    return sorted(rows, key=lambda row: -row.rating)


def fit(wins: Matrix) -> Matrix:
    """Ratings from wins[i, j] = how often i was ahead of j (draws count half), [E].

    Half a draw is added to every pair that met, so that a clean sweep stays finite."""
    met = (wins + wins.T) > 0
    wins = wins + 0.5 * met
    games = wins + wins.T
    strength = np.ones(len(wins))
    for _ in range(2000):
        together = games / (strength[:, None] + strength[None, :])
        np.fill_diagonal(together, 0.0)
        new = wins.sum(axis=1) / together.sum(axis=1)
        new /= np.exp(np.log(new).mean())
        if np.abs(np.log(new / strength)).max() < 1e-9:
            break
        strength = new
    ratings: Matrix = SCALE * np.log(strength)
    anchored: Matrix = ratings - ratings[0] + 1000.0
    return anchored


def _table(rng: np.random.Generator, entrants: int, seats: int) -> npt.NDArray[np.int64]:
    """Who sits down: different entrants while there are enough, then more of the same."""
    order = rng.permutation(entrants)[:seats]
    return np.concatenate([order, rng.choice(order, seats - len(order))]).astype(np.int64)


def _pair_wins(seats: npt.NDArray[np.int64], totals: Matrix, deals: int, entrants: int) -> Matrix:
    """wins[d, i, j]: how often i was ahead of j in deal d."""
    wins = np.zeros((deals, entrants, entrants))
    deal = np.repeat(np.arange(deals), len(seats) // deals)
    for a in range(seats.shape[1]):
        for b in range(seats.shape[1]):
            differ = seats[:, a] != seats[:, b]
            gap = totals[:, a] - totals[:, b]
            won = np.where(np.abs(gap) < 1e-4, 0.5, (gap > 0).astype(float))
            np.add.at(wins, (deal[differ], seats[differ, a], seats[differ, b]), won[differ])
    return wins
