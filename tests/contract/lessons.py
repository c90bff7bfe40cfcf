"""What a lesson is on every lane."""

import torch

from playmill.policies import masked_log_softmax, unpack_bits
from playmill.pools import NativePool

PLAYED = ("observation", "legal", "seat", "role", "driver", "value", "rewards", "over")


def check_lesson(spec, bot, seed, played, lesson, policy, near):
    """`lesson` has the games of `played`, a rollout without a teacher, and the answers of `bot` in them. How
    likely `policy` thought them is written down within `near`; returned as a geometric mean."""
    for name in PLAYED:
        assert torch.equal(getattr(lesson, name), getattr(played, name)), name
    steps, games = played.action.shape
    pool = NativePool(spec, games, seed=seed)
    for step in range(steps):
        pool.turns()
        assert lesson.action[step].tolist() == pool.bot_actions(bot).tolist()
        pool.act(played.action[step].numpy())
    with torch.no_grad():
        logits = policy(lesson.flat(lesson.observation)).logits
    legal = unpack_bits(lesson.flat(lesson.legal), spec.actions)
    logs = masked_log_softmax(logits, legal).gather(1, lesson.action.flatten().long()[:, None]).flatten()
    torch.testing.assert_close(lesson.log_probability.flatten(), logs, rtol=near, atol=near)
    return float(logs.mean().exp())
