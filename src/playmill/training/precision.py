"""Whether bfloat16 pays on this machine: measured, not guessed."""

from __future__ import annotations

import time
from pathlib import Path

import torch

from playmill.games import GameSpec
from playmill.policies import Network, Policy, forward_flops

MARGIN = 0.95
"""bfloat16 must take less than this share of float32's time: a tie is not worth the rounding."""
REPEATS = 7
ENOUGH = 5e9
"""Operations forwards that are timed at most: a large network shows the difference with fewer rows."""


def faster_in_bfloat16(spec: GameSpec, network: Network, rows: int) -> bool:
    """Times the layers behind the first, forward and backward, in both."""
    if "avx512_bf16" not in _cpu_flags() and "amx_bf16" not in _cpu_flags():
        return False
    rows = min(rows, max(16, int(ENOUGH / forward_flops(spec, network))))
    with torch.random.fork_rng(devices=[]):
        policy = Policy(spec, network)
        first = torch.randn(rows, policy.first.width)
    # Turn by turn about, in CPU time, the best of several: others may be busy on this machine.
    times = [(_time(policy, first, False), _time(policy, first, True)) for _ in range(REPEATS)]
    return min(t for _, t in times) < MARGIN * min(t for t, _ in times)


def _time(policy: Policy, first: torch.Tensor, bfloat16: bool) -> float:
    start = time.thread_time()
    with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        out = policy.after_first(first)
    (out.logits.square().mean() + out.value.mean()).backward()  # type: ignore[no-untyped-call]
    policy.zero_grad(set_to_none=True)
    return time.thread_time() - start


def _cpu_flags() -> frozenset[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line for line in lines if line.startswith("flags")), "").split())
