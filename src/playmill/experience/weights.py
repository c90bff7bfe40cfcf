"""Weights with a version, from the learner to all actors.

A version is a *blob*: the tensors as safetensors, with the version and the moment of publishing in its
metadata, and the sha256 of all that. The bytes are the same wherever they lie: shared memory on a host
(weights_shared.py), Redis (weights_redis.py) or any fsspec store (weights_store.py) between hosts. Versions
are 1, 2, ... and only grow; numbers may be left out.
"""

from __future__ import annotations

import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from playmill.experience import weights_format
from playmill.experience.weights_format import Array, Draft, Tensors
from playmill.games import PlaymillError

MOST_BYTES = 512 << 20
"""The largest blob: what one value of Redis holds."""
MOST_VERSION = (1 << 53) - 1
"""Versions are exact in JSON, whoever reads it."""


class WeightsError(PlaymillError):
    """Weights that cannot be published or fetched now; the message says why."""


class WeightsAway(WeightsError):
    """The place of the weights cannot be reached now."""


class NoWeights(WeightsError):
    """Nothing was published there yet."""


class BadWeights(WeightsError):
    """Bytes that are not the weights they should be: damaged, or somebody else's."""


class Blob(NamedTuple):
    """One version as bytes. `published` is seconds since 1970."""

    version: int
    published: float
    sha256: bytes
    data: bytes | memoryview


class Publisher(ABC):
    """The learner's side; one at a time for each place."""

    @abstractmethod
    def newest(self) -> int:
        """The version published last, by whomever; 0 when there is none. A learner that takes another's
        place goes on after it."""

    @abstractmethod
    def put(self, blob: Blob) -> None:
        """Publishes bytes as they are. When it returns, followers find them."""

    @abstractmethod
    def close(self) -> None: ...

    def publish(self, version: int, tensors: Mapping[str, Array]) -> None:
        """Publishes a version that is newer than all before it. The arrays are copied."""
        self.put(pack(version, tensors))


class Follower(ABC):
    """An actor's side, or a relay's."""

    @abstractmethod
    def newest(self) -> int:
        """The newest version there is; 0 when there is none yet. Cheap enough to be asked between batches."""

    @abstractmethod
    def fetch_blob(self) -> Blob:
        """The newest version, whole and checked by its hash; NoWeights, BadWeights or WeightsError if not."""

    @abstractmethod
    def close(self) -> None: ...

    def fetch(self) -> tuple[int, Tensors]:
        """The newest version and its arrays, which are the caller's own."""
        blob = self.fetch_blob()
        return blob.version, unpack(blob)


def prepare(version: int, tensors: Mapping[str, Array]) -> tuple[float, Draft]:
    """The moment, and what is to be written."""
    if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= MOST_VERSION:
        raise WeightsError(f"a version is a whole number from 1 to {MOST_VERSION}, got {version!r}")
    if not tensors:
        raise WeightsError("there are no tensors to publish")
    published = time.time()
    try:
        notes = {"version": str(version), "published": repr(published)}
        return published, weights_format.draft(tensors, notes)
    except ValueError as error:
        raise WeightsError(f"{error} cannot be published; give names and arrays of plain numbers") from None


def pack(version: int, tensors: Mapping[str, Array]) -> Blob:
    """A version as a blob, published now."""
    published, draft = prepare(version, tensors)
    fits(draft.size, MOST_BYTES)
    data = np.empty(draft.size, np.uint8).data
    draft.write(data)
    return Blob(version, published, hashlib.sha256(data).digest(), data)


def checked(version: int, sha256: bytes, data: bytes | memoryview) -> Blob:
    """The blob of these bytes, if they have this hash and hold this version."""
    if hashlib.sha256(data).digest() != sha256:
        raise BadWeights(
            f"the bytes of weights version {version} do not have their sha256: damaged on the way"
        )
    try:
        notes = weights_format.read_notes(memoryview(data))
        blob = Blob(int(notes["version"]), float(notes["published"]), sha256, data)
    except (ValueError, KeyError, TypeError) as error:
        raise BadWeights(f"what lies there as version {version} was not published by Playmill") from error
    if blob.version != version:
        raise BadWeights(f"what lies there as version {version} is version {blob.version}")
    return blob


def unpack(blob: Blob) -> Tensors:
    """The arrays of a blob, writable and the caller's own: in its memory, where that can be written."""
    data = memoryview(blob.data)
    if data.readonly:
        own = np.empty(len(data), np.uint8)
        own[:] = data
        data = own.data
    try:
        return weights_format.read(data)
    except ValueError as error:
        raise BadWeights(f"weights version {blob.version} is not safetensors: {error}") from error


def fits(size: int, most: int) -> None:
    """Refuses more bytes than may be."""
    if size > most:
        raise WeightsError(f"the weights have {size:,} bytes, at most {most:,} are taken; raise the limit")


def grows(version: int, newest: int) -> None:
    """Refuses a version that is not newer than all before."""
    if version <= newest:
        text = f"version {version} cannot be published after {newest}; go on with {newest + 1}"
        raise WeightsError(text)
