"""One seat of Skull King through Gymnasium, against bots: random legal play for a few games.

python examples/gymnasium_env.py [GAMES]"""

from __future__ import annotations

import sys

import gymnasium
import numpy as np

import playmill.pools.gymnasium  # noqa: F401  (registers playmill/SkullKing-v0 and its like)


def main(games: int = 5) -> None:
    env = gymnasium.make(
        "playmill/SkullKing-v0",
        opponents=["easy", "hard", "greedy"],
        options={"schedule": "even_keeled"},
        render_mode="ansi",
    )
    gained = []
    for number in range(games):
        observation, info = env.reset(seed=number)
        if number == 0:
            print(f"observation {observation.shape} {observation.dtype}, {env.action_space.n} actions")
            print(env.render())
        total, done = 0.0, False
        while not done:
            action = env.action_space.sample(info["action_mask"])
            observation, reward, done, _, info = env.step(action)
            total += float(reward)
        gained.append(100.0 * total)
    print("points of a random player: " + ", ".join(f"{g:.0f}" for g in gained))
    print(f"mean {np.mean(gained):.1f}")
    env.close()


if __name__ == "__main__":
    main(*(int(n) for n in sys.argv[1:2]))
