"""`playmill launch` in a process of its own, on a small run."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

from playmill.training.exchange import PASSWORD

RUN = """\
[run]
game = "leduc"
steps = 8
[run.network]
hidden = [16]
[run.actors]
engines = 1
games = 4
segments = 8
[run.ppo]
minibatch = 64
[run.evaluation]
every = 0
final_deals = 2
exploitability = false
[run.checkpoints]
every_s = 1.0
"""
PROGRAM = [sys.executable, "-m", "playmill"]
PATIENCE = 60.0


def write(folder, text, run=RUN):
    file = folder / "cluster.toml"
    file.write_text(text + run)
    return file


def start(folder, *words, password=None, more=None):
    """Its output goes to a file beside the cluster's. `more`: of its environment."""
    with (folder / "out.txt").open("ab") as out:
        return subprocess.Popen(
            [*PROGRAM, *words],
            cwd=folder,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=_environment(password, more),
        )


def ask(folder, *words, password=None, more=None):
    """Exit code and all that was said."""
    done = subprocess.run(
        [*PROGRAM, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        env=_environment(password, more),
        timeout=PATIENCE,
    )
    return done.returncode, done.stdout + done.stderr


def _environment(password, more):
    own = {name: value for name, value in os.environ.items() if name != PASSWORD}
    return {**own, **({} if password is None else {PASSWORD: password}), **(more or {})}


def wait_until(what, process, folder):
    until = time.monotonic() + PATIENCE
    while not what():
        said = (folder / "out.txt").read_text()
        assert process.poll() is None, said
        assert time.monotonic() < until, said
        time.sleep(0.05)


def children(pid):
    """Processes that `pid` has started, by what they were asked to do."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found[child] = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
    return found


def child(pid, what):
    return next((number for number, line in children(pid).items() if what in line), None)


def everywhere(what):
    """All processes whose command line has `what` in it, by number."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
    return {number: line for number, line in found.items() if what in line}


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
