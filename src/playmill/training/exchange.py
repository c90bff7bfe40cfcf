"""Where the processes of a run meet: its channel for experience, its weights, its sockets."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from playmill.experience.assignments import AssignmentBoard, Leave
from playmill.experience.channel import Receiver, Sender
from playmill.experience.redis_receiver import RedisReceiver
from playmill.experience.redis_sender import RedisSender
from playmill.experience.ring import RingReceiver, RingSender, ring_folder, rings_root
from playmill.experience.segment import SegmentShape, check_run
from playmill.experience.weights import Follower, Publisher, WeightsAway
from playmill.experience.weights_later import LaterPublisher
from playmill.experience.weights_open import open_follower, open_publisher
from playmill.experience.weights_shared import SharedFollower, remove_shared, shared_path
from playmill.experience.weights_watch import Relay, WeightsWatch
from playmill.telemetry.traces import OFF, Tracer

if TYPE_CHECKING:
    from playmill.training.config import Train

ID_FILE = "id"
OWNER = "run"
"""In a run's folder in memory: where the run is."""
PATIENCE_S = 60.0
"""For a broker that is away when a process starts."""
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


T = TypeVar("T")


class Exchange:
    """The places of one run, as its config names them."""

    def __init__(self, config: Train, run: str, folder: Path) -> None:
        """`folder`: of the run; what must outlive a machine's memory is kept there."""
        self.config, self.run, self.folder = config, check_run(run), folder

    @property
    def local(self) -> Path:
        """In memory, this user's alone: rings, sockets. Made where there is none; it says whose it is."""
        folder = ring_folder(self.run)
        owner = folder / OWNER
        if not owner.exists():
            owner.write_text(f"{self.folder.resolve()}\n")
        return folder

    @property
    def shape(self) -> SegmentShape:
        spec = self.config.spec
        return SegmentShape(
            self.config.steps, spec.seats, spec.schema.bytes, spec.legal_bytes, spec.schema.hash
        )

    @property
    def policy_socket(self) -> Path:
        return self.local / "policy.socket"

    def sender(self, actor: int, epoch: int, tracer: Tracer = OFF) -> Sender:
        actors = self.config.actors
        if actors.channel == "shared":
            return RingSender(self.local, self.run, actor, epoch, actors.ring_mb << 20)
        spool = self.folder / "spool" / str(actor)
        name = (self.run, actor, epoch)
        return RedisSender(actors.channel, *name, spool, password=_password(), tracer=tracer)

    def receiver(self, *, look: bool = False) -> Receiver:
        """`look`: without taking anything, for the ledger."""
        actors = self.config.actors
        if actors.channel == "shared":
            return RingReceiver(rings_root() / self.run if look else self.local, self.run, look=look)
        return RedisReceiver(actors.channel, self.run, password=_password())

    def board(self) -> AssignmentBoard | None:
        """Where the learner puts assignments, if actors play by them."""
        actors = self.config.actors
        if not actors.assigned:
            return None
        return AssignmentBoard(actors.channel, actors.assigned_name or self.run, password=_password())

    def leave(self, actor: int) -> Leave | None:
        """An actor's leave to play, if it needs one."""
        actors = self.config.actors
        if not actors.assigned:
            return None
        return Leave(actors.channel, actors.assigned_name or self.run, actor, password=_password())

    def publisher(self, what: str = "policy") -> Publisher:
        """Of the policy in training, or of the `past` ones."""
        where = self.config.actors.weights_at
        name, password = self._name(what), _password()
        if where.startswith("shared"):
            return open_publisher(where, name, password=password)
        return patiently(lambda: LaterPublisher(open_publisher(where, name, password=password)))

    def watch(
        self, stack: ExitStack, what: str = "policy", stopped: Callable[[], bool] = lambda: False
    ) -> WeightsWatch:
        """Follows the policy in training, or the `past` ones, until the stack is left. What comes from afar
        is brought to this host once, for all its actors."""
        follower, relay = self.follower(what, stopped), None
        if not self.config.actors.weights_at.startswith("shared"):
            here = self._copy_of(what)
            relay = stack.enter_context(closing(Relay(follower, here)))
            follower = SharedFollower(here)
        return stack.enter_context(closing(WeightsWatch(follower, relay=relay)))

    def follower(self, what: str = "policy", stopped: Callable[[], bool] = lambda: False) -> Follower:
        """Where weights were published, whoever else follows them here."""
        where, name, password = self.config.actors.weights_at, self._name(what), _password()
        return patiently(lambda: open_follower(where, name, password=password), stopped)

    def clear(self) -> None:
        """Removes what a run that is over has in this machine's memory, where nothing in it waits."""
        if self.config.actors.channel == "shared":
            with closing(RingReceiver(self.local, self.run)) as rings:
                rings.remove()
        elif (folder := rings_root() / self.run).is_dir():
            (folder / OWNER).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                folder.rmdir()
        for what in ("policy", "past"):
            for path in (shared_path(self._name(what)), self._copy_of(what)):
                remove_shared(path)

    def _copy_of(self, what: str) -> Path:
        """Where this host has weights that come from afar."""
        return shared_path(f"{self._name(what)}-here")

    def _name(self, what: str) -> str:
        return self.run if what == "policy" else check_run(f"{self.run}-{what}"[:64])


def patiently(make: Callable[[], T], stopped: Callable[[], bool] = lambda: False) -> T:
    """What `make` makes. A broker that is away may be about to come back: it is tried again for a while."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return make()
        except WeightsAway:
            if stopped() or time.monotonic() > until:
                raise
        time.sleep(0.2)


def left_behind() -> list[Path]:
    """Folders in this machine's memory whose runs are gone: killed, and then deleted or moved."""
    found = []
    for folder in sorted(rings_root().glob("*")):
        try:
            run = Path((folder / OWNER).read_text().strip())
            gone = (run / ID_FILE).read_text().strip() != folder.name
        except OSError:
            gone = (folder / OWNER).exists()
        if gone:
            found.append(folder)
    return found


def _password() -> str | None:
    return os.environ.get(PASSWORD)
