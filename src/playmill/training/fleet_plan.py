"""Which runs a fleet has: the product of its seeds and of all values that are varied, each with a name."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_origin, get_type_hints

from playmill.games import PlaymillError, unknown
from playmill.training.config import Train, from_dict, to_dict
from playmill.training.precision import faster_in_bfloat16

MOST = 64
"""Runs in one fleet."""
_LONGEST = 120
"""Letters in the name of a member: it is the name of a folder."""

Changes = dict[str, Any]
"""What a member changes in the fleet's settings, by dotted name."""


def plan_members(base: Train, seeds: Sequence[int], vary: Sequence[str]) -> dict[str, Changes]:
    """Name to changes of every member. Each is checked as a recipe is; a wrong one is one line."""
    varied = _varied(vary)
    _no_twins("--seeds", seeds)
    count = max(1, len(seeds))
    for values in varied.values():
        count *= len(values)
    if count > MOST:
        raise PlaymillError(f"this makes {count:,} runs, a fleet has at most {MOST}; give fewer values")
    axes = {**varied, **({"seed": list(seeds)} if seeds else {})}
    products = (
        dict(zip(axes, combination, strict=True)) for combination in itertools.product(*axes.values())
    )
    members = _named(products, list(axes))
    for name, changes in members.items():
        try:
            changed(base, changes)
        except PlaymillError as error:
            raise PlaymillError(f"run {name}: {error}") from None
    return members


def changed(config: Train, changes: Mapping[str, Any]) -> Train:
    """The settings with `changes` made, checked as a recipe is."""
    values = to_dict(config)
    for dotted, value in changes.items():
        *groups, leaf = dotted.split(".")
        inner = values
        for group in groups:
            inner = inner[group]
        inner[leaf] = value
    return from_dict(Train, values)


def difference(old: Train, new: Train) -> Changes:
    """What `new` has otherwise than `old`, by dotted name."""
    before, after = _flat(to_dict(old)), _flat(to_dict(new))
    return {name: value for name, value in after.items() if before.get(name, ...) != value}


def settled(base: Train, varied: Iterable[str]) -> Train:
    """`base` with the precision chosen once. Left to each member, a timing could give two members two
    precisions, and they would differ by more than was asked for."""
    if base.device != "cpu" or base.precision != "auto" or "precision" in varied:
        return base
    faster = faster_in_bfloat16(base.spec, base.network, base.ppo.minibatch)
    return dataclasses.replace(base, precision="bfloat16" if faster else "float32")


def text_of(value: object) -> str:
    """A setting's value as --vary spells it."""
    if isinstance(value, list | tuple):
        return "+".join(text_of(item) for item in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def short_names(dotted: Iterable[str]) -> dict[str, str]:
    """Each setting's last word, or the whole where two settings share that."""
    names = list(dotted)
    leaves = [name.rpartition(".")[2] for name in names]
    return {name: leaf if leaves.count(leaf) == 1 else name for name, leaf in zip(names, leaves, strict=True)}


# Reading --vary


def _varied(texts: Sequence[str]) -> dict[str, list[Any]]:
    """`ppo.lr=1e-3,3e-3` as setting to values."""
    varied: dict[str, list[Any]] = {}
    for text in texts:
        name, given, values = text.partition("=")
        if not given or not name or not all(values.split(",")):
            raise PlaymillError(
                f"--vary takes SETTING=VALUE,VALUE such as ppo.lr=1e-3,3e-3, got '{text}' (no spaces in it)"
            )
        # The command line spells bot-names what recipes spell bot_names; both are understood.
        name = name.removeprefix("--").replace("-", "_")
        if name in ("seed", "game"):
            hint = "use --seeds" if name == "seed" else "a fleet compares runs of one game"
            raise PlaymillError(f"{name} cannot be varied; {hint}")
        if name in varied:
            raise PlaymillError(f"--vary names {name} twice; put all its values behind one, as {name}=A,B")
        varied[name] = [_value(name, value) for value in values.split(",")]
        _no_twins(name, varied[name])
    return varied


def _value(name: str, text: str) -> Any:
    """The value `text` stands for; whether it is a good one, and goes with the others, each member asks."""
    kind = _kind(name)
    return [_scalar(item) for item in text.split("+")] if get_origin(kind) is tuple else _scalar(text, kind)


def _kind(name: str) -> Any:
    """The type of a setting."""
    kind: Any = Train
    for part in name.split("."):
        if get_origin(kind) is dict:
            return str
        if not dataclasses.is_dataclass(kind) or part not in get_type_hints(kind):
            raise unknown("setting", name, _setting_names())
        kind = get_type_hints(kind)[part]
    if dataclasses.is_dataclass(kind) or get_origin(kind) is dict:
        inside = [other for other in _setting_names() if other.startswith(f"{name}.")]
        example = inside[0] if inside else f"{name}.NAME"
        raise PlaymillError(f"{name} is a group of settings; name one of them, such as {example}=A,B")
    return kind


def _setting_names(kind: Any = Train, before: str = "") -> list[str]:
    names: list[str] = []
    for name, hint in get_type_hints(kind).items():
        if dataclasses.is_dataclass(hint):
            names += _setting_names(hint, f"{before}{name}.")
        elif get_origin(hint) is not dict:
            names.append(f"{before}{name}")
    return names


def _scalar(text: str, kind: Any = None) -> Any:
    """A number or a truth value where the text is one; other text stays for the checks to judge."""
    if kind is str:
        return text
    if text in ("true", "false"):
        return text == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _no_twins(name: str, values: Sequence[object]) -> None:
    twin = next((value for i, value in enumerate(values) if value in values[:i]), None)
    if twin is not None:
        raise PlaymillError(f"{name} has {text_of(twin)} twice; the two runs would be one and the same")


# Names


def _named(products: Iterable[Changes], axes: Sequence[str]) -> dict[str, Changes]:
    """seed-0 where only seeds differ, else lr=0.003,seed=0: the names of the folders."""
    short = short_names(axes)
    members: dict[str, Changes] = {}
    for changes in products:
        parts = [f"{short[name]}={text_of(value)}" for name, value in changes.items()]
        name = f"seed-{changes['seed']}" if list(changes) == ["seed"] else ",".join(parts)
        name = re.sub(r"[^A-Za-z0-9._=+,-]+", "-", name)[:_LONGEST].lstrip(".-") or "run"
        number = 1
        unique = name
        while unique in members:
            number += 1
            unique = f"{name}-{number}"
        members[unique] = changes
    return members


def _flat(values: Mapping[str, Any], before: str = "") -> Changes:
    found: Changes = {}
    for name, value in values.items():
        # Options are compared whole: taking one away is a change too.
        if isinstance(value, dict) and before + name != "options":
            found |= _flat(value, f"{before}{name}.")
        else:
            found[before + name] = value
    return found
