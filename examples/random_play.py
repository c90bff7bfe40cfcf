"""Random legal play in a pool: how fast it goes, and what random play is worth.

python examples/random_play.py [GAME] [STEPS]"""

from __future__ import annotations

import sys
import time

import numpy as np

from playmill.pools import NativePool


def main(game: str = "skull_king", steps: int = 500) -> None:
    pool = NativePool(game, 4096)
    spec = pool.spec
    rng = np.random.default_rng(0)
    ended = 0
    start = time.perf_counter()
    for _ in range(steps):
        turns = pool.turns()
        legal = np.unpackbits(turns.legal, axis=1, count=spec.actions, bitorder="little")
        actions = (rng.random(legal.shape, np.float32) * legal).argmax(axis=1)
        ended += int(pool.act(actions).over.sum())
    spent = time.perf_counter() - start
    print(f"{spec.title}: {steps * pool.games:,} turns, {ended:,} games in {spent:.2f} s")

    # The same with actions drawn in native code: what is left is the engine.
    start = time.perf_counter()
    for _ in range(steps):
        pool.turns()
        pool.act(pool.bot_actions("random"))
    print(f"{steps * pool.games / (time.perf_counter() - start):,.0f} turns a second without numpy")
    for name, (mean, count) in pool.stats().get(0, {}).items():
        print(f"  {name:14} {mean:8.3f}   ({count:,})")


if __name__ == "__main__":
    main(*sys.argv[1:2], *(int(n) for n in sys.argv[2:3]))
