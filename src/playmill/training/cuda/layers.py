"""A policy's layers on the card, forwards and backwards, behind one interface: the fused ones for plain
networks, torch's own for every other. Both can be captured in a graph: shapes are fixed, nothing
waits for the host, and weights stay where they are."""

from __future__ import annotations

import contextlib
import copy
import gc
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from playmill.games import GameSpec
from playmill.policies import Network, Policy
from playmill.pools.lanes import need_cuda

Placed = tuple[str, int, Sequence[int], Sequence[int]]
"""Name of a parameter, its first element in the flat weights, shape and strides."""

TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def stream_now() -> int:
    """The stream torch puts its work on, as an address."""
    return int(torch.cuda.current_stream().cuda_stream)


@contextlib.contextmanager
def captured(graph: torch.cuda.CUDAGraph) -> Iterator[None]:
    """Captures what is put on the current stream. Other threads may use the card meanwhile."""
    collects = gc.isenabled()
    gc.disable()  # what is collected may have been on the card, and freeing it there would spoil the capture
    try:
        stream = torch.cuda.current_stream()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            yield
    finally:
        if collects:
            gc.enable()


class Player:
    """A policy on the card. Its parameters are views into one flat array, so that an optimiser step,
    a copy or an average is one kernel; `small` is the same in the precision of the layers."""

    def __init__(self, policy: Policy, layout: Sequence[Placed], size: int, precision: str) -> None:
        self.layout = list(layout)
        self.flat = torch.zeros(size, device="cuda")
        self.small = (
            self.flat if precision == "float32" else torch.zeros_like(self.flat, dtype=TYPES[precision])
        )
        self.policy = policy.to("cuda")
        parameters = dict(self.policy.named_parameters())
        for name, view in self.views(self.flat).items():
            view.copy_(parameters[name].detach())
            parameters[name].data = view
        self.refresh()

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """A flat array like the weights, by the names of the parameters."""
        return {name: flat.as_strided(shape, strides, at) for name, at, shape, strides in self.layout}

    def refresh(self) -> None:
        """Takes the weights over into `small`."""
        if self.small is not self.flat:
            self.small.copy_(self.flat)

    def copy_from(self, other: Player) -> None:
        self.flat.copy_(other.flat)
        self.small.copy_(other.small)

    def twin(self) -> Player:
        """Another policy with the same weights in an array of its own."""
        policy = copy.deepcopy(self.policy).requires_grad_(False)
        precision = next(name for name, kind in TYPES.items() if kind == self.small.dtype)
        return Player(policy, self.layout, len(self.flat), precision)


class Layers(Protocol):
    """How heads [rows, stride] (logits, value, padding) come from packed rows, and gradients from theirs."""

    stride: int
    gradient: int
    """Address of the gradient of the heads, in `gradient_precision`, that `backward` starts from."""
    gradient_precision: str
    head_cells: list[int]
    """Where in the flat weights the native heads lie, with gaps that are no weights; empty without."""

    def place(self, policy: Policy) -> Player:
        """Moves a policy to the card, its weights laid out as these layers want them."""

    def forward(
        self,
        player: Player,
        packed: Tensor,
        index: Tensor | None,
        rows: int,
        heads: Tensor,
        view: Tensor | None = None,
    ) -> None:
        """`view`: the board's symmetry of each row, for networks that know boards."""

    def backward(self, player: Player, rows: int, add: bool, gradients: Tensor) -> None: ...


def is_fused(network: Network, precision: str) -> bool:
    """Whether the native layers can do this network."""
    return network.plain and precision != "float32" and all(width % 128 == 0 for width in network.hidden)


def make_layers(spec: GameSpec, network: Network, precision: str, rows: int, training: bool) -> Layers:
    """Layers with room for `rows` rows."""
    if is_fused(network, precision):
        return FusedLayers(spec, network, precision, rows, training)
    return TorchLayers(spec, precision, rows, training)


class FusedLayers:
    """Native: expansion kernel, cuBLASLt with bias and relu in the epilogue, both trunks as one product; on
    Hopper cards the way back in kernels of our own."""

    def __init__(self, spec: GameSpec, network: Network, precision: str, rows: int, training: bool) -> None:
        self.native: Any = need_cuda().Mlp(
            spec.schema.to_native(),
            spec.actions,
            list(network.hidden),
            network.trunks,
            precision,
            rows,
            training,
        )
        self.stride = int(self.native.stride)
        self.gradient = int(self.native.head_gradient)
        self.gradient_precision = precision
        self.head_cells = list(self.native.head_cells())

    def place(self, policy: Policy) -> Player:
        return Player(policy, self.native.layout(), self.native.size, self.gradient_precision)

    def forward(
        self,
        player: Player,
        packed: Tensor,
        index: Tensor | None,
        rows: int,
        heads: Tensor,
        view: Tensor | None = None,
    ) -> None:
        assert view is None, "plain layers know no boards"
        at = 0 if index is None else index.data_ptr()
        weights = player.small.data_ptr()
        self.native.forward(weights, packed.data_ptr(), at, rows, heads.data_ptr(), stream_now())

    def backward(self, player: Player, rows: int, add: bool, gradients: Tensor) -> None:
        self.native.backward(player.small.data_ptr(), rows, add, gradients.data_ptr(), stream_now())


class TorchLayers:
    """Any network: torch's autograd, under autocast where the precision is lower than float32."""

    def __init__(self, spec: GameSpec, precision: str, rows: int, training: bool) -> None:
        self.actions = spec.actions
        self.stride = (spec.actions + 8) // 8 * 8
        self.precision, self.training = precision, training
        self.slope = torch.zeros(rows if training else 0, self.stride, device="cuda")
        self.gradient = int(self.slope.data_ptr())
        self.gradient_precision = "float32"
        self.head_cells: list[int] = []
        self._outputs: tuple[Tensor, Tensor] | None = None
        # A run is a function of its seed, also where cuDNN convolves; and float32 is float32.
        torch.backends.cudnn.deterministic, torch.backends.cudnn.allow_tf32 = True, False
        # Autograd's own thread meets the card with something harmless first: cuBLAS would complain.
        torch.zeros(1, device="cuda", requires_grad=True).sum().backward()  # type: ignore[no-untyped-call]

    def place(self, policy: Policy) -> Player:
        layout: list[Placed] = []
        at = 0
        for name, parameter in policy.named_parameters():
            # Weights of convolutions with channels last, as cuDNN reads them beside boards laid out so.
            order = torch.channels_last if parameter.ndim == 4 else torch.contiguous_format
            strides = tuple(torch.empty_like(parameter, memory_format=order).stride())
            layout.append((name, at, tuple(parameter.shape), strides))
            at += (parameter.numel() + 63) // 64 * 64
        return Player(policy, layout, at, "float32")

    def forward(
        self,
        player: Player,
        packed: Tensor,
        index: Tensor | None,
        rows: int,
        heads: Tensor,
        view: Tensor | None = None,
    ) -> None:
        given = packed[:rows] if index is None else packed[index[:rows].clamp(min=0).long()]
        lower = self.precision != "float32"
        # No cache of casts: a graph replays the casts of weights that have moved since.
        autocast = torch.autocast("cuda", TYPES[self.precision], enabled=lower, cache_enabled=False)
        with torch.set_grad_enabled(self.training), autocast:
            logits, value = player.policy(given, view)
        self._outputs = (logits, value) if self.training else None
        heads[:rows, : self.actions] = logits.detach()
        heads[:rows, self.actions] = value.detach()

    def backward(self, player: Player, rows: int, add: bool, gradients: Tensor) -> None:
        assert self._outputs is not None, "backward comes after forward"
        if not add:
            gradients.zero_()
        parameters = dict(player.policy.named_parameters())
        for name, view in player.views(gradients).items():
            parameters[name].grad = view  # autograd adds to what is there
        slopes = (self.slope[:rows, : self.actions], self.slope[:rows, self.actions])
        torch.autograd.backward(self._outputs, slopes)
        self._outputs = None
