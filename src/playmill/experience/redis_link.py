"""The way to a Redis broker, for those who have the password and no others."""

from __future__ import annotations

import importlib
import ipaddress
import stat
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playmill.experience.segment import check_run
from playmill.games import PlaymillError

READ = 64 << 10
CONNECT, ANSWER = 1.0, 5.0
"""Seconds until a broker that does not take a connection, or does not answer, counts as away."""


def redis_py() -> ModuleType:
    try:
        return importlib.import_module("redis")
    except ImportError:
        raise PlaymillError("Redis needs its client: pip install 'playmill[redis]'") from None


def key(run: str, name: str) -> str:
    """A key of a run; the braces keep all of them together in a cluster."""
    return f"playmill:{{{check_run(run)}}}:{name}"


class Link:
    """A client of one broker. Nothing is sent before the address is known to be safe, and nothing of ours
    before the broker was seen to turn away those without the password."""

    def __init__(self, url: str, password: str | None = None, tries: int = 0, read_bytes: int = READ) -> None:
        """`tries`: how often a command is tried again at once, where a connection is gone. `read_bytes`:
        taken from the socket at once, more by those who get long replies."""
        self.redis = redis_py()
        self.away: tuple[type[Exception], ...] = (self.redis.ConnectionError, self.redis.TimeoutError)
        self.answer = ANSWER
        self._socket = _check_address(url, password)
        options: dict[str, Any] = {"protocol": 2, "retry": self._retry(tries)}
        options |= {"socket_timeout": self.answer, "socket_connect_timeout": CONNECT}
        options["socket_read_size"] = read_bytes
        if password:
            options["password"] = password
        try:
            self._client = self.redis.Redis.from_url(url, **options)
        except ValueError as error:
            raise PlaymillError(f"the address of the broker is wrong: {error}") from None
        self._trusted = False

    def _retry(self, tries: int) -> Any:
        """Longer waits are for those who know what was asked."""
        retry = importlib.import_module("redis.retry")
        return retry.Retry(importlib.import_module("redis.backoff").NoBackoff(), tries)

    def client(self) -> Any:
        """The client, or one of `away` where the broker cannot be reached."""
        if not self._trusted:
            self._check_broker()
            self._trusted = True
        return self._client

    def connection(self) -> Any:
        """A connection of one's own, for who reads replies later."""
        pool = self.client().connection_pool
        connection = pool.connection_class(**pool.connection_kwargs)
        connection.connect()
        return connection

    def close(self) -> None:
        self._client.close()

    def _check_broker(self) -> None:
        # Strangers first: then the password is not shown to a broker that wants none.
        if not self._closed_to_others() and self._lets_strangers_in():
            raise PlaymillError("this Redis lets everybody in: set `requirepass` there and give the password")
        try:
            self._client.ping()
        except self.redis.AuthenticationError:
            raise PlaymillError(
                "the broker does not take this password; give the one it was started with"
            ) from None

    def _closed_to_others(self) -> bool:
        """Whether it is reached at a unix socket that is not everybody's."""
        if self._socket is None:
            return False
        try:
            return stat.S_IMODE(self._socket.stat().st_mode) & 0o007 == 0
        except OSError:
            return False  # it is not there, which the first command finds out

    def _lets_strangers_in(self) -> bool:
        """Whether the broker answers without a password; where it has none, it takes any."""
        pool = self._client.connection_pool
        options = {k: v for k, v in pool.connection_kwargs.items() if k not in ("username", "password")}
        stranger = self.redis.ConnectionPool(connection_class=pool.connection_class, **options)
        try:
            return bool(self.redis.Redis(connection_pool=stranger).ping())
        except (self.redis.AuthenticationError, self.redis.ResponseError):
            return False
        finally:
            stranger.disconnect()


def _check_address(url: str, password: str | None) -> Path | None:
    """Refuses what would show experience or the password to strangers; the path of a unix socket."""
    parts = urlsplit(url)
    if parts.scheme not in ("redis", "rediss", "unix"):
        raise PlaymillError("the broker's address begins with redis://, rediss:// (TLS) or unix://")
    if parts.scheme == "unix":
        return Path(parts.path)
    query = parse_qs(parts.query)
    if not (password or parts.password or "password" in query):
        raise PlaymillError("Redis without a password is open to everybody: set `requirepass`, give it here")
    if parts.scheme == "redis" and not _loopback(parts.hostname or ""):
        raise PlaymillError(
            f"{parts.hostname} is another host: use rediss:// (TLS), or a tunnel to 127.0.0.1"
        )
    if query.get("ssl_cert_reqs", ["required"]) != ["required"]:
        raise PlaymillError(
            "TLS without a check of the certificate protects nothing: leave out ssl_cert_reqs"
        )
    return None


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
