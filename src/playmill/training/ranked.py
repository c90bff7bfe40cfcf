"""A lane over several ranks. The first rank says every call before it makes it, and the others make the same
one. Budgets, seating, judging and saving are decided in one place, and the trainer sees one lane."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import safetensors.torch
from torch import Tensor

from playmill.checkpoints import fingerprint
from playmill.games import GameSpec, PlaymillError
from playmill.policies import Policy
from playmill.training.config import Train, from_dict, to_dict
from playmill.training.cuda.lane import CudaLane
from playmill.training.lane import CpuLane, Done, Resident
from playmill.training.ranks import Ranks

_PRINT = "fingerprint"


class LeadingLane(Resident):
    """The first rank's lane: its own share of games and rows, and word to the others."""

    def __init__(self, config: Train, spec: GameSpec, precision: str | None, ranks: Ranks) -> None:
        """`precision`: as a checkpoint has it, or None to choose."""
        self.ranks = ranks
        self.lane = rank_lane(config, spec, precision, ranks)
        self.precision, self.tell_every_s = self.lane.precision, self.lane.tell_every_s
        self._say("begin", config=to_dict(config), precision=self.precision)

    @property
    def policy(self) -> Policy:
        return self.lane.policy

    @property
    def past(self) -> list[Policy]:
        return self.lane.past

    def update(self, number: int, progress: float) -> Done | None:
        self._say("update", number=number, progress=progress)
        return self.lane.update(number, progress)

    def wait(self) -> Done | None:
        return self.lane.wait()

    def remember(self, keep: int) -> None:
        self._say("remember", keep=keep)
        self.lane.remember(keep)

    def seat(self, seed: int) -> None:
        self._say("seat", seed=seed)
        self.lane.seat(seed)

    def tensors(self) -> dict[str, Tensor]:
        return self.lane.tensors()

    def blobs(self) -> dict[str, bytes]:
        """The games in flight of all ranks. Ranks whose weights differ are no run any more."""
        self._say("blobs")
        blobs: dict[str, bytes] = {}
        prints = set()
        for packed in self.ranks.gather(_state(self.lane)):
            theirs = unpack(packed)
            prints.add(theirs.pop(_PRINT))
            blobs |= theirs
        if len(prints) > 1:
            raise PlaymillError(
                "the ranks' weights are not the same any more; train on machines of one kind, "
                "and go on from the last checkpoint with --resume"
            )
        return blobs

    def load(
        self, tensors: Mapping[str, Tensor], blobs: Mapping[str, bytes], meta: Mapping[str, Any]
    ) -> None:
        self.lane.load(tensors, blobs, meta)
        self._say("load", meta={key: meta[key] for key in ("past", "skipped", "restored")})
        self.ranks.same(safetensors.torch.save(dict(tensors)))
        self.ranks.same(pack(blobs))

    def close(self) -> None:
        self._say("close")
        self.lane.close()

    def _say(self, call: str, **arguments: Any) -> None:
        self.ranks.same(json.dumps([call, arguments]).encode())


class Follower:
    """Another rank: makes the calls that the first one says, until the last."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self._asked = False

    def stop(self, _reason: str) -> None:
        """Asks for the end of the run. The first rank hears of it with the next update."""
        self._asked = True

    def run(self) -> None:
        _, told = self._hear()
        config = from_dict(Train, told["config"])
        lane = rank_lane(config, config.spec, told["precision"], self.ranks)
        while True:
            call, told = self._hear()
            if call == "update":
                lane.asked_to_end = self._asked
                lane.update(**told)
            elif call == "remember":
                lane.remember(**told)
            elif call == "seat":
                lane.seat(**told)
            elif call == "blobs":
                self.ranks.gather(_state(lane))
            elif call == "load":
                tensors = safetensors.torch.load(self.ranks.same(b""))
                lane.load(tensors, unpack(self.ranks.same(b"")), told["meta"])
            else:
                lane.close()
                return

    def _hear(self) -> tuple[str, dict[str, Any]]:
        call, arguments = json.loads(self.ranks.same(b""))
        return call, arguments


def rank_lane(config: Train, spec: GameSpec, precision: str | None, ranks: Ranks) -> CpuLane | CudaLane:
    """A rank's share of the run, on its CPUs or on its card."""
    kind = CudaLane if config.device == "cuda" else CpuLane
    return kind(config, spec, precision, ranks)


def _state(lane: CpuLane | CudaLane) -> bytes:
    return pack({**lane.blobs(), _PRINT: fingerprint(lane.tensors()).encode()})


def pack(blobs: Mapping[str, bytes]) -> bytes:
    """Named bytes as one message: a line of JSON with names and sizes, then the bytes."""
    head = json.dumps({name: len(blob) for name, blob in blobs.items()}).encode()
    return b"\n".join([head, b"".join(blobs.values())])


def unpack(message: bytes) -> dict[str, bytes]:
    """What `pack` put together."""
    head, _, body = message.partition(b"\n")
    blobs, at = {}, 0
    for name, size in json.loads(head).items():
        blobs[name] = body[at : at + size]
        at += size
    return blobs
