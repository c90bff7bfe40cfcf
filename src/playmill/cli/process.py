"""How a training ends with its process, and what the program is called."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn


def stop_on_signals(stop: Callable[[str], None]) -> None:
    """The first Ctrl-C or SIGTERM ends the training in order; a second Ctrl-C ends it at once."""

    def handle(number: int, _frame: object) -> None:
        stop(signal.Signals(number).name)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, handle)
    signal.signal(signal.SIGTERM, handle)


def end_with_parent() -> None:
    """SIGTERM for this process when the one that started it dies, however it does."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))


_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def leave() -> NoReturn:
    """Ends this process in order, all being said and saved, but without the interpreter's own end: a thread
    of gloo's that still lets go of a Python object would abort there, and the run would count as failed."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def program() -> str:
    """What to type for this program: its name where the shell finds it, else as it was called now."""
    called = sys.argv[0]
    return called if Path(called).name == "playmill" and shutil.which("playmill") is None else "playmill"
