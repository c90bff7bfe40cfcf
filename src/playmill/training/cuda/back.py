"""The way back into a layer as one kernel: the product with the weights behind it, relu's mask, and part
sums of the columns for the bias's gradient. cuBLASLt has no fast epilogue for it, and a mask of its own moves
every slope through memory twice more.

Written in Triton, which comes with torch for CUDA on Linux; where it is missing the native layers do the
same in two kernels."""

from __future__ import annotations

import importlib.util
from typing import Any

import torch
from torch import Tensor

ROWS, COLUMNS = 128, 128
"""Of the tile a block computes; widths of layers are multiples of it."""


def triton_installed() -> bool:
    return importlib.util.find_spec("triton") is not None


class WayBack:
    """Takes slopes back through the native layers `native`, with `rows` rows at most."""

    def __init__(
        self, native: Any, hidden: tuple[int, ...], trunks: int, rows: int, kind: torch.dtype
    ) -> None:
        self.native, self.hidden, self.trunks = native, hidden, trunks
        self.kernel = _kernel()
        layers = range(len(hidden))
        self.heads = _on_card(native.head_gradient, (rows, native.stride), kind)
        self.slopes = [_on_card(native.slope(i), (rows, trunks * hidden[i]), kind) for i in layers]
        self.activations = []
        for i in layers:
            address, stride = native.activation(i)
            self.activations.append(_on_card(address, (rows, stride), kind))
        blocks = (rows + ROWS - 1) // ROWS
        self.sums = torch.zeros(blocks * trunks * max(hidden), device="cuda")

    def run(self, weights: Tensor, rows: int, add: bool, gradients: Tensor, stream: int) -> None:
        """From the gradient of the heads to those of all weights."""
        into = gradients.data_ptr()
        blocks = (rows + ROWS - 1) // ROWS
        self.native.head_weights(rows, add, into, stream)
        for layer in reversed(range(len(self.hidden))):
            self._into(layer, weights, rows)
            self.native.bias_gradient(layer, self.sums.data_ptr(), blocks, add, into, stream)
            self.native.weight_gradient(layer, rows, add, into, stream)

    def _into(self, layer: int, weights: Tensor, rows: int) -> None:
        """The slopes of a layer, from those behind it."""
        out, passed = self.slopes[layer], self.activations[layer]
        if layer + 1 == len(self.hidden):  # both trunks meet one block of heads
            behind, trunks, width = self.heads, 1, self.trunks * self.hidden[layer]
            inner, weight, stride = self.heads.shape[1], weights[self.native.head_offset :], passed.shape[1]
        else:
            behind, trunks, width = self.slopes[layer + 1], self.trunks, self.hidden[layer]
            inner, weight, stride = (
                self.hidden[layer + 1],
                weights[self.native.weight_offset(layer + 1) :],
                width,
            )
        tiles = (rows + ROWS - 1) // ROWS * (width // COLUMNS)
        self.kernel[(tiles, trunks)](
            behind,
            weight,
            passed,
            out,
            self.sums,
            rows,
            inner,
            width,
            behind.shape[1],
            stride,
            passed.shape[1],
            out.shape[1],
            inner * width,
            ROWS=ROWS,
            COLUMNS=COLUMNS,
            INNER=64 if inner % 64 == 0 else 16,
            num_warps=8,
            num_stages=3,
        )


class _Foreign:
    """Memory on the card that is not torch's, as bytes."""

    def __init__(self, address: int, size: int) -> None:
        facts = {"shape": (size,), "typestr": "|u1", "data": (address, False), "strides": None, "version": 3}
        self.__cuda_array_interface__ = facts


def _on_card(address: int, shape: tuple[int, int], kind: torch.dtype) -> Tensor:
    """A tensor over the native layers' own memory."""
    size = shape[0] * shape[1] * torch.empty(0, dtype=kind).element_size()
    return torch.as_tensor(_Foreign(address, size), device="cuda").view(kind).view(shape)


def _kernel() -> Any:
    """Compiled by Triton at its first call, and kept on disk from then on."""
    from playmill.training.cuda.back_kernel import back_through_relu

    return back_through_relu
