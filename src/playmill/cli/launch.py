"""`playmill launch`, and what it starts on machines: `join` (one role) and `agent` (all of a machine)."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Annotated, Literal

import tyro

from playmill.cli.process import end_with_parent
from playmill.cli.roles import actor_command, policy_command, stopped_by_signal
from playmill.cli.train import train_command
from playmill.games import PlaymillError
from playmill.launch.agent import Leash, attend
from playmill.launch.announcement import Announcement
from playmill.launch.cluster import Cluster, read_cluster
from playmill.launch.crew import NOTICED
from playmill.launch.local import launch, stop
from playmill.launch.notice import watch
from playmill.launch.plan import plan_lines
from playmill.launch.render import render as write_rendered
from playmill.launch.secret import find_password, write_private
from playmill.training.config import Train, to_dict
from playmill.training.exchange import ID_FILE, PASSWORD, run_id
from playmill.training.runs import CHANGEABLE, create_run, read_config, write_json

File = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="CLUSTER")]
ANNOUNCED_WITHIN_S = 300.0
PLACING = ("assigned", "assignment", "ahead", "assigned_name")
"""Settings of actors that say nothing of what is learnt: they may change with the cluster."""


def launch_command(
    cluster: File,
    plan: bool = False,
    render: Path | None = None,
    end: Annotated[bool, tyro.conf.arg(name="stop")] = False,
) -> None:
    """Train on several machines: broker, learner, actors, evaluator, placed as one file says.

    Args:
        cluster: The file, in TOML.
        plan: Print what would be started where, and start nothing.
        render: Write units or manifests into this folder (by systemd or kubernetes), and start nothing.
        end: End the cluster that was launched with this file from this machine.
    """
    found = read_cluster(cluster)
    if plan:
        print("\n".join(plan_lines(found)))
    elif render is not None:
        print("\n".join(str(file) for file in write_rendered(found, render)))
    elif found.by in ("systemd", "kubernetes"):
        raise PlaymillError(
            f"by = {found.by!r}: write the files with --render FOLDER; docs/launch.md says the rest"
        )
    elif end:
        print(f"{found.name} has ended" if stop(found) else f"{found.name} is not running here")
    else:
        stopped = stopped_by_signal(0)
        print("\n".join(plan_lines(found)), flush=True)
        print(f"logs    {found.own_folder / 'logs'}", flush=True)
        why = launch(found, stopped, lambda text: print(text, flush=True))
        print(_ENDINGS[why])


_ENDINGS = {
    "done": "The run is done.",
    "stopped": "Stopped; the same command goes on from the last checkpoint.",
    "notice": "The machine is about to be taken away; the run is saved. The same command goes on elsewhere.",
}


def join_command(
    cluster: File,
    role: tyro.conf.Positional[Literal["learner", "evaluator", "policy", "actor"]],
    number: int = 0,
    password_file: Path | None = None,
    parent: int = 0,
    alive: Path | None = None,
) -> None:
    """Take part in a cluster, as one role; `playmill launch`, units and pods start this.

    Args:
        cluster: The cluster's file.
        role: Which part this process takes.
        number: Which actor this is; no two at one time have the same.
        password_file: Where the broker's password stands, if not in PLAYMILL_REDIS_PASSWORD.
        parent: Ends with that process.
        alive: Touch this file once a second, for those who restart what hangs.
    """
    if parent:
        end_with_parent()
        if os.getppid() != parent:
            return  # it was gone before we could ask
    found = read_cluster(cluster)
    os.environ[PASSWORD] = find_password(found, password_file)
    noticed: list[bool] = []

    def told() -> None:
        print("notice: this machine is about to be taken away", flush=True)
        noticed.append(True)
        os.kill(os.getpid(), signal.SIGTERM)

    watch(found.notice, told)
    if role == "learner":
        _learn(found, alive)
    elif role == "evaluator":
        _evaluate(found, alive)
    else:
        folder = _joined(found)
        if role == "policy":
            policy_command(folder, parent, alive)
        else:
            actor_command(folder, number, parent, alive)
    if noticed:
        raise SystemExit(NOTICED)


def agent_command() -> None:
    """Run a machine's part of a cluster; `playmill launch` starts this over ssh and says what to do."""
    raise SystemExit(attend(Leash(sys.stdin.fileno()), stopped_by_signal(0)))


def _announcement(cluster: Cluster) -> Announcement:
    return Announcement(cluster.broker.url, cluster.name, os.environ[PASSWORD])


def _learn(cluster: Cluster, alive: Path | None) -> None:
    """The run is made the first time, and gone on with ever after."""
    folder, config = cluster.run_folder, cluster.train
    if (folder / "config.json").exists():
        _renew(folder, config, "threads" in cluster.run)
    else:
        folder.parent.mkdir(parents=True, exist_ok=True)
        create_run(folder, config).release()
    _announcement(cluster).repeat(run_id(folder), config)
    train_command(["--resume", str(folder), "--plain", *_alive(alive)])


def _renew(folder: Path, config: Train, threads: bool) -> None:
    """Takes over what may change; refuses the rest."""
    old = read_config(folder)
    placing = {name: getattr(config.actors, name) for name in PLACING}
    kept = dataclasses.replace(old, actors=dataclasses.replace(old.actors, **placing))
    if not threads:
        config = dataclasses.replace(config, threads=old.threads)
    for field in dataclasses.fields(Train):
        if field.name not in CHANGEABLE and getattr(kept, field.name) != getattr(config, field.name):
            raise PlaymillError(
                f"{folder} was begun with another run.{field.name}; give the cluster another name"
            )
    if config != old:
        write_json(folder / "config.json", to_dict(config))


def _joined(cluster: Cluster) -> Path:
    """A folder for the run that is announced: its settings, its id, and room for what its actors keep."""
    config, announcement = cluster.train, _announcement(cluster)
    run = announcement.await_run(config, ANNOUNCED_WITHIN_S)
    folder = cluster.own_folder / "actors" / run
    folder.mkdir(parents=True, exist_ok=True)
    write_private(folder / "config.json", json.dumps(to_dict(config), indent=2))
    write_private(folder / ID_FILE, f"{run}\n")
    announcement.watch(run, config, lambda: os.kill(os.getpid(), signal.SIGTERM))
    return folder


def _evaluate(cluster: Cluster, alive: Path | None) -> None:
    """Beside the learner, as soon as its run is there."""
    folder = cluster.run_folder
    while not (folder / "config.json").exists():
        time.sleep(0.25)
    words = ["playmill", "evaluator", str(folder), *_alive(alive)]
    os.execv(sys.executable, [sys.executable, "-m", *words])


def _alive(file: Path | None) -> list[str]:
    return [] if file is None else ["--alive", str(file)]
