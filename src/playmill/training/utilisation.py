"""How much of a card a training uses: what was computed and moved, against what the card was measured to do.

The work of a turn is counted from the shapes of game and network, the time is the lane's own, and the two
ceilings are measured on the spot. Work over time over ceiling is a share; the larger share limits."""

from __future__ import annotations

import itertools
import json
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from playmill.games import GameSpec
from playmill.policies import Network, network_cost
from playmill.training.units import percent, quantity

FILE = "utilisation.json"
LIMITING = 0.5
"""From this share on a ceiling limits: a network's products are smaller and slower than the one measured, and
the bytes counted are the fewest that must move, so at half the better part of the time is spoken for."""
_BLAMED = 0.25
"""Of the time lost, in a phase whose size is then worth a change."""

_BFLOAT16 = 2
HEADS = ("phase", "of the time", "computed", "of the matrix units", "moved", "of the memory")


@dataclass(frozen=True)
class Ceilings:
    """What a card was measured to do."""

    matrix_flops_per_s: float
    bytes_per_s: float
    name: str


@dataclass(frozen=True)
class Work:
    """Of one turn, or of one row in one epoch."""

    flops: float
    bytes: float


@dataclass(frozen=True)
class Rate:
    """What was achieved in a stretch of time, and its shares of the ceilings (0..1)."""

    seconds: float
    flops_per_s: float
    bytes_per_s: float
    matrix_share: float
    memory_share: float


@dataclass(frozen=True)
class Utilisation:
    """Rates by phase and in all, and what limits."""

    ceilings: Ceilings
    phases: Mapping[str, Rate]
    whole: Rate
    limit: Literal["matrix", "memory", "neither"]
    verdict: str


def measure_ceilings(device: torch.device | str) -> Ceilings:
    """A large matrix product and a large copy, the median of several; a fraction of a second.

    The product is of random numbers: zeros draw less power, and a card that is not warm clocks higher than
    it can in training. A copy counts the bytes read and the bytes written."""
    device = torch.device(device)
    cuda = device.type == "cuda"
    side, size = (8192, 1 << 30) if cuda else (256, 1 << 22)
    multiplied, copied = _product_seconds(side, device), _copy_seconds(size, device)
    if cuda:
        torch.cuda.empty_cache()  # two gigabytes that the training may need
    name = torch.cuda.get_device_name(device) if cuda else "CPU"
    return Ceilings(2.0 * side**3 / multiplied, 2.0 * size / copied, name)


def _product_seconds(side: int, device: torch.device) -> float:
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    a, b = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    product = torch.empty_like(a)
    return _median_seconds(lambda: torch.mm(a, b, out=product), device)


def _copy_seconds(size: int, device: torch.device) -> float:
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return _median_seconds(lambda: target.copy_(source), device)


def _median_seconds(
    act: Callable[[], object], device: torch.device, warm: int = 10, times: int = 20
) -> float:
    for _ in range(warm):
        act()
    if device.type != "cuda":
        taken = []
        for _ in range(times):
            begun = time.perf_counter()
            act()
            taken.append(time.perf_counter() - begun)
        return statistics.median(taken)
    stream = torch.cuda.current_stream(device)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(times + 1)]  # type: ignore[no-untyped-call]
    marks[0].record(stream)
    for mark in marks[1:]:
        act()
        mark.record(stream)
    stream.synchronize()
    between = itertools.pairwise(marks)
    return statistics.median(float(before.elapsed_time(after)) for before, after in between) / 1000.0


def work_per_turn(spec: GameSpec, network: Network) -> dict[str, Work]:
    """The work of phase `rollout` for a turn, and of phase `update` for a row in one epoch.

    FLOPs: a forward pass is f, its first layer counted as the dense product it stands for. An update is 3 f
    less the first layer's gradient of its input, which nobody needs.

    Bytes: the fewest that must move when every layer is a kernel of its own, in bfloat16. Weights are left
    out: all rows of a batch share them.
      rollout   packed row and legal bits written and read; expanded row written and read; activations,
                logits and value written and read; what the rollout keeps of a turn written
      update    packed row and legal bits read; expanded row written, read forwards and again backwards;
                activations written, read forwards and backwards, their gradients written and read; logits,
                value and their gradients written and read; action, its probability, advantage, target read
    """
    features = spec.schema.features
    packed = spec.schema.bytes + spec.legal_bytes
    cost = network_cost(spec, network)
    inner, outputs = cost.activations, spec.actions + 1
    kept = 4 + 3 * 4 + 4 * spec.seats  # seat, role, driver, end; action, probability, value; rewards

    forward, backward = cost.flops, 2 * cost.flops - cost.first
    return {
        "rollout": Work(forward, 2 * packed + kept + _BFLOAT16 * 2 * (features + inner + outputs)),
        "update": Work(
            forward + backward, packed + 16 + _BFLOAT16 * (3 * features + 5 * inner + 4 * outputs)
        ),
    }


def utilisation(
    work: Mapping[str, Work],
    seconds: Mapping[str, float],
    turns: int,
    epochs: float,
    ceilings: Ceilings,
    *,
    games: int | None = None,
    minibatch: int | None = None,
) -> Utilisation:
    """Rates and shares of `turns` turns that took `seconds` by phase; phases without counted work, such as
    returns, count as time. `games` and `minibatch` are what the run has, for advice."""
    rows = {phase: turns * (epochs if phase == "update" else 1.0) for phase in work}
    done = {phase: Work(one.flops * rows[phase], one.bytes * rows[phase]) for phase, one in work.items()}
    nothing = Work(0.0, 0.0)
    phases = {phase: _rate(done.get(phase, nothing), took, ceilings) for phase, took in seconds.items()}
    in_all = Work(sum(one.flops for one in done.values()), sum(one.bytes for one in done.values()))
    whole = _rate(in_all, sum(seconds.values()), ceilings)
    share = max(whole.matrix_share, whole.memory_share)
    if share < LIMITING:
        return Utilisation(ceilings, phases, whole, "neither", _advice(phases, whole, games, minibatch))
    matrix = whole.matrix_share >= whole.memory_share
    unit = "the matrix units" if matrix else "memory"
    verdict = f"{unit} ({_whole(share)} of what this card was measured to do)"
    return Utilisation(ceilings, phases, whole, "matrix" if matrix else "memory", verdict)


def _rate(work: Work, seconds: float, ceilings: Ceilings) -> Rate:
    flops, moved = (work.flops / seconds, work.bytes / seconds) if seconds > 0 else (0.0, 0.0)
    return Rate(seconds, flops, moved, flops / ceilings.matrix_flops_per_s, moved / ceilings.bytes_per_s)


def _advice(phases: Mapping[str, Rate], whole: Rate, games: int | None, minibatch: int | None) -> str:
    """Where neither ceiling is near: the phase that loses most time, and the sizes to double."""
    lost = {
        name: one.seconds * max(0.0, 1.0 - max(one.matrix_share, one.memory_share))
        for name, one in phases.items()
    }
    text = (
        f"neither (matrix units {_whole(whole.matrix_share)}, memory {_whole(whole.memory_share)}): "
        "small batches or launch gaps"
    )
    if not sum(lost.values()):
        return text
    text += f", mostly in phase {max(lost, key=lambda name: lost[name])}"
    sizes = {"rollout": ("--games", games), "update": ("--ppo.minibatch", minibatch)}
    tries = [
        f"{option} {2 * size}"
        for phase, (option, size) in sizes.items()
        if size is not None and lost.get(phase, 0.0) >= _BLAMED * sum(lost.values())
    ]
    return f"{text}; try {', '.join(tries)}" if tries else text


def _whole(share: float) -> str:
    return f"{share * 100:.0f} %"


# Presentation


def utilisation_metrics(u: Utilisation) -> dict[str, float]:
    """What goes into metrics.jsonl."""
    return {
        "gpu/flops_per_s": u.whole.flops_per_s,
        "gpu/bytes_per_s": u.whole.bytes_per_s,
        "gpu/matrix_share": u.whole.matrix_share,
        "gpu/memory_share": u.whole.memory_share,
    }


def ceilings_words(ceilings: Ceilings) -> str:
    """NVIDIA H200, measured: 742 TFLOP/s in matrix products, 4.1 TB/s in copies."""
    flops, moved = quantity(ceilings.matrix_flops_per_s, "FLOP/s"), quantity(ceilings.bytes_per_s, "B/s")
    return f"{ceilings.name}, measured: {flops} in matrix products, {moved} in copies"


def utilisation_rows(u: Utilisation) -> list[list[str]]:
    """The cells under `HEADS`, a row for each phase and one for all."""
    named = {**u.phases, "in all": u.whole}
    return [
        [
            name,
            percent(one.seconds / u.whole.seconds if u.whole.seconds > 0 else 0.0),
            quantity(one.flops_per_s, "FLOP/s"),
            percent(one.matrix_share),
            quantity(one.bytes_per_s, "B/s"),
            percent(one.memory_share),
        ]
        for name, one in named.items()
    ]


def utilisation_lines(u: Utilisation) -> list[str]:
    """For a terminal: the ceilings, a table, the verdict."""
    rows = [list(HEADS), *utilisation_rows(u)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADS))]
    table = [
        "  ".join(cell.rjust(width) if i else cell.ljust(width) for i, (cell, width) in enumerate(cells))
        for cells in (list(zip(row, widths, strict=True)) for row in rows)
    ]
    return [ceilings_words(u.ceilings), *(f"  {line}" for line in table), f"what limits: {u.verdict}"]


def write_utilisation(folder: Path, u: Utilisation) -> Path:
    """Writes utilisation.json into a run folder; the report shows it."""
    path = Path(folder) / FILE
    beside = path.with_name(f".{FILE}.tmp")
    beside.write_text(json.dumps(asdict(u), indent=1) + "\n", encoding="utf-8")
    beside.replace(path)
    return path


def read_utilisation(folder: Path) -> Utilisation | None:
    """What `write_utilisation` wrote; None where it is missing or damaged."""
    try:
        saved: Any = json.loads((Path(folder) / FILE).read_text(encoding="utf-8"))
        ceilings = saved["ceilings"]
        return Utilisation(
            Ceilings(
                float(ceilings["matrix_flops_per_s"]), float(ceilings["bytes_per_s"]), str(ceilings["name"])
            ),
            {str(phase): _read_rate(one) for phase, one in saved["phases"].items()},
            _read_rate(saved["whole"]),
            saved["limit"],
            str(saved["verdict"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _read_rate(saved: Mapping[str, Any]) -> Rate:
    names = ("seconds", "flops_per_s", "bytes_per_s", "matrix_share", "memory_share")
    return Rate(*(float(saved[name]) for name in names))
