"""Many native games in flight on an NVIDIA card: the two verbs of `NativePool`, with arrays that live
on the card. They reach torch, CuPy and others through DLPack, without a copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from playmill.games import GameSpec, OptionValue, PlaymillError, registry
from playmill.pools.lanes import need_cuda


class CardFull(PlaymillError):
    """The card has no room for so many games."""


class DeviceArray:
    """An array on the card. `torch.from_dlpack(array)` shares its memory; `numpy.asarray(array)` copies."""

    def __init__(self, shape: Sequence[int], dtype: str) -> None:
        self.dtype = np.dtype(dtype)
        self._native: Any = need_cuda().DeviceArray(list(shape), dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._native.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self._native.exported()

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0  # kDLCUDA, and the only card used

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._native.address, False),
            "strides": None,
            "version": 3,
        }

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("an array on the card cannot be read without a copy")
        host = np.frombuffer(self._native.fetch(), self.dtype).reshape(self.shape)
        return host.astype(dtype) if dtype is not None else host.copy()

    def fill(self, values: npt.ArrayLike) -> None:
        """Writes host values of the same shape."""
        given = np.ascontiguousarray(values, self.dtype)
        if given.shape != self.shape:
            raise ValueError(f"the values must have shape {self.shape}, got {given.shape}")
        self._native.fill(given.tobytes())


class CudaTurns(NamedTuple):
    """Games waiting for a decision, on the card; columns as in `Turns`. N games."""

    observation: Any  # [N, schema.bytes] uint8
    legal: Any  # [N, legal_bytes] uint8
    seat: Any  # [N] uint8
    role: Any  # [N] uint8
    driver: Any  # [N] uint8


class CudaOutcome(NamedTuple):
    """What the actions brought about, on the card. N games, S seats."""

    rewards: Any  # [N, S] float32
    over: Any  # [N] uint8


class CudaPool:
    """`games` native games on the card. The same seeds and actions give the same games as on the CPU.

    `turns`, `act` and `bot_actions` take and give arrays on the card: any with
    `__cuda_array_interface__` (torch, CuPy, numba), or the pool's own. Calls go on `stream`."""

    def __init__(
        self,
        game: str | GameSpec,
        games: int,
        *,
        options: Mapping[str, OptionValue] | None = None,
        seed: int = 0,
        stagger: bool = True,
        stream: int = 0,
    ) -> None:
        if games < 1:
            raise PlaymillError(f"a pool needs at least one game, got {games}")
        self.spec = registry.spec(game, options) if isinstance(game, str) else game
        self.games, self.stream = games, stream
        module = need_cuda()
        try:
            self.native = module.Pool(self.spec.name, self.spec.native_options, games, seed)
        except KeyError:
            raise PlaymillError(f"{self.spec.name} is not played on the card yet; use --device cpu") from None
        except module.OutOfDeviceMemory as error:
            raise CardFull(f"{games:,} games do not fit the card ({error}); lower --games") from None
        self.native.reset(stagger, stream)
        self._turns: CudaTurns | None = None
        self._outcome: CudaOutcome | None = None
        self._actions: DeviceArray | None = None
        self._kinds: DeviceArray | None = None

    @property
    def memory(self) -> int:
        """Bytes held on the card for the games in flight."""
        return int(self.native.bytes)

    def empty_turns(self) -> CudaTurns:
        """Arrays of the right shapes for `turns`."""
        n, spec = self.games, self.spec
        return CudaTurns(
            DeviceArray((n, spec.schema.bytes), "uint8"),
            DeviceArray((n, spec.legal_bytes), "uint8"),
            *(DeviceArray((n,), "uint8") for _ in range(3)),
        )

    def empty_outcome(self) -> CudaOutcome:
        """Arrays of the right shapes for `act`."""
        return CudaOutcome(
            DeviceArray((self.games, self.spec.seats), "float32"), DeviceArray((self.games,), "uint8")
        )

    def turns(self, out: CudaTurns | None = None) -> CudaTurns:
        """The turns that wait, one a game, written into `out` if given."""
        if out is None:
            out = self._turns = self._turns or self.empty_turns()
        n, spec = self.games, self.spec
        shapes = ((n, spec.schema.bytes), (n, spec.legal_bytes), (n,), (n,), (n,))
        columns = zip(out._fields, out, shapes, strict=True)
        self.native.turns(*(address(a, name, shape, "uint8") for name, a, shape in columns), self.stream)
        return out

    def act(self, actions: Any, out: CudaOutcome | None = None) -> CudaOutcome:
        """Answers all waiting turns. An illegal action raises and leaves every game as it was."""
        if out is None:
            out = self._outcome = self._outcome or self.empty_outcome()
        given = address(actions, "actions", (self.games,), "int32")
        rewards = address(out.rewards, "rewards", (self.games, self.spec.seats), "float32")
        self.native.act(given, rewards, address(out.over, "over", (self.games,), "uint8"), self.stream)
        return out

    def bot_actions(self, bots: Any = "random") -> DeviceArray:
        """What scripted bots would answer: one bot for all rows, or a bot number a row (on the card)."""
        self._actions = self._actions or DeviceArray((self.games,), "int32")
        if isinstance(bots, str):
            self._kinds = self._kinds or DeviceArray((self.games,), "uint8")
            self._kinds.fill(np.full(self.games, self.spec.bot(bots), np.uint8))
            bots = self._kinds
        kinds = address(bots, "bots", (self.games,), "uint8")
        self.native.bot_actions(kinds, self._actions._native.address, self.stream)
        return self._actions

    def reset(self, seeds: npt.ArrayLike | None = None, *, stagger: bool = True) -> None:
        """New games: of the given seeds, or of the pool's own (staggered over all phases)."""
        if seeds is None:
            self.native.reset(stagger, self.stream)
        else:
            named = np.ascontiguousarray(seeds, np.uint64)
            _check_shape(named, "seeds", (self.games,))
            self.native.reset_to(named, self.stream)

    def set_drivers(self, drivers: npt.ArrayLike) -> None:
        """Who answers for which seat, [N, S] on the host: policies below FIRST_BOT, bots from there on."""
        given = np.asarray(drivers)
        if not np.issubdtype(given.dtype, np.integer):
            raise TypeError(f"drivers must be integers, got {given.dtype}")
        _check_shape(given, "drivers", (self.games, self.spec.seats))
        wrong = np.argwhere((given < 0) | (given > 255))
        if len(wrong):
            raise ValueError(f"row {wrong[0][0]}: no driver number {given[tuple(wrong[0])]}")
        self.native.set_drivers(np.ascontiguousarray(given, np.uint8), self.stream)

    def stats(self) -> dict[int, dict[str, tuple[float, int]]]:
        """The game's named statistics by driver: mean and count since the last `clear_stats`."""
        out: dict[int, dict[str, tuple[float, int]]] = {}
        for cell, total, count in self.native.tallies(self.stream):
            driver, stat = divmod(cell, len(self.spec.stats))
            out.setdefault(driver, {})[self.spec.stats[stat]] = (total / count, count)
        return out

    def clear_stats(self) -> None:
        self.native.clear_tallies(self.stream)

    def snapshot(self) -> bytes:
        """Everything in flight; `restore` on a pool made alike goes on exactly from here."""
        return bytes(self.native.snapshot(self.stream))

    def restore(self, data: bytes) -> None:
        try:
            self.native.restore(data, self.stream)
        except ValueError as error:
            raise PlaymillError(str(error)) from None


def _check_shape(array: npt.NDArray[Any], name: str, shape: tuple[int, ...]) -> None:
    """In the words of the pool on the CPU."""
    if array.ndim != len(shape):
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    for axis, (wanted, found) in enumerate(zip(shape, array.shape, strict=True)):
        if found != wanted:
            raise ValueError(f"{name} must have {wanted} along axis {axis}, got {found}")


def address(array: Any, name: str, shape: tuple[int, ...], dtype: str) -> int:
    """Where an array lies on the card, once it is sure to be what is meant."""
    facts = getattr(array, "__cuda_array_interface__", None)
    if facts is None:
        raise TypeError(f"{name} must be an array on the card, got {type(array).__name__}")
    if tuple(facts["shape"]) != shape:
        raise ValueError(f"{name} must have shape {shape}, got {tuple(facts['shape'])}")
    if np.dtype(facts["typestr"]) != np.dtype(dtype):
        raise TypeError(f"{name} must be {dtype}, got {np.dtype(facts['typestr'])}")
    if facts.get("strides") is not None:
        raise ValueError(f"{name} must be contiguous")
    return int(facts["data"][0])
