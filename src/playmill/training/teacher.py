"""Lessons: updates that learn what a scripted bot would do in the positions the policy itself comes to. Games
are played as always; only what is written down as the learner's action is the bot's answer."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from playmill.algorithms import PPO
from playmill.experience import Rollout
from playmill.policies import masked_log_softmax, unpack_bits


def lesson(cfg: PPO) -> PPO:
    """The settings of an update on a teacher's answers. Every row counts alike; the clip lets a probability
    double. The movement along answers that were not drawn is no measure of KL, so no target stops it."""
    return dataclasses.replace(cfg, clip=1.0, entropy=0.0, normalise=False, top_advantages=1.0, target_kl=0.0)


def write_answers(rows: Rollout, logits: Tensor, answers: Tensor) -> None:
    """Where the learner was asked: the teacher's answers as the actions of a step, and how likely the policy
    thought them. N games, A actions; logits [N, A], answers [N] int32. Can be captured in a graph."""
    legal = unpack_bits(rows.legal, logits.shape[1])
    logs = masked_log_softmax(logits, legal).gather(1, answers.long()[:, None]).squeeze(1)
    mine = rows.driver == 0
    rows.action.copy_(torch.where(mine, answers, rows.action))
    rows.log_probability.copy_(torch.where(mine, logs, rows.log_probability))


def teacher_logs(rollout: Rollout) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the teacher's answers: their sum and their number, both float64."""
    mine = rollout.driver == 0
    logs = torch.where(mine, rollout.log_probability, 0.0)
    return logs.sum(dtype=torch.float64), mine.sum(dtype=torch.float64)
