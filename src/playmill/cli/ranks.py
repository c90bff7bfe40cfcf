"""`playmill train --ranks N`: starts the ranks on this machine through torchrun, and says how they ended."""

from __future__ import annotations

import logging
import os
import signal
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import parse_args
from torch.distributed.run import run as torchrun

from playmill.cli.process import program
from playmill.games import PlaymillError
from playmill.training.ranks import MEETING_FILE

REFUSED = 2
"""How a rank ends that has said why."""
MISSED = (REFUSED, -signal.SIGTERM)
"""How ranks end because another one has."""

TO_SAVE_S = 300
"""For the update in hand, the last checkpoint and the report, after a signal; then ranks are killed."""


def start_ranks(args: Sequence[str], count: int, run: Path) -> None:
    """`playmill train` with the same arguments in `count` processes, until all have ended."""
    logging.disable()  # torchrun's tables of failures; ours is a line
    with tempfile.TemporaryDirectory(prefix="playmill-ranks-") as folder:
        # Ranks of one machine meet through files and talk over loopback: nothing listens to the network.
        os.environ |= {
            MEETING_FILE: f"{folder}/ranks",
            "GLOO_SOCKET_IFNAME": "lo",
            "NCCL_SOCKET_IFNAME": "lo",
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
            "OMP_NUM_THREADS": "1",
        }
        options = [
            f"--nproc-per-node={count}",
            "--rdzv-backend=c10d",
            f"--rdzv-endpoint={folder}/torchrun",
            "--rdzv-conf=store_type=file",
        ]
        try:
            given = parse_args([*options, "-m", "playmill"])  # type: ignore[no-untyped-call]
            given.training_script_args = [
                "train",
                *args,
            ]  # past its parser, which takes --run for one of its own
            given.shutdown_timeout = TO_SAVE_S
            torchrun(given)  # type: ignore[no-untyped-call]
        except SignalException:
            return  # it was passed on, and the first rank has said how to go on
        except ChildFailedError as error:
            codes = {rank: failure.exitcode for rank, failure in error.failures.items()}
            if codes.get(0) == REFUSED and all(code in MISSED for code in codes.values()):
                raise SystemExit(REFUSED) from None
            raise PlaymillError(_ending(codes, count, run)) from None


def _ending(codes: Mapping[int, int], count: int, run: Path) -> str:
    """Which rank failed, and what to do."""
    ranks = sorted(codes, key=lambda rank: (codes[rank] in MISSED, codes[rank] >= 0, rank))
    code = codes[ranks[0]]
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"failed (exit code {code})"
    go_on = f"go on from the last checkpoint by `{program()} train --resume {run}`"
    return f"rank {ranks[0]} of {count} {how}, and the run with it; {go_on}"
