"""How strong a player is: duplicate deals, rotated seats, intervals over deals."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from playmill import _native
from playmill.games import GameSpec, PlaymillError
from playmill.league.cuda_answers import CudaAnswers
from playmill.policies import Policy
from playmill.pools import FIRST_BOT, NativePool, Outcome
from playmill.pools.cuda import CudaPool
from playmill.replays import Replay, ReplayWriter

Player = Policy | str
"""A policy, or the name of a scripted bot."""

_SURFACED = 16
"""Drivers from here to FIRST_BOT are bots whose turns surface, because a table needs one that does."""

Z95 = 1.959964

Tally = tuple[float, int]
"""A sum and how many were added up."""


@dataclass(frozen=True)
class Tables:
    """The results of G games with S seats."""

    totals: npt.NDArray[np.float64]  # [G, S] rewards of each seat over the whole game
    stats: dict[int, dict[str, Tally]]  # entrant -> the game's named statistics
    turns: int
    actions: tuple[tuple[int, ...], ...] = ()
    """Of every game, all seats' in the order they were made; only if they were asked for."""


@dataclass(frozen=True)
class Evaluation:
    """One player against others of one kind."""

    win_share: float
    low: float
    high: float
    fair: float
    """What a player equal to the others would win."""
    games: int
    reward: float
    """Mean total reward a game."""
    stats: dict[str, float]
    """Means of the player's statistics, as the game names them."""
    opponent_stats: dict[str, float]
    turns: int

    @property
    def score(self) -> float | None:
        return self.stats.get("score")

    @property
    def opponent_score(self) -> float | None:
        return self.opponent_stats.get("score")

    @property
    def bid_made(self) -> float | None:
        return self.stats.get("bid_made")

    @property
    def bid_made_by_cards(self) -> dict[int, float]:
        """Cards dealt to the share of bids made, where the game counts them."""
        return {c: self.stats[k] for c in range(1, 21) if (k := f"bid_made_r{c}") in self.stats}


def play_tables(
    spec: GameSpec,
    entrants: Sequence[Player],
    seats: npt.NDArray[np.int64],
    seeds: npt.NDArray[np.uint64],
    *,
    threads: int = 1,
    sample: bool = False,
    record: bool = False,
) -> Tables:
    """Plays game g on deal seeds[g] with entrant seats[g, s] in seat s, each game once."""
    if _device(entrants) == "cuda":
        threads = 1  # the card has its own
    parts = np.array_split(np.arange(len(seats)), min(threads, len(seats)))

    def play(part: npt.NDArray[np.int64]) -> Tables:
        return _play_part(spec, entrants, seats[part], seeds[part], sample, record)

    if len(parts) == 1:
        return play(parts[0])
    with ThreadPoolExecutor(len(parts)) as together:
        return _join(list(together.map(play, parts)))


def _play_part(
    spec: GameSpec,
    entrants: Sequence[Player],
    seats: npt.NDArray[np.int64],
    seeds: npt.NDArray[np.uint64],
    sample: bool,
    record: bool,
) -> Tables:
    games = len(seats)
    on_card = _device(entrants) == "cuda"
    pool = CudaPool(spec, games, stagger=False) if on_card else NativePool(spec, games, stagger=False)
    policies, drivers = _drivers(spec, entrants)
    table = drivers[seats]
    bots = table >= FIRST_BOT
    if not record:  # one a table is enough
        bots[:, 1:] = False
        bots &= (table >= FIRST_BOT).all(axis=1, keepdims=True)
    table[bots] = table[bots] - FIRST_BOT + _SURFACED
    pool.set_drivers(table)
    pool.reset(seeds)
    pool.clear_stats()
    answers = (
        CudaAnswers(pool, policies, sample, _SURFACED)
        if isinstance(pool, CudaPool)
        else _Answers(spec, pool, policies, sample)
    )
    totals = np.zeros((games, spec.seats))
    done = np.zeros(games, bool)
    turns = 0
    actions: list[list[int]] = [[] for _ in range(games)]
    while not done.all():
        outcome = answers.step(turns)
        if record:
            taken = answers.taken()
            for game in np.flatnonzero(~done).tolist():
                actions[game].append(int(taken[game]))
        totals[~done] += outcome.rewards[~done]
        done |= outcome.over.astype(bool)
        turns += 1
    recorded = tuple(tuple(moves) for moves in actions) if record else ()
    return Tables(totals, _stats_by_entrant(pool, drivers), turns * games, recorded)


def _join(parts: Sequence[Tables]) -> Tables:
    """Tables played side by side, as one."""
    stats: dict[int, dict[str, Tally]] = {}
    for part in parts:
        for entrant, cells in part.stats.items():
            mine = stats.setdefault(entrant, {})
            for name, (total, count) in cells.items():
                before = mine.get(name, (0.0, 0))
                mine[name] = (before[0] + total, before[1] + count)
    actions = tuple(moves for part in parts for moves in part.actions)
    return Tables(np.concatenate([p.totals for p in parts]), stats, sum(p.turns for p in parts), actions)


def evaluate(
    spec: GameSpec,
    player: Player,
    against: Player,
    *,
    deals: int = 250,
    seed: int = 1,
    threads: int = 1,
    sample: bool = False,
    replays: ReplayWriter | None = None,
    names: tuple[str, str] = ("player", "other"),
) -> Evaluation:
    """`player` in every seat of every deal, `against` in all the others. `replays` gets every game, with
    these `names` of the two."""
    order = np.arange(spec.seats)
    seats = np.where(order[None, :] == order[:, None], 0, 1)
    named = np.random.SeedSequence(seed).generate_state(deals, np.uint64)
    seated = np.tile(seats, (deals, 1))
    seeds: npt.NDArray[np.uint64] = np.repeat(named, spec.seats).astype(np.uint64)
    tables = play_tables(
        spec,
        (player, against),
        seated,
        seeds,
        threads=threads,
        sample=sample,
        record=replays is not None,
    )
    if replays is not None:
        for row, seed_of, actions in zip(seated.tolist(), seeds.tolist(), tables.actions, strict=True):
            replays.add(Replay(spec.name, spec.options, seed_of, tuple(names[e] for e in row), actions))
    mine = np.tile(order, deals)
    shares = win_shares(tables.totals)[np.arange(len(mine)), mine].reshape(deals, spec.seats)
    low, high = interval(shares.mean(axis=1))
    stats, others = ({n: s / c for n, (s, c) in tables.stats[e].items()} for e in (0, 1))
    return Evaluation(
        win_share=float(shares.mean()),
        low=low,
        high=high,
        fair=1.0 / spec.seats,
        games=len(mine),
        reward=float(tables.totals[np.arange(len(mine)), mine].mean()),
        stats=stats,
        opponent_stats=others,
        turns=tables.turns,
    )


def win_shares(totals: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Each seat's share of the win, [G, S]; seats that tie for the top share it."""
    top = np.isclose(totals, totals.max(axis=1, keepdims=True), atol=1e-4)
    shares: npt.NDArray[np.float64] = top / top.sum(axis=1, keepdims=True)
    return shares


def interval(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    """The 95 % interval of the mean of shares, within 0 and 1; games of one deal are one observation."""
    mean = float(values.mean())
    if len(values) < 2:
        return mean, mean
    half = Z95 * float(values.std(ddof=1)) / len(values) ** 0.5
    return max(0.0, mean - half), min(1.0, mean + half)


class _Answers:
    """Answers the turns of a pool for several policies and surfaced bots."""

    def __init__(self, spec: GameSpec, pool: NativePool, policies: Sequence[Policy], sample: bool) -> None:
        self.pool, self.policies, self.sample = pool, policies, sample
        self.kernels = _native.Kernels(1)
        self.logits = torch.zeros(pool.games, spec.actions)
        self.actions = np.zeros(pool.games, np.int32)
        self.logs = np.zeros(pool.games, np.float32)

    def step(self, number: int) -> Outcome:
        turns = self.pool.turns()
        observation = torch.from_numpy(turns.observation)
        with torch.inference_mode():
            for i, policy in enumerate(self.policies):
                rows = torch.from_numpy(np.flatnonzero(turns.driver == i))
                if len(rows):
                    self.logits[rows] = policy(observation[rows]).logits
        self.kernels.sample(
            self.logits.numpy(), turns.legal, 0, number, not self.sample, self.actions, self.logs
        )
        bots = turns.driver >= _SURFACED
        if bots.any():
            kinds = np.where(bots, turns.driver - _SURFACED, 0).astype(np.uint8)
            self.actions[bots] = self.pool.bot_actions(kinds)[bots]
        return self.pool.act(self.actions)

    def taken(self) -> npt.NDArray[np.int32]:
        """The actions of the last step, one a game."""
        return self.actions


def _drivers(spec: GameSpec, entrants: Sequence[Player]) -> tuple[list[Policy], npt.NDArray[np.uint8]]:
    """The policies among the entrants, and each entrant's driver number."""
    policies: list[Policy] = []
    numbers: list[int] = []
    for entrant in entrants:
        if isinstance(entrant, str):
            numbers.append(FIRST_BOT + spec.bot(entrant))
            continue
        numbers.append(len(policies))
        policies.append(entrant)
    if len(policies) > _SURFACED:
        raise PlaymillError(f"at most {_SURFACED} policies can meet at once, got {len(policies)}")
    return policies, np.array(numbers, np.uint8)


def _device(entrants: Sequence[Player]) -> str:
    """Where the entrants play: on the card if a policy lives there."""
    homes = {next(e.parameters()).device.type for e in entrants if not isinstance(e, str)}
    if len(homes) > 1:
        raise PlaymillError("policies that meet must live on one device; move them with .to(...)")
    return homes.pop() if homes else "cpu"


def _stats_by_entrant(
    pool: NativePool | CudaPool, drivers: npt.NDArray[np.uint8]
) -> dict[int, dict[str, Tally]]:
    out: dict[int, dict[str, Tally]] = {}
    by_driver = pool.stats()
    for entrant, driver in enumerate(drivers.tolist()):
        mine: dict[str, Tally] = {}
        for number in (driver, driver - FIRST_BOT + _SURFACED):
            for name, (mean, count) in by_driver.get(number, {}).items():
                before = mine.get(name, (0.0, 0))
                mine[name] = (before[0] + mean * count, before[1] + count)
        out[entrant] = mine
    return out
