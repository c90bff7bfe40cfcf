"""Records games of the PyPI package `generals` 1.0.0 for the referee to replay.

`python -m tests.generals.record`, in a Python that has `pip install generals==1.0.0`.
Its rules are ours with these options: two players, `order = smaller` (planned armies, capped at what
is left but one, ties to the agent named first), `city_period` 2, `land_period` 50, `land_growth`
all, `regrowth` no, `start_army` 1, `capture_share` full, cities of 40 to 49, no builds. Moves, halves,
ties in battle and sight are the same.

It differs in these points; a game that shows one of the first two is not recorded:

1.  Who is out is judged after all moves. One whose general has fallen still makes the move of that
    tick, and may take the general back as if nothing had been; squares pass to the winner at the end.
2.  If both generals are taken in one tick nobody has won, and the game goes on with the generals
    exchanged.
3.  Nothing grows in the tick that ends the game.
4.  A general that was taken stays one; since the game is over, that only shows on the last board.
5.  Armies have no upper limit in play (10,000 is only what the observation space declares).
6.  There is no limit of ticks: a game without a winner goes on.
7.  A move that is not legal is passed over with a warning. Ours is refused.
8.  After the end nothing is legal, not even a pass; a pass is a flag beside the move, not an action.
9.  Mountains and cities of the whole board are always shown, but not which is which: as with
    `fog_obstacles`, but those in sight are among them.
10. Nothing is remembered: the observation is what is in sight, with the opponent's totals.
11. Boards are drawn square by square with a chance for each kind. Generals stand anywhere, also side
    by side, on the only condition that there is a way between them.
"""

import sys
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
from generals.agents import ExpanderAgent, RandomAgent
from generals.core.game import Game
from generals.core.grid import GridFactory

from .recording import BOARD_EVERY, FOLDER, Recording, Tick, checksum

AGENTS = ["a", "b"]
OPTIONS: dict[str, int | str] = {
    "preset": "generalsio",
    "players": 2,
    "order": "smaller",
    "capture_share": "full",
    "regrowth": "no",
    "max_ticks": 10_000,
}
STEPS = [(-1, 0), (1, 0), (0, -1), (0, 1)]  # its directions are ours: up, down, left, right
SEEDS = 25
TICKS = 260


class Hunter:
    """Takes its largest army towards the other general, and knows where that is."""

    def __init__(self, game: Game, me: str, dice: np.random.Generator) -> None:
        self.game, self.me, self.dice = game, me, dice
        enemy = next(agent for agent in AGENTS if agent != me)
        self.distance = distances(game, tuple(game.general_positions[enemy]))

    def act(self, observation: dict[str, Any]) -> dict[str, Any]:
        moves = np.argwhere(observation["action_mask"])
        if len(moves) == 0 or self.dice.random() < 0.1:
            return {"pass": 1, "cell": np.array([0, 0]), "direction": 0, "split": 0}
        army = self.game.channels.army

        def worth(move: np.ndarray) -> float:
            y, x, way = (int(part) for part in move)
            here = self.distance.get((y, x), 999)
            there = self.distance.get((y + STEPS[way][0], x + STEPS[way][1]), 999)
            return float(army[y, x]) * (1 if there < here else 0.1) + float(self.dice.random())

        best = max(moves, key=worth) if self.dice.random() < 0.8 else self.dice.choice(moves)
        split = int(self.dice.random() < 0.2)
        return {"pass": 0, "cell": best[:2], "direction": int(best[2]), "split": split}


def distances(game: Game, start: tuple[int, ...]) -> dict[tuple[int, ...], int]:
    """Steps to `start` from every square with a way to it. Cities are walked round."""
    found = {start: 0}
    queue = deque([start])
    while queue:
        y, x = queue.popleft()
        for dy, dx in STEPS:
            near = (y + dy, x + dx)
            inside = 0 <= near[0] < game.grid_dims[0] and 0 <= near[1] < game.grid_dims[1]
            if inside and near not in found and game.channels.passable[near] and not game.channels.city[near]:
                found[near] = found[y, x] + 1
                queue.append(near)
    return found


def written(game: Game) -> str:
    """The board in our text form."""
    channels = game.channels
    rows = []
    for y in range(game.grid_dims[0]):
        words = []
        for x in range(game.grid_dims[1]):
            at = (y, x)
            owner = next((agent for agent in AGENTS if channels.ownership[agent][at]), "")
            taken = channels.general[at] and tuple(game.general_positions[owner]) != at
            if channels.mountain[at]:
                words.append("^")
            elif not owner:
                words.append(f"*{channels.army[at]}" if channels.city[at] else ".")
            elif channels.general[at] and not taken:
                words.append(f"{owner.upper()}{channels.army[at]}")
            else:
                words.append(f"{owner}{'*' if channels.city[at] or taken else ''}{channels.army[at]}")
        rows.append(" ".join(words))
    return "\n".join(rows)


def position(game: Game) -> str:
    """The checksum of where the game stands."""
    if game.is_done():
        return checksum(written(game))
    width, passing = game.grid_dims[1], game.grid_dims[0] * game.grid_dims[1] * 8
    legal, sight = [], []
    for agent in AGENTS:
        moves = {(y * width + x) * 8 + way for y, x, way in np.argwhere(game.action_mask(agent)).tolist()}
        legal.append(moves | {move + 4 for move in moves} | {passing})
        seen = np.argwhere(game.visibility_channel(game.channels.ownership[agent]))
        sight.append({y * width + x for y, x in seen.tolist()})
    return checksum(written(game), legal, sight)


def number(game: Game, move: dict[str, Any]) -> int | None:
    """The action by our number."""
    if move["pass"]:
        return None
    square = int(move["cell"][0]) * game.grid_dims[1] + int(move["cell"][1])
    return square * 8 + 4 * int(move["split"]) + int(move["direction"])


def shows_a_difference(game: Game, moves: dict[str, Any]) -> bool:
    """Whether the first move takes a general and the second is made after that."""
    army = game.channels.army
    marches = []
    for agent, move in moves.items():
        if not move["pass"]:
            y, x = (int(part) for part in move["cell"])
            planned = army[y, x] // 2 if move["split"] else army[y, x] - 1
            step = STEPS[move["direction"]]
            marches.append((int(planned), agent, (y, x), (y + step[0], x + step[1])))
    if len(marches) < 2:
        return False
    (planned, _, _, target), (_, other, source, _) = sorted(marches)
    general = tuple(int(part) for part in game.general_positions[other])
    return target == general and source != general and planned > army[general]


def play(seed: int) -> Recording | None:
    """The game of this seed; None if it shows a difference that cannot be replayed."""
    dice = np.random.default_rng(seed)
    np.random.seed(seed)  # the package's agents draw from it
    size = tuple(int(side) for side in dice.integers(4, 13, 2))
    grid = GridFactory(size, mountain_density=0.15, city_density=0.06, seed=seed).grid_from_generator()
    game = Game(grid, AGENTS)
    kinds = [str(kind) for kind in dice.choice(["random", "expander", "hunter", "hunter"], 2)]
    makers = {"random": RandomAgent, "expander": ExpanderAgent}
    agents = {
        me: Hunter(game, me, dice) if kind == "hunter" else makers[kind]()
        for me, kind in zip(AGENTS, kinds, strict=True)
    }
    recording = Recording(
        f"generals 1.0.0, seed {seed}, {kinds[0]} against {kinds[1]}", OPTIONS, written(game)
    )
    while not game.is_done() and game.time < TICKS:
        moves = {me: agent.act(game.agent_observation(me)) for me, agent in agents.items()}
        if shows_a_difference(game, moves):
            return None
        game.step(moves)
        tick = Tick(tuple(number(game, move) for move in moves.values()), position(game))
        if game.is_done() or game.time % BOARD_EVERY == 0 or game.time == TICKS:
            tick.board = written(game)
        recording.ticks.append(tick)
    if game.is_done():
        recording.title += ", won"
    return recording


def main(folder: Path = FOLDER) -> int:
    for old in folder.glob("*.txt"):
        old.unlink()
    for seed in range(SEEDS):
        recording = play(seed)
        if recording is None:
            print(f"seed {seed} shows a difference")
        else:
            (folder / f"{seed:03}.txt").write_text(recording.text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
