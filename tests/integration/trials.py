"""Real runs of the engine lane of which nothing is left after a test."""

import contextlib
import os
import shutil

from benchmarks.chaos_run import Trial
from playmill.experience.ring import rings_root
from playmill.training.exchange import PASSWORD

STRANGER = 99
"""The number of an actor that is none of the run's."""


@contextlib.contextmanager
def running(*arguments, **settings):
    trial = Trial(*arguments, **settings)
    try:
        yield trial
    finally:
        trial.close()
        shutil.rmtree(rings_root() / trial.exchange.run, ignore_errors=True)
        trial.exchange.clear()
        os.environ.pop(PASSWORD, None)
