"""Every example runs, shortly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

SHORT = {
    "random_play.py": (["kuhn", "20"], "turns a second"),
    "gymnasium_env.py": (["2"], "points of a random player"),
    "train_and_evaluate.py": (["32768"], "against hard"),
}


@pytest.mark.parametrize("name", SHORT)
def test_the_example_runs(name: str) -> None:
    arguments, expected = SHORT[name]
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    out = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert out.returncode == 0, out.stderr
    assert expected in out.stdout


def test_every_example_is_run() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SHORT)
