"""Judges a policy in training: against bots, exactly where that can be done, and whether it still gains."""

from __future__ import annotations

from typing import Any

import torch

from playmill.games import GameSpec
from playmill.league.evaluate import Evaluation, evaluate
from playmill.league.evaluate_remote import evaluate_remote
from playmill.league.exploitability import TINY, InformationStates, exploitability, openspiel_installed
from playmill.policies import Policy, masked_log_softmax
from playmill.training.config import Train
from playmill.training.evaluations import Found

EVALUATION_SEED = 20_011
"""Always the same deals, so that two evaluations differ by the policy alone."""


class Judge:
    """Keeps the results; the trainer asks when one is due."""

    def __init__(self, config: Train, spec: GameSpec, policy: Policy) -> None:
        self.config, self.spec, self.policy = config, spec, policy
        self.latest: dict[str, Evaluation] = {}
        self.history: dict[str, list[tuple[float, float]]] = {}
        self.extras: dict[str, float] = {}
        self.scores: list[tuple[float, float]] = []
        """(seconds, score against the hardest bot) of every evaluation."""
        self.score: float | None = None
        self._best: float | None = None
        self._judged_at = 0
        self._states: InformationStates | None = None
        self._newest: dict[str, int] = {}
        self._exact: dict[int, float] = {}

    def due(self, turns: int) -> bool:
        if self.config.judged_beside:
            return False
        every = self.config.evaluation.every
        return every > 0 and turns // every > self._judged_at // every

    def judge(self, turns: int, seconds: float, final: bool) -> dict[str, float]:
        """Evaluates; returns metrics by name."""
        self._judged_at = turns
        settings = self.config.evaluation
        values: dict[str, float] = {}
        for bot in self.config.bots:
            deals = settings.final_deals if final else settings.deals
            result = meet(self.config, self.spec, self.policy, bot, deals, self.config.threads)
            self.latest[bot] = result
            points = self.history.setdefault(bot, [])
            if points and points[-1][0] == turns:  # judged again, with more deals
                points.pop()
            points.append((turns, result.win_share))
            values |= metrics_of(f"eval/{bot}", result)
        if settings.exploitability and self.spec.name in TINY and openspiel_installed():
            self._states = self._states or InformationStates(self.spec.name)
            self.extras["exploitability"] = exact_exploitability(self.policy, self._states)
            values["eval/exploitability"] = self.extras["exploitability"]
        self._rank(seconds)
        return values

    def take(self, found: Found) -> dict[str, float]:
        """What an evaluator beside the training found; returns metrics by name. `score` is that of the
        checkpoint if this is its last line, else None. Lines may come in any order, and again."""
        self.score = None
        newest = found.step >= self._newest.get(found.opponent, 0)
        if newest:
            self._newest[found.opponent] = found.step
        if found.result is None:
            exact = self._exact[found.step] = float(found.exploitability or 0.0)
            if newest:
                self.extras["exploitability"] = exact
            if not self.config.bots:
                self.score = -exact
            return {"eval/exploitability": exact}
        if newest:
            self.latest[found.opponent] = found.result
        points = self.history.get(found.opponent, [])
        others = [point for point in points if point[0] != found.step]
        self.history[found.opponent] = sorted([*others, (found.step, found.result.win_share)])
        if found.opponent == self.config.bots[-1]:
            self._take_score(found.seconds, found.result, self._exact.pop(found.step, None))
        return metrics_of(f"eval/{found.opponent}", found.result)

    def is_best(self) -> bool:
        """Whether the last evaluation is the best so far; says so once."""
        if self.score is None or (self._best is not None and self.score <= self._best):
            return False
        self._best = self.score
        return True

    def plateau(self) -> bool:
        """The two criteria of early stop: scores that no longer move, or gain too little an hour."""
        rule = self.config.plateau
        if not rule.on or len(self.scores) < max(rule.after, 2):
            return False
        recent = [score for _, score in self.scores[-rule.window :]]
        if len(recent) == rule.window and max(recent) - min(recent) < rule.span:
            return True
        gains = [
            (b - a) / max(t - s, 1e-9) * 3600.0
            for (s, a), (t, b) in zip(self.scores, self.scores[1:], strict=False)
        ]
        return len(gains) >= rule.times and all(g < rule.gain_per_hour for g in gains[-rule.times :])

    def state(self) -> dict[str, Any]:
        return {
            "history": {bot: [list(p) for p in points] for bot, points in self.history.items()},
            "scores": [list(p) for p in self.scores],
            "best": self._best,
            "judged_at": self._judged_at,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        self.history = {bot: [(t, w) for t, w in points] for bot, points in state["history"].items()}
        self.scores = [(t, s) for t, s in state["scores"]]
        self._best, self._judged_at = state["best"], state["judged_at"]

    def _rank(self, seconds: float) -> None:
        """One number to call best by: exploitability where it is known, else the lower end of the interval
        of wins against the hardest bot. Luck in a short evaluation must not outdo a long one."""
        hardest = self.latest[self.config.bots[-1]] if self.config.bots else None
        self._take_score(seconds, hardest, self.extras.get("exploitability"))

    def _take_score(self, seconds: float, hardest: Evaluation | None, exact: float | None) -> None:
        if exact is not None:
            self.score = -exact
        elif hardest is not None:
            self.score = hardest.low
            points = hardest.score if hardest.score is not None else hardest.reward
            others = [score for score in self.scores if score[0] != seconds]
            self.scores = sorted([*others, (seconds, points)])


def meet(config: Train, spec: GameSpec, policy: Policy, bot: str, deals: int, threads: int) -> Evaluation:
    """The policy against a bot, on deals that are always the same."""
    settings, actors = config.evaluation, config.actors
    if not spec.foreign:
        return evaluate(
            spec,
            policy,
            bot,
            deals=deals,
            seed=EVALUATION_SEED,
            threads=threads,
            sample=settings.sample,
        )
    return evaluate_remote(
        spec,
        policy,
        bot,
        deals=deals,
        seed=EVALUATION_SEED,
        sample=settings.sample,
        engines=min(threads, actors.engines),
        command=actors.command or None,
        supervision=actors.supervision,
        within=settings.engines_s,
    )


def metrics_of(prefix: str, result: Evaluation) -> dict[str, float]:
    """An evaluation as metrics."""
    values = {
        "win_share": result.win_share,
        "low": result.low,
        "high": result.high,
        "fair": result.fair,
        "reward": result.reward,
        "score": result.score,
        "opponent_score": result.opponent_score,
        "bid_made": result.bid_made,
    }
    values |= {f"bid_made_{cards}": share for cards, share in result.bid_made_by_cards.items()}
    return {f"{prefix}/{name}": value for name, value in values.items() if value is not None}


def exact_exploitability(policy: Policy, states: InformationStates) -> float:
    """NashConv / 2 of the policy in a tiny game."""
    with torch.inference_mode():
        home = next(policy.parameters()).device
        logits = policy(torch.from_numpy(states.observation).to(home)).logits
        logs = masked_log_softmax(logits.cpu(), torch.from_numpy(states.legal))
    return exploitability(states.game, logs.exp().double().numpy(), states)
