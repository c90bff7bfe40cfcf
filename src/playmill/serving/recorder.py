"""Writes down the games of a house that are played to their end. Bots play alike from the same seed, so that
what clients answered is enough; whole games are put together and written by a thread of their own."""

from __future__ import annotations

import logging
import queue
import threading
from array import array
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from playmill.games import Game, GameSpec, PlaymillError
from playmill.pools import FIRST_BOT
from playmill.replays import Replay, ReplayWriter
from playmill.serving.columns import U8, U64, Answers, Hosts, Moves, Resets, Standing

CLIENT = "client"
"""What a seat is called that no bot has."""
_LOG = logging.getLogger(__name__)


@dataclass
class _Running:
    """A game from its first turn on, as far as clients have answered."""

    spec: GameSpec
    seed: int
    bots: tuple[str, ...]
    """Of each seat; empty for a client's."""
    answers: array[int] = field(default_factory=lambda: array("i"))


class Recorder:
    """Keeps what is answered in games that were opened under its eyes. `lock` is held from an answer until
    it is noted: notes of one game come in the order of its turns."""

    def __init__(self, path: Path) -> None:
        self.lock = threading.Lock()
        self._writer = ReplayWriter(path)
        self._running: dict[int, _Running] = {}
        self._ended: queue.SimpleQueue[_Running | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def opened(self, spec: GameSpec, games: U64, seeds: U64, drivers: U8) -> None:
        bots = tuple(spec.bots[d - FIRST_BOT] if d >= FIRST_BOT else "" for d in drivers.tolist())
        for game, seed in zip(games.tolist(), seeds.tolist(), strict=True):
            self._running[game] = _Running(spec, seed, bots)

    def moved(self, moves: Moves, answers: Answers) -> None:
        for row in np.flatnonzero(answers.standing == Standing.OK).tolist():
            game = int(moves.game[row])
            if (running := self._running.get(game)) is None:
                continue
            running.answers.append(int(moves.action[row]))
            if answers.over[row]:
                self._ended.put(running)
                self._running[game] = _Running(running.spec, running.seed, running.bots)

    def reset(self, resets: Resets, answers: Answers) -> None:
        for row in np.flatnonzero(answers.standing == Standing.OK).tolist():
            game = int(resets.game[row])
            if (running := self._running.get(game)) is not None:
                self._running[game] = _Running(running.spec, int(resets.seed[row]), running.bots)

    def closed(self, hosts: Hosts, answers: Answers) -> None:
        self.forget(hosts.game[answers.standing == Standing.OK])

    def forget(self, games: U64) -> None:
        for game in games.tolist():
            self._running.pop(game, None)

    @property
    def games(self) -> U64:
        """The games it keeps an eye on."""
        return np.array(list(self._running), np.uint64)

    def close(self) -> None:
        """Writes what has ended; the rest was not played to its end."""
        self._ended.put(None)
        self._thread.join()
        self._writer.close()

    def _run(self) -> None:
        while (ended := self._ended.get()) is not None:
            try:
                self._writer.add(_replay(ended))
            except PlaymillError:
                _LOG.exception("a game could not be written down; the others go on")


def _replay(ended: _Running) -> Replay:
    """The whole game, the bots' moves among the clients'."""
    spec, answers, actions = ended.spec, iter(ended.answers), []
    game = Game(spec.name, spec.options, ended.seed)
    while not game.over:
        bot = ended.bots[game.seat]
        actions.append(game.bot(bot) if bot else next(answers))
        game.act(actions[-1])
    names = tuple(bot or CLIENT for bot in ended.bots)
    return Replay(spec.name, spec.options, ended.seed, names, tuple(actions))
