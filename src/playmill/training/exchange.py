"""Where the processes of a run meet: its channel for experience, its weights, its sockets."""

from __future__ import annotations

import os
import re
import secrets
from contextlib import ExitStack, closing
from pathlib import Path

from playmill.experience.channel import Receiver, Sender
from playmill.experience.redis_receiver import RedisReceiver
from playmill.experience.redis_sender import RedisSender
from playmill.experience.ring import RingReceiver, RingSender, ring_folder
from playmill.experience.segment import SegmentShape, check_run
from playmill.experience.weights import Follower, Publisher
from playmill.experience.weights_later import LaterPublisher
from playmill.experience.weights_open import open_follower, open_publisher
from playmill.experience.weights_shared import SharedFollower, shared_path
from playmill.experience.weights_watch import Relay, WeightsWatch
from playmill.training.config import Train

ID_FILE = "id"
PASSWORD = "PLAYMILL_REDIS_PASSWORD"
"""Where the broker's password is looked for, if it is not in the address."""


def run_id(path: Path) -> str:
    """The name of a run among all there are: that of its folder and a random part, kept in the folder."""
    file = path / ID_FILE
    try:
        return check_run(file.read_text().strip())
    except FileNotFoundError:
        pass
    name = re.sub(r"[^A-Za-z0-9_]+", "_", path.resolve().name)[:40].strip("_") or "run"
    beside = file.with_name(f".{ID_FILE}.{secrets.token_hex(4)}")
    beside.write_text(f"{name}-{secrets.token_hex(4)}\n")
    try:
        os.link(beside, file)  # the first to come names it
    except FileExistsError:
        pass
    finally:
        beside.unlink()
    return check_run(file.read_text().strip())


class Exchange:
    """The places of one run, as its config names them."""

    def __init__(self, config: Train, run: str, folder: Path) -> None:
        """`folder`: of the run; what must outlive a machine's memory is kept there."""
        self.config, self.run, self.folder = config, check_run(run), folder
        self.local = ring_folder(run)
        """In memory, this user's alone: rings, sockets."""

    @property
    def shape(self) -> SegmentShape:
        spec = self.config.spec
        return SegmentShape(
            self.config.steps, spec.seats, spec.schema.bytes, spec.legal_bytes, spec.schema.hash
        )

    @property
    def policy_socket(self) -> Path:
        return self.local / "policy.socket"

    def sender(self, actor: int, epoch: int) -> Sender:
        actors = self.config.actors
        if actors.channel == "shared":
            return RingSender(self.local, self.run, actor, epoch, actors.ring_mb << 20)
        spool = self.folder / "spool" / str(actor)
        return RedisSender(actors.channel, self.run, actor, epoch, spool, password=_password())

    def receiver(self, *, look: bool = False) -> Receiver:
        """`look`: without taking anything, for the ledger."""
        actors = self.config.actors
        if actors.channel == "shared":
            return RingReceiver(self.local, self.run, look=look)
        return RedisReceiver(actors.channel, self.run, password=_password())

    def publisher(self, what: str = "policy") -> Publisher:
        """Of the policy in training, or of the `past` ones."""
        where = self.config.actors.weights_at
        made = open_publisher(where, self._name(what), password=_password())
        return made if where.startswith("shared") else LaterPublisher(made)

    def watch(self, stack: ExitStack, what: str = "policy") -> WeightsWatch:
        """Follows the policy in training, or the `past` ones, until the stack is left. What comes from afar
        is brought to this host once, for all its actors."""
        where, name = self.config.actors.weights_at, self._name(what)
        follower: Follower = open_follower(where, name, password=_password())
        if not where.startswith("shared"):
            here = shared_path(f"{name}-here")
            stack.enter_context(closing(Relay(follower, here)))
            follower = SharedFollower(here)
        return stack.enter_context(closing(WeightsWatch(follower)))

    def _name(self, what: str) -> str:
        return self.run if what == "policy" else check_run(f"{self.run}-{what}"[:64])


def _password() -> str | None:
    return os.environ.get(PASSWORD)
