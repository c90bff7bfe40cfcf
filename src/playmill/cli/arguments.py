"""Command lines through tyro, whose errors become one line like all others."""

from __future__ import annotations

import contextlib
import functools
import io
import re
from collections.abc import Callable, Sequence
from typing import Any

import tyro

from playmill.games import PlaymillError


def parse_arguments(kind: Callable[..., Any], args: Sequence[str], prog: str, **settings: Any) -> Any:
    """What `tyro.cli` makes of the arguments; a wrong one is a PlaymillError of one line."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(kind, args=args, prog=prog, **settings)
    except SystemExit as end:
        if not end.code:
            raise
    raise PlaymillError(f"{one_line(said.getvalue())} (`{prog.removesuffix(' [RECIPE]')} --help` says more)")


def call_with_arguments(command: Callable[..., object], args: Sequence[str], prog: str) -> None:
    """Calls a command with its arguments. They are read first: what the command says is its own."""

    @functools.wraps(command)
    def bound(*given: Any, **named: Any) -> Callable[[], object]:
        return functools.partial(command, *given, **named)

    parse_arguments(bound, args, prog)()


def one_line(box: str) -> str:
    """The first paragraph of an error in a box, and the names it offers."""
    rows = [
        re.sub(r"^[│╭╰ ]+|[│╮╯ ]+$", "", row) for row in box.splitlines() if not row.startswith(("╭", "╰"))
    ]
    text = "\n".join(row.strip("─") if not row.strip("─") else row for row in rows)
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()]
    if not paragraphs:
        return "the arguments are wrong"
    offered = [
        name
        for part in paragraphs[1:]
        if part.startswith("Perhaps you meant")
        for name in re.findall(r"--[\w.-]+", part)
    ]
    text = paragraphs[0][0].lower() + paragraphs[0][1:].rstrip(".!")
    return text + (f"; did you mean {' or '.join(offered[:3])}?" if offered else "")
