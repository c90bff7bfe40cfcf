"""Names from a cluster file, checked before they reach a path, a key, a unit or a shell; and the one place
where words are quoted for a shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath
from urllib.parse import parse_qsl, urlsplit

from playmill.games import PlaymillError

NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", re.ASCII)
USER = re.compile(r"[a-z_][a-z0-9_.-]{0,31}", re.ASCII)
HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|[0-9A-Fa-f:]{2,39}", re.ASCII)
PATH = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+@=,-]{0,254}", re.ASCII)
IMAGE = re.compile(r"[a-z0-9][a-z0-9._/:@-]{0,254}", re.ASCII)
QUANTITY = re.compile(r"[0-9]{1,9}(\.[0-9]{1,3})?(m|k|Ki|M|Mi|G|Gi|T|Ti)?", re.ASCII)


def check_name(name: str, what: str) -> str:
    """Of clusters and hosts: it becomes part of keys, files, units and objects of Kubernetes."""
    if NAME.fullmatch(name) is None:
        raise PlaymillError(
            f"{what} {name!r}: use 1 to 40 small letters, digits and -, no - at the beginning or the end"
        )
    return name


def check_user(user: str, what: str) -> str:
    if USER.fullmatch(user) is None:
        raise PlaymillError(f"{what} {user!r} is no name of a user: small letters, digits, _ . and -")
    return user


def check_host(host: str, what: str) -> str:
    if HOST.fullmatch(host) is None or ".." in host:
        raise PlaymillError(f"{what} {host!r} is no host: give a name or an IP address")
    return host


def check_path(path: str, what: str) -> str:
    if PATH.fullmatch(path) is None or ".." in PurePosixPath(path).parts:
        raise PlaymillError(
            f"{what} {path!r}: use letters, digits and _ . / + @ = , - in a path; no spaces, no .., "
            "no - at the beginning"
        )
    return path


def check_image(image: str, what: str) -> str:
    if IMAGE.fullmatch(image) is None or ".." in image:
        raise PlaymillError(f"{what} {image!r} is no image; give it as registry/name:tag")
    return image


def check_quantity(amount: str, what: str) -> str:
    if QUANTITY.fullmatch(amount) is None:
        raise PlaymillError(f"{what} {amount!r} is no amount; give it as 500m, 2 or 4Gi")
    return amount


def check_broker(url: str, what: str) -> str:
    """An address of Redis without a password; that comes another way."""
    parts = urlsplit(url)
    if parts.scheme not in ("redis", "rediss") or not url.startswith(f"{parts.scheme}://"):
        raise PlaymillError(f"{what} {url!r}: give redis://HOST:PORT/0, or rediss:// (TLS) beyond loopback")
    if "@" in parts.netloc or parts.password is not None:
        raise PlaymillError(
            f"{what} must have no password in it: set PLAYMILL_REDIS_PASSWORD, or broker.password_file"
        )
    check_host(parts.hostname or "", f"{what}: the host")
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0 or re.fullmatch(r"(/[0-9]{0,4})?", parts.path, re.ASCII) is None or parts.fragment:
        raise PlaymillError(f"{what} {url!r}: behind the host come a port from 1 to 65535 and /0")
    query = parse_qsl(parts.query, keep_blank_values=True)
    if any(name != "ssl_ca_certs" for name, _ in query) or re.search(r"[%+\s]", parts.query):
        raise PlaymillError(f"{what} {url!r}: the only option is ?ssl_ca_certs=FILE")
    for _, path in query:
        check_path(path, f"{what}: ssl_ca_certs")
    if re.search(r"\s", url):
        raise PlaymillError(f"{what} {url!r} has spaces or line breaks in it")
    return url


def quoted(words: Sequence[str]) -> str:
    """Words as one command line of a POSIX shell: each stays one word and means nothing else. Everything
    that reaches a shell goes through here."""
    for word in words:
        if "\0" in word or "\n" in word or "\r" in word:
            raise PlaymillError(f"{word!r} cannot be part of a command: it has a line break or a NUL in it")
    return shlex.join(words)
