"""Units and manifests, written into a folder for others to start."""

from __future__ import annotations

import json
from pathlib import Path

from playmill.games import PlaymillError
from playmill.launch.cluster import Cluster
from playmill.launch.kubernetes import manifests
from playmill.launch.systemd import units
from playmill.training.config import to_dict


def render(cluster: Cluster, folder: Path) -> list[Path]:
    """The files that were written; there is no secret in them."""
    if cluster.by == "systemd":
        files = {f"{cluster.name}.json": json.dumps(to_dict(cluster), indent=1) + "\n", **units(cluster)}
    elif cluster.by == "kubernetes":
        files = manifests(cluster)
    else:
        raise PlaymillError(
            f"by = {cluster.by!r} is started by launch itself; --render is for systemd and kubernetes"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return [folder / name for name in files]
