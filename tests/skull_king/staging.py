"""Tricks on order: looks for a deal of the engine in which a wanted trick can be played."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from playmill.games import Game, registry

from . import rules as r
from .driver import Options, members
from .rules import Play

SUIT_LETTERS = "bgpy"
NAMES = {
    "skull king": r.SKULL_KING,
    "whale": r.WHALE,
    "kraken": r.KRAKEN,
    "mermaid": r.MERMAIDS[0],
    "mermaid 2": r.MERMAIDS[1],
    "rosie": r.ROSIE,
    "bendt": r.BENDT,
    "roatan": r.ROATAN,
    "jade": r.JADE,
    "harry": r.HARRY,
    "escape": r.ESCAPES[0],
    "escape 2": r.ESCAPES[1],
    "tigress": r.TIGRESS,
    "tigress!": r.TIGRESS_PIRATE,  # as a pirate
    "loot": r.LOOTS[0],
    "loot 2": r.LOOTS[1],
}


def action(word: str) -> int:
    """The action behind a word: "b14" is black 14, "tigress!" the tigress as a pirate."""
    if word in NAMES:
        return NAMES[word]
    return r.NUMBERS.start + 14 * SUIT_LETTERS.index(word[0]) + int(word[1:]) - 1


def card(word: str) -> int:
    return r.TIGRESS if word == "tigress!" else action(word)


def trick(words: str) -> list[Play]:
    """A trick from words between commas, the places counted from its leader."""
    named = [word.strip() for word in words.split(",")]
    return [Play(place, card(word), word == "tigress!") for place, word in enumerate(named)]


@dataclass(frozen=True)
class Staged:
    """What the engine made of a trick. Seats are counted from its leader."""

    game: Game
    leader: int
    winner: int | None
    next_leader: int
    bonus: list[int]  # points


@cache
def _stage(words: str, options: tuple[tuple[str, int | str], ...], tries: int) -> Staged:
    wanted = [word.strip() for word in words.split(",")]
    asked: Options = {"players": len(wanted), "first_round": 7, "powers": "off", **dict(options)}
    schema = registry.spec("skull_king", asked).schema
    for seed in range(tries):
        game = Game("skull_king", options=asked, seed=seed)
        leader = int(game.seat)
        seats = [(leader + k) % len(wanted) for k in range(len(wanted))]
        hands = (members(schema.unpack(game.observe(seat))["hand"]) for seat in seats)
        if not all(holds(hand, word) for word, hand in zip(wanted, hands, strict=True)):
            continue
        for _ in seats:
            game.act(r.BID)
        if not _play(game, wanted):
            continue
        seen = schema.unpack(game.observe(leader))
        won = seen["won"].reshape(-1).tolist()
        winner = won.index(1) if any(won) else None
        bonus = [10 * int(tens) for tens in seen["bonus"].reshape(-1)]
        return Staged(game, leader, winner, int(seen["leader"].item()), bonus)
    raise AssertionError(f"no deal for '{words}' in {tries} seeds")


def holds(hand: set[int], word: str) -> bool:
    return any(r.is_number(held) for held in hand) if word == "number" else card(word) in hand


def _play(game: Game, words: list[str]) -> bool:
    for word in words:
        legal = game.legal()
        wanted = [held for held in legal if r.is_number(held)] if word == "number" else [action(word)]
        if not wanted or wanted[0] not in legal:
            return False
        game.act(wanted[0])
    return True


def stage(words: str, options: Mapping[str, int | str] | None = None, tries: int = 200_000) -> Staged:
    """Has the engine play this very trick as the first of a round, everybody having bid 0.

    The word "number" stands for any number card. Copy the game before playing on."""
    return _stage(words, tuple(sorted((options or {}).items())), tries)
