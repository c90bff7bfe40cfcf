"""The way of weights to a Redis broker, for those who have its password and no others."""

from __future__ import annotations

import contextlib
import importlib
import ipaddress
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playmill.experience.weights import WeightsAway, WeightsError

TIMEOUT = 10.0


def connect(url: str, password: str | None = None) -> Any:
    """A client of the broker at redis://, rediss:// (TLS) or unix://, which must want a password."""
    try:
        redis = importlib.import_module("redis")
    except ImportError:
        raise WeightsError("Redis needs its client: pip install 'playmill[redis]'") from None
    _check(url, password)
    # One more try, for a connection that a restart of the broker left behind; longer waits are the caller's.
    again = redis.retry.Retry(redis.backoff.NoBackoff(), 1)
    options: dict[str, Any] = {"socket_timeout": TIMEOUT, "socket_connect_timeout": TIMEOUT, "retry": again}
    if password:
        options["password"] = password
    with Told(redis):
        try:
            client = redis.Redis.from_url(url, **options)
        except ValueError as error:
            raise WeightsError(f"the address of Redis is wrong: {error}") from None
        # Strangers first: then the password is not shown to a broker that wants none.
        if _open_to_all(redis, client):
            raise WeightsError("this Redis lets everybody in without the password; set requirepass there")
        client.ping()
    return client


def _check(url: str, password: str | None) -> None:
    """Refuses what would show weights or the password to strangers."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    if parts.scheme not in ("redis", "rediss", "unix"):
        raise WeightsError(f"{parts.scheme}:// is no address of Redis; give redis://, rediss:// or unix://")
    if not (password or parts.password or "password" in query):
        raise WeightsError(
            "Redis without a password is open to everybody; set requirepass there and give the password"
        )
    if parts.scheme == "redis" and not _loopback(parts.hostname or "localhost"):
        raise WeightsError(f"{parts.hostname} is another host: use rediss:// (TLS), or a tunnel to 127.0.0.1")
    if query.get("ssl_cert_reqs", ["required"]) != ["required"]:
        raise WeightsError("TLS without a check of the certificate protects nothing: leave out ssl_cert_reqs")


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _open_to_all(redis: Any, client: Any) -> bool:
    """Whether the broker also answers who gives no password: where none is set, it takes any."""
    pool = client.connection_pool
    options = {k: v for k, v in pool.connection_kwargs.items() if k not in ("username", "password")}
    stranger = redis.ConnectionPool(connection_class=pool.connection_class, **options)
    try:
        return bool(redis.Redis(connection_pool=stranger).ping())
    except (redis.AuthenticationError, redis.ResponseError):
        return False
    finally:
        stranger.disconnect()


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
