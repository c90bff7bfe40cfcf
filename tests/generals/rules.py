"""The options of Generals, the presets' values filled in where nothing was said."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    "source": {
        "city_period": 1,
        "land_period": 25,
        "land_growth": "ground",
        "start_army": 2,
        "capture_share": "full",
        "regrowth": "no",
        "order": "seat",
        "build": "no",
        "fog_obstacles": "no",
        "mountains": 12,
        "cities": 50,
        "city_army": 40,
        "city_army_spread": 0,
        "distance": 5,
    },
    "generalsio": {
        "city_period": 2,
        "land_period": 50,
        "land_growth": "all",
        "start_army": 1,
        "capture_share": "half",
        "regrowth": "yes",
        "order": "alternating",
        "build": "no",
        "fog_obstacles": "yes",
        "mountains": 20,
        "cities": 25,
        "city_army": 40,
        "city_army_spread": 10,
        "distance": 15,
    },
    "competition": {
        "city_period": 2,
        "land_period": 50,
        "land_growth": "all",
        "start_army": 1,
        "capture_share": "half",
        "regrowth": "no",
        "order": "priority",
        "build": "yes",
        "fog_obstacles": "yes",
        "mountains": 22,
        "cities": 0,
        "city_army": 40,
        "city_army_spread": 10,
        "distance": 17,
    },
}


@dataclass(frozen=True)
class Rules:
    """What a game is played by. Choices are words; yes/no options are the words too."""

    city_period: int
    land_period: int
    land_growth: str  # ground, all
    start_army: int
    capture_share: str  # full, half
    regrowth: str
    order: str  # seat, alternating, smaller, priority
    build: str
    fog_obstacles: str
    mountains: int  # percent of the board
    cities: int  # in a thousand squares
    city_army: int  # the smallest of a new city
    city_army_spread: int  # how many more it may be
    distance: int  # steps between generals, at least
    players: int = 2
    max_ticks: int = 1000
    shaping: int = 0  # hundredths
    draw: int = 0  # hundredths

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "Rules":
        """The rules of these options. What only the making of a board needs may be among them."""
        # The text names neither the preset that holds when none is named nor the number of ticks
        # then; both are the engine's. Where -1 or `preset` is said, nothing is said.
        preset = PRESETS[options.get("preset", "generalsio")]
        known = {field.name for field in fields(cls)}
        said = {name: value for name, value in options.items() if value not in (-1, "preset")}
        return cls(**preset | {name: value for name, value in said.items() if name in known})
