"""Golden transcripts: whole games in words that a person can read and check against the rules."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from playmill.games import Game, OptionValue, registry

FOLDER = Path(__file__).parent

GAMES: dict[str, tuple[str, dict[str, OptionValue], int, tuple[str, ...]]] = {
    # file: game, options, seed, bots in seat order (repeated round the table)
    "generals_2_players": (
        "generals",
        {"width": 6, "height": 6, "max_ticks": 300},
        9,
        ("hunter", "expander"),
    ),
    "generals_4_players_building": (
        "generals",
        {"preset": "competition", "width": 9, "height": 9, "players": 4, "max_ticks": 90, "start_army": 60},
        32,
        ("hunter", "random", "defender", "random"),
    ),
    "kuhn": ("kuhn", {}, 1, ("random",)),
    "leduc": ("leduc", {}, 2, ("random", "tight")),
    "liars_dice": ("liars_dice", {}, 3, ("random", "honest")),
    "skull_king_4_players": ("skull_king", {}, 11, ("greedy", "hard", "random", "greedy")),
    "skull_king_2_players_graybeard": (
        "skull_king",
        {"players": 2, "schedule": "even_keeled"},
        5,
        ("greedy",),
    ),
    "skull_king_6_players_rascal": (
        "skull_king",
        {"players": 6, "scoring": "rascal", "schedule": "skip_to_the_brawl", "deck": "70"},
        7,
        ("hard", "random"),
    ),
    "skull_king_3_players_cannonball": (
        "skull_king",
        {"players": 3, "scoring": "cannonball", "schedule": "swift_and_salty", "harry": "at_once"},
        9,
        ("random",),
    ),
}


def transcript(name: str) -> str:
    """The game move by move; the table as each seat sees it whenever the round has moved on. A board is shown
    whole before every tick."""
    game_name, options, seed, bots = GAMES[name]
    game = Game(game_name, options, seed)
    spec = registry.spec(game_name, options)
    lines = [f"{spec.title}, seed {seed}, options {options}, bots {', '.join(bots)}"]
    totals = [0.0] * spec.seats
    previous = shown = ""
    while not game.over:
        seat, role = game.seat, game.role
        if role != previous and role in ("bid", "bet"):
            for viewer in range(spec.seats):
                lines.append(f"-- as seat {viewer} sees it")
                lines.append(plain(game.table_text(viewer)))
        previous = role
        board = plain(game.table_text(-1)) if role == "move" else ""
        if board != shown:
            lines.append(board)
            shown = board
        legal = game.legal()
        listed = f"{len(legal)} legal" if board else ", ".join(plain(game.action_text(a)) for a in legal)
        action = game.bot(bots[seat % len(bots)])
        lines.append(f"seat {seat} {role}: {plain(game.action_text(action))}   [{listed}]")
        rewards = game.act(action)
        if rewards.any():
            totals = [t + float(r) for t, r in zip(totals, rewards, strict=True)]
            lines.append("   rewards " + ", ".join(f"{r:+.2f}" for r in rewards))
    lines.append("-- over: " + ", ".join(f"seat {s} {t:+.2f}" for s, t in enumerate(totals)))
    return "\n".join(line.rstrip() for text in lines for line in text.splitlines()) + "\n"


def plain(markup: str) -> str:
    return Text.from_markup(markup).plain


def write_all() -> None:
    for name in GAMES:
        (FOLDER / f"{name}.txt").write_text(transcript(name), encoding="utf-8")


if __name__ == "__main__":
    write_all()
