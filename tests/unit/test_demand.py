"""A learner that asks and an autoscaler that follows, simulated: fast games and slow ones, at first too many
actors or too few."""

import math
import random
import statistics
from dataclasses import dataclass, field

import pytest

from playmill.algorithms.vtrace import Age
from playmill.experience.assignments import Posted
from playmill.experience.channel import Backlog
from playmill.launch.keda import CALM_S, STEP_S, _behavior
from playmill.training import demand
from playmill.training.demand import LOOK_S, Demand
from playmill.training.engine_settings import Actors

MOST, HOUR = 20, 3600.0
SETTINGS = Actors(channel="redis://127.0.0.1:1/0", assigned=True, ahead=MOST)


@dataclass
class World:
    """Actors that play an assignment in `plays` seconds, a learner whose update takes `learns` seconds."""

    plays: float
    learns: float
    actors: int
    now: float = 0.0
    untaken: int = 0
    busy: list[float] = field(default_factory=list)
    unread: float = 0.0
    batch: float = 0.0
    learning: float = 0.0
    wanted: list[int] = field(default_factory=list)
    chance: random.Random = field(default_factory=lambda: random.Random(1))

    def look(self):
        return Posted(self.untaken, len(self.busy))

    def add(self, count, _segments):
        self.untaken += count

    def backlog(self):
        return Backlog(int(self.unread), 0, 0, 0.0)

    def play(self):
        """A quarter of a second."""
        self.now += LOOK_S
        self.unread += sum(min(LOOK_S, left) for left in self.busy) * SETTINGS.assignment / self.plays
        self.busy = [left - LOOK_S for left in self.busy if left > LOOK_S]
        while self.untaken and len(self.busy) < self.actors:
            self.untaken -= 1
            self.busy.append(self.plays * self.chance.uniform(0.8, 1.2))

    def learn(self):
        """The same; whether the learner had to wait, or None while it is at an update."""
        self.learning -= LOOK_S
        if self.learning > 0:
            return None
        taken = min(self.unread, SETTINGS.segments - self.batch)
        self.unread, self.batch = self.unread - taken, self.batch + taken
        if self.batch < SETTINGS.segments:
            return True
        self.batch, self.learning = 0.0, max(0.0, self.learning) + self.learns
        return False

    def scale(self):
        """What KEDA does four times a minute, and its autoscaler once, by the manifest's rules."""
        if self.now % 15 == 0:
            self.wanted.append(min(MOST, max(self.untaken, len(self.busy))))
        if self.now % STEP_S == 0:
            rules, before = _behavior(), self.actors
            up, down = (rules[name]["policies"][0]["value"] / 100 for name in ("scaleUp", "scaleDown"))
            calm = max(self.wanted[-(CALM_S // 15) :])
            if self.wanted[-1] > before:
                self.actors = min(self.wanted[-1], max(before + 1, math.floor(before * (1 + up))))
            elif calm < before:
                self.actors = max(1, calm, min(before - 1, math.floor(before * (1 - down))))


@pytest.mark.parametrize("begin", [1, MOST])
@pytest.mark.parametrize(
    ("plays", "learns", "needed"), [(1, 1, 4), (10, 5, 8), (60, 30, 8), (60, 10, 24), (5, 1, 20)]
)
def test_the_number_of_actors_settles_at_what_the_learner_needs(plays, learns, needed, begin, monkeypatch):
    world = World(plays, learns, begin)
    monkeypatch.setattr(demand.time, "monotonic", lambda: world.now)
    asking = Demand(SETTINGS, world)
    waits, stock, actors = [], [], []
    while world.now < HOUR:
        world.play()
        waited = world.learn()
        if waited is not None:
            asking.waited(LOOK_S if waited else 0.0)
            asking.look(world.backlog)
        world.scale()
        if world.now > HOUR / 4:
            waits.append(waited is True)
            stock.append(world.unread / SETTINGS.segments)
            actors.append(world.actors)
    idle = max(0.0, 1.0 - MOST / needed)  # what no number of actors that may be would save
    assert statistics.mean(waits) < idle + 0.04
    assert max(stock) < Age().most, "nothing is too old to be learnt from"
    assert min(needed, MOST) <= statistics.mean(actors) <= min(needed + 4, MOST)
