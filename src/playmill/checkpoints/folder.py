"""One checkpoint: a folder that is complete or is not there.

    step-000000001234/
      weights.safetensors   the tensors
      meta.json             everything that is not a tensor
      <blob>                bytes the caller names (a pool's snapshot, a generator's state)
      manifest.json         format version, size and sha256 of each file, and a checksum of itself

A new folder is written beside its place under a hidden name, flushed to the disk, and renamed.
Replacing a folder takes two renames; a crash between them leaves the old one under `aside(folder)`,
where `read` still finds it and `clean` puts it back.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import safetensors.torch
import torch

# Any: a recursive JSON type would make every reader cast each level.
JSON: TypeAlias = Any

FORMAT = 1
WEIGHTS = "weights.safetensors"
META = "meta.json"
MANIFEST = "manifest.json"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
NO_BLOBS: Mapping[str, bytes] = MappingProxyType({})


class CheckpointError(Exception):
    """A folder is no valid checkpoint, or cannot become one. The message names file and reason."""


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint folder holds; tensors are on the CPU."""

    tensors: dict[str, torch.Tensor]
    meta: dict[str, JSON]
    blobs: dict[str, bytes]


def write(
    folder: Path,
    tensors: Mapping[str, torch.Tensor],
    meta: Mapping[str, JSON],
    blobs: Mapping[str, bytes] = NO_BLOBS,
) -> None:
    """Writes a checkpoint so that a crash at any moment leaves the old folder or the new one."""
    files = _encode(tensors, meta, blobs)
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = folder.parent / f".{folder.name}.new-{secrets.token_hex(4)}"
    try:
        beside.mkdir()
        for name, content in files.items():
            write_durably(beside / name, content)
        sync_folder(beside)
        _swap_in(beside, folder)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def read(folder: Path) -> Checkpoint:
    """Reads a checkpoint after checking format, names, sizes and hashes."""
    folder = _where(folder)
    # The bytes that were hashed are the bytes that are parsed: no second look at the disk.
    files = {name: _checked(folder / name, entry) for name, entry in _manifest(folder).items()}
    try:
        tensors = safetensors.torch.load(files.pop(WEIGHTS))
        meta = json.loads(files.pop(META))
    except Exception as error:
        raise CheckpointError(f"{folder}: hashes match but the content does not parse: {error}") from error
    return Checkpoint({name: tensors[name] for name in sorted(tensors)}, meta, files)


def verify(folder: Path) -> None:
    """Raises CheckpointError unless every file is there, whole and unchanged."""
    folder = _where(folder)
    for name, entry in _manifest(folder).items():
        _checked(folder / name, entry)


def fingerprint(tensors: Mapping[str, torch.Tensor]) -> str:
    """One sha256 over names, dtypes, shapes and bytes; the order of the mapping does not matter."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        head = json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode()
        digest.update(len(head).to_bytes(8, "little") + head)
        # Of one element, a stride other than 1 is contiguous too.
        flat = tensor.reshape(-1).clone(memory_format=torch.contiguous_format)
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def clean(parent: Path) -> None:
    """Removes what crashed writers left in `parent`. Call it only where nobody else is writing."""
    if not parent.is_dir():
        return
    for entry in sorted(parent.iterdir()):
        found = re.fullmatch(r"\.(.+)\.(old|new-[0-9a-f]{8}|gone-[0-9a-f]{8}|tmp)", entry.name)
        if not found:
            continue
        place = parent / found[1]
        if found[2] == "old" and not place.exists():
            entry.rename(place)
            sync_folder(parent)
        elif entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def remove(folder: Path) -> None:
    """Removes a checkpoint; it disappears whole, so a crash never leaves half of one in its place."""
    gone = folder.parent / f".{folder.name}.gone-{secrets.token_hex(4)}"
    folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)
    shutil.rmtree(aside(folder), ignore_errors=True)


def aside(folder: Path) -> Path:
    """Where the old folder waits while a new one takes its place."""
    return folder.parent / f".{folder.name}.old"


def write_durably(path: Path, content: bytes) -> None:
    """Writes a file and waits until the disk has it."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace_durably(path: Path, content: bytes) -> None:
    """Replaces a file in one step; readers see the old content or the new."""
    beside = path.parent / f".{path.name}.tmp"
    try:
        write_durably(beside, content)
        beside.replace(path)
        sync_folder(path.parent)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """A rename is only durable once the folder that holds the names is on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _encode(
    tensors: Mapping[str, torch.Tensor], meta: Mapping[str, JSON], blobs: Mapping[str, bytes]
) -> dict[str, bytes]:
    for name in blobs:
        if not _NAME.fullmatch(name) or name in (WEIGHTS, META, MANIFEST):
            raise CheckpointError(f"{name!r} cannot name a file of a checkpoint")
    try:
        text = json.dumps(dict(meta), indent=1, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{META}: {error}") from error
    files = {WEIGHTS: safetensors.torch.save(_own_memory(tensors)), META: text.encode(), **blobs}
    body = {
        "format": FORMAT,
        "files": {
            name: {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
            for name, content in files.items()
        },
    }
    return {**files, MANIFEST: _seal(body)}


def _own_memory(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """safetensors refuses tensors that share storage (tied weights, views): those are copied."""
    ready: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        own = tensor.detach().cpu().contiguous()
        storage = own.untyped_storage()
        if storage.data_ptr() in seen or storage.nbytes() != own.numel() * own.element_size():
            own = own.clone()
        seen.add(own.untyped_storage().data_ptr())
        ready[name] = own
    return ready


def _seal(body: dict[str, JSON]) -> bytes:
    plain = {key: body[key] for key in ("format", "files")}
    checksum = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
    return (json.dumps({**plain, "checksum": checksum}, indent=1, sort_keys=True) + "\n").encode()


def _swap_in(beside: Path, folder: Path) -> None:
    old = aside(folder)
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
    try:
        beside.rename(folder)
    except OSError:
        if old.exists() and not folder.exists():
            old.rename(folder)
        raise
    sync_folder(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def _where(folder: Path) -> Path:
    return aside(folder) if not folder.exists() and aside(folder).exists() else folder


def _manifest(folder: Path) -> dict[str, dict[str, JSON]]:
    """The manifest's files, once its format, checksum and names are found good."""
    path = folder / MANIFEST
    try:
        raw = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise CheckpointError(f"{folder} is not a checkpoint: it has no {MANIFEST}") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from error
    try:
        body = json.loads(raw)
        version, files = body["format"], body["files"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CheckpointError(f"{path}: truncated or damaged, it does not parse") from None
    if version != FORMAT:
        hint = "; a newer Playmill wrote it" if isinstance(version, int) and version > FORMAT else ""
        raise CheckpointError(f"{path}: format {version!r}, this Playmill reads {FORMAT}{hint}")
    if raw != _seal(body):
        raise CheckpointError(f"{path}: damaged, its checksum does not match")
    _check_entries(path, files)
    return dict(files)


def _check_entries(path: Path, files: JSON) -> None:
    if not isinstance(files, dict) or not {WEIGHTS, META} <= set(files):
        raise CheckpointError(f"{path}: does not list {WEIGHTS} and {META}")
    for name, entry in files.items():
        if not _NAME.fullmatch(name) or name == MANIFEST:
            raise CheckpointError(f"{path}: unsafe file name {name!r}")
        if not isinstance(entry, dict) or set(entry) != {"sha256", "size"}:
            raise CheckpointError(f"{path}: the entry of {name} is malformed")


def _checked(path: Path, entry: dict[str, JSON]) -> bytes:
    try:
        size = path.stat().st_size
        if size != entry["size"]:
            kind = "truncated" if size < entry["size"] else "too long"
            raise CheckpointError(f"{path}: {kind}, {size} bytes instead of {entry['size']}")
        content = path.read_bytes()
    except FileNotFoundError:
        raise CheckpointError(f"{path}: missing, though the manifest lists it") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from error
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        raise CheckpointError(f"{path}: hash mismatch, the content was changed")
    return content
