"""The numbers that change from step to step, on the card, and their way back to the host without waiting."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from playmill.pools.lanes import need_cuda


class Control:
    """The native Control: counters, rates and sums of losses that captured graphs read and write."""

    def __init__(self, precision: str) -> None:
        native = need_cuda()
        self.precision = precision
        self.tensor = torch.zeros(native.CONTROL_BYTES, dtype=torch.uint8, device="cuda")
        names, kinds, offsets = zip(*native.CONTROL_FIELDS, strict=True)
        self._offsets: dict[str, int] = dict(zip(names, offsets, strict=True))
        self.type = np.dtype(
            {"names": names, "formats": kinds, "offsets": offsets, "itemsize": native.CONTROL_BYTES}
        )
        # Small gradients vanish in float16: the loss is scaled up until they overflow, then down again.
        self.write(scale=65536.0 if precision == "float16" else 1.0)

    @property
    def address(self) -> int:
        return int(self.tensor.data_ptr())

    def counter(self, name: str) -> torch.Tensor:
        """A 32-bit whole number among the fields, to be read and written on the card: [1] int32."""
        return self.tensor[self._offsets[name] :][:4].view(torch.int32)

    def write(self, **values: float) -> None:
        """Sets fields by name; waits."""
        raw = bytearray(self.dump())
        fields = np.frombuffer(raw, self.type)  # a view: what has no name here stays as it is
        for name, value in values.items():
            fields[name] = value
        self.load(bytes(raw))

    def dump(self) -> bytes:
        """All of it; waits."""
        return self.tensor.cpu().numpy().tobytes()

    def load(self, data: bytes) -> None:
        self.tensor.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))

    def parse(self, host: torch.Tensor) -> Any:
        """The fields of a copy on the host."""
        return np.frombuffer(host.numpy().tobytes(), self.type)[0]
