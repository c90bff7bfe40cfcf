"""How roles on other machines learn which run to join: its learner announces it at the broker.

Only the run's id travels this way. Settings come with the cluster's file, so whoever can write to the broker
cannot make a machine run something."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable
from typing import Any

from playmill.experience.redis_link import Link, key
from playmill.experience.segment import check_run
from playmill.games import PlaymillError
from playmill.training.config import Train, to_dict

AGAIN_S = 5.0
"""Between two announcements, and between two looks whether it still holds; a broker may forget."""
SHARED = ("game", "options", "steps", "network", "opponents")
"""What learner and actors must agree on."""


def fingerprint(config: Train) -> str:
    """Of the settings that learner and actors share."""
    values = to_dict(config)
    shared = {name: values[name] for name in SHARED} | {"assigned": config.actors.assigned}
    text = json.dumps(shared, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Announcement:
    """What is said at the broker under a cluster's name."""

    def __init__(self, url: str, name: str, password: str) -> None:
        self._link = Link(url, password)
        self._key = key(name, "announcement")

    def make(self, run: str, config: Train) -> None:
        said = {"run": check_run(run), "settings": fingerprint(config)}
        self._link.client().set(self._key, json.dumps(said))

    def read(self, config: Train) -> str | None:
        """The run's id, if there is one yet."""
        said = self._link.client().get(self._key)
        if said is None:
            return None
        try:
            values: dict[str, Any] = json.loads(said)
            run, settings = check_run(values["run"]), values["settings"]
        except (ValueError, KeyError, TypeError):
            raise PlaymillError(
                "what is announced at the broker is no run; is it another program's?"
            ) from None
        if settings != fingerprint(config):
            raise PlaymillError(
                "the learner has other settings than this cluster file; give all machines the same one"
            )
        return run

    def await_run(self, config: Train, within: float) -> str:
        """The run's id, when its learner has announced it."""
        until, away = time.monotonic() + within, ""
        while time.monotonic() < until:
            try:
                found = self.read(config)
                if found is not None:
                    return found
                away = ""
            except self._link.away as error:
                away = f": {error}"
            time.sleep(0.25)
        if away:
            raise PlaymillError(f"the broker is away{away}; is it running, and is broker.url right?")
        raise PlaymillError(f"no learner has announced a run within {within:g} s; is it running?")

    def repeat(self, run: str, config: Train) -> threading.Thread:
        """Announces again and again, for a broker that forgets."""
        return self._every(lambda: self.make(run, config))

    def watch(self, run: str, config: Train, changed: Callable[[], None]) -> threading.Thread:
        """Calls `changed` when another run has taken this one's place."""

        def look() -> None:
            if self.read(config) not in (None, run):
                changed()

        return self._every(look)

    def _every(self, what: Callable[[], None]) -> threading.Thread:
        def again() -> None:
            while True:
                try:
                    what()
                except (*self._link.away, self._link.redis.RedisError):
                    pass  # it will be there again
                except PlaymillError as error:
                    print(f"playmill: {error}", flush=True)
                time.sleep(AGAIN_S)

        thread = threading.Thread(target=again, name="playmill-announcement", daemon=True)
        thread.start()
        return thread
