"""The slots of a RemotePool: one row of arrays each, and what is known of the game played there."""

from __future__ import annotations

import math
import struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from playmill import _native
from playmill.engines.protocol import TURN_BODY
from playmill.games import GameSpec, IllegalAction, OutOfTurn
from playmill.pools.remote_engine import Engine, Lie

FIRST_BOT = _native.FIRST_BOT


class Waiting(NamedTuple):
    """Rows that wait for a decision; each is given once and answered once. N rows, S seats."""

    slot: npt.NDArray[np.int32]  # [N]
    observation: npt.NDArray[np.uint8]  # [N, schema.bytes] packed
    legal: npt.NDArray[np.uint8]  # [N, legal_bytes] bits, at least one set a row
    seat: npt.NDArray[np.uint8]  # [N]
    role: npt.NDArray[np.uint8]  # [N] index into spec.roles
    driver: npt.NDArray[np.uint8]  # [N] which policy is asked
    rewards: npt.NDArray[
        np.float32
    ]  # [N, S] what the slot's last answer brought, in the game it was given in
    over: npt.NDArray[np.uint8]  # [N] that game ended with it: this row is the first of a new one
    lost: npt.NDArray[np.uint8]  # [N] that game was lost with its engine: the same, and rewards are void


class Ended(NamedTuple):
    """A game that was played to its end."""

    slot: int
    number: int
    """Which of the slot's games it was, from 0; lost ones count as well."""
    rewards: npt.NDArray[np.float64]  # [S] of each seat, over the whole game


class Slots:
    """What lies in the slots. The pool moves games between engines; here nobody knows of processes."""

    def __init__(self, spec: GameSpec, slots: int, seed: int, alike: int, keep_results: bool) -> None:
        self.spec, self.count, self._seed, self._alike = spec, slots, seed, alike
        self.ended: list[Ended] | None = [] if keep_results else None
        self._totals = np.zeros((slots, spec.seats))
        self.observation = np.zeros((slots, spec.schema.bytes), np.uint8)
        self.legal = np.zeros((slots, spec.legal_bytes), np.uint8)
        self.seat, self.role, self.over, self.lost = (np.zeros(slots, np.uint8) for _ in range(4))
        self.rewards = np.zeros((slots, spec.seats), np.float32)
        self.drivers = np.zeros((slots, spec.seats), np.uint8)
        self.driver_lists = self.drivers.tolist()
        self.given = np.zeros(slots, bool)
        """Rows that the caller has and owes an answer for."""
        self.stale = np.zeros(slots, bool)
        """Of those, the ones whose game is lost: their answers mean nothing."""
        self.ready: dict[int, None] = {}
        """Slots whose row can be given, in the order the rows came."""
        self.engine: list[Engine | None] = [None] * slots
        self.game = [0] * slots
        self.turn = [0] * slots
        self.seed = [0] * slots
        self.spent = [0.0] * slots
        """Seconds of engines' time that the game in the slot has taken."""
        self.begun = [0.0] * slots
        """When the game in the slot began, by the engines' clock."""
        self.came = [0.0] * slots
        """When its row came."""
        self._held = [False] * slots  # a new row has come while an old one is still owed an answer
        self._live = [False] * slots  # what happens now is what the last answer brings
        self.number = [-1] * slots
        """Of the game in the slot, among those there were."""
        # Rows are written byte by byte as they come: memory views are the cheapest way in.
        self._observations = self.observation.data.cast("B")
        self._legals = self.legal.data.cast("B")
        self._seats = struct.Struct(f"<{spec.seats}f")
        self._none = bytes(4 * spec.seats)
        self._rewards_end = TURN_BODY.size + 4 * spec.seats
        self._observation_end = self._rewards_end + spec.schema.bytes
        self._turn_bytes = self._observation_end + spec.legal_bytes

    # ---- Games ----

    def next_game(self, slot: int) -> int:
        """The seed of the slot's next game: of the pool's seed, the slot and how many games were there."""
        self.number[slot] += 1
        self.turn[slot] = 0
        self.spent[slot] = 0.0
        self._totals[slot] = 0.0
        seed = _native.episode_seed(self._seed, slot // self._alike, self.number[slot])
        self.seed[slot] = seed
        return seed

    def take_turn(self, slot: int, payload: bytes) -> int:
        """Checks and keeps the row of a TURN; the driver who must answer it."""
        if len(payload) != self._turn_bytes:
            raise Lie(f"a TURN of {len(payload)} bytes; this game's have {self._turn_bytes}")
        _, turn, seat, role = TURN_BODY.unpack_from(payload)
        if turn != self.turn[slot]:
            raise Lie(f"it is at turn {turn} of a game whose turn is {self.turn[slot]}")
        if seat >= self.spec.seats or role >= len(self.spec.roles):
            raise Lie(f"it asks seat {seat} in role {role}, which there is not")
        legal = payload[self._observation_end :]
        bits = int.from_bytes(legal, "little")
        if not bits or bits >> self.spec.actions:
            raise Lie("it allows no action" if not bits else "it allows actions that there are not")
        self._gain(slot, payload[TURN_BODY.size : self._rewards_end])
        size = self.spec.schema.bytes
        self._observations[slot * size : slot * size + size] = payload[
            self._rewards_end : self._observation_end
        ]
        size = len(legal)
        self._legals[slot * size : slot * size + size] = legal
        self.seat[slot] = seat
        self.role[slot] = role
        driver: int = self.driver_lists[slot][seat]
        return driver

    def take_over(self, slot: int, payload: bytes) -> tuple[float, ...]:
        """Checks and keeps the end of a game; its statistics, (sum, count) by seat and name."""
        cells = self.spec.seats * len(self.spec.stats)
        if len(payload) != 4 + len(self._none) + 8 * cells:
            raise Lie(f"an OVER of {len(payload)} bytes; this game's have {4 + len(self._none) + 8 * cells}")
        stats = struct.unpack_from(f"<{2 * cells}f", payload, 4 + len(self._none))
        if not all(map(math.isfinite, stats)) or any(n < 0 or n != int(n) for n in stats[1::2]):
            raise Lie("its statistics are not sums and counts")
        self._gain(slot, payload[4 : 4 + len(self._none)])
        if self.ended is not None:
            self.ended.append(Ended(slot, self.number[slot], self._totals[slot].copy()))
        if self._live[slot]:
            self.over[slot] = 1
            self._live[slot] = False
        return stats

    def _gain(self, slot: int, raw: bytes) -> None:
        if raw != self._none:
            gained = self._seats.unpack(raw)
            if not all(map(math.isfinite, gained)):
                raise Lie(f"its rewards are {gained}")
            self._totals[slot] += gained
            if self._live[slot]:
                self.rewards[slot] += gained

    def show(self, slot: int) -> None:
        """The slot's row waits for a policy."""
        if self.given[slot]:
            self._held[slot] = True
        else:
            self.ready[slot] = None

    def lose(self, slot: int) -> None:
        """The slot's game is gone; whoever answered in it must learn that with the next row."""
        self.engine[slot] = None
        self.ready.pop(slot, None)
        self._held[slot] = False
        given = bool(self.given[slot])
        if given or self._live[slot]:
            self.lost[slot] = 1
            self.over[slot] = 0
            self.rewards[slot] = 0
            self._live[slot] = False
            self.stale[slot] = given

    # ---- Rows ----

    def gather(self) -> Waiting:
        """The rows that are ready, as the caller's own arrays."""
        slots = np.fromiter(self.ready, np.int32, len(self.ready))
        self.ready.clear()
        seat = self.seat[slots]
        rows = Waiting(
            slots,
            self.observation[slots],
            self.legal[slots],
            seat,
            self.role[slots],
            self.drivers[slots, seat],
            self.rewards[slots],
            self.over[slots],
            self.lost[slots],
        )
        self.given[slots] = True
        self.rewards[slots] = 0
        self.over[slots] = self.lost[slots] = 0
        return rows

    def check(self, slots: npt.ArrayLike, actions: npt.ArrayLike) -> tuple[list[int], list[int]]:
        """Slots and actions as lists, once all of them can be answered so."""
        at, wanted = np.asarray(slots), np.asarray(actions)
        if at.ndim != 1 or at.shape != wanted.shape:
            raise ValueError(f"slots and actions must be of one length, got {at.shape} and {wanted.shape}")
        if at.size == 0:
            return [], []
        if at.dtype.kind not in "iu" or wanted.dtype.kind not in "iu":
            raise TypeError(f"slots and actions must be integers, got {at.dtype} and {wanted.dtype}")
        if at.min() < 0 or at.max() >= self.count:
            raise ValueError(f"slots are 0 to {self.count - 1}, got {at.min()} to {at.max()}")
        waits = self.given[at]
        if not waits.all():
            raise OutOfTurn(f"slot {at[~waits][0]} does not wait for an answer")
        if len(at) > 1 and np.bincount(at).max() > 1:
            raise OutOfTurn(f"slot {np.bincount(at).argmax()} is answered twice")
        inside = (wanted >= 0) & (wanted < self.spec.actions)
        safe = np.where(inside, wanted, 0)
        legal = inside & ((self.legal[at, safe >> 3] >> (safe & 7)) & 1).astype(bool)
        wrong = ~legal & ~self.stale[at]
        if wrong.any():
            row = int(wrong.argmax())
            slot, seat = at[row], self.seat[at[row]]
            raise IllegalAction(
                f"{self.spec.name}, slot {slot}, seat {seat}: action {wanted[row]} is not legal"
            )
        return at.tolist(), wanted.tolist()

    def answer(self, slots: list[int]) -> list[bool]:
        """These rows are answered; of each, whether that means nothing because its game is lost."""
        void: list[bool] = self.stale[slots].tolist()
        self.given[slots] = False
        self.stale[slots] = False
        for slot, lost in zip(slots, void, strict=True):
            self._live[slot] = not lost
            if lost and self._held[slot]:
                self._held[slot] = False
                self.ready[slot] = None
        return void

    def set_drivers(self, drivers: npt.ArrayLike) -> None:
        given = np.asarray(drivers)
        if given.shape != self.drivers.shape:
            raise ValueError(f"drivers must have shape {self.drivers.shape}, got {given.shape}")
        if given.dtype.kind not in "iu":
            raise TypeError(f"drivers must be integers, got {given.dtype}")
        wrong = np.argwhere((given < 0) | (given >= FIRST_BOT + len(self.spec.bots)))
        if len(wrong):
            raise ValueError(f"row {wrong[0][0]}: no driver number {given[tuple(wrong[0])]}")
        bots_only = (given >= FIRST_BOT).all(axis=1)
        if bots_only.any():
            raise ValueError(f"row {bots_only.argmax()}: bots have all seats; nobody would ever be asked")
        self.drivers[:] = given
        self.driver_lists = self.drivers.tolist()
