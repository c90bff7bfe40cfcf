"""Packed observations at a network's first layer.

`expand` is the plain torch reference and runs on any device. On the CPU `PackedLinear` never
expands at all: a row has a few dozen features that are not zero, and the native core adds up
just those rows of the weight matrix (and, backwards, just those rows of its gradient).
`Expand` is for networks that need the features themselves."""

from __future__ import annotations

import functools
import math
from typing import Any, cast

import torch
from torch import Tensor, nn

from playmill import _native
from playmill.games import Encoding, Field, Schema
from playmill.pools.lanes import cuda_module


def expand(schema: Schema, packed: Tensor) -> Tensor:
    """Floats [n, features] from packed rows [n, bytes] uint8."""
    raw = {f.name: _raw(f, packed) for f in schema.fields}
    parts: list[Tensor] = []
    for f in schema.fields:
        values = raw[f.name]
        if f.encoding is Encoding.CATEGORY:
            floats = (values[..., None] == torch.arange(f.size, device=packed.device)).float()
        elif f.encoding is Encoding.LOG16:
            floats = torch.log2(1.0 + values.float()) * f.scale
        elif f.encoding is Encoding.F16:
            magnitude = ((values & 0x7FFF) << 13).view(torch.float32) * 2.0**112
            floats = torch.where(values >= 0x8000, -magnitude, magnitude) * f.scale
        else:
            floats = values.float() * f.scale
        if f.counted:
            live = torch.arange(f.rows, device=packed.device) < raw[f.counted].reshape(-1, 1)
            floats = floats * live.reshape(live.shape + (1,) * (floats.ndim - 2))
        parts.append(floats.reshape(len(packed), -1))
    return torch.cat(parts, dim=1)


def expand_on_device(schema: Schema, packed: Tensor) -> Tensor:
    """`expand` by the CUDA kernel where it was built, else by torch; in autocast's type where that is on."""
    expander = _cuda_expander(schema) if packed.device.type == "cuda" else None
    if expander is None:
        return expand(schema, packed)
    packed = packed.contiguous()
    # Under autocast the next product would round them anyway: written so, they are half as many bytes.
    lower = torch.is_autocast_enabled("cuda")
    kind = torch.get_autocast_dtype("cuda") if lower else torch.float32
    out = torch.empty(len(packed), expander.padded, device=packed.device, dtype=kind)
    stream = torch.cuda.current_stream(packed.device).cuda_stream
    expander.expand(
        packed.data_ptr(), 0, len(packed), str(kind).removeprefix("torch."), out.data_ptr(), stream
    )
    return out[:, : schema.features]


@functools.lru_cache(maxsize=64)
def _cuda_expander(schema: Schema) -> Any:
    module = cuda_module()
    return None if module is None else module.Expander(schema.to_native())


def unpack_bits(packed: Tensor, count: int) -> Tensor:
    """Bool [n, count] from bits [n, bytes] uint8, lowest bit first."""
    shifts = torch.arange(8, dtype=torch.uint8, device=packed.device)
    bits = (packed[..., None] >> shifts) & 1
    return bits.reshape(*packed.shape[:-1], -1)[..., :count].bool()


def _raw(field: Field, packed: Tensor) -> Tensor:
    """Integers [n, rows, columns]."""
    part = packed[:, field.offset : field.offset + field.rows * field.row_bytes]
    part = part.reshape(len(packed), field.rows, field.row_bytes)
    if field.encoding is Encoding.BITS:
        return unpack_bits(part, field.columns).int()
    if field.encoding in (Encoding.U8, Encoding.CATEGORY):
        return part.int()
    value = part[..., 0::2].int() | (part[..., 1::2].int() << 8)
    if field.encoding is Encoding.I16:
        value = torch.where(value >= 32768, value - 65536, value)
    return value


class _PackedProduct(torch.autograd.Function):
    """expand(rows) @ weight + bias, without expanding. The rows take no gradient."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor, expander: _native.Expander) -> Tensor:
        out = torch.empty(len(rows), weight.shape[1])
        expander.forward(rows.numpy(), weight.detach().numpy(), bias.detach().numpy(), out.numpy())
        ctx.save_for_backward(rows)
        ctx.expander, ctx.features = expander, weight.shape[0]
        return out

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[None, Tensor, Tensor, None]:
        (rows,) = ctx.saved_tensors
        upstream = upstream.float().contiguous()
        gradient = torch.empty(ctx.features, upstream.shape[1])
        ctx.expander.backward(rows.numpy(), upstream.numpy(), gradient.numpy())
        return None, gradient, upstream.sum(0), None


def _check_packed(schema: Schema, packed: Tensor) -> None:
    if packed.shape[-1] != schema.bytes or packed.dtype != torch.uint8:
        raise ValueError(
            f"packed rows must be uint8 [n, {schema.bytes}], got {packed.dtype} {tuple(packed.shape)}"
        )


class PackedLinear(nn.Module):
    """A linear layer whose input is packed rows [n, bytes]; its output is float32 [n, width]."""

    def __init__(self, schema: Schema, width: int, active: float = 64.0) -> None:
        """`active`: how many features of a row are about not zero; sets the first weights' size."""
        super().__init__()
        self.schema = schema
        self.width = width
        self.weight = nn.Parameter(torch.empty(schema.features, width))
        self.bias = nn.Parameter(torch.zeros(width))
        nn.init.normal_(self.weight, std=1.0 / math.sqrt(min(active, schema.features)))
        self._expander: _native.Expander | None = None

    def forward(self, packed: Tensor) -> Tensor:
        _check_packed(self.schema, packed)
        if packed.device.type != "cpu":
            return expand_on_device(self.schema, packed) @ self.weight + self.bias
        if self._expander is None:
            self._expander = _native.Expander(self.schema.to_native(), torch.get_num_threads())
        out = _PackedProduct.apply(  # type: ignore[no-untyped-call]
            packed.contiguous(), self.weight, self.bias, self._expander
        )
        return cast(Tensor, out)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_expander": None}


class Expand(nn.Module):
    """Packed rows [n, bytes] as float32 [n, features]: `expand`, by the native core on the CPU."""

    def __init__(self, schema: Schema) -> None:
        super().__init__()
        self.schema = schema
        self.width = schema.features
        self._expander: _native.Expander | None = None

    def forward(self, packed: Tensor) -> Tensor:
        _check_packed(self.schema, packed)
        if packed.device.type != "cpu":
            return expand_on_device(self.schema, packed)
        if self._expander is None:
            self._expander = _native.Expander(self.schema.to_native(), torch.get_num_threads())
        out = torch.empty(len(packed), self.width)
        self._expander.expand(packed.contiguous().numpy(), out.numpy())
        return out

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_expander": None}
