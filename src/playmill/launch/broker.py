"""A redis-server that launch starts on its own machine."""

from __future__ import annotations

import shutil

from playmill.experience.redis_link import Link
from playmill.games import PlaymillError
from playmill.launch.cluster import Cluster
from playmill.launch.secret import private_folder, write_private


def broker_command(cluster: Cluster, password: str) -> list[str]:
    """Writes its settings, for this user's eyes alone, and says how it is started. It ends with launch."""
    for program in ("redis-server", "setpriv"):
        if shutil.which(program) is None:
            raise PlaymillError(
                f"broker.start needs {program} (Debian: apt-get install redis-server util-linux); "
                "or start Redis elsewhere and set broker.url"
            )
    folder = private_folder(cluster.own_folder / "redis")
    settings = {
        "bind": "127.0.0.1",
        "port": cluster.broker.port,
        "requirepass": password,
        "dir": folder.resolve(),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": '""',
        "maxmemory": f"{cluster.broker.memory_mb}mb",
        "maxmemory-policy": "noeviction",
    }
    file = folder / "redis.conf"
    write_private(file, "".join(f"{name} {value}\n" for name, value in settings.items()))
    return ["setpriv", "--pdeathsig", "TERM", "redis-server", str(file.resolve())]


def check_broker_there(cluster: Cluster, password: str) -> None:
    """Refuses a broker that cannot be reached, or must not be used, before anything is started."""
    link = Link(cluster.broker.url, password)
    try:
        link.client()
    except link.away as error:
        raise PlaymillError(
            f"no Redis at {cluster.broker.url} ({error}); start it, or set broker.start = true"
        ) from None
    finally:
        link.close()
