"""The scripted bots do what their slow description allows, and nothing of it more often than the rest."""

import random
from collections import Counter

import pytest

from playmill.games import Game

from .scripted import Scout

BOTS = ("expander", "hunter", "defender")
BOARDS = [
    ({"width": 5, "height": 4, "max_ticks": 200}, 6),
    ({"preset": "source", "width": 10, "height": 10, "max_ticks": 300, "city_army": 5}, 3),
    ({"preset": "competition", "width": 11, "height": 9, "players": 3, "max_ticks": 250, "distance": 4}, 2),
    ({"width": 15, "height": 13, "players": 4, "max_ticks": 200, "start_army": 60, "distance": 5}, 1),
    ({"width": 32, "height": 32, "players": 8, "max_ticks": 30, "start_army": 99, "distance": 5}, 1),
    ({"preset": "source", "width": 20, "height": 20, "smallest": 7, "max_ticks": 120}, 1),
]


def scout(game: Game) -> Scout:
    return Scout(game.spec.schema.unpack(game.observe(game.seat)), game.seat)


def allowed(known: Scout) -> dict[str, set[int]]:
    return {"expander": known.expander(), "hunter": known.hunter(), "defender": known.defender()}


@pytest.mark.parametrize(("options", "games"), BOARDS)
def test_a_bot_makes_one_of_the_best_moves(options: dict[str, int | str], games: int) -> None:
    for seed in range(games):
        dice = random.Random(seed)
        game = Game("generals", options, seed)
        while not game.over:
            sets = allowed(scout(game))
            moves = {bot: game.bot(bot) for bot in BOTS}
            for bot, move in moves.items():
                assert move in sets[bot], f"{bot}, seat {game.seat}:\n{game.table_text(game.seat)}"
            wanders = dice.random() < 0.1
            game.act(game.bot("random") if wanders else moves[BOTS[(game.seat + seed) % 3]])


def test_every_reason_to_move_comes_up() -> None:
    """Or the test before would show little."""
    seen: Counter[str] = Counter()
    options: dict[str, int | str] = {
        "preset": "source",
        "width": 8,
        "height": 8,
        "max_ticks": 300,
        "city_army": 5,
    }
    for seed in range(6):
        game = Game("generals", options, seed)
        while not game.over:
            known = scout(game)
            sets = allowed(known)
            seen.update(f"captures {worth}" for worth in known.captures())
            seen["hunts a general"] += known.general is not None and sets["hunter"] != sets["expander"]
            seen["looks for one"] += known.general is None and sets["hunter"] != sets["expander"]
            seen["defends"] += sets["defender"] != sets["expander"]
            seen["walks"] += not known.captures() and sets["expander"] != {8 * known.size}
            game.act(game.bot(BOTS[(game.seat + seed) % 3]))
    reasons = [*(f"captures {worth}" for worth in (1, 2, 3, 4)), "walks", "hunts a general", "looks for one"]
    for reason in [*reasons, "defends"]:
        assert seen[reason] > 0, f"six games in which nobody {reason}"


POSITIONS = {
    "land on all sides": ("expander", ". . . . . / . a9 . a9 . / . . . . . / A1 . . . B1"),
    "a way round both sides": ("expander", "a1 a1 a1 a1 / a1 a9 a1 . / a1 a1 a1 a1 / A1 . ^ B1"),
    "enemies before land": ("expander", ". b2 . . . / b2 a9 b2 . . / . b2 . . . / A1 . . . B1"),
    "a general from two sides": ("hunter", ". . a5 . / . a7 B2 . / . . . . / A1 . . ."),
    "to the enemy near home": ("defender", "a1 a1 a9 ^ / a1 a1 a1 ^ / b5 a1 a1 ^ / A1 a1 ^ B1"),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_equally_good_moves_are_equally_likely(name: str) -> None:
    bot, rows = POSITIONS[name]
    text = rows.replace(" / ", "\n")
    draws = 2000
    moves = Counter(Game.from_text("generals", text, seed=seed).bot(bot) for seed in range(draws))
    sets = allowed(scout(Game.from_text("generals", text)))[bot]
    assert len(sets) > 1
    assert set(moves) == sets
    share = draws / len(sets)
    assert all(abs(count - share) < 5 * share**0.5 for count in moves.values()), moves
