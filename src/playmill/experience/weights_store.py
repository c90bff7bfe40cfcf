"""Weights between hosts in any store that fsspec knows: file://, s3://, gs://, memory:// ...

    weights-00000042.safetensors   the blob
    weights.json                   {"version", "sha256", "size"} of the newest, written last

A store is slower than Redis and needs no broker. Blobs that are not the newest stay for a while, for
followers that are reading them.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import re
import time
from typing import NamedTuple

from playmill.experience.weights import (
    MOST_BYTES,
    BadWeights,
    Blob,
    Follower,
    NoWeights,
    Publisher,
    WeightsError,
    checked,
    fits,
    grows,
)

POINTER = "weights.json"
POINTER_BYTES = 4096
KEEP = 3
LOOK = 1.0
"""Seconds between two looks at the store."""
TRIES = 5

_BLOB = re.compile(r"weights-(\d{8,16})\.safetensors")


class _Pointer(NamedTuple):
    version: int
    sha256: bytes
    size: int


class _Folder:
    """A folder of a store; what goes wrong there says where."""

    def __init__(self, url: str) -> None:
        try:
            fsspec = importlib.import_module("fsspec")
        except ImportError:
            raise WeightsError("a store needs fsspec: pip install fsspec") from None
        self.url = url
        try:
            self.store, root = fsspec.core.url_to_fs(url, use_listings_cache=False)
        except (ImportError, ValueError, OSError) as error:
            raise WeightsError(f"{url} cannot be opened: {error}") from error
        self._root = root.rstrip("/")
        # Where a rename is one step it hides half-written files; elsewhere a file appears when it is whole.
        protocol = self.store.protocol
        self._renames = "file" in ((protocol,) if isinstance(protocol, str) else protocol)

    def path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def read(self, name: str, most: int) -> bytes | None:
        """Bytes of a file, at most one more than `most`; None where there is no such file."""
        try:
            return bytes(self.store.cat_file(self.path(name), start=0, end=most + 1))
        except FileNotFoundError:
            return None
        except Exception as error:
            raise WeightsError(f"{self.path(name)} cannot be read: {error}") from error

    def write(self, name: str, data: bytes) -> None:
        try:
            self.store.makedirs(self._root, exist_ok=True)
            if self._renames:
                beside = self.path(f".{name}.new")
                self.store.pipe_file(beside, data)
                self.store.mv(beside, self.path(name))
            else:
                self.store.pipe_file(self.path(name), data)
        except Exception as error:
            raise WeightsError(f"{self.path(name)} cannot be written: {error}") from error

    def versions(self) -> list[int]:
        try:
            found = (str(path).rsplit("/", 1)[-1] for path in self.store.ls(self._root, detail=False))
            return sorted(int(match[1]) for match in map(_BLOB.fullmatch, found) if match)
        except Exception as error:
            raise WeightsError(f"{self.url} cannot be listed: {error}") from error

    def pointer(self) -> _Pointer | None:
        raw = self.read(POINTER, POINTER_BYTES)
        if raw is None:
            return None
        try:
            found = json.loads(raw)
            pointer = _Pointer(found["version"], bytes.fromhex(found["sha256"]), found["size"])
            if type(pointer.version) is not int or type(pointer.size) is not int or pointer.version < 1:
                raise ValueError("numbers out of range")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            text = f"{self.path(POINTER)} was not written by Playmill ({error}); remove it"
            raise BadWeights(text) from error
        return pointer


def blob_name(version: int) -> str:
    return f"weights-{version:08d}.safetensors"


class StorePublisher(Publisher):
    """Writes blobs into a folder of a store, then the pointer."""

    def __init__(self, url: str, *, keep: int = KEEP, most_bytes: int = MOST_BYTES) -> None:
        if keep < 1:
            raise WeightsError(f"at least one version is kept, got {keep}")
        self._folder = _Folder(url)
        self._keep = keep
        self._most = most_bytes

    def newest(self) -> int:
        pointer = self._folder.pointer()
        return 0 if pointer is None else pointer.version

    def put(self, blob: Blob) -> None:
        fits(len(blob.data), self._most)
        grows(blob.version, self.newest())
        self._folder.write(blob_name(blob.version), bytes(blob.data))
        pointer = {"version": blob.version, "sha256": blob.sha256.hex(), "size": len(blob.data)}
        self._folder.write(POINTER, json.dumps(pointer).encode())
        self._clear(blob.version)

    def close(self) -> None:
        """Nothing is held."""

    def _clear(self, newest: int) -> None:
        old = [version for version in self._folder.versions() if version <= newest][: -self._keep]
        for version in old:
            # Another publisher may have been quicker; and what stays this time goes the next.
            with contextlib.suppress(Exception):
                self._folder.store.rm_file(self._folder.path(blob_name(version)))


class StoreFollower(Follower):
    """Looks at the pointer now and then."""

    def __init__(self, url: str, *, look: float = LOOK, most_bytes: int = MOST_BYTES) -> None:
        self._folder = _Folder(url)
        self._look = look
        self._most = most_bytes
        self._version = 0
        self._next_look = 0.0

    def newest(self) -> int:
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + self._look
            pointer = self._folder.pointer()
            if pointer is not None:
                self._version = max(self._version, pointer.version)
        return self._version

    def fetch_blob(self) -> Blob:
        for _ in range(TRIES):
            pointer = self._folder.pointer()
            if pointer is None:
                raise NoWeights(f"nothing was published at {self._folder.url} yet")
            fits(pointer.size, self._most)
            data = self._folder.read(blob_name(pointer.version), pointer.size)
            if data is not None:
                blob = checked(pointer.version, pointer.sha256, data)
                self._version = max(self._version, blob.version)
                return blob
        raise WeightsError(f"the newest weights are not at {self._folder.url}; publish again")

    def close(self) -> None:
        """Nothing is held."""
