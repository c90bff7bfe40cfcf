"""The page of a run. All text is escaped."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from playmill.training.report_data import Row, Run, Saved, panels
from playmill.training.report_parts import (
    Commands,
    command_card,
    date,
    document,
    figure,
    grid,
    header,
    interval,
    section,
    table,
)
from playmill.training.units import clock, percent, short
from playmill.training.utilisation import HEADS, Utilisation, ceilings_words, utilisation_rows


def page(run: Run, commands: Commands | None = None) -> str:
    """The whole report. `commands` are (what it does, command line)."""
    drawn = panels(run)
    body = [
        _header(run),
        _results(run),
        section("Learning", "".join(figure(panel) for panel in drawn if panel.size == "main")),
        grid("two", [panel for panel in drawn if panel.size == "half"]),
        section("Latest evaluation", _evaluation(run)),
        section("Ratings", _ratings(run.ratings)),
        section("Optimisation", grid("three", [panel for panel in drawn if panel.group == "loss"])),
        section("What the card did", _utilisation(run.utilisation)),
        section("Go on from here", command_card(default_commands(run) if commands is None else commands)),
        section("Checkpoints", _checkpoints(run.checkpoints)),
        section("Other metrics", grid("three", [panel for panel in drawn if panel.group == "other"])),
        section("Configuration", _settings(run.config)),
    ]
    return document(f"{_name(run)} - Playmill run", body)


def default_commands(run: Run) -> Commands:
    folder = shlex.quote(str(run.folder))
    return [
        ("Continue the training", f"playmill train --resume {folder}"),
        ("Play against the agent", f"playmill play {folder}"),
        ("Measure it again", f"playmill evaluate {folder}"),
    ]


def _header(run: Run) -> str:
    rows = run.metrics
    game = run.config.get("game")
    game = game.get("name") if isinstance(game, dict) else game
    turns = run.latest("turns") or (rows[-1]["step"] if rows else 0)
    seconds = run.latest("seconds") or (rows[-1]["time"] - rows[0]["time"] if rows else 0.0)
    speed = run.latest("speed/turns_per_s")
    facts = [("trained for", f"{short(turns)} turns"), ("in", clock(seconds))]
    if speed is not None:
        facts.append(("at", f"{short(speed)} turns a second"))
    if rows:
        facts.append(("last line", date(rows[-1]["time"])))
    kicker = f"Playmill run of {game}" if game else "Playmill run"
    return header(kicker, _name(run), facts)


def _results(run: Run) -> str:
    cards = []
    for bot in run.bots():
        share, low, high, fair = _result(run, bot)
        if share is None:
            continue
        tone = ""
        if low is not None and high is not None and fair is not None:
            tone = "good" if low > fair else "bad" if high < fair else ""
        more = "" if low is None or high is None else f"95 % interval {low * 100:.1f} to {high * 100:.1f}"
        more += "" if fair is None else f"{', ' if more else ''}fair {fair * 100:.4g}"
        cards.append(
            f'<div class="card"><div class="name">wins against {escape(bot)}</div>'
            f'<div class="value {tone}">{percent(share)}</div>'
            f'{interval(low, high, share, fair)}<div class="more">{more}</div></div>'
        )
    exploitability = run.latest("eval/exploitability")
    if exploitability is not None:
        cards.append(
            '<div class="card"><div class="name">exploitability</div>'
            f'<div class="value">{exploitability:.4g}</div><div class="more">0 is unbeatable</div></div>'
        )
    if not cards:
        return '<p class="empty">No evaluation yet: the first one will appear here.</p>'
    return f'<div class="grid results">{"".join(cards)}</div>'


def _result(run: Run, bot: str) -> tuple[float | None, float | None, float | None, float | None]:
    share, low, high, fair = (run.latest(f"eval/{bot}/{key}") for key in ("win_share", "low", "high", "fair"))
    return share, low, high, fair


def _evaluation(run: Run) -> str:
    rows = []
    for bot in run.bots():
        share, low, high, fair = _result(run, bot)
        if share is None:
            continue
        score, bids = run.latest(f"eval/{bot}/score"), run.latest(f"eval/{bot}/bid_made")
        rows.append(
            [
                escape(bot),
                percent(share),
                "" if low is None or high is None else f"{low * 100:.1f} to {high * 100:.1f}",
                "" if fair is None else percent(fair),
                "" if score is None else f"{score:.1f}",
                "" if bids is None else percent(bids),
            ]
        )
    return table(["against", "wins", "95 % interval", "fair", "score a game", "bids made"], rows)


def _utilisation(found: Utilisation | None) -> str:
    if found is None:
        return ""
    rows = [[escape(cell) for cell in row] for row in utilisation_rows(found)]
    return (
        f"<p>What limits: <b>{escape(found.verdict)}</b>.</p>{table(HEADS, rows)}"
        f'<p class="empty">{escape(ceilings_words(found.ceilings))}.</p>'
    )


def _ratings(ratings: Sequence[Row]) -> str:
    known = [row for row in ratings if all(_is_number(row.get(key)) for key in ("rating", "low", "high"))]
    if not known:
        return ""
    ends = (min(row["low"] for row in known), max(row["high"] for row in known))
    rows = [
        [
            escape(str(row.get("name", "?"))),
            f"{row['rating']:.0f}",
            f"{row['low']:.0f} to {row['high']:.0f}",
            interval(row["low"], row["high"], row["rating"], None, ends),
            f"{row['games']:,}" if _is_number(row.get("games")) else "",
        ]
        for row in known
    ]
    return table(["player", "rating", "95 % interval", "", "games"], rows)


def _checkpoints(saved: Sequence[Saved]) -> str:
    rows = [
        [
            f"<code>step-{one.step:012d}</code>",
            date(one.time),
            f"{short(one.size)}B",
            ('<span class="tag star">best</span> ' if one.best else "")
            + ('<span class="tag">pinned</span>' if one.pinned else ""),
        ]
        for one in saved
    ]
    return table(["folder", "saved", "size", ""], rows)


def _settings(config: Mapping[str, Any]) -> str:
    plain = {key: value for key, value in config.items() if not isinstance(value, dict)}
    groups = {"general": plain, **{key: value for key, value in config.items() if isinstance(value, dict)}}
    cards = []
    for name, values in groups.items():
        rows = "".join(
            f"<tr><td>{escape(key)}</td><td><code>{escape(_setting(value))}</code></td></tr>"
            for key, value in _flat(values)
        )
        if rows:
            cards.append(f'<div class="card"><h3>{escape(name)}</h3><table>{rows}</table></div>')
    return f'<div class="settings">{"".join(cards)}</div>' if cards else ""


def _flat(values: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in values.items():
        nested = isinstance(value, dict) and value
        found += _flat(value, f"{before}{key}.") if nested else [(f"{before}{key}", value)]
    return found


def _setting(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(_setting(item) for item in value)
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else str(value)


def _name(run: Run) -> str:
    name = run.config.get("name")
    return name if isinstance(name, str) and name else run.folder.resolve().name


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)
