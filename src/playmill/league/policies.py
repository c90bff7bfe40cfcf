"""Policies from checkpoints: found by run or folder, checked against the game, ready to play."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from playmill.checkpoints import CheckpointError, Store, read
from playmill.games import GameSpec, PlaymillError, registry
from playmill.policies import Network, Policy


@dataclass(frozen=True)
class LoadedPolicy:
    """A policy and where it comes from."""

    policy: Policy
    spec: GameSpec
    path: Path
    meta: Mapping[str, Any]

    @property
    def name(self) -> str:
        run = (
            self.path.parent.parent.name if self.path.parent.name == "checkpoints" else self.path.parent.name
        )
        return f"{run}@{self.path.name.removeprefix('step-').lstrip('0') or '0'}"


def find_checkpoint(path: Path) -> Path:
    """The checkpoint meant by `path`: itself, or the best (else newest) of a run folder."""
    if not path.exists():
        raise PlaymillError(
            f"there is no run or checkpoint at {path}; `playmill train` makes one under runs/"
        )
    if (path / "manifest.json").exists():
        return path
    if not (path / "checkpoints").is_dir():
        runs = sorted(folder.parent.name for folder in path.glob("*/checkpoints"))
        if runs:
            raise PlaymillError(f"{path} holds several runs; name one of them: {', '.join(runs)}")
        raise PlaymillError(
            f"{path} is neither a run nor a checkpoint: it has no manifest and no checkpoints/"
        )
    store = Store(path / "checkpoints", keep=1)
    found = store.best() or store.latest()
    if found is None:
        raise PlaymillError(f"{path} holds no whole checkpoint yet")
    return found


def load_policy(path: Path) -> LoadedPolicy:
    """Reads and checks a policy. A checkpoint of another schema is refused with the reason."""
    path = find_checkpoint(path)
    try:
        checkpoint = read(path)
    except CheckpointError as error:
        raise PlaymillError(str(error)) from None
    meta = checkpoint.meta
    try:
        spec = registry.spec(meta["game"], meta["options"])
        network = Network(**{**meta["network"], "hidden": tuple(meta["network"]["hidden"])})
    except (KeyError, TypeError) as error:
        raise PlaymillError(f"{path}: not a checkpoint of a Playmill policy ({error!s})") from None
    check_schema(spec, meta, path)
    policy = Policy(spec, network)
    weights = {
        name.removeprefix("policy/"): tensor
        for name, tensor in checkpoint.tensors.items()
        if name.startswith("policy/")
    }
    load_weights(policy, weights, path)
    return LoadedPolicy(policy, spec, path, meta)


def check_schema(spec: GameSpec, meta: Mapping[str, Any], path: Path) -> None:
    """Refuses weights trained on another layout of the observation."""
    if meta.get("schema_hash") != f"{spec.schema.hash:016x}":
        raise PlaymillError(
            f"{path}: its observations have schema {meta.get('schema_hash')}, this version's "
            f"{spec.name} has {spec.schema.hash:016x}; train again, or use the version it was made with"
        )


def load_weights(policy: Policy, weights: Mapping[str, torch.Tensor], path: Path) -> None:
    try:
        policy.load_state_dict(dict(weights))
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise PlaymillError(f"{path}: the weights do not fit the network it names ({reason})") from None
