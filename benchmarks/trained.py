"""A recipe trained from scratch, for benchmarks that judge what comes of it."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.learn_skull_king import Told
from playmill.training.config import Train, load_recipe
from playmill.training.runs import create_run, new_run_path
from playmill.training.trainer import Trainer


def trained(recipe: str, say: Callable[[str], None], quick: bool) -> tuple[Train, Trainer]:
    """The settings of the recipe, and its trainer at the end of its minutes. The run stays in runs/, for
    whoever wants to play it or to go on; when quick it is a few seconds, and nothing stays."""
    config = load_recipe(recipe)
    with ExitStack() as stack:
        base = Path("runs")
        if quick:
            config = dataclasses.replace(config, minutes=0.2)
            base = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        run = create_run(new_run_path(base, recipe.replace("/", "-")), config)
        if not quick:
            say(f"the run is kept in {run.path}")
        trainer = Trainer(run, Told(say))
        trainer.run()
        run.release()
    return config, trainer
