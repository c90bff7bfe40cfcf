"""What a benchmark returns: numbers, each with the bar it must reach."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Bar:
    """One measured number and what it must be."""

    name: str
    value: float
    unit: str
    bar: float
    at_most: bool = False
    """The bar is a ceiling, not a floor."""

    @property
    def met(self) -> bool:
        return self.value <= self.bar if self.at_most else self.value >= self.bar

    def row(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "value": round(self.value, 5),
            "unit": self.unit,
            "bar": self.bar,
            "at_most": self.at_most,
            "met": self.met,
        }

    def line(self) -> str:
        sign = "<=" if self.at_most else ">="
        word = "met " if self.met else "MISS"
        return f"{word} {self.name} = {self.value:,.4g} {self.unit} ({sign} {self.bar:g})"


@dataclass(frozen=True)
class Result:
    bars: list[Bar]
    details: dict[str, Any] = field(default_factory=dict)
