"""The way of weights to a Redis broker: that of experience, in words about weights."""

from __future__ import annotations

import contextlib
from typing import Any

from playmill.experience.redis_link import Link
from playmill.experience.weights import WeightsAway, WeightsError
from playmill.games import PlaymillError


def connect(url: str, password: str | None = None) -> Any:
    """A client of the broker at redis://, rediss:// (TLS) or unix://, which must want a password."""
    try:
        # Once more, for a connection that a restart of the broker left behind; longer waits are the caller's.
        link = Link(url, password, tries=1)
        with Told(link.redis):
            return link.client()
    except WeightsError:
        raise
    except PlaymillError as error:
        raise WeightsError(str(error)) from None


class Told(contextlib.AbstractContextManager[None]):
    """Turns what the client raises into a line that says what to do."""

    def __init__(self, redis: Any) -> None:
        self._redis = redis

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if not isinstance(error, self._redis.RedisError):
            return
        if isinstance(error, self._redis.AuthenticationError):
            text = f"Redis refuses the password ({error}); give the one that requirepass sets there"
        elif isinstance(error, self._redis.ConnectionError | self._redis.TimeoutError):
            raise WeightsAway(f"Redis is away ({error}); is it running?") from error
        else:
            text = f"Redis refuses: {error}"
        raise WeightsError(text) from error
