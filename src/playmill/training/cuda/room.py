"""How much of the card's memory a run needs, and which setting to lower when it is too much."""

from __future__ import annotations

import torch

from playmill.games import GameSpec, PlaymillError
from playmill.policies import network_cost
from playmill.training.config import Train

SPARE = 0.85
"""Of the free memory that a suggestion may fill: allocators and graphs want some too."""


def rollout_bytes(config: Train, spec: GameSpec) -> int:
    """Bytes a game takes: its columns over all steps, its table, and its row of layers."""
    row = spec.schema.bytes + spec.legal_bytes + 4 * spec.seats + 4 * 5 + 5
    return (config.steps + 1) * row + spec.state_bytes + 16 + _row_of_layers(config, spec)


def minibatch_bytes(config: Train, spec: GameSpec) -> int:
    """Bytes a row of a minibatch takes: its layers, forwards and back."""
    return 3 * _row_of_layers(config, spec) // max(1, config.ppo.accumulate)


def out_of_room(config: Train, spec: GameSpec, problem: str) -> PlaymillError:
    """One line: which setting to lower, and to what."""
    free = SPARE * torch.cuda.get_device_properties(0).total_memory
    games = config.games * rollout_bytes(config, spec)
    rows = min(config.ppo.minibatch, config.games * config.steps)
    batch = rows * minibatch_bytes(config, spec)
    if batch > games:
        fits = _below(max(free - games, free / 2) / minibatch_bytes(config, spec), config.ppo.minibatch)
        setting = f"--ppo.minibatch (now {config.ppo.minibatch:,}) to {fits:,} or raise --ppo.accumulate"
    else:
        fits = _below(max(free - batch, free / 2) / rollout_bytes(config, spec), config.games)
        setting = f"--games (now {config.games:,}) to {fits:,}"
    first = problem.splitlines()[0] if problem else "out of memory"
    return PlaymillError(f"the card's memory is too small for this run: lower {setting} ({first})")


def _row_of_layers(config: Train, spec: GameSpec) -> int:
    width = spec.schema.features + network_cost(spec, config.network).activations + spec.actions
    return 2 * width + 4 * spec.actions


def _below(number: float, now: int) -> int:
    """The next power of two below, and below what is set now: others may hold memory as well."""
    number = min(number, now - 1)
    return 1 << (int(number).bit_length() - 1) if number >= 1 else 1
