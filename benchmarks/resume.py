"""Kills a training at random moments and resumes it: it must end bit-equal to an undisturbed run."""

from __future__ import annotations

import hashlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.bars import Bar, Result
from playmill.checkpoints import Store, fingerprint, read

KILLS = 20
SETTINGS = [
    *("--games=128", "--steps=32", "--threads=2", "--plain", "--minutes=0"),
    *("--network.hidden", "64", "64", "--ppo.minibatch=1024"),
    *("--opponents.past=0.2", "--opponents.bots=0.2", "--opponents.every=20"),
    *("--evaluation.every=300000", "--evaluation.deals=10", "--evaluation.final-deals=10"),
    "--checkpoints.every-updates=3",
]


def measure(say: Callable[[str], None], quick: bool) -> Result:
    kills = 3 if quick else KILLS
    turns = 4096 * (60 if quick else 300)
    with tempfile.TemporaryDirectory() as folder:
        straight, broken = Path(folder) / "straight", Path(folder) / "broken"
        start = time.perf_counter()
        _finish(_start(straight, turns))
        whole = time.perf_counter() - start
        say(f"an undisturbed run takes {whole:.1f} s")
        done = _kill_and_resume(broken, turns, kills, whole, say)
        same = _prints(straight) == _prints(broken)
        say(f"hashes {'are equal' if same else 'DIFFER'}: {_prints(broken)}")
        details = {"hash": _prints(broken), "equal": same, "turns": turns}
    return Result([Bar("kills_survived", done if same else 0, "kills", 3 if quick else KILLS)], details)


def _kill_and_resume(folder: Path, turns: int, kills: int, whole: float, say: Callable[[str], None]) -> int:
    """Kills at moments spread over the whole of a process's life, start-up and saving included."""
    rng = random.Random(1)
    for i in range(kills):
        process = _start(folder, turns)
        # Long enough to get on now and then, short enough that the run is not over before the last kill.
        time.sleep(rng.uniform(0.2, 3.0 + 1.5 * whole / kills))
        if process.poll() is not None:
            process.communicate()
            say(f"finished before kill {i + 1}; killing the finished run's resume does nothing")
            return i
        process.send_signal(signal.SIGKILL)
        process.communicate()
        latest = Store(folder / "checkpoints", keep=1).latest()
        say(f"kill {i + 1}: last checkpoint {latest.name if latest else 'none'}")
    _finish(_start(folder, turns))
    return kills


def _start(folder: Path, turns: int) -> subprocess.Popen[str]:
    if (folder / "config.json").exists():
        command = ["train", "--resume", str(folder), "--plain"]
    else:
        command = ["train", "skull_king", "--run", str(folder), f"--turns={turns}", *SETTINGS]
    return subprocess.Popen(
        [sys.executable, "-m", "playmill", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _finish(process: subprocess.Popen[str]) -> None:
    out, _ = process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"training failed:\n{out}")


def _prints(folder: Path) -> str:
    """One hash over weights, optimiser, past opponents and the games in flight."""
    latest = Store(folder / "checkpoints", keep=1).latest()
    if latest is None:
        return "none"
    checkpoint = read(latest)
    games = hashlib.sha256(b"".join(checkpoint.blobs[name] for name in sorted(checkpoint.blobs))).hexdigest()
    return fingerprint(checkpoint.tensors)[:24] + "-" + games[:24]
