"""`python -m tests.generals.fuzz --games 10000 --processes 2`: the engine against the referee.

Case `number` of a fuzz seed is the same game for ever: repeat a failure with
`--seed S --first NUMBER --games 1`.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from .driver import Case, Difference, SideBySide

CHUNK = 10


def play(first: int, games: int, fuzz_seed: int) -> Counter[str]:
    """Plays cases first to first + games; what came up in them, or a Difference."""
    seen: Counter[str] = Counter()
    for number in range(first, first + games):
        try:
            seen += SideBySide(Case.numbered(number, fuzz_seed)).play_out()
        except Difference as difference:
            again = f"--seed {fuzz_seed} --first {number} --games 1"
            raise Difference(f"{difference}\n  again: python -m tests.generals.fuzz {again}") from None
    return seen


def chunks(first: int, games: int) -> Iterator[tuple[int, int]]:
    for start in range(first, first + games, CHUNK):
        yield start, min(CHUNK, first + games - start)


def run(first: int, games: int, fuzz_seed: int, processes: int) -> Counter[str]:
    seen: Counter[str] = Counter()
    starts, sizes = zip(*chunks(first, games), strict=True)
    begun = time.monotonic()
    with ProcessPoolExecutor(processes) as pool:
        for done in pool.map(partial(play, fuzz_seed=fuzz_seed), starts, sizes):
            seen += done
            rate = seen["ticks"] / (time.monotonic() - begun)
            line = f"\r{seen['games']}/{games} games, {seen['ticks']} ticks, {rate:.0f} ticks/s "
            print(line, end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return seen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1, help="names the whole fuzz")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    try:
        seen = run(arguments.first, arguments.games, arguments.seed, arguments.processes)
    except Difference as difference:
        print(f"\nDIFFERENCE in {difference}")
        return 1
    print("no difference: " + ", ".join(f"{count} {what}" for what, count in sorted(seen.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
