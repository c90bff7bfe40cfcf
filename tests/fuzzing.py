"""Fuzzing of an engine against its referee: numbered cases, shared out to processes.

Case `number` of a fuzz seed is the same game for ever: repeat a failure with
`--seed S --first NUMBER --games 1`.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

CHUNK = 10

Seen = Counter[str]
Play = Callable[[int, int, int], Seen]
"""Plays cases first to first + games of a fuzz seed; what came up in them, or a Difference."""


class Difference(AssertionError):
    """Engine and referee disagree."""


def play_cases(module: str, play: Callable[[int, int], Seen], first: int, games: int, fuzz_seed: int) -> Seen:
    """`play(number, fuzz_seed)` for each case; a difference says how to see it again."""
    seen: Seen = Counter()
    for number in range(first, first + games):
        try:
            seen += play(number, fuzz_seed)
        except Difference as difference:
            again = f"python -m {module} --seed {fuzz_seed} --first {number} --games 1"
            raise Difference(f"{difference}\n  again: {again}") from None
    return seen


def chunks(first: int, games: int) -> Iterator[tuple[int, int]]:
    for start in range(first, first + games, CHUNK):
        yield start, min(CHUNK, first + games - start)


def run(play: Play, unit: str, first: int, games: int, fuzz_seed: int, processes: int) -> Seen:
    seen: Seen = Counter()
    starts, sizes = zip(*chunks(first, games), strict=True)
    begun = time.monotonic()
    with ProcessPoolExecutor(processes) as pool:
        for done in pool.map(partial(play, fuzz_seed=fuzz_seed), starts, sizes):
            seen += done
            rate = seen[unit] / (time.monotonic() - begun)
            line = f"\r{seen['games']}/{games} games, {seen[unit]} {unit}, {rate:.0f} {unit}/s "
            print(line, end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return seen


def main(play: Play, description: str, *, unit: str, games: int) -> int:
    """The command line; `unit` is what is counted beside games."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--games", type=int, default=games)
    parser.add_argument("--seed", type=int, default=1, help="names the whole fuzz")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    try:
        seen = run(play, unit, given.first, given.games, given.seed, given.processes)
    except Difference as difference:
        print(f"\nDIFFERENCE in {difference}")
        return 1
    print("no difference: " + ", ".join(f"{count} {what}" for what, count in sorted(seen.items())))
    return 0
