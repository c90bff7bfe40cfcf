"""The broker's password: from the environment or a file, never from a command line."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from playmill.games import PlaymillError
from playmill.training.exchange import PASSWORD
from playmill.training.secret_file import read_secret

if TYPE_CHECKING:
    from playmill.launch.cluster import Cluster


def find_password(cluster: Cluster, file: Path | None = None) -> str:
    """From the variable, `file`, the cluster's file or, for a broker that launch starts, one that is made
    once and kept."""
    given = os.environ.get(PASSWORD, "")
    named = file or (Path(cluster.broker.password_file) if cluster.broker.password_file else None)
    if given:
        return _checked(given, PASSWORD)
    if named is not None:
        return _checked(read_secret(named, "the broker's password"), str(named))
    if cluster.broker.start:
        return _checked(_kept(cluster.own_folder / "password"), "the password kept")
    raise PlaymillError(
        f"the broker's password is missing: set {PASSWORD}, or broker.password_file to a file that has it"
    )


def private_folder(path: Path) -> Path:
    """Made if need be, for this user alone."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.stat().st_uid != os.getuid():
        raise PlaymillError(f"{path} belongs to another user; name another folder")
    path.chmod(0o700)
    return path


def write_private(path: Path, text: str) -> None:
    """Whole or not at all, and for nobody else's eyes."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)
    beside.replace(path)


def _kept(path: Path) -> str:
    if not path.exists():
        private_folder(path.parent)
        write_private(path, secrets.token_hex(32) + "\n")
    return read_secret(path, "the broker's password")


def _checked(password: str, where: str) -> str:
    """It is written into a line of redis.conf and of stdin."""
    if not 8 <= len(password) <= 512 or not all(
        "!" <= sign <= "~" and sign not in "\"'\\" for sign in password
    ):
        raise PlaymillError(
            f"{where}: a password has 8 to 512 letters, digits and signs, no spaces, quotes or backslashes"
        )
    return password
