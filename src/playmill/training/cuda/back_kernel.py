"""The Triton kernel of `back`; importing it needs triton."""

import triton  # type: ignore[import-not-found,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,unused-ignore]


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def back_through_relu(  # type: ignore[no-untyped-def]
    behind,  # [rows, trunks * inner] slopes of the layer behind, or of the heads
    weight,  # [inner, stride] for each trunk
    passed,  # [rows, ...] activations of this layer: relu let through what is above zero
    out,  # [rows, trunks * width]
    sums,  # [blocks, trunks * width] float32, part sums of the columns of `out`
    rows,
    inner,
    width,
    behind_stride,
    weight_stride,
    passed_stride,
    out_stride,
    weight_trunk,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    INNER: tl.constexpr,
):
    tiles = width // COLUMNS
    block, tile, trunk = tl.program_id(0) // tiles, tl.program_id(0) % tiles, tl.program_id(1)
    row = block * ROWS + tl.arange(0, ROWS)
    column = tile * COLUMNS + tl.arange(0, COLUMNS)
    k = tl.arange(0, INNER)
    live = (row < rows)[:, None]
    line = row.to(tl.int64)[:, None]
    a_at = behind + trunk * inner + line * behind_stride + k[None, :]
    b_at = weight + trunk * weight_trunk + k[:, None] * weight_stride + column[None, :]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(0, inner, INNER):
        total = tl.dot(tl.load(a_at, mask=live, other=0.0), tl.load(b_at), total)
        a_at += INNER
        b_at += INNER * weight_stride
    cell = trunk * width + column
    above = tl.load(passed + line * passed_stride + cell[None, :], mask=live, other=0.0) > 0
    kept = tl.where(above, total, 0.0).to(out.dtype.element_ty)
    tl.store(out + line * out_stride + cell[None, :], kept, mask=live)
    tl.store(sums + block * out_stride + cell, tl.sum(kept.to(tl.float32), axis=0))
