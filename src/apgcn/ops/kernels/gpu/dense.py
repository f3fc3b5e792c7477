"""GPU kernels of dense products and sums over the run axis, whose bits do not depend on the number of runs.

Their references are the PyTorch paths of `apgcn.ops.dense`; `tests/ops/test_dense.py` compares them.

A run's numbers must not depend on the other runs of its batch, so every sum has an order that follows from the graph
and the channels alone: tiles and partitions are fixed, a product adds its terms in ascending order, and long sums are
divided into chunks of a fixed size whose results are summed in turn. cuBLAS and PyTorch's reductions choose their order
by the number of runs. Triton compiles a variant of a kernel for each alignment of its arguments: an argument that
depends on the number of runs is not specialised, and tensors that are summed are 16-byte aligned, see `align`.
"""

from __future__ import annotations

import math

import triton
import triton.language as tl
from torch import Tensor

TILE = 1024  # values that a program of a sum adds at a time
CHUNK_TILES = 16  # tiles of a chunk of a long sum
CHUNK_INNER = 256  # terms, at least, of a chunk of a product with many terms
MAX_PARTIAL_SUMS = 2**16  # of a run, in a product that is computed in chunks
BLOCK = 1024  # outputs per program of `axis_sums`


def align(x: Tensor) -> Tensor:
    """Return a contiguous tensor that begins at a multiple of 16 bytes.

    A slice of a batch of one run is contiguous where that of several runs is not, and so may begin anywhere.
    """
    x = x.contiguous()
    return x if x.data_ptr() % 16 == 0 else x.clone()


def matmul(
    a: Tensor, b: Tensor, bias: Tensor | None = None, *, transpose_a: bool = False, transpose_b: bool = False
) -> Tensor:
    """Return a b + bias for every run, a or b transposed as the flags specify.

    A matrix `a` that all runs share is multiplied by the columns of all runs at once; `b` is not transposed then.

    Shapes
    ------
    a : (rows, inner) or (runs, rows, inner); (inner, rows) or (runs, inner, rows) where `transpose_a`
    b : (runs, inner, columns), or (runs, columns, inner) where `transpose_b`
    bias : (runs, 1, columns)
    returned : (runs, rows, columns)
    """
    a, b = align(a), align(b)
    runs, shared = len(b), a.ndim == 2
    rows, inner = a.shape[-2:][::-1] if transpose_a else a.shape[-2:]
    columns = b.shape[1 if transpose_b else 2]
    tile_columns = min(64, max(16, triton.next_power_of_2(columns)))
    tile_rows = 128 if shared or (tile_columns < 64 and rows > 64) else 64
    tile_inner = 32 if inner >= 32 and tile_columns < 64 else 16
    chunks = min(triton.cdiv(inner, CHUNK_INNER), MAX_PARTIAL_SUMS // (rows * columns)) if transpose_a else 1
    chunk_inner = triton.cdiv(triton.cdiv(inner, max(1, chunks)), tile_inner) * tile_inner
    chunks = max(1, triton.cdiv(inner, max(1, chunk_inner)))
    output = b.new_empty(runs, chunks, rows, columns)
    all_columns, batches = (runs * columns, 1) if shared else (columns, runs)
    _matmul[triton.cdiv(rows, tile_rows) * chunks, triton.cdiv(all_columns, tile_columns), batches](
        a, b, b if bias is None else align(bias), output, rows, inner, columns, all_columns, chunks, chunk_inner,
        SHARED=shared, TRANSPOSE_A=transpose_a, TRANSPOSE_B=transpose_b, HAS_BIAS=bias is not None,
        ROWS=tile_rows, COLUMNS=tile_columns, INNER=tile_inner, num_warps=4, num_stages=2,
    )  # fmt: skip
    return output[:, 0] if chunks == 1 else column_sums(output.flatten(2)).view(runs, rows, columns)


@triton.jit(do_not_specialize=["all_columns"])
def _matmul(
    a, b, bias, output, rows, inner, columns, all_columns, chunks, chunk_inner,
    SHARED: tl.constexpr, TRANSPOSE_A: tl.constexpr, TRANSPOSE_B: tl.constexpr, HAS_BIAS: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    chunk = tl.program_id(0) % chunks
    row = (tl.program_id(0) // chunks) * ROWS + tl.arange(0, ROWS)
    position = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)  # among the columns of all runs where SHARED
    valid_row, valid_column = row < rows, position < all_columns
    if SHARED:
        run = (position // columns).to(tl.int64)
        column = position % columns
    else:
        run = tl.program_id(2).to(tl.int64)
        column = position
        a += run * rows * inner
    b_column = run * inner * columns + (column * inner if TRANSPOSE_B else column)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    end = min(inner, (chunk + 1) * chunk_inner)
    for start in range(chunk * chunk_inner, end, INNER):
        k = start + tl.arange(0, INNER)
        valid = k < end
        a_offset = k[None, :] * rows + row[:, None] if TRANSPOSE_A else row[:, None] * inner + k[None, :]
        b_offset = b_column[None, :] + (k[:, None] if TRANSPOSE_B else k[:, None] * columns)
        a_tile = tl.load(a + a_offset, mask=valid_row[:, None] & valid[None, :], other=0.0)
        b_tile = tl.load(b + b_offset, mask=valid[:, None] & valid_column[None, :], other=0.0)
        total = tl.dot(a_tile, b_tile, total, input_precision="ieee")
    if HAS_BIAS:
        total += tl.load(bias + run * columns + column, mask=valid_column, other=0.0)[None, :]
    offset = ((run * chunks + chunk) * rows * columns + column)[None, :] + row[:, None] * columns
    tl.store(output + offset, total, mask=valid_row[:, None] & valid_column[None, :])


def column_sums(x: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the sum over the rows of every run, each row times its weight.

    Shapes
    ------
    x : (runs, rows, columns); the runs may lie apart, the rows of a run may not
    weights : (runs, rows)
    returned : (runs, columns)
    """
    runs, rows, columns = x.shape
    if not x[0].is_contiguous() or x.data_ptr() % 16:
        x = align(x)
    run_stride = x.stride(0) if runs > 1 else rows * columns
    tile_columns = min(64, triton.next_power_of_2(columns))
    tile_rows = TILE // tile_columns
    chunks = max(1, triton.cdiv(rows, tile_rows * CHUNK_TILES))
    output = x.new_empty(runs, chunks, columns)
    _column_sums[chunks, runs, triton.cdiv(columns, tile_columns)](
        x, x if weights is None else align(weights), output, rows, columns, run_stride, tile_rows * CHUNK_TILES,
        HAS_WEIGHTS=weights is not None, ROWS=tile_rows, COLUMNS=tile_columns, num_warps=4,
    )  # fmt: skip
    return output[:, 0] if chunks == 1 else column_sums(output)


@triton.jit(do_not_specialize=["run_stride"])
def _column_sums(
    x, weights, output, rows, columns, run_stride, chunk_rows,
    HAS_WEIGHTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    chunk, run = tl.program_id(0), tl.program_id(1).to(tl.int64)
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    valid_column = column < columns
    x += run * run_stride
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    end = min(rows, (chunk + 1) * chunk_rows)
    for start in range(chunk * chunk_rows, end, ROWS):
        row = start + tl.arange(0, ROWS)
        valid = (row < end)[:, None] & valid_column[None, :]
        value = tl.load(x + row[:, None] * columns + column[None, :], mask=valid, other=0.0)
        if HAS_WEIGHTS:
            value *= tl.load(weights + run * rows + row, mask=row < end, other=0.0)[:, None]
        total += value
    offset = (run * tl.num_programs(0) + chunk) * columns + column
    tl.store(output + offset, tl.sum(total, axis=0), mask=valid_column)


def run_sums(x: Tensor, *, squared: bool = False) -> Tensor:
    """Return the sum of the values, or of their squares, of every run: (runs, ...) to (runs,)."""
    x = align(x)
    runs, count = len(x), math.prod(x.shape[1:])
    chunks = max(1, triton.cdiv(count, TILE * CHUNK_TILES))
    output = x.new_empty(runs, chunks)
    _run_sums[chunks, runs](x, output, count, SQUARED=squared, CHUNK=TILE * CHUNK_TILES, TILE=TILE, num_warps=4)
    return output[:, 0] if chunks == 1 else run_sums(output)


@triton.jit
def _run_sums(x, output, count, SQUARED: tl.constexpr, CHUNK: tl.constexpr, TILE: tl.constexpr):
    chunk, run = tl.program_id(0), tl.program_id(1).to(tl.int64)
    x += run * count
    total = tl.zeros((TILE,), tl.float32)
    end = min(count, (chunk + 1) * CHUNK)
    for start in range(chunk * CHUNK, end, TILE):
        position = start + tl.arange(0, TILE)
        value = tl.load(x + position, mask=position < end, other=0.0)
        total += value * value if SQUARED else value
    tl.store(output + run * tl.num_programs(0) + chunk, tl.sum(total, axis=0))


def axis_sums(x: Tensor, axis: int) -> Tensor:
    """Return the sum over one axis, in ascending order; the values of an index of the axes before may lie apart."""
    outer, size, inner = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])
    lies_apart = axis == 1 and x[0].is_contiguous()
    x = x if lies_apart else x.contiguous()
    output = x.new_empty(*x.shape[:axis], *x.shape[axis + 1 :])
    _axis_sums[triton.cdiv(inner, BLOCK), outer](
        x, output, size, inner, x.stride(0) if lies_apart and outer > 1 else size * inner, BLOCK=BLOCK
    )
    return output


@triton.jit(do_not_specialize=["size", "inner", "outer_stride"])
def _axis_sums(x, output, size, inner, outer_stride, BLOCK: tl.constexpr):
    outer = tl.program_id(1).to(tl.int64)
    position = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    valid = position < inner
    x += outer * outer_stride
    total = tl.load(x + position, mask=valid, other=0.0)
    for _ in range(1, size):
        x += inner
        total += tl.load(x + position, mask=valid, other=0.0)
    tl.store(output + outer * inner + position, total, mask=valid)


def row_dots(a: Tensor, b: Tensor) -> Tensor:
    """Return the dot products of the rows of two tensors of one shape: (..., channels) to (...)."""
    a, b = align(a), align(b)
    *shape, channels = a.shape
    rows, tile_channels = math.prod(shape), min(64, triton.next_power_of_2(channels))
    tile_rows = TILE // tile_channels
    output = a.new_empty(shape)
    _row_dots[(triton.cdiv(rows, tile_rows),)](
        a, b, output, rows, channels, ROWS=tile_rows, CHANNELS=tile_channels, num_warps=4
    )
    return output


@triton.jit(do_not_specialize=["rows"])
def _row_dots(a, b, output, rows, channels, ROWS: tl.constexpr, CHANNELS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros((ROWS, CHANNELS), tl.float32)
    for start in range(0, channels, CHANNELS):
        channel = start + tl.arange(0, CHANNELS)
        offset = row[:, None] * channels + channel[None, :]
        valid = (row < rows)[:, None] & (channel < channels)[None, :]
        total += tl.load(a + offset, mask=valid, other=0.0) * tl.load(b + offset, mask=valid, other=0.0)
    tl.store(output + row, tl.sum(total, axis=1), mask=row < rows)
