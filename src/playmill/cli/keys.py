"""Keys as they are pressed."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable

ReadKey = Callable[[float | None], str]
"""Waits for a key so many seconds, or for ever: the key, or nothing."""


def terminal_key(wait: float | None = None) -> str:
    """One key from the terminal; an arrow is the sequence it sends."""
    try:
        import termios
        import tty
    except ImportError:  # no termios on Windows: a line at a time
        return input()[:1] or "\n"
    handle = sys.stdin.fileno()
    before = termios.tcgetattr(handle)
    try:
        tty.setcbreak(handle, termios.TCSADRAIN)  # the default would drop keys typed ahead
        if wait is not None and not select.select([handle], [], [], wait)[0]:
            return ""
        key = os.read(handle, 1)
        if key == b"\x1b" and select.select([handle], [], [], 0.02)[0]:
            key += os.read(handle, 8)
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)
    if not key:
        raise EOFError
    return key.decode("utf-8", "replace")
