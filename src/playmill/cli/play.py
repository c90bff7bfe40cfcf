"""A game against agents, in the terminal."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from playmill.cli import table_view as view
from playmill.games import Game, OptionValue, PlaymillError, registry
from playmill.league.agents import Agent, Decision, seat_agents
from playmill.replays import Replay, ReplayWriter

Read = Callable[[str], str]

HELP = """\
[bold]a number[/]       plays that move
[bold]its beginning[/]  plays the move that begins so: [cyan]bid 2[/], or [cyan]b 2[/]
[bold]Enter[/]          plays the only move there is
[bold]hint[/]           what an agent would do in your place
[bold]think[/]          that, and what the agents thought at their last moves: a look at their cards
[bold]table[/]          the table and your moves again
[bold]save FILE[/]      adds the game so far to a file, for [cyan]playmill watch FILE[/]
[bold]quit[/]           leaves the game"""


class _Quit(Exception):
    """The player has had enough."""


def play(
    game: str,
    options: Mapping[str, OptionValue] | None,
    agents: Sequence[Agent],
    human_seat: int | None,
    seed: int | None,
    console: Console,
    read: Read = input,
    replays: Path | None = None,
) -> None:
    """Plays until the player leaves. `agents`: one for all other seats, or one for each in order of
    play after the player; without a seat the player starts anywhere and moves round the table. Games played
    to their end are appended to `replays`."""
    spec = registry.native(game, options)
    others = seat_agents(agents, spec.seats - 1)
    if human_seat is not None and not 0 <= human_seat < spec.seats:
        raise PlaymillError(f"{game} has seats 0 to {spec.seats - 1}, got {human_seat}")
    seed = secrets.randbits(32) if seed is None else seed
    seat = seed % spec.seats if human_seat is None else human_seat
    console.print(Text.assemble((spec.title, "bold"), (f"   seed {seed}; ? for help", "dim")))
    try:
        while True:
            sitting = _Sitting(Game(game, options, seed), others, seat, seed, console, read)
            sitting.play()
            if replays is not None:
                sitting.save(str(replays))
            if not sitting.wants_more():
                raise _Quit
            seed += 1
            seat = (seat + 1) % spec.seats if human_seat is None else human_seat
    except (EOFError, KeyboardInterrupt):
        console.print("\nGoodbye.")
    except _Quit:
        console.print("Goodbye.")


class _Sitting:
    """One game from the deal to the question whether to play another."""

    def __init__(
        self, game: Game, others: Sequence[Agent], seat: int, seed: int, console: Console, read: Read
    ) -> None:
        self.game, self.seat, self.seed = game, seat, seed
        self.console, self.read = console, read
        seats = game.spec.seats
        self.agents = {(seat + k) % seats: agent for k, agent in enumerate(others, start=1)}
        self.actions: list[int] = []
        self.rewards = [0.0] * seats
        self.told = ""
        """The role of the move told last."""
        self.thoughts: dict[int, tuple[int, Game, Decision]] = {}
        """By seat: the number of its last move, the position before it, and what was decided."""

    def play(self) -> None:
        """The whole game."""
        while not self.game.over:
            if self.game.seat == self.seat:
                self.act(self.ask())
            else:
                self.watch_move()
        self.show_end()

    def act(self, action: int) -> None:
        self.rewards = [a + b for a, b in zip(self.rewards, self.game.act(action).tolist(), strict=True)]
        self.actions.append(action)

    def watch_move(self) -> None:
        """An agent's move, told as far as the player may know it."""
        before, seat = self.game.copy(), self.game.seat
        decision = self.agents[seat].choose(before.copy())
        self.thoughts[seat] = (len(self.actions), before, decision)
        shown = view.is_known(before, [decision.action], self.seat)
        move = view.words(before, decision.action) if shown else Text("decides in secret", "dim italic")
        self.tell(self.label(seat), move)
        self.act(decision.action)

    def ask(self) -> int:
        """The player's next move."""
        legal = self.game.legal()
        self.show_table(legal)
        self.told = self.game.role
        while True:
            only = f" (Enter: {view.words(self.game, legal[0]).plain})" if len(legal) == 1 else ""
            line = self.read(f"your {self.game.role}{only}> ").strip()
            if self.obeyed(line, legal):
                continue
            found = matching(line, [view.words(self.game, a).plain for a in legal])
            if len(found) == 1:
                self.tell(Text("you", "bold"), view.words(self.game, legal[found[0]]))
                return legal[found[0]]
            if not found:
                self.console.print(
                    Text(f"No move is called '{line}'; give its number or its first letters, or ?")
                )
            else:
                several = Text(", ").join(view.words(self.game, legal[i]) for i in found)
                self.console.print(Text.assemble("Which one: ", several, "?"))

    def tell(self, who: Text, move: Text) -> None:
        """A line for a move; a blank one before it where another kind of decision begins."""
        if self.told not in ("", self.game.role):
            self.console.print()
        self.told = self.game.role
        width = max(len(self.label(seat)) for seat in self.agents)
        self.console.print(Text.assemble("  ", who, " " * (width - len(who) + 2), move))

    def obeyed(self, line: str, legal: Sequence[int]) -> bool:
        """Carries out a command; says no if `line` is none."""
        command, _, rest = line.partition(" ")
        match command.lower():
            case "?" | "help":
                self.console.print(HELP, highlight=False)
            case "think":
                self.show_thoughts()
            case "hint":
                self.show_hint()
            case "table":
                self.show_table(legal)
            case "save":
                self.save(rest.strip())
            case "quit" | "q" | "exit":
                raise _Quit
            case _:
                return False
        return True

    def label(self, seat: int) -> Text:
        text = view.seat_label(self.game.spec, seat, self.seat)
        return Text.assemble(text, (f" {self.agents[seat].name}", "dim"))

    def show_table(self, legal: Sequence[int]) -> None:
        who = " · ".join(self.label(seat).plain for seat in self.agents)
        self.console.print()
        spec, text = self.game.spec, self.game.table_text(self.seat)
        table = view.framed(text, spec.title, who, board=spec.open_table)
        wide = view.board_width(text) if spec.open_table else 0
        view.print_wide(self.console, table, wide)
        if self.console.is_terminal and wide > self.console.width:
            self.console.print(f"the board takes {wide} columns: make the window wider", style="yellow")
        if spec.legend:
            self.console.print(view.legend(spec))
        if legal:
            self.console.print(view.move_list(self.game, legal))

    def adviser(self) -> Agent:
        return self.agents[(self.seat + 1) % self.game.spec.seats]

    def show_hint(self) -> None:
        agent = self.adviser()
        move = view.words(self.game, agent.choose(self.game.copy()).action)
        self.console.print(Text.assemble((agent.name, "bold"), " would play ", move))

    def show_thoughts(self) -> None:
        for seat in self.agents:
            if seat not in self.thoughts:
                continue
            number, before, decision = self.thoughts[seat]
            self.console.print(Text.assemble(self.label(seat), " thought"))
            if view.is_known(before, self.actions[number:], self.seat):
                self.console.print(view.thought_view(before, decision))
            else:
                self.console.print("  a secret until it is shown", style="dim")
        agent = self.adviser()
        self.console.print(Text.assemble((agent.name, "bold"), " in your place"))
        self.console.print(view.thought_view(self.game, agent.choose(self.game.copy())))

    def show_end(self) -> None:
        self.show_table([])
        names = [
            "you" if seat == self.seat else self.label(seat).plain for seat in range(self.game.spec.seats)
        ]
        self.console.print(view.standings(names, self.rewards))
        place = view.place_of(self.seat, self.rewards)
        ahead = "[bold green]You won.[/]" if place == 1 else f"You came {view.ordinal(place)}."
        drawn = max(self.rewards) - min(self.rewards) < 1e-4
        self.console.print("Nobody won." if drawn else ahead)

    def wants_more(self) -> bool:
        while True:
            line = self.read("another game? [y/N, or save FILE]> ").strip()
            if line.startswith("save"):
                self.save(line[4:].strip())
            else:
                return line.lower() in ("y", "yes")

    def save(self, file: str) -> None:
        if not file:
            self.console.print("Give a file: save my.replays")
            return
        spec = self.game.spec
        names = tuple("you" if s == self.seat else self.agents[s].name for s in range(spec.seats))
        replay = Replay(spec.name, spec.options, self.seed, names, tuple(self.actions))
        try:
            with ReplayWriter(Path(file).expanduser()) as writer:
                writer.add(replay)
        except PlaymillError as error:
            self.console.print(Text.assemble(("not saved: ", "red"), str(error)))
        else:
            self.console.print(Text(f"saved in {file}"))


def matching(line: str, moves: Sequence[str]) -> list[int]:
    """Which moves a player may mean: by number, by its words, or by the beginnings of its words.
    Moves that read alike are one move, and the first of them stands for all."""
    if not line:
        return [0] if len(moves) == 1 else []
    if line.isdecimal():
        return [int(line) - 1] if 1 <= int(line) <= len(moves) else []
    typed = line.lower().split()
    split = [move.lower().split() for move in moves]
    exact = [i for i, move in enumerate(split) if move == typed]
    found = exact or [i for i, move in enumerate(split) if _begins(typed, move)]
    return [i for i in found if moves.index(moves[i]) == i]


def _begins(typed: Sequence[str], move: Sequence[str]) -> bool:
    """'b 2' begins 'bid 2'. A number is meant whole: 'map 1' does not begin 'map 12'."""
    return len(typed) <= len(move) and all(
        word == start or (word.startswith(start) and not start.isdecimal())
        for start, word in zip(typed, move, strict=False)
    )
