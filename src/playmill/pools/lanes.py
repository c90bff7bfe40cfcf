"""Which lanes this machine has, and why one is missing. Nothing here raises for lack of a card."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from playmill import _native
from playmill.games import PlaymillError

_INSTEAD = "train on the CPU with --device cpu"


@dataclass(frozen=True)
class Card:
    """An NVIDIA card as the driver describes it."""

    name: str
    capability: tuple[int, int]
    memory: int
    """Bytes."""
    processors: int


@dataclass(frozen=True)
class CudaLane:
    """Whether training can run on a card."""

    available: bool
    reason: str
    """What is missing and what to do, or what there is."""
    card: Card | None = None


def cuda_lane() -> CudaLane:
    """Looks for the compiled kernels, a driver, a card, and whether they fit one another."""
    module = cuda_module()
    if module is None:
        return CudaLane(False, f"not built: {_native.WITHOUT_CUDA or 'its module is missing'}")
    status = module.device_status()
    devices = [Card(name, (major, minor), memory, n) for name, major, minor, memory, n in status["devices"]]
    if not devices:
        return CudaLane(False, _no_card(status))
    card = devices[0]
    problem = module.kernel_problem()
    if problem:
        return CudaLane(False, _unfit(card, module.ARCHITECTURES, problem), card)
    return CudaLane(True, f"{card.name}, {card.memory / 2**30:.0f} GB", card)


def cuda_module() -> ModuleType | None:
    """playmill._cuda, where it was built."""
    try:
        return importlib.import_module("playmill._cuda")
    except ImportError:
        return None


def need_cuda() -> Any:
    """playmill._cuda, ready to use; otherwise one line on what is missing."""
    lane = cuda_lane()
    if not lane.available:
        raise PlaymillError(f"--device cuda: {lane.reason}; or {_INSTEAD}")
    return cuda_module()


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _no_card(status: dict[str, Any]) -> str:
    runtime = _version(status["runtime"])
    if status["driver"] == 0:
        return "no NVIDIA driver was found on this machine"
    if status["driver"] < status["runtime"] // 1000 * 1000:
        return (
            f"the NVIDIA driver is too old: it serves CUDA {_version(status['driver'])}, "
            f"Playmill was built with {runtime}; update the driver, or build with an older nvcc"
        )
    return f"no NVIDIA card can be used: {status['error'] or 'the driver sees none'}"


def _unfit(card: Card, built: str, problem: str) -> str:
    capability = f"{card.capability[0]}.{card.capability[1]}"
    named = ", ".join(f"{a[:-1]}.{a[-1]}" for a in built.split(","))
    if "no kernel image" in problem:
        wanted = f"{card.capability[0]}{card.capability[1]}"
        return (
            f"{card.name} has compute capability {capability}, Playmill was built for {named} and newer; "
            f"install with `pip install -C cmake.define.PLAYMILL_CUDA_ARCHITECTURES={wanted} .`"
        )
    return f"{card.name} does not run Playmill's kernels: {problem}"
