"""Who plays in the fuzz: seats that see everything and look for trouble."""

import random
from collections import deque
from collections.abc import Callable, Collection

from .board import Board
from .referee import Referee

Player = Callable[[Referee, int, random.Random], int]


def at_random(table: Referee, seat: int, dice: random.Random) -> int:
    return dice.choice(sorted(table.legal(seat)))


def asleep(table: Referee, _seat: int, _dice: random.Random) -> int:
    return table.board.passing


def lazy(table: Referee, seat: int, dice: random.Random) -> int:
    return table.board.passing if dice.random() < 0.7 else at_random(table, seat, dice)


def raider(table: Referee, seat: int, dice: random.Random) -> int:
    """Attacks another's square if it can, or an unowned one, or walks."""
    squares = table.board.squares
    attacks: dict[bool, list[int]] = {True: [], False: []}
    for action in sorted(table.legal(seat)):
        target = destination(table.board, action)
        if target is not None and squares[target].owner != seat:
            attacks[squares[target].owner is not None].append(action)
    for choices in (attacks[True], attacks[False]):
        if choices:
            return dice.choice(choices)
    return hunter(table, seat, dice)


def hunter(table: Referee, seat: int, dice: random.Random) -> int:
    """Takes its largest army a step towards the nearest other general."""
    board = table.board
    goals = [n for n, s in enumerate(board.squares) if s.kind == "general" and s.owner != seat]
    distance = walk(board, goals)
    best, worth = board.passing, 0.0
    for action in sorted(table.legal(seat)):
        target = destination(board, action)
        if target is None or action % 8 >= 4:
            continue
        nearer = distance.get(target, 999) < distance.get(action // 8, 999)
        value = board.squares[action // 8].army * (1 if nearer else 0.05) + dice.random() / 2
        if value > worth:
            best, worth = action, value
    return best


def builder(table: Referee, seat: int, dice: random.Random) -> int:
    """Builds where it can, and gathers armies on its ground for that."""
    actions = sorted(table.legal(seat))
    if actions[-1] > table.board.passing:
        return dice.choice([action for action in actions if action > table.board.passing])
    squares = table.board.squares
    gathering = [
        action
        for action in actions
        if (target := destination(table.board, action)) is not None and squares[target].owner == seat
    ]
    if gathering and dice.random() < 0.6:
        return max(gathering, key=lambda action: squares[action // 8].army + dice.random())
    return raider(table, seat, dice)


def gatherer(table: Referee, seat: int, _dice: random.Random) -> int:
    """Leads its largest army to where most can be had a step, and leaves generals alone."""
    board, squares = table.board, table.board.squares
    start = max(board.owned(seat), key=lambda number: squares[number].army)
    if squares[start].army < 2:
        return board.passing

    def worth(item: tuple[int, int]) -> float:
        number, steps = item
        own = squares[number].owner == seat
        return (squares[number].army if own else 30 - squares[number].army) / max(1, steps)

    generals = {n for n, s in enumerate(squares) if s.kind == "general" and s.owner != seat}
    goals = [item for item in walk(board, [start], generals).items() if item[1]]
    if not goals:
        return board.passing
    back = walk(board, [max(goals, key=worth)[0]], generals)
    steps = [start * 8 + way for way in range(4) if board.neighbour(start, way) in back]
    return min(steps, key=lambda action: back[destination(board, action)])


PLAYERS: dict[str, Player] = {
    "random": at_random,
    "lazy": lazy,
    "raider": raider,
    "hunter": hunter,
    "builder": builder,
    "gatherer": gatherer,
    "asleep": asleep,
}


def destination(board: Board, action: int) -> int | None:
    """Where a move goes; None for what is no move."""
    return board.neighbour(action // 8, action % 4) if action < board.passing else None


def walk(board: Board, goals: list[int], closed: Collection[int] = ()) -> dict[int | None, int]:
    """Steps round mountains and closed squares from each square to the nearest of the goals."""
    distance: dict[int | None, int] = dict.fromkeys(goals, 0)
    queue = deque(goals)
    while queue:
        square = queue.popleft()
        for direction in range(4):
            near = board.neighbour(square, direction)
            if near is None or near in distance or near in closed:
                continue
            if board.squares[near].kind != "mountain":
                distance[near] = distance[square] + 1
                queue.append(near)
    return distance
