"""Playing a RemotePool in tests."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from playmill import _native
from playmill.pools.remote import RemotePool, Supervision

QUICK = Supervision(
    decision_timeout=5, restart_delay=0.01, restart_delay_most=0.05, healthy_after=600, lies_most=1
)


def host(game, *faults):
    return [sys.executable, "-m", "playmill.engines.host", game, *faults]


def chosen(legal, slot, count):
    """A legal action that depends on the slot and on how many rows it had."""
    return _native.random_legal(slot, count, legal.tobytes())


def play(pool, rows, seconds=60.0, each=None):
    """Answers until so many rows have come; how many ended games and lost ones were among them."""
    until = time.monotonic() + seconds
    over = lost = seen = 0
    while seen < rows:
        assert time.monotonic() < until, f"{seen} of {rows} rows: {pool.health()}"
        waiting = pool.turns(1, 1.0)
        if each is not None:
            each(waiting)
        seen += len(waiting.slot)
        over += int(waiting.over.sum())
        lost += int(waiting.lost.sum())
        pool.act(waiting.slot, [chosen(row, 0, seen + i) for i, row in enumerate(waiting.legal)])
    return over, lost


def histories(pool, rows):
    """The first rows of every slot, each answered by `chosen`: lists of tuples by slot."""
    out = [[] for _ in range(pool.slots)]
    until = time.monotonic() + 60
    while min(map(len, out)) <= rows:
        assert time.monotonic() < until
        waiting = pool.turns(1, 1.0)
        answers = []
        for i, slot in enumerate(waiting.slot.tolist()):
            out[slot].append(tuple(column[i].tobytes() for column in waiting[1:-1]))
            assert not waiting.lost[i]
            if len(out[slot]) <= rows:
                answers.append((slot, chosen(waiting.legal[i], slot, len(out[slot]))))
        if answers:
            pool.act(*np.array(answers).T)
    return out


@contextlib.contextmanager
def listening(faults_at):
    """Hosts of Kuhn poker at these sockets, each with its faults."""
    hosts = [
        subprocess.Popen([*host("native:kuhn"), "--socket", path, *faults])
        for path, faults in faults_at.items()
    ]
    try:
        until = time.monotonic() + 30
        while not all(_answers(path) for path in faults_at):
            assert time.monotonic() < until
            time.sleep(0.02)
        yield
    finally:
        for process in hosts:
            process.kill()
            process.wait()


def _answers(path):
    with socket.socket(socket.AF_UNIX) as made:
        return made.connect_ex(path) == 0


def gone(pid, within=5.0):
    """Whether nothing is left of a process, not even an entry for its parent to read."""
    until = time.monotonic() + within
    while Path(f"/proc/{pid}").exists():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def ended(pid, within=5.0):
    """Whether a process that is somebody else's child has ended."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.01)
    return False


__all__ = ["QUICK", "RemotePool", "chosen", "ended", "gone", "histories", "host", "listening", "play"]
