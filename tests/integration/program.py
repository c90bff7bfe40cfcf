"""The real command line in a process of its own."""

import subprocess
import sys
import time

from playmill.checkpoints import Store

PROGRAM = [sys.executable, "-c", "from playmill.cli.main import main; main()"]
PATIENCE = 90.0


def start(line, run, log):
    with log.open("ab") as out:
        place = ["--run", str(run)] if "--resume" not in line else []
        command = [*PROGRAM, "train", *line.split(), *place]
        return subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=run.parent)


def train(line, run):
    """Runs to the end; exit code and all that was printed."""
    log = run.parent / f"{run.name}.{time.monotonic_ns()}.log"
    code = start(line, run, log).wait(PATIENCE)
    return code, log.read_text()


def wait_for(what, process):
    """Until `what()` is true or the process has ended."""
    deadline = time.monotonic() + PATIENCE
    while not what() and process.poll() is None:
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.01)


def newest(run):
    return max(Store(run / "checkpoints", keep=1).steps(), default=0)
