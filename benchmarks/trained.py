"""A recipe trained from scratch, for benchmarks that judge what comes of it."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.learn_skull_king import Told
from playmill.training.config import Train, load_recipe
from playmill.training.runs import create_run
from playmill.training.trainer import Trainer


def trained(recipe: str, say: Callable[[str], None], quick: bool) -> tuple[Train, Trainer]:
    """The settings of the recipe, and its trainer at the end of its minutes; a few seconds when quick."""
    config = load_recipe(recipe)
    if quick:
        config = dataclasses.replace(config, minutes=0.2)
    with tempfile.TemporaryDirectory() as folder:
        run = create_run(Path(folder) / "run", config)
        trainer = Trainer(run, Told(say))
        trainer.run()
        run.release()
    return config, trainer
