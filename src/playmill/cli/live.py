"""What live screens have in common: a picture kept up to date, or lines where that cannot be."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

_NARROWEST = 40


class ScreenConsole(Console):
    """A console whose reader may go away; rich would end the process then."""

    def on_broken_pipe(self) -> None:
        raise OSError("the terminal is gone")


class LiveScreen:
    """One picture on a terminal; elsewhere (a pipe, a log, a terminal that knows no Unicode, one narrower
    than 40 columns), or with `plain`, lines. Whatever fails here is noted and goes no further."""

    def __init__(self, title: str, plain: bool | None, console: Console | None) -> None:
        self._title = title
        self._console = console or ScreenConsole(highlight=False)
        self.plain = _is_plain(self._console) if plain is None else plain
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self.plain:
            self._print(self._title)
            return self
        try:
            # No refresh thread: it would raise where nobody catches, and steal time from the training.
            self._live = Live(
                console=self._console, auto_refresh=False, transient=False, vertical_overflow="crop"
            )
            self._live.start()
        except Exception as error:
            self._fall_back(error)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._show_last()
        self._stop()

    def note(self, text: str) -> None:
        """Prints a line that stays above the picture."""
        if self._live is None:
            self._print(f"note: {text}")
            return
        try:
            self._live.console.print(Text.assemble((" ● ", "yellow"), text))
        except Exception as error:
            self._fall_back(error)
            self._print(f"note: {text}")

    def _show_last(self) -> None:
        """Shows how it all ended."""

    def _draw(self, picture: Callable[[int, int], RenderableType]) -> bool:
        """Draws the picture for this width and height; False where there are only lines."""
        if self._live is None:
            return False
        try:
            room = self._console.size
            self._live.update(picture(room.width, room.height), refresh=True)
        except Exception as error:
            self._fall_back(error)
            return False
        return True

    def _fall_back(self, error: Exception) -> None:
        self._stop()
        self.plain = True
        self._print(f"note: the live screen stopped ({error}); plain lines from here")

    def _stop(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            try:
                live.stop()
            except Exception as error:
                self._print(f"note: the live screen did not end cleanly ({error})")

    def _print(self, line: str) -> None:
        file = self._console.file
        encoding = getattr(file, "encoding", None) or "utf-8"
        try:
            file.write(line.encode(encoding, "replace").decode(encoding) + "\n")
            file.flush()
        except (OSError, ValueError):
            # The terminal is gone (a closed ssh session, a closed pipe): there is nobody to tell.
            return


def _is_plain(console: Console) -> bool:
    known = "utf" in (console.encoding or "").lower()
    return not console.is_terminal or console.is_dumb_terminal or not known or console.width < _NARROWEST
