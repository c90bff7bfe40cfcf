"""The settings of a training run: frozen, nested, self-checking. The command line, recipes and
help texts are made from these classes."""

from __future__ import annotations

import dataclasses
import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from playmill.algorithms import PPO, Age
from playmill.games import GameSpec, PlaymillError, registry, unknown
from playmill.policies import Network
from playmill.training.engine_settings import Actors, Replaying
from playmill.training.telemetry_settings import Telemetry

T = TypeVar("T")


def _check(good: bool, otherwise: str) -> None:
    if not good:
        raise PlaymillError(otherwise)


@dataclass(frozen=True)
class Opponents:
    """Who sits in the other seats. What is left of the shares is the policy against itself."""

    past: float = 0.0
    """Share of games in which some seats are played by past checkpoints."""
    bots: float = 0.0
    """Share of games in which the other seats are scripted bots."""
    bot_names: tuple[str, ...] = ()
    """Which bots; all of the game's when none is named."""
    keep: int = 4
    """Past checkpoints that play at one time, the newest ones."""
    every: int = 50
    """Updates between two past checkpoints."""

    def __post_init__(self) -> None:
        _check(0 <= self.past <= 1 and 0 <= self.bots <= 1, "opponents.past and .bots are shares from 0 to 1")
        _check(self.past + self.bots <= 1, "opponents.past and opponents.bots together must not be over 1")
        _check(1 <= self.keep <= 31, f"opponents.keep must be from 1 to 31, got {self.keep}")
        _check(self.every >= 1, f"opponents.every must be at least 1, got {self.every}")


@dataclass(frozen=True)
class Teacher:
    """Lessons before the learning from results: what a scripted bot would do, learnt from the policy's own
    positions."""

    bot: str = ""
    """Which bot teaches; none: no lessons."""
    turns: int = 0
    """Turns of the run that are lessons, the first ones."""

    def __post_init__(self) -> None:
        _check(self.turns >= 0, f"teacher.turns must not be negative, got {self.turns}")
        _check(
            not self.bot or self.turns > 0,
            f"teacher.bot {self.bot} needs teacher.turns: how many turns of the run are lessons",
        )
        _check(not self.turns or bool(self.bot), "teacher.turns needs teacher.bot: which bot teaches")


@dataclass(frozen=True)
class Evaluation:
    """How strength is measured along the way: duplicate deals, rotated seats."""

    every: int = 2_000_000
    """Turns between two evaluations; 0: only at the end."""
    against: tuple[str, ...] = ()
    """Bots to play against; all of the game's when none is named."""
    deals: int = 128
    """Deals; each is played once from every seat."""
    final_deals: int = 1000
    """Deals of the last evaluation."""
    sample: bool = False
    """Draw actions from the policy instead of taking the likeliest."""
    exploitability: bool = True
    """For the tiny games: the exact exploitability as well, where OpenSpiel is installed."""
    beside: bool = True
    """With games played by engines: a process of its own evaluates every checkpoint, and the learner never
    waits for it. With `every` 0 none but the last is."""
    engines_s: float = 120.0
    """For games that only engines can play: after so many seconds no new deal is begun."""

    def __post_init__(self) -> None:
        _check(self.deals >= 1 and self.final_deals >= 1, "evaluation.deals must be at least 1")
        _check(self.engines_s > 0, f"evaluation.engines_s must be positive, got {self.engines_s}")
        _check(self.every >= 0, f"evaluation.every must not be negative, got {self.every}")


@dataclass(frozen=True)
class Checkpoints:
    """When the run is saved."""

    every_s: float = 30.0
    """Seconds between two checkpoints."""
    every_updates: int = 0
    """Updates between two checkpoints instead, if not 0."""
    keep: int = 3
    """How many stay, the best by evaluation besides."""

    def __post_init__(self) -> None:
        _check(self.keep >= 1, f"checkpoints.keep must be at least 1, got {self.keep}")
        _check(self.every_s > 0, f"checkpoints.every_s must be positive, got {self.every_s}")


@dataclass(frozen=True)
class Plateau:
    """Early stop, off by default: when evaluations no longer move, or gain too little an hour."""

    on: bool = False
    """Stop early."""
    after: int = 20
    """Evaluations before either criterion counts."""
    window: int = 10
    """Evaluations looked at: stop when their scores lie within `span`."""
    span: float = 3.0
    """Points of score."""
    gain_per_hour: float = 15.0
    """Stop when the gain an hour stays under this ..."""
    times: int = 5
    """... for so many evaluations in a row."""


@dataclass(frozen=True)
class Train:
    """One training run."""

    game: str = "skull_king"
    """Which game; `playmill games` lists them."""
    options: dict[str, str] = field(default_factory=dict)
    """Options of the game, as `--options players 4 deck 70`."""
    seed: int = 0
    """Names the run: same seed, same weights, bit for bit (with a budget in turns)."""
    turns: int = 0
    """Budget in turns; 0: none."""
    minutes: float = 0.0
    """Budget in minutes; 0: none. With neither budget, train until stopped."""
    ranks: int = 1
    """Processes that train together, through torchrun; games, threads and minibatches are shared out."""
    lane: Literal["auto", "resident", "engines"] = "auto"
    """Where games are played: in this process, or by engines in processes of their own; auto: native games in
    this process, all others by engines."""
    games: int = 1024
    """Games in flight, in this process."""
    steps: int = 64
    """Turns of every game in one rollout, or in one segment of an actor's."""
    threads: int = field(default_factory=lambda: max(1, len(os.sched_getaffinity(0))))
    """Threads of the engine and of torch."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where games, policy and learner live; cuda: all of it on one NVIDIA card (`playmill doctor`), of the
    engine lane the learner."""
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Of the layers; auto: whichever is faster on this CPU, bfloat16 on cuda. float16 is for cuda alone."""
    network: Network = field(default_factory=Network)
    ppo: PPO = field(default_factory=PPO)
    opponents: Opponents = field(default_factory=Opponents)
    teacher: Teacher = field(default_factory=Teacher)
    actors: Actors = field(default_factory=Actors)
    age: Age = field(default_factory=Age)
    replay: Replaying = field(default_factory=Replaying)
    evaluation: Evaluation = field(default_factory=Evaluation)
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    plateau: Plateau = field(default_factory=Plateau)
    telemetry: Telemetry = field(default_factory=Telemetry)

    def __post_init__(self) -> None:
        _check(self.games >= 1, f"games must be at least 1, got {self.games}")
        _check(self.steps >= 2, f"steps must be at least 2, got {self.steps}")
        _check(self.threads >= 1, f"threads must be at least 1, got {self.threads}")
        _check(self.turns >= 0 and self.minutes >= 0, "turns and minutes must not be negative")
        self._check_ranks()
        self._check_engines()
        _check(
            self.device == "cuda" or self.precision != "float16",
            "precision float16 is for --device cuda; on the CPU use float32 or bfloat16",
        )
        spec = self.spec
        for name in (*self.opponents.bot_names, *self.evaluation.against):
            spec.bot(name)
        if self.teacher.bot:
            spec.bot(self.teacher.bot)
        _check(
            not self.turns or self.teacher.turns <= self.turns,
            f"teacher.turns ({self.teacher.turns}) must not be over the run's turns ({self.turns})",
        )
        self.network.check(spec)
        _check(
            not self.ppo.symmetries or self.network.body != "layers",
            "ppo.symmetries are those of a board: they need network.body unet or vit",
        )

    def _check_ranks(self) -> None:
        _check(self.ranks >= 1, f"ranks must be at least 1, got {self.ranks}")
        for name in ("games",) if self.device == "cuda" else ("games", "threads"):
            value = getattr(self, name)
            _check(
                value % self.ranks == 0,
                f"{name} ({value}) cannot be shared out evenly among {self.ranks} ranks; "
                f"take a multiple of {self.ranks}, as --{name} {-(-value // self.ranks) * self.ranks}",
            )

    def _check_engines(self) -> None:
        _check(
            self.by_engines or not self.spec.foreign,
            f"{self.game} is played by engines: lane must be auto or engines",
        )
        _check(
            self.by_engines or not self.replay.share,
            "replay is for games played by engines: games in this process are played anew faster than drawn",
        )
        if not self.by_engines:
            return
        _check(
            not self.replay.share or self.age.correction == "vtrace",
            "replay learns from old segments: it needs age.correction vtrace",
        )
        for wrong, otherwise in (
            (self.ranks > 1, "ranks share out games of this process; with engines take more actors"),
            (bool(self.teacher.bot), "a teacher needs games in this process: leave out teacher or engines"),
            (self.ppo.symmetries, "ppo.symmetries need games in this process: leave out one of both"),
        ):
            _check(not wrong, otherwise)

    @property
    def by_engines(self) -> bool:
        """Whether games are played in other processes."""
        return self.lane == "engines" or (self.lane == "auto" and self.spec.foreign)

    @property
    def judged_beside(self) -> bool:
        """Whether another process evaluates along the way."""
        return self.by_engines and self.evaluation.beside

    @property
    def turns_an_update(self) -> int:
        """Turns of a rollout."""
        return self.steps * (self.actors.segments if self.by_engines else self.games)

    @property
    def spec(self) -> GameSpec:
        return registry.spec(self.game, self.options)

    @property
    def lessons(self) -> int:
        """Updates of the run that begin within the teacher's turns."""
        return -(-self.teacher.turns // self.turns_an_update)

    @property
    def bots(self) -> tuple[str, ...]:
        """The bots evaluated against."""
        return self.evaluation.against or self.spec.bots


def to_dict(config: Any) -> dict[str, Any]:
    """Plain JSON values of a config."""
    return dataclasses.asdict(config)


def from_dict(kind: type[T], values: dict[str, Any], where: str = "") -> T:
    """A config from plain values, as a recipe or a run folder has them. Unknown names are refused."""
    hints = get_type_hints(kind)
    known = {f.name for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    given: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            raise unknown("setting", f"{where}{name}", [f"{where}{k}" for k in known])
        wanted = hints[name]
        if dataclasses.is_dataclass(wanted):
            if not isinstance(value, dict):
                raise PlaymillError(f"{where}{name} must be a table of settings, got {value!r}")
            given[name] = from_dict(wanted, value, f"{where}{name}.")  # type: ignore[arg-type]
        else:
            given[name] = _checked(wanted, value, f"{where}{name}")
    return kind(**given)


def _checked(wanted: Any, value: Any, name: str) -> Any:
    """`value` as the type `wanted`, or one line that says what it should be."""
    origin, inside = get_origin(wanted), get_args(wanted)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_checked(inside[0], item, name) for item in value)
    if origin is dict and isinstance(value, dict):
        return value if inside[1] is Any else {key: str(item) for key, item in value.items()}
    if dataclasses.is_dataclass(wanted) and isinstance(value, dict):
        return from_dict(wanted, value, f"{name}.")  # type: ignore[arg-type]
    if origin is Literal:
        if value not in inside:
            raise unknown(f"value of {name}", str(value), inside)
        return value
    if wanted is float and type(value) is int:
        return float(value)
    if type(value) is not wanted:
        kind = {tuple: "a list", dict: "a table"}.get(origin) or wanted.__name__
        raise PlaymillError(f"{name} must be {kind}, got {value!r}")
    return value


def recipes_folder() -> Path | None:
    """Where the recipes lie: inside the package when installed, else at the root of the checkout."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "recipes", package.parent.parent / "recipes"):
        if folder.is_dir():
            return folder
    return None


def recipe_names() -> list[str]:
    folder = recipes_folder()
    if folder is None:
        return []
    return sorted(str(p.relative_to(folder).with_suffix("")) for p in folder.rglob("*.toml"))


def load_recipe(name: str) -> Train:
    """A recipe by name (`skull_king/quick`) or path."""
    return from_dict(Train, recipe_values(name))


def recipe_values(name: str) -> dict[str, Any]:
    """What a recipe says, and nothing it leaves open."""
    folder = recipes_folder()
    path = Path(name)
    if path.suffix != ".toml":
        if name not in recipe_names() or folder is None:
            raise unknown("recipe", name, recipe_names())
        path = folder / f"{name}.toml"
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise PlaymillError(f"there is no file {path}") from None
    except tomllib.TOMLDecodeError as error:
        raise PlaymillError(f"{path} is not valid TOML: {error}") from None
