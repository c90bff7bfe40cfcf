"""`playmill serve`: games for clients in other processes, on this host or beyond."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from playmill.cli.arguments import parse_arguments
from playmill.games import PlaymillError
from playmill.serving.limits import Limits

if TYPE_CHECKING:
    from playmill.serving.server import Settings


@dataclass(frozen=True)
class Serve:
    """Serve every game: over gRPC, and to clients on this host as frames or through shared memory. SIGTERM or
    Ctrl-C drains it."""

    listen: tuple[str, ...] = ("127.0.0.1:50551",)
    """Where gRPC listens: host:port (port 0: a free one) or unix:/path. Beyond this machine it takes a token
    or a certificate."""
    frames: Path | None = None
    """A unix socket for clients on this host that want single actions fast: `frames:/path` to them."""
    shared: Path | None = None
    """A unix socket for clients on this host that share memory, for the largest batches: `shared:/path`."""
    folder: Path | None = None
    """Where running games are kept; a server that starts there takes them up."""
    turns: int = 10_000
    """Turns between two checkpoints."""
    seconds: float = 10.0
    """Seconds after which anything played is in a checkpoint, however few turns."""
    replays: Path | None = None
    """A file to which games played to their end are appended, for `playmill watch`."""
    token_file: Path | None = None
    """A file with the token that callers must send."""
    certificate: Path | None = None
    """A TLS certificate, in PEM; with --private-key."""
    private_key: Path | None = None
    """Its private key, in PEM."""
    threads: int = 1
    """Threads that share a batch of states; more help only with very large ones."""
    grace: float = 5.0
    """Seconds that running calls have when the server drains."""
    limits: Limits = field(default_factory=Limits)

    def settings(self) -> Settings:
        """The same, with files read and checked."""
        from playmill.serving.grpc_server import Access
        from playmill.serving.server import Settings

        access = Access(
            listen=self.listen,
            token=_read(self.token_file).decode().strip(),
            certificate=_read(self.certificate),
            private_key=_read(self.private_key),
        )
        if self.token_file is not None and len(access.token) < 16:
            raise PlaymillError(f"{self.token_file}: a token of at least 16 characters is wanted")
        return Settings(
            access,
            frames=self.frames,
            shared=self.shared,
            folder=self.folder,
            turns=self.turns,
            seconds=self.seconds,
            threads=self.threads,
            grace=self.grace,
            limits=self.limits,
            replays=self.replays,
        )


def serve_command(args: Sequence[str]) -> None:
    """Runs the server until it is told to stop."""
    config: Serve = parse_arguments(Serve, args, "playmill serve")
    if importlib.util.find_spec("grpc") is None:
        raise PlaymillError("the service needs gRPC: `pip install 'playmill[serve]'`")
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    os.umask(0o077)  # sockets and checkpoints are the user's own
    from playmill.serving.server import serve

    asyncio.run(serve(config.settings(), lambda text: print(text, flush=True)))


def _read(path: Path | None) -> bytes:
    if path is None:
        return b""
    try:
        return path.read_bytes()
    except OSError as error:
        raise PlaymillError(f"{path} cannot be read: {error.strerror}") from None
