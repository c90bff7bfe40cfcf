"""Where weights lie, in one setting.

shared                 shared memory of this host, under the run's name; shared:/path for another file
redis://:PASSWORD@HOST redis, rediss (TLS) and unix addresses
s3://bucket/folder     and any other address of fsspec (file://, gs://, memory:// ...)
"""

from __future__ import annotations

from pathlib import Path

from playmill.experience.weights import MOST_BYTES, Follower, Publisher, WeightsError
from playmill.experience.weights_redis import RedisFollower, RedisPublisher
from playmill.experience.weights_shared import SharedFollower, SharedPublisher, shared_path
from playmill.experience.weights_store import StoreFollower, StorePublisher


def open_publisher(
    where: str, run: str, password: str | None = None, most_bytes: int = MOST_BYTES
) -> Publisher:
    kind = _kind(where)
    if kind == "shared":
        return SharedPublisher(_path(where, run), most_bytes)
    if kind == "redis":
        return RedisPublisher(where, run, password=password, most_bytes=most_bytes)
    return StorePublisher(where, most_bytes=most_bytes)


def open_follower(
    where: str, run: str, password: str | None = None, most_bytes: int = MOST_BYTES
) -> Follower:
    kind = _kind(where)
    if kind == "shared":
        return SharedFollower(_path(where, run), most_bytes)
    if kind == "redis":
        return RedisFollower(where, run, password=password, most_bytes=most_bytes)
    return StoreFollower(where, most_bytes=most_bytes)


def _kind(where: str) -> str:
    scheme, colon, _ = where.partition(":")
    if scheme == "shared":
        return "shared"
    if not colon or "://" not in where:
        raise WeightsError(
            f"{where!r} is no place for weights; give shared, shared:/path, redis://... or s3://..."
        )
    return "redis" if scheme in ("redis", "rediss", "unix") else "store"


def _path(where: str, run: str) -> Path:
    path = where.partition(":")[2]
    return Path(path) if path else shared_path(run)
