"""Processes that train one run together: who this one is, and what they tell each other.

The first rank decides and the others follow, so only three things travel: sums that belong to the whole run,
what the first rank says, and what it collects. Bytes and tensors, never pickles."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from typing import Literal, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from playmill.games import PlaymillError

MEETING_FILE = "PLAYMILL_RANKS_FILE"
"""Names the file through which ranks of one machine meet; without it they meet at torchrun's address."""

PATIENCE = datetime.timedelta(minutes=30)
"""For a rank that is silent. One that has died is noticed at once; a long evaluation must fit in here."""


CARD_PATIENCE = datetime.timedelta(minutes=5)
"""For a card whose sums do not come; ranks begin every update together, so they are never far apart."""


class RankLost(PlaymillError):
    """Another rank has ended or does not answer."""


class Ranks(Protocol):
    """The processes of a run, as one of them sees them."""

    rank: int
    """Which one this is; 0 is the first."""
    count: int

    def sum(self, *tensors: Tensor) -> None:
        """Every tensor becomes its sum over all ranks, the same bits on each. All are of one type."""

    def same(self, data: bytes) -> bytes:
        """What the first rank gave."""

    def gather(self, data: bytes) -> list[bytes]:
        """What every rank gave, in order, on the first rank; nothing on the others."""

    def close(self) -> None: ...


class Alone:
    """A run in one process: nothing to tell, nothing to wait for."""

    rank = 0
    count = 1

    def sum(self, *tensors: Tensor) -> None:
        pass

    def same(self, data: bytes) -> bytes:
        return data

    def gather(self, data: bytes) -> list[bytes]:
        return [data]

    def close(self) -> None:
        pass


class Group:
    """Ranks that torchrun started: over gloo, and between cards over NCCL."""

    def __init__(self, cards: Literal["", "nccl", "gloo"] = "") -> None:
        """`cards`: what carries tensors that lie on cards; gloo takes them through the host's memory."""
        self.rank, self.count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        file = os.environ.get(MEETING_FILE)
        try:
            if file:
                store = dist.FileStore(file, self.count)  # type: ignore[attr-defined]
                dist.init_process_group(
                    "gloo", store=store, rank=self.rank, world_size=self.count, timeout=PATIENCE
                )
            else:
                dist.init_process_group("gloo", timeout=PATIENCE)
            self._cards = dist.new_group(backend=cards, timeout=CARD_PATIENCE) if cards else None
        except (RuntimeError, ValueError) as error:
            raise RankLost(f"the {self.count} ranks of the run did not find each other: {error}") from None

    def sum(self, *tensors: Tensor) -> None:
        if len(tensors) == 1 and tensors[0].is_contiguous():
            self._add_up(tensors[0])
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        self._add_up(flat)
        parts = torch.split(flat, [tensor.numel() for tensor in tensors])
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.copy_(part.view(tensor.shape))

    def _add_up(self, tensor: Tensor) -> None:
        self._meet(lambda: dist.all_reduce(tensor, group=self._cards if tensor.is_cuda else None))

    def same(self, data: bytes) -> bytes:
        size = torch.tensor([len(data)])
        self._meet(lambda: dist.broadcast(size, 0))
        told = _tensor(data) if self.rank == 0 else torch.empty(int(size), dtype=torch.uint8)
        self._meet(lambda: dist.broadcast(told, 0))
        return told.numpy().tobytes()

    def gather(self, data: bytes) -> list[bytes]:
        sizes = torch.zeros(self.count, dtype=torch.int64)
        sizes[self.rank] = len(data)
        self.sum(sizes)
        if self.rank:
            self._meet(lambda: dist.send(_tensor(data), 0))
            return []
        found = [data]
        for rank in range(1, self.count):
            given = torch.empty(int(sizes[rank]), dtype=torch.uint8)
            self._meet(lambda given=given, rank=rank: dist.recv(given, rank))  # type: ignore[misc]
            found.append(given.numpy().tobytes())
        return found

    def close(self) -> None:
        dist.destroy_process_group()

    def _meet(self, collective: Callable[[], object]) -> None:
        try:
            collective()
        except RuntimeError as error:
            raise RankLost("another rank of this run has ended or does not answer") from error


ALONE = Alone()


def take_card() -> None:
    """Leaves this rank the card of its place on its machine. Before anybody has looked for cards."""
    place = int(os.environ.get("LOCAL_RANK", "0"))
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    cards = [str(number) for number in range(place + 1)] if shown is None else shown.split(",")
    if place >= len(cards):
        raise PlaymillError(f"CUDA_VISIBLE_DEVICES={shown} has no card for rank {place} of this machine")
    os.environ["CUDA_VISIBLE_DEVICES"] = cards[place].strip()


def world_size() -> int | None:
    """How many ranks torchrun has started, if this process is one of them."""
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        return None
    rank, count = os.environ["RANK"], os.environ["WORLD_SIZE"]
    if not (rank.isdigit() and count.isdigit() and int(rank) < int(count)):
        raise PlaymillError(
            f"RANK={rank} and WORLD_SIZE={count} name no rank; torchrun sets them right, "
            "and without them a run is trained in one process"
        )
    return int(count)


def _tensor(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
