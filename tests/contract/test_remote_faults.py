"""Engines that die, hang, dawdle and lie: the pool goes on, loses no more than their games, and says so."""

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from playmill import _native
from playmill.engines.faults import LIES
from playmill.games import Game
from playmill.pools.remote import NoEngines, Supervision
from tests.contract.remote import QUICK, RemotePool, chosen, ended, gone, host, listening, play


@pytest.mark.parametrize("lie", LIES)
def test_an_engine_that_lies_is_caught_and_left_out(lie):
    def deceived():
        command = host("native:kuhn", "--lie", lie, "--lie-after", "9")
        with RemotePool("kuhn", 2, seed=1, command=command, supervision=QUICK) as pool:
            play(pool, 500)

    with pytest.raises(NoEngines, match="hash" if lie == "wrong-hash" else "it lied"):
        deceived()


def test_honest_engines_take_over_from_one_that_lies(tmp_path):
    honest_at, liar_at = str(tmp_path / "honest"), str(tmp_path / "liar")
    paths = {honest_at: [], liar_at: ["--lie", "empty-legal", "--lie-after", "20"]}
    with (
        listening(paths),
        RemotePool("kuhn", 4, engines=2, sockets=list(paths), supervision=QUICK) as pool,
    ):
        _, lost = play(pool, 300)
        honest, liar = pool.health()
        assert (honest.state, honest.quarantines) == ("ready", 0)
        assert (liar.state, liar.quarantines) == ("out", 1)
        assert "allows no action" in liar.reason
        assert lost <= liar.lost <= 2


def test_an_engine_that_crashes_is_started_anew_and_its_pids_are_gone():
    settings = Supervision(restart_delay=0.01, restart_delay_most=0.05)
    command = host("native:kuhn", "--crash-after", "40")
    pids = set()
    with RemotePool("kuhn", 6, engines=2, command=command, supervision=settings) as pool:
        over, lost = play(pool, 260, each=lambda _: pids.update(e.pid for e in pool.health()))
        assert over > 20
        assert lost > 0
        assert sum(engine.restarts for engine in pool.health()) >= 2
        for engine in pool.health():
            assert engine.again["died"] >= engine.restarts
            assert engine.again["late"] == engine.again["lied"] == 0
        assert "it ended" in "".join(engine.reason for engine in pool.health())
    assert all(gone(pid) for pid in pids - {0})


def test_an_engine_that_hangs_is_killed_after_the_time_out_and_the_rest_is_played():
    settings = Supervision(decision_timeout=0.4, restart_delay=0.01, restart_delay_most=0.05)
    command = host("native:kuhn", "--hang-after", "60")
    with RemotePool("kuhn", 4, engines=2, command=command, supervision=settings) as pool:
        _, lost = play(pool, 200)
        assert lost > 0
        assert any("longer than 0.4 s" in engine.reason for engine in pool.health())
        assert sum(engine.again["late"] for engine in pool.health()) > 0


def test_a_game_that_takes_too_long_is_dropped_and_its_engine_stays():
    settings = Supervision(game_timeout=0.1)
    command = host("native:skull_king", "--delay-ms", "20")
    with RemotePool("skull_king", 2, command=command, supervision=settings) as pool:
        _, lost = play(pool, 40)
        assert lost >= 2
        (engine,) = pool.health()
        assert engine.restarts == 0
        assert engine.lost >= 2
        assert "longer than 0.1 s" in engine.reason


def test_time_the_caller_spends_elsewhere_is_no_engine_s_fault():
    settings = Supervision(decision_timeout=0.5, ping_every=0.2)
    with RemotePool("kuhn", 2, supervision=settings) as pool:
        rows = pool.turns(2, 5.0)
        pool.act(rows.slot, [chosen(row, 0, 0) for row in rows.legal])
        time.sleep(1.5)
        assert len(pool.turns(2, 5.0).slot) == 2
        assert pool.turns(1, 1.0).slot.size == 0  # idle: asked for signs of life, which come
        assert pool.health()[0].restarts == 0


def test_a_caller_who_thinks_for_long_does_not_turn_the_clocks_back():
    """Rows that are answered late are asked at a time that comes after all before it."""
    with RemotePool("kuhn", 4, engines=1) as pool:
        for _ in range(3):
            rows = pool.turns(4, 5.0)
            time.sleep(1.3)
            pool.act(rows.slot, [chosen(row, 0, 1) for row in rows.legal])
            (engine,) = pool.health()
            assert 0.0 <= engine.seconds_a_decision < 0.5
        assert len(pool.turns(4, 5.0).slot) == 4


def test_an_idle_engine_that_hangs_is_found_by_its_silence():
    settings = Supervision(decision_timeout=0.2, ping_every=0.2, restart_delay=5, restart_delay_most=5)
    with RemotePool("kuhn", 1, supervision=settings) as pool:
        row = pool.turns(1, 5.0)
        os.kill(pool.health()[0].pid, signal.SIGSTOP)
        pool.turns(1, 1.0)
        assert "sign of life" in pool.health()[0].reason
        pool.act(row.slot, [chosen(row.legal[0], 0, 0)])  # too late, and no error


def test_with_every_engine_dead_turns_returns_in_time():
    settings = Supervision(restart_delay=30, restart_delay_most=30)
    with RemotePool("kuhn", 4, engines=2, supervision=settings) as pool:
        rows = pool.turns(4, 5.0)
        for engine in pool.health():
            os.kill(engine.pid, signal.SIGKILL)
        begun = time.monotonic()
        assert len(pool.turns(1, 0.2).slot) == 0
        assert time.monotonic() - begun < 0.5
        pool.act(rows.slot, [chosen(row, 0, 0) for row in rows.legal])
        assert len(pool.turns(1, 0.2).slot) == 0
        assert {engine.state for engine in pool.health()} == {"waiting"}


class Follower:
    """Plays every game of a pool natively beside it: whatever is killed, each row must be the next of its
    slot's game, or the first of a new one whose number is higher."""

    def __init__(self, game, slots, seed):
        self.name, self.seed = game, seed
        self.number = [-1] * slots
        self.game = [None] * slots
        self.action = [None] * slots

    def follow(self, rows):
        for i, slot in enumerate(rows.slot.tolist()):
            row = rows.observation[i].tobytes(), rows.legal[i].tobytes(), int(rows.seat[i])
            game = self.game[slot]
            if game is not None:
                gained = game.act(self.action[slot])
                if not rows.lost[i]:
                    np.testing.assert_array_equal(gained, rows.rewards[i])
                    assert bool(rows.over[i]) == game.over
            if game is None or rows.lost[i] or rows.over[i]:
                assert not rows.rewards[i].any() or rows.over[i]
                self._begin(slot, row)
            assert self._row(self.game[slot]) == row
            self.action[slot] = chosen(rows.legal[i], slot, 7)
        return [self.action[slot] for slot in rows.slot.tolist()]

    def _row(self, game):
        return game.observe(game.seat).tobytes(), game.legal_bits().tobytes(), game.seat

    def _begin(self, slot, row):
        for _ in range(50):  # games that were lost before their first row was given are passed over
            self.number[slot] += 1
            seed = _native.episode_seed(self.seed, slot, self.number[slot])
            self.game[slot] = Game(self.name, {"players": 2}, seed)
            if self._row(self.game[slot]) == row:
                return
        raise AssertionError(f"slot {slot} has a game that is none of its next")


def test_kills_at_any_moment_cost_games_and_nothing_else():
    settings = Supervision(restart_delay=0.005, restart_delay_most=0.02)
    luck = random.Random(11)
    follower = Follower("skull_king", 12, 77)
    kills = lost = 0
    pids = set()
    until = time.monotonic() + 90
    options = {"players": 2}
    with RemotePool("skull_king", 12, options=options, engines=4, seed=77, supervision=settings) as pool:
        while kills < 25 or lost < 25:
            assert time.monotonic() < until
            rows = pool.turns(luck.randint(1, 6), 0.5)
            lost += int(rows.lost.sum())
            answers = follower.follow(rows)
            running = [engine.pid for engine in pool.health() if engine.pid]
            pids.update(running)
            if running and luck.random() < 0.1:
                os.kill(luck.choice(running), signal.SIGKILL)
                kills += 1
            pool.act(rows.slot, answers)
        assert sum(engine.restarts for engine in pool.health()) > 10
        assert sum(engine.quarantines for engine in pool.health()) == 0
    assert all(gone(pid) for pid in pids)


def test_engines_die_with_a_pool_that_is_killed():
    code = (
        "import sys; from playmill.pools.remote import RemotePool\n"
        "command = [sys.executable, '-m', 'playmill.engines.host', 'native:kuhn', '--hang-after', '3']\n"
        "pool = RemotePool('kuhn', 8, engines=2, command=command)\n"
        "pool.turns(8, 1.0)\n"
        "print(*(e.pid for e in pool.health()), flush=True)\n"
        "input()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    pids = [int(word) for word in process.stdout.readline().split()]
    assert len(pids) == 2
    process.kill()
    process.communicate()
    assert all(ended(pid) for pid in pids)


def test_an_engine_that_gives_up_every_game_is_left_out():
    code = (
        "from playmill.engines import host, rules\n"
        "from playmill.engines.rules import native\n"
        "def deal(self, seed): raise RuntimeError('out of cards')\n"
        "native.NativeRules.deal = deal\n"
        "host.main(['native:kuhn'])\n"
    )
    with (
        RemotePool("kuhn", 2, command=[sys.executable, "-c", code], supervision=QUICK) as pool,
        pytest.raises(NoEngines, match="out of cards"),
    ):
        play(pool, 1)


def test_words_without_end_on_standard_error_hold_up_nobody():
    code = (
        "import sys, threading; from playmill.engines import host\n"
        "def talk():\n"
        "    while True: sys.stderr.write('talk ' * 1000)\n"
        "threading.Thread(target=talk, daemon=True).start()\n"
        "host.main(['native:kuhn', '--crash-after', '30'])\n"
    )
    settings = Supervision(restart_delay=30, restart_delay_most=30)
    with RemotePool("kuhn", 2, command=[sys.executable, "-c", code], supervision=settings) as pool:
        while pool.health()[0].state == "ready":
            rows = pool.turns(1, 0.5)
            pool.act(rows.slot, [chosen(row, 0, 0) for row in rows.legal])
        assert "talk talk" in pool.health()[0].reason
        assert len(pool.health()[0].reason) < 5000
