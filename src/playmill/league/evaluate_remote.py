"""How strong a policy is in a game that only engines can play: duplicate deals and rotated seats over a
RemotePool. A deal counts when it was played from every seat; for one that is lost another is played."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from playmill import _native
from playmill.games import GameSpec, PlaymillError
from playmill.league.evaluate import Evaluation, Player, interval, win_shares
from playmill.policies import Policy
from playmill.pools.remote import RemotePool
from playmill.pools.remote_settings import Supervision
from playmill.pools.remote_slots import FIRST_BOT, Ended, Waiting

GAMES = 8
"""Games in flight on each engine."""
TICK = 0.1


def evaluate_remote(
    spec: GameSpec,
    player: Player,
    against: Player,
    *,
    deals: int = 250,
    seed: int = 1,
    sample: bool = False,
    engines: int = 1,
    command: Sequence[str] | None = None,
    supervision: Supervision | None = None,
    within: float = 300.0,
) -> Evaluation:
    """`player` in every seat of every deal, `against` (a policy, "random" or a bot of the engine's) in all
    others. After `within` seconds no new deal is begun, after twice as many none is waited for; what was
    played counts."""
    if isinstance(player, str):
        raise PlaymillError(
            f"in {spec.name} a bot meets nobody but policies: name a run, and the bot with --against"
        )
    tables = min(deals, max(1, engines * GAMES // spec.seats))
    drivers = np.full((tables * spec.seats, spec.seats), _driver(spec, against), np.uint8)
    drivers[np.arange(len(drivers)), np.arange(len(drivers)) % spec.seats] = 0
    policies = [player] if isinstance(against, str) else [player, against]
    with RemotePool(
        spec,
        len(drivers),
        seed=seed,
        engines=engines,
        command=command,
        supervision=supervision,
        alike=spec.seats,
        keep_results=True,
    ) as pool:
        pool.set_drivers(drivers)
        book = _Book(spec.seats, tables, deals)
        turns = _play(pool, book, _Desk(pool, policies, sample), within)
        stats = pool.stats()
        reasons = {health.reason for health in pool.health() if health.reason}
    whole = book.whole()
    if not len(whole):
        raise PlaymillError(
            f"no deal of {spec.name} was played to its end in {2 * within:.0f} s. "
            f"{'; '.join(sorted(reasons)) or 'Give its evaluation more time, or fewer deals'}"
        )
    return _result(spec, whole, turns, stats, int(drivers[0, 1 % spec.seats]))


def _driver(spec: GameSpec, against: Player) -> int:
    return FIRST_BOT + spec.bot(against) if isinstance(against, str) else 1


def _play(pool: RemotePool, book: _Book, desk: _Desk, within: float) -> int:
    """Plays until the book is full; how many rows were answered."""
    turns, begun, closing = 0, time.monotonic(), False
    while not book.full:
        spent = time.monotonic() - begun
        if spent > within and not closing:
            closing = True
            book.close(pool.numbers())
        if spent > 2 * within:
            break
        desk.take(pool.turns(desk.rows, TICK))
        for ended in pool.results():
            book.enter(ended)
        turns += desk.answer(book.wanted(pool.numbers()))
    return turns


class _Book:
    """What was played. Slot s sits at table s // seats and has the player in seat s % seats."""

    def __init__(self, seats: int, tables: int, deals: int) -> None:
        self._seats = seats
        self._rounds = np.full(tables, deals // tables)
        self._rounds[: deals % tables] += 1
        self._quota = self._rounds.copy()
        """Games of each table's slots, those that were lost among them."""
        self._closed = False
        self._next = np.zeros(tables * seats, np.int64)
        self._lost: list[set[int]] = [set() for _ in range(tables)]
        self._totals: dict[tuple[int, int], dict[int, npt.NDArray[np.float64]]] = {}

    @property
    def full(self) -> bool:
        return bool((self._next >= np.repeat(self._quota, self._seats)).all())

    def enter(self, ended: Ended) -> None:
        table, seat = divmod(ended.slot, self._seats)
        for number in range(int(self._next[ended.slot]), ended.number):
            self._miss(table, number)
        self._next[ended.slot] = ended.number + 1
        self._totals.setdefault((table, ended.number), {})[seat] = ended.rewards

    def wanted(self, numbers: Sequence[int]) -> npt.NDArray[np.bool_]:
        """Which slots are to play on, [slots]; the numbers of their games say what was lost before."""
        for slot, number in enumerate(numbers):
            for lost in range(int(self._next[slot]), number):
                self._miss(slot // self._seats, lost)
            self._next[slot] = max(self._next[slot], number)
        asked: npt.NDArray[np.bool_] = np.asarray(numbers) < np.repeat(self._quota, self._seats)
        return asked

    def close(self, numbers: Sequence[int]) -> None:
        """No deal is begun from now on; those that were are played from every seat."""
        begun = np.asarray(numbers).reshape(-1, self._seats).max(axis=1) + 1
        self._quota = np.minimum(self._quota, begun)
        self._closed = True

    def whole(self) -> npt.NDArray[np.float64]:
        """The deals that were played from every seat: [D, games of the deal, seats]."""
        found = [
            [seats[s] for s in range(self._seats)]
            for _, seats in sorted(self._totals.items())
            if len(seats) == self._seats
        ]
        return np.array(found).reshape(-1, self._seats, self._seats)

    def _miss(self, table: int, number: int) -> None:
        """A deal that was lost at one seat is worth nothing; while there is time another is played."""
        lost = self._lost[table]
        lost.add(number)
        if not self._closed:
            quota = int(self._rounds[table])
            for missed in sorted(lost):
                quota += missed < quota
            self._quota[table] = quota


class _Desk:
    """The rows that wait, one a slot, and who answers them."""

    def __init__(self, pool: RemotePool, policies: Sequence[Policy], sample: bool) -> None:
        spec, slots = pool.spec, pool.slots
        self.pool, self.policies, self.sample = pool, policies, sample
        self.rows = max(1, slots // 4)
        """To wait for: larger batches, while other games are at the engines."""
        self._kernels = _native.Kernels(1)
        self._observation = np.zeros((slots, spec.schema.bytes), np.uint8)
        self._legal = np.zeros((slots, spec.legal_bytes), np.uint8)
        self._driver = np.zeros(slots, np.uint8)
        self._waits = np.zeros(slots, bool)
        self._batches = 0

    def take(self, rows: Waiting) -> None:
        self._observation[rows.slot] = rows.observation
        self._legal[rows.slot] = rows.legal
        self._driver[rows.slot] = rows.driver
        self._waits[rows.slot] = True

    def answer(self, wanted: npt.NDArray[np.bool_]) -> int:
        """Answers the rows of the slots that are wanted; how many."""
        slots = np.flatnonzero(self._waits & wanted)
        if not len(slots):
            return 0
        logits = torch.zeros(len(slots), self.pool.spec.actions)
        observation, driver = torch.from_numpy(self._observation[slots]), self._driver[slots]
        with torch.inference_mode():
            for number, policy in enumerate(self.policies):
                mine = torch.from_numpy(np.flatnonzero(driver == number))
                if len(mine):
                    logits[mine] = policy(observation[mine]).logits.float()
        actions, logs = np.zeros(len(slots), np.int32), np.zeros(len(slots), np.float32)
        likeliest = not self.sample
        self._kernels.sample(logits.numpy(), self._legal[slots], 0, self._batches, likeliest, actions, logs)
        self._batches += 1
        self.pool.act(slots, actions)
        self._waits[slots] = False
        return len(slots)


def _result(
    spec: GameSpec,
    totals: npt.NDArray[np.float64],
    turns: int,
    stats: dict[int, dict[str, tuple[float, int]]],
    other: int,
) -> Evaluation:
    """From the totals [D, S games, S seats]; in game s of a deal the player sat in seat s."""
    deals, seats = len(totals), spec.seats
    mine = np.arange(seats)
    shares = win_shares(totals.reshape(-1, seats)).reshape(totals.shape)[:, mine, mine]
    low, high = interval(shares.mean(axis=1))
    return Evaluation(
        win_share=float(shares.mean()),
        low=low,
        high=high,
        fair=1.0 / seats,
        games=deals * seats,
        reward=float(totals[:, mine, mine].mean()),
        stats={name: mean for name, (mean, _) in stats.get(0, {}).items()},
        opponent_stats={name: mean for name, (mean, _) in stats.get(other, {}).items()},
        turns=turns,
    )
