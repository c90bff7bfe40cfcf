"""Plays the games on the card into rollout columns on the card: T steps of network, draw, rules and
next observation as one captured graph, with returns and the list of usable rows at its end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from playmill.algorithms import PPO, rows_by_advantage
from playmill.experience import Rollout
from playmill.games import GameSpec
from playmill.pools import FIRST_BOT
from playmill.pools.cuda import CudaPool
from playmill.pools.lanes import need_cuda
from playmill.training.config import Opponents
from playmill.training.cuda.control import Control
from playmill.training.cuda.layers import Player, captured, make_layers, stream_now
from playmill.training.teacher import teacher_logs, write_answers

STREAMS = 2
"""Shares of the games that go round on their own: one's rules run beside the other's layers."""
ALONE = 4096
"""Games below which splitting costs more than it hides."""


@dataclass(frozen=True)
class Learnable:
    """What the learner takes from a rollout, on the card. T steps, N games."""

    advantage: Tensor  # [T * N] float32
    usable: Tensor  # [T * N] uint8
    rows: Tensor  # [T * N] int32, those to learn from first


class Told:
    """Numbers about a rollout that are sums over games, so ranks can add up theirs: one vector, by name."""

    def __init__(self, spec: GameSpec, numbers: Tensor) -> None:
        self.spec, self.numbers, stats = spec, numbers, len(spec.stats)
        self.sums, self.counts = numbers[:stats], numbers[stats : 2 * stats]
        """Of the game's statistics where the learner sat."""
        self.lesson = numbers[2 * stats : 2 * stats + 2]
        """Log-probabilities of the teacher's answers in the last lesson, and their number."""
        self.usable, self.games, self.asked_to_end = (numbers[2 * stats + i :][:1] for i in range(2, 5))
        """Rows to learn from; games that ended; ranks that got a signal."""

    def stats(self) -> dict[str, float]:
        """Means of the statistics, of those that were counted."""
        named = zip(self.spec.stats, self.sums.tolist(), self.counts.tolist(), strict=True)
        return {name: total / count for name, total, count in named if count}

    def likelihood(self) -> float:
        """How likely the policy thought the teacher's answers, as a geometric mean."""
        return float((self.lesson[0] / self.lesson[1]).exp())


class CudaCollector:
    """Games in flight on the card, and columns that are filled again and again."""

    def __init__(
        self,
        spec: GameSpec,
        games: int,
        steps: int,
        seed: int,
        *,
        player: Player,
        control: Control,
        ppo: PPO,
        past: list[Player],
        past_share: float,
        teacher: str = "",
    ) -> None:
        """On the current stream, as everything here from then on. `teacher`: the bot of the lessons."""
        self.spec, self.steps, self.games, self.seed = spec, steps, games, seed
        self.player, self.control, self.ppo = player, control, ppo
        self.past = past
        self.past_rows = past_blocks(games, len(past), past_share)
        self.teacher = teacher
        self.native = need_cuda()
        self.pool = CudaPool(spec, games, seed=seed, stream=stream_now())
        # One step more than the rollout has: the turns that wait at its end begin the next.
        self.columns = Rollout.empty(spec, steps + 1, games, device="cuda")
        self.rollout = self.columns.first(steps)
        rows = steps * games
        self.learnable = Learnable(
            torch.zeros(rows, device="cuda"),
            torch.zeros(rows, dtype=torch.uint8, device="cuda"),
            torch.zeros(rows, dtype=torch.int32, device="cuda"),
        )
        self._room = torch.zeros(self.native.usable_room(rows), dtype=torch.uint8, device="cuda")
        self.tallies = torch.zeros(self.pool.native.tally_cells, 2, dtype=torch.float64, device="cuda")
        parts = STREAMS if games >= ALONE else 1
        edges = [games * i // parts // 16 * 16 if i < parts else games for i in range(parts + 1)]
        self.parts = [_Part(self, edges[i], edges[i + 1]) for i in range(parts)]
        self.told = Told(spec, torch.zeros(2 * len(spec.stats) + 5, dtype=torch.float64, device="cuda"))
        self._graph: torch.cuda.CUDAGraph | None = None
        self._taught = False  # what the graph plays
        self.look()

    def look(self) -> None:
        """Asks for the turns that wait: after new games, new drivers or a restored pool."""
        waiting = self.columns.at(self.steps, slice(None)).turns()
        self.pool.native.turns(*(column.data_ptr() for column in waiting), stream_now())

    def collect(self, taught: bool = False) -> None:
        """Puts one rollout on the stream, or a lesson; the first of each is captured on the way."""
        if self._graph is None or taught != self._taught:
            self._capture(taught)
        assert self._graph is not None
        self._graph.replay()

    def set_drivers(self, drivers: npt.NDArray[np.uint8]) -> None:
        """Who answers for which seat, [games, seats]."""
        self.pool.set_drivers(drivers)
        self.look()

    def _capture(self, taught: bool) -> None:
        torch.cuda.synchronize()
        self._graph, self._taught = None, taught  # lessons and what follows them are not held both
        # A trial run outside the graph loads every kernel and lets cuBLASLt choose; what it played is undone.
        before, control = self.pool.snapshot(), self.control.dump()
        waiting = [column[self.steps].clone() for column in self.columns.turns()]
        self._play(taught)
        torch.cuda.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        with captured(self._graph):
            self._play(taught)
        self.pool.restore(before)
        self.control.load(control)
        for column, kept in zip(self.columns.turns(), waiting, strict=True):
            column[self.steps].copy_(kept)
        torch.cuda.synchronize()

    def _play(self, taught: bool) -> None:
        for column in self.columns.turns():
            column[0].copy_(column[self.steps])
        here = torch.cuda.current_stream()
        for part in self.parts[1:]:
            part.stream.wait_stream(here)
        self.parts[0].play(taught)
        for part in self.parts[1:]:
            with torch.cuda.stream(part.stream):
                part.play(taught)
            here.wait_stream(part.stream)
        stream = stream_now()
        self.native.end_rollout(self.control.address, self.steps, stream)
        rollout, out = self.rollout, self.learnable
        self.native.returns(
            self.steps,
            self.games,
            self.spec.seats,
            rollout.rewards.data_ptr(),
            rollout.over.data_ptr(),
            rollout.seat.data_ptr(),
            rollout.driver.data_ptr(),
            rollout.value.data_ptr(),
            self.ppo.gamma,
            self.ppo.lam,
            out.advantage.data_ptr(),
            out.usable.data_ptr(),
            stream,
        )
        self.native.list_usable(
            out.usable.data_ptr(),
            rollout.over.data_ptr(),
            self.steps * self.games,
            out.rows.data_ptr(),
            self.control.address,
            self._room.data_ptr(),
            len(self._room),
            stream,
        )
        if taught:
            self.told.lesson.copy_(torch.stack(teacher_logs(rollout)))
        elif self.ppo.top_advantages < 1.0:
            order, kept = rows_by_advantage(
                out.advantage, out.usable, self.ppo.top_advantages, self.ppo.normalise
            )
            out.rows.copy_(order)
            self.control.counter("usable").copy_(kept)
        self.pool.native.take_tallies(self.tallies.data_ptr(), stream)
        if not taught:
            self.told.lesson.zero_()
        mine = self.tallies[: len(self.spec.stats)]  # cells of a double and a 64-bit count
        self.told.sums.copy_(mine[:, 0])
        self.told.counts.copy_(mine.view(torch.int64)[:, 1])
        self.told.usable.copy_(self.control.counter("usable"))
        self.told.games.copy_(self.control.counter("games"))


class _Part:
    """Some of the games, on a stream of their own, through layers of their own."""

    def __init__(self, collector: CudaCollector, begin: int, end: int) -> None:
        self.collector, self.begin, self.end = collector, begin, end
        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        rows = end - begin
        network, precision = collector.player.policy.network, collector.control.precision
        self.layers = make_layers(collector.spec, network, precision, rows, False)
        self.heads = torch.zeros(rows, self.layers.stride, device="cuda")
        self.numbers = torch.arange(begin, end, device="cuda")
        self.others = torch.zeros(rows if collector.past else 0, self.layers.stride, device="cuda")
        asked = rows if collector.teacher else 0
        kind = collector.spec.bot(collector.teacher) if collector.teacher else 0
        self.kinds = torch.full((asked,), kind, dtype=torch.uint8, device="cuda")
        self.answers = torch.zeros(asked, dtype=torch.int32, device="cuda")

    def play(self, taught: bool) -> None:
        c, rows = self.collector, self.end - self.begin
        for step in range(c.steps):
            now = c.columns.at(step, slice(self.begin, self.end))
            then = c.columns.at(step + 1, slice(self.begin, self.end))
            view = c.player.policy.views.of(self.numbers, now.seat) if c.ppo.symmetries else None
            self.layers.forward(c.player, now.observation, None, rows, self.heads, view)
            self._answer_for_past(now, view)
            if taught:
                kinds, answers = self.kinds.data_ptr(), self.answers.data_ptr()
                c.pool.native.script(self.begin, rows, kinds, answers, stream_now())
            c.pool.native.step(
                self.begin,
                rows,
                self.heads.data_ptr(),
                self.heads.shape[1],
                now.legal.data_ptr(),
                c.seed,
                c.control.address,
                step,
                False,
                now.action.data_ptr(),
                now.log_probability.data_ptr(),
                now.value.data_ptr(),
                now.rewards.data_ptr(),
                now.over.data_ptr(),
                [column.data_ptr() for column in then.turns()],
                stream_now(),
            )
            if taught:
                write_answers(now, self.heads[:, : c.spec.actions], self.answers)

    def _answer_for_past(self, now: Rollout, view: Tensor | None) -> None:
        """Past policies answer in the block of games where they sit."""
        c = self.collector
        for number, (player, block) in enumerate(zip(c.past, c.past_rows, strict=True), start=1):
            first, last = max(block.start, self.begin), min(block.stop, self.end)
            if first >= last:
                continue
            mine = slice(first - self.begin, last - self.begin)
            others = self.others[mine]
            seen = None if view is None else view[mine]
            self.layers.forward(player, now.observation[mine], None, last - first, others, seen)
            c.native.answer_rows(
                now.driver[mine].data_ptr(),
                number,
                others.data_ptr(),
                last - first,
                others.shape[1],
                self.heads[mine].data_ptr(),
                stream_now(),
            )


def past_blocks(games: int, keep: int, share: float) -> list[slice]:
    """The games each past policy may sit in: the last ones, in equal blocks, so that its layers run on
    those rows alone."""
    if keep == 0:
        return []
    each = int(games * share) // keep // 16 * 16 or min(games // keep, 16)
    first = games - keep * each
    return [slice(first + i * each, first + (i + 1) * each) for i in range(keep)]


def block_seating(
    spec: GameSpec, opponents: Opponents, games: int, blocks: list[slice], filled: int, seed: int
) -> npt.NDArray[np.uint8]:
    """Who drives which seat, [games, seats]: bots in the first games, past policies in their blocks."""
    rng = np.random.default_rng(seed)
    drivers = np.zeros((games, spec.seats), np.uint8)
    mine = rng.integers(spec.seats, size=games)
    others = np.arange(spec.seats)[None, :] != mine[:, None]
    with_bots = min(round(games * opponents.bots), blocks[0].start if blocks else games)
    bots = np.array([FIRST_BOT + spec.bot(name) for name in (opponents.bot_names or spec.bots)], np.uint8)
    seated = rng.choice(bots, (with_bots, spec.seats))
    drivers[:with_bots] = np.where(others[:with_bots], seated, 0)
    for number, block in enumerate(blocks[:filled], start=1):
        taken = others[block] & (rng.random((block.stop - block.start, spec.seats)) < 0.5)
        none = ~taken.any(axis=1)
        taken[none] = others[block][none]
        drivers[block] = np.where(taken, number, 0)
    return drivers
