"""`python -m tests.generals.fuzz --games 10000`: the engine against the referee."""

import sys

from tests.fuzzing import Seen, main, play_cases

from .driver import Case, SideBySide


def play_one(number: int, fuzz_seed: int) -> Seen:
    return SideBySide(Case.numbered(number, fuzz_seed)).play_out()


def play(first: int, games: int, fuzz_seed: int) -> Seen:
    return play_cases("tests.generals.fuzz", play_one, first, games, fuzz_seed)


if __name__ == "__main__":
    sys.exit(main(play, __doc__, unit="ticks", games=10000))
