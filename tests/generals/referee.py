"""A slow, readable referee of Generals. It starts from any board and has no chance of its own."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from .board import MOST, Board, Square, parse_board
from .rules import Rules

__all__ = ["Board", "Move", "Referee", "Rules", "Square", "parse_board"]
LONG_AGO = 255


@dataclass(frozen=True)
class Move:
    """What a seat has asked for, and the army on the square before any move was made."""

    seat: int
    source: int
    target: int
    half: bool
    army: int

    @property
    def planned(self) -> int:
        return marching(self.army, self.half)


@dataclass
class Memory:
    """A square as a seat saw it last."""

    kind: str
    owner: int | None
    army: int
    tick: int


def marching(army: int, half: bool) -> int:
    """All but one, or the smaller half."""
    return army // 2 if half else army - 1


class Referee:
    def __init__(self, rules: Rules, board: Board) -> None:
        self.rules = rules
        self.board = board
        self.seats = range(rules.players)
        generals = {square.owner for square in board.squares if square.kind == "general"}
        self.alive = [seat in generals for seat in self.seats]
        self.memory: list[list[Memory | None]] = [[None] * len(board.squares) for _ in self.seats]
        self.sight: list[set[int]] = [set() for _ in self.seats]
        self.scores = [0.0] * rules.players
        self.potentials = [0.0] * rules.players
        self.over = False
        self._look()

    @property
    def asked(self) -> list[int]:
        """The seats that answer before the next tick, in order."""
        return [] if self.over else [seat for seat in self.seats if self.alive[seat]]

    # What may be done

    def legal(self, seat: int) -> set[int]:
        board = self.board
        if seat not in self.asked:
            return set()
        actions = {board.passing}
        for number in board.owned(seat):
            for direction in range(4):
                target = board.neighbour(number, direction)
                if target is None or board.squares[target].kind == "mountain":
                    continue
                if board.squares[number].army >= 2:
                    actions |= {number * 8 + direction, number * 8 + 4 + direction}
            if self.rules.build == "yes" and self.can_build(seat, number):
                actions.add(board.passing + 1 + number)
        return actions

    def build_cost(self, seat: int, number: int) -> int:
        own = [n for n in self.board.owned(seat) if self.board.squares[n].kind in ("city", "general")]
        return 35 + sum(max(0, 14 - 2 * self.board.steps(number, other)) for other in own)

    def can_build(self, seat: int, number: int) -> bool:
        square = self.board.squares[number]
        ground = square.owner == seat and square.kind == "ground"
        return ground and square.army >= self.build_cost(seat, number)

    # A tick

    def tick(self, actions: Mapping[int, int]) -> list[float]:
        """Plays a tick with an action for each seat that was asked; the reward of every seat."""
        if sorted(actions) != self.asked:
            raise ValueError(f"seats {self.asked} are asked, but {sorted(actions)} answered")
        for seat, action in actions.items():
            if action not in self.legal(seat):
                raise ValueError(f"action {action} of seat {seat} is not legal")
        alive = list(self.alive)
        self.carry_out(actions)
        self.board.tick += 1
        self.grow()
        rewards = self._judge(alive)
        self._look()
        return rewards

    def carry_out(self, actions: Mapping[int, int]) -> None:
        """Builds, then moves in their order."""
        for seat in sorted(actions):
            number = actions[seat] - self.board.passing - 1
            if number >= 0 and self.can_build(seat, number):
                self.board.squares[number].army -= self.build_cost(seat, number)
                self.board.squares[number].kind = "city"
        moves = [self._move(s, a) for s, a in sorted(actions.items()) if a < self.board.passing]
        for move in self.in_order(moves):
            self._make(move)

    def _move(self, seat: int, action: int) -> Move:
        source, rest = divmod(action, 8)
        target = self.board.neighbour(source, rest % 4)
        assert target is not None
        return Move(seat, source, target, rest >= 4, self.board.squares[source].army)

    def in_order(self, moves: list[Move]) -> list[Move]:
        """The order of moves that are given in the order of seats."""
        if self.rules.order == "seat":
            return moves
        if self.rules.order == "alternating":
            return moves[::-1] if self.board.tick % 2 == 1 else moves
        if self.rules.order == "smaller":
            return sorted(moves, key=lambda move: move.planned)
        ranked = sorted(moves, key=lambda move: (self._rank(move), -move.army))
        # "All is judged before any move is made": so is who waits for whom. A move of one who is
        # out by then holds others up like any other, and is not made when its time comes.
        order: list[Move] = []
        while ranked:
            order.append(next((move for move in ranked if not held_up(move, ranked)), ranked[0]))
            ranked.remove(order[-1])
        return order

    def _rank(self, move: Move) -> int:
        target = self.board.squares[move.target]
        if target.owner == move.seat:
            return 0
        return 2 if target.kind == "general" else 1

    def _make(self, move: Move) -> None:
        source, target = self.board.squares[move.source], self.board.squares[move.target]
        if not self.alive[move.seat] or source.owner != move.seat or source.army < 2:
            return
        army = marching(source.army, move.half)
        if self.rules.order == "smaller":
            army = min(move.planned, source.army - 1)
        source.army -= army
        if target.owner == move.seat:
            target.army = min(MOST, target.army + army)
        elif army <= target.army:
            target.army -= army
        else:
            loser = target.owner
            target.owner, target.army = move.seat, army - target.army
            if target.kind == "general":
                assert loser is not None
                target.kind = "city"
                self._fall(loser, move.seat, move.target)

    def _fall(self, loser: int, captor: int, general: int) -> None:
        self.alive[loser] = False
        for number in self.board.owned(loser):
            square = self.board.squares[number]
            square.owner = captor
            if self.rules.capture_share == "half":
                square.army = (square.army + 1) // 2
        for memories in self.memory:
            known = memories[general]
            if known is not None:
                known.kind = "city"
            for memory in memories:
                if memory is not None and memory.owner == loser:
                    memory.owner = None

    def grow(self) -> None:
        """The growth of the tick that was just counted."""
        rules, t = self.rules, self.board.tick
        for square in self.board.squares:
            town = square.kind in ("city", "general")
            more = 0
            if t % rules.city_period == 0 and town:
                regrows = rules.regrowth == "yes" and square.army < 40
                more += square.owner is not None or regrows
            if t % rules.land_period == 0 and square.owner is not None:
                more += rules.land_growth == "all" or not town
            square.army = min(MOST, square.army + more)

    def _judge(self, alive: list[bool]) -> list[float]:
        """Ends the game if it is over; rewards, with `alive` those alive before the tick."""
        left = [seat for seat in self.seats if self.alive[seat]]
        self.over = len(left) == 1 or self.board.tick >= self.rules.max_ticks
        rewards = [0.0] * self.rules.players
        for seat in self.seats:
            if alive[seat] and not self.alive[seat]:
                rewards[seat] -= 1
            if left == [seat]:
                rewards[seat] += 1
            elif self.over and seat in left:
                rewards[seat] -= self.rules.draw / 100
            potential = self.potential(seat)
            rewards[seat] += self.rules.shaping / 100 * (potential - self.potentials[seat])
            self.potentials[seat] = potential
            self.scores[seat] += rewards[seat]
        return rewards

    def potential(self, seat: int) -> float:
        # The text pays "every living seat", and wants a whole game to add up to nothing. For a seat
        # that goes out both hold only if the game ends for it there: it is paid the fall to 0.
        if self.over or not self.alive[seat]:
            return 0.0
        others = [s for s in self.seats if self.alive[s] and s != seat]
        armies = lead(self.board.armies(seat), sum(self.board.armies(s) for s in others))
        land = lead(self.board.land(seat), sum(self.board.land(s) for s in others))
        return armies / 2 + land / 2

    # What a seat knows

    def _look(self) -> None:
        for seat in self.seats:
            own = self.board.owned(seat)
            self.sight[seat] = {near for number in own for near in self.board.around(number)}
            for number in self.sight[seat]:
                square = self.board.squares[number]
                self.memory[seat][number] = Memory(square.kind, square.owner, square.army, self.board.tick)

    def obstacle(self, seat: int, number: int) -> bool:
        # Obstacles are those of the board as it is now: a city built, or a general that has become
        # one, out of sight is an obstacle from then on.
        hidden = self.memory[seat][number] is None
        kind = self.board.squares[number].kind
        return self.rules.fog_obstacles == "yes" and hidden and kind in ("mountain", "city")

    def before(self, seat: int) -> int:
        """Living seats that go before this one in the tick to come, all else being equal."""
        living = [s for s in self.seats if self.alive[s]]
        if self.rules.order == "alternating" and self.board.tick % 2 == 1:
            return sum(other > seat for other in living)
        return sum(other < seat for other in living)

    def observe(self, seat: int) -> dict[str, np.ndarray]:
        """The fields of the observation, raw, in the shapes of the table of fields."""
        board, rules, memories = self.board, self.rules, self.memory[seat]
        seats = [(seat + k) % rules.players for k in range(rules.players)]
        t = board.tick

        def grid(values: Iterable[int]) -> np.ndarray:
            return np.array([int(value) for value in values]).reshape(board.height, board.width)

        def ages() -> Iterable[int]:
            return (LONG_AGO if m is None else min(LONG_AGO, t - m.tick) for m in memories)

        def kind(name: str) -> np.ndarray:
            return grid(m is not None and m.kind == name for m in memories)

        return {
            "visible": grid(number in self.sight[seat] for number in range(len(memories))),
            "explored": grid(m is not None for m in memories),
            "own": grid(square.owner == seat for square in board.squares),
            "others": np.stack([grid(m is not None and m.owner == s for m in memories) for s in seats[1:]]),
            "city": kind("city"),
            "general": kind("general"),
            "mountain": kind("mountain"),
            "obstacle": grid(self.obstacle(seat, number) for number in range(len(memories))),
            "army": grid(0 if m is None else m.army for m in memories),
            "age": grid(ages()),
            "tick": np.array([t]),
            # A byte: longer periods than the text can have meant are shown as 255.
            "growth": np.array([min(255, p - t % p) for p in (rules.city_period, rules.land_period)]),
            "land": np.array([board.land(s) for s in seats]),
            "armies": np.array([min(MOST, board.armies(s)) for s in seats]),
            "alive": np.array([int(self.alive[s]) for s in seats]),
            "before": np.array([self.before(seat)]),
        }

    # Text

    def _head(self) -> str:
        alive = "".join(chr(ord("a") + seat) for seat in self.seats if self.alive[seat])
        land = " ".join(str(self.board.land(seat)) for seat in self.seats)
        armies = " ".join(str(self.board.armies(seat)) for seat in self.seats)
        return f"tick {self.board.tick}  alive {alive}  land {land}  armies {armies}"

    def text(self) -> str:
        return "\n".join([self._head(), *self.board.rows([s.text() for s in self.board.squares])])

    def view_text(self, seat: int) -> str:
        """The board as the seat remembers it."""
        words = []
        for number, memory in enumerate(self.memory[seat]):
            if memory is None:
                words.append("?^" if self.obstacle(seat, number) else "?")
            else:
                here = number in self.sight[seat]
                # Own squares are in sight: one remembered as own out of sight was lost, to whom is not known.
                owner = memory.owner if here or memory.owner != seat else None
                word = Square(memory.kind, owner, memory.army).text()
                words.append(word if here else word + "'")
        return "\n".join([self._head(), *self.board.rows(words)])


def held_up(move: Move, moves: list[Move]) -> bool:
    """Whether a move of another player comes to the square it leaves, and the two do not change places."""
    return any(
        other.seat != move.seat and other.target == move.source and other.source != move.target
        for other in moves
    )


def lead(own: int, others: int) -> float:
    """(a - b) / (a + b); 0 where there is nothing."""
    return (own - others) / (own + others) if own + others else 0.0
