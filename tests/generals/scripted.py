"""What the scripted bots may do, from what a seat is shown: slow, and square by square."""

from collections import deque
from collections.abc import Iterable, Mapping

import numpy as np

from .board import STEPS

OPENING, LARGE, NEAR = 50, 30, 6


class Scout:
    """A seat's observation as sets of squares, and the moves of each bot that are as good as any other."""

    def __init__(self, view: Mapping[str, np.ndarray], seat: int) -> None:
        self.height, self.width = view["army"].shape[-2:]
        self.size = self.height * self.width
        self.army = [int(army) for army in view["army"].reshape(-1)]
        self.tick = int(view["tick"].reshape(-1)[0])
        others = view["others"].reshape(-1, self.size)
        self.own, self.explored, self.visible, self.city = (
            self.squares(view[name]) for name in ("own", "explored", "visible", "city")
        )
        self.enemy = {square for plane in others for square in self.squares(plane)}
        self.mountain = self.squares(view["mountain"])
        self.open = set(range(self.size)) - self.mountain - self.squares(view["obstacle"])
        self.free_city = self.city - self.own - self.enemy
        generals = self.squares(view["general"])
        self.home = min(generals & self.own)
        players = len(others) + 1
        seats = {(seat + 1 + k) % players: self.squares(plane) & generals for k, plane in enumerate(others)}
        known = [min(seats[other]) for other in sorted(seats) if seats[other]]
        self.general = known[-1] if known else None

    @staticmethod
    def squares(plane: np.ndarray) -> set[int]:
        return {int(square) for square in np.flatnonzero(plane)}

    def neighbours(self, square: int) -> dict[int, int]:
        """The squares next to this one, by direction."""
        x, y = square % self.width, square // self.width
        beside = {way: (x + dx, y + dy) for way, (dx, dy) in STEPS.items()}
        return {
            way: column + row * self.width
            for way, (column, row) in beside.items()
            if 0 <= column < self.width and 0 <= row < self.height
        }

    def around(self, squares: Iterable[int], times: int) -> set[int]:
        """All squares so many steps from these, corners being one step away."""
        near = {(square % self.width, square // self.width) for square in squares}
        return {
            square
            for square in range(self.size)
            if any(max(abs(square % self.width - x), abs(square // self.width - y)) <= times for x, y in near)
        }

    def distances(self, targets: set[int]) -> dict[int, int]:
        """Steps to the nearest target, of all squares with a way to one. Nobody's cities are in the way."""
        way = (self.open - self.free_city) | targets
        steps = dict.fromkeys(targets, 0)
        queue = deque(targets)
        while queue:
            square = queue.popleft()
            for near in self.neighbours(square).values():
                if near in way and near not in steps:
                    steps[near] = steps[square] + 1
                    queue.append(near)
        return steps

    def strongest(self, squares: Iterable[int]) -> int | None:
        able = [square for square in squares if self.army[square] > 1]
        return max(able, key=lambda square: (self.army[square], -square), default=None)

    def walks(self, leader: int | None, steps: Mapping[int, int]) -> set[int]:
        if leader is None:
            return set()
        beside = self.neighbours(leader).items()
        return {leader * 8 + way for way, to in beside if steps.get(to, self.size) < steps[leader]}

    def advances(self, targets: set[int]) -> set[int]:
        steps = self.distances(targets)
        return self.walks(self.strongest(self.own & set(steps)), steps)

    def captures(self) -> dict[int, set[int]]:
        """What can be taken now, by what it is worth."""
        found: dict[int, set[int]] = {}
        for square in self.own:
            for way, to in self.neighbours(square).items():
                if to in self.own or to in self.mountain or self.army[square] - 1 <= self.army[to]:
                    continue
                worth = 4 if to == self.general else 3 if to in self.enemy else 2 if to in self.city else 1
                found.setdefault(worth, set()).add(square * 8 + way)
        return found

    def expander(self) -> set[int]:
        captures = self.captures()
        if captures:
            return captures[max(captures)]
        return self.advances(self.open - self.own - self.free_city) or {8 * self.size}

    def hunter(self) -> set[int]:
        if self.general is not None:
            if 4 in self.captures():
                return self.captures()[4]
            targets = {self.general}
        elif self.tick < OPENING or self.tick % 2 == 0:
            return self.expander()
        else:
            unknown = self.open - self.explored
            rings = [unknown & self.around(self.enemy, times) for times in (1, 3, 5)]
            targets = next((ring for ring in rings if ring), unknown)
        steps = self.distances(targets)
        leader = self.strongest(self.own & set(steps))
        if leader is None:
            return self.expander()
        needed = LARGE if self.general is None else self.army[self.general] + steps[leader]
        return self.walks(leader, steps) if self.army[leader] > needed else self.expander()

    def defender(self) -> set[int]:
        steps = self.distances({self.home})
        worst = self.strongest(s for s in self.enemy & self.visible if steps.get(s, NEAR + 1) <= NEAR)
        return self.expander() if worst is None else self.advances({worst}) or self.expander()
