"""Benchmarks: every bar has a command, `playmill bench NAME --json`, whose last line is one JSON object."""

from __future__ import annotations

import datetime
import importlib
import inspect
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from benchmarks.bars import Result
from playmill.games import PlaymillError
from playmill.pools.lanes import cuda_lane

NAMES = (
    "pool",
    "generals",
    "train",
    "learn-tiny",
    "off-policy",
    "learn-skull-king",
    "resume",
    "replay",
    "ranks",
    "service",
    "engines",
    "actors",
    "soak",
    "weights",
    "transport",
    "chaos",
    "gpu",
    "gpu-strength",
    "generals-gpu",
    "generals-learn",
    "signature",
)

RESULTS = Path(__file__).resolve().parent / "results"


def run(name: str, *, quiet: bool, quick: bool, save: bool, settings: dict[str, float]) -> None:
    """Runs a benchmark and prints its result; progress goes to stderr unless `quiet`."""

    def say(text: str) -> None:
        if not quiet:
            print(text, file=sys.stderr, flush=True)

    module = importlib.import_module(f"benchmarks.{name.replace('-', '_')}")
    known = inspect.signature(module.measure).parameters
    if settings and not any(p.kind is p.VAR_KEYWORD for p in known.values()):
        raise PlaymillError(f"the benchmark {name} has no settings")
    result: Result = module.measure(say, quick, **settings)
    out: dict[str, Any] = {
        "bench": name,
        "hardware": hardware(),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "quick": quick,
        "bars": [bar.row() for bar in result.bars],
        **result.details,
    }
    for bar in result.bars:
        say(bar.line())
    if save:
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{out['date']}-{name}.json"
        path.write_text(json.dumps(out, indent=1) + "\n")
        say(f"written to {path.relative_to(RESULTS.parent.parent)}")
    print(json.dumps(out), flush=True)


def hardware() -> str:
    """The processor, how many cores of it there are for this process, and the card."""
    name = platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    card = cuda_lane().card
    return f"{name}, {len(os.sched_getaffinity(0))} cores" + (f", {card.name}" if card is not None else "")
