"""Plain values as YAML: blocks of tables and lists, every text in quotes."""

from __future__ import annotations

import json
from typing import Any


def yaml(value: Any, depth: int = 0) -> str:
    pad = "  " * depth
    if isinstance(value, dict) and value:
        return "".join(f"{pad}{_key(name)}:{_inside(item, depth)}" for name, item in value.items())
    if isinstance(value, list) and value:
        return "".join(f"{pad}-{_inside(item, depth)}" for item in value)
    return f"{pad}{json.dumps(value)}\n"


def _inside(value: Any, depth: int) -> str:
    if isinstance(value, dict | list) and value:
        return "\n" + yaml(value, depth + 1)
    return f" {json.dumps(value)}\n"


def _key(name: str) -> str:
    return name if name.replace("-", "").replace("_", "").isalnum() else json.dumps(name)
