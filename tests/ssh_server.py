"""A real sshd on a free port of this host, with keys of its own; where there is none, the test is left out,
but never by the CI."""

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.broker import free_port

SETTINGS = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
AllowTcpForwarding yes
"""


@contextlib.contextmanager
def running_sshd(folder):
    """Its port, a key it takes, the known_hosts that fits, and a program `playmill` at the far end."""
    sshd = shutil.which("sshd") or "/usr/sbin/sshd"
    if not Path(sshd).exists() and not os.environ.get("CI"):
        pytest.skip("sshd is not installed")
    for name in ("host_key", "key", "other_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    shutil.copy(folder / "key.pub", folder / "authorized_keys")
    port = free_port()
    (folder / "sshd_config").write_text(SETTINGS.format(port=port, folder=folder))
    known = folder / "known_hosts"
    kind, key, *_ = (folder / "host_key.pub").read_text().split()
    known.write_text(f"[127.0.0.1]:{port} {kind} {key}\n")
    program = folder / "playmill"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m playmill "$@"\n')
    program.chmod(0o755)
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    with (folder / "sshd.log").open("wb") as log:
        server = subprocess.Popen([sshd, "-D", "-e", "-f", folder / "sshd_config"], stderr=log)
    try:
        _await(port, server, folder)
        yield SimpleNamespace(port=port, folder=folder, user=getpass.getuser(), known_hosts=known)
    finally:
        server.kill()
        server.wait()


def _await(port, server, folder):
    until = time.monotonic() + 10
    while time.monotonic() < until and server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    raise AssertionError((folder / "sshd.log").read_text())
