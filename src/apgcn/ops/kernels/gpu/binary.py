"""GPU kernels of products with a matrix of bits on tensor cores.

* `binary_matmul`: reference `apgcn.ops.sparse.spmm`, compared in `tests/ops/test_binary.py`.
* `binary_linear`, `binary_linear_backward`: reference the PyTorch path of `nn.layers.MLP`, compared there too.

The other factor is split into three bfloat16 numbers whose sum it is, 24 bits in all. Their products with 0 or 1 are
exact, so that only the sums are rounded. Their order is fixed: tiles of the same size whatever the number of runs,
whose results are added in float32 in ascending order. A number that is not finite makes whole columns NaN, in rows
without an entry too.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from apgcn.ops.binary import BITS, BinaryForm
from apgcn.ops.dense import column_sums
from apgcn.ops.kernels.gpu.csr_blocks import MaskArguments, is_kept
from apgcn.ops.kernels.gpu.dense import align
from apgcn.ops.kernels.gpu.spmm import relu_backward
from apgcn.ops.rng import PackedMask

TILE = 128  # rows, and terms at a time, of a program
CHUNK_TERMS = 2048  # terms of a transposed product that a program adds
RUNS = 16  # whose masks a program applies to the same entries
BLOCK = 2048  # values that a program splits
PIECES = 3  # bfloat16 numbers that hold a float32


class BinaryMatrix(NamedTuple):
    """A matrix of bits after dropout.

    Attributes
    ----------
    bits : int32 Tensor of shape (1 or runs, rows, numbers)
        As in `BinaryForm`, without the entries that were dropped.
    form : BinaryForm
    scale : float
        Factor for the entries that dropout kept.
    """

    bits: Tensor
    form: BinaryForm
    scale: float


def binary_matrix(form: BinaryForm, mask: PackedMask | None) -> BinaryMatrix:
    """Apply dropout, a mask of shape (runs, nnz), to a matrix of bits."""
    if mask is None:
        return BinaryMatrix(form.bits, form, 1.0)
    arguments = MaskArguments.from_mask(mask, form.entries)
    runs, (rows, numbers, _) = len(mask.bits), form.entries.shape
    bits = form.bits.new_empty(runs, rows, numbers)
    _drop_bits[triton.cdiv(rows * numbers, BITS), triton.cdiv(runs, RUNS)](
        form.entries, bits, rows * numbers, runs, arguments.bits, arguments.stride, arguments.drop_threshold,
        MASK_KIND=arguments.kind, BITS=BITS, RUNS=RUNS, num_warps=1,
    )  # fmt: skip
    return BinaryMatrix(bits, form, mask.scale)


@triton.jit(do_not_specialize=["runs"])
def _drop_bits(
    entries, bits, numbers, runs, mask_bits, mask_stride, drop_threshold,
    MASK_KIND: tl.constexpr, BITS: tl.constexpr, RUNS: tl.constexpr,
):  # fmt: skip
    position = tl.program_id(0) * BITS + tl.arange(0, BITS)
    bit = tl.arange(0, BITS)
    entry = tl.load(entries + position[:, None] * BITS + bit[None, :], mask=(position < numbers)[:, None], other=-1)
    exists = entry >= 0
    first = tl.program_id(1) * RUNS
    for i in range(0, min(RUNS, runs - first)):
        run = first + i
        kept = exists & is_kept(mask_bits, mask_stride, run, entry, exists, MASK_KIND, drop_threshold)
        number = tl.sum(kept.to(tl.int32) << bit[None, :], axis=1)
        tl.store(bits + run.to(tl.int64) * numbers + position, number, mask=position < numbers)


def binary_matmul(
    matrix: BinaryMatrix,
    dense: Tensor,
    *,
    transposed: bool = False,
    bias: Tensor | None = None,
    hidden_mask: PackedMask | None = None,
) -> Tensor:
    """Return the product with the matrix or its transpose; with a bias, ReLU(product + bias) after dropout.

    Shapes
    ------
    dense : (runs, columns, channels), or (runs, rows, channels) where `transposed`
    bias : (runs, 1, channels)
    hidden_mask : PackedMask of shape (runs, rows, channels), dropout of the result
    """
    form, (runs, terms, channels) = matrix.form, dense.shape
    assert len(matrix.bits) in (1, runs)
    pieces = _split(dense, form.row_values if transposed else None)
    matrix_rows, numbers = matrix.bits.shape[1:]
    rows = form.columns if transposed else matrix_rows
    chunks = triton.cdiv(terms, CHUNK_TERMS) if transposed else 1
    chunk_terms = triton.cdiv(triton.cdiv(terms, chunks), TILE) * TILE
    tile_channels = min(64, max(16, triton.next_power_of_2(channels)))
    output = dense.new_empty(runs, chunks, rows, channels)
    mask = MaskArguments.from_mask(hidden_mask, dense)
    # Triton's interpreter has no products of bfloat16 numbers.
    operand = tl.float32 if triton.knobs.runtime.interpret else tl.bfloat16
    _binary_matmul[triton.cdiv(rows, TILE) * chunks, runs, triton.cdiv(channels, tile_channels)](
        matrix.bits, 0 if len(matrix.bits) == 1 else matrix_rows * numbers, numbers, pieces, form.row_values,
        dense if bias is None else align(bias), output, rows, terms, channels, chunks, chunk_terms, matrix.scale,
        mask.bits, mask.stride, mask.drop_threshold, mask.scale,
        TRANSPOSED=transposed, HAS_BIAS=bias is not None, HIDDEN_MASK_KIND=mask.kind, CHANNELS=tile_channels,
        TILE=TILE, BITS=BITS, PIECES=PIECES, OPERAND=operand, num_warps=4, num_stages=1,
    )  # fmt: skip
    return output[:, 0] if chunks == 1 else column_sums(output.flatten(2)).view(runs, rows, channels)


# The stride is 0 for one run, and must not give it a variant of its own.
@triton.jit(do_not_specialize=["bits_stride"])
def _binary_matmul(
    bits, bits_stride, numbers, pieces, row_values, bias, output, rows, terms, channels, chunks, chunk_terms, scale,
    hidden_bits, hidden_stride, hidden_drop_threshold, hidden_scale,
    TRANSPOSED: tl.constexpr, HAS_BIAS: tl.constexpr, HIDDEN_MASK_KIND: tl.constexpr, CHANNELS: tl.constexpr,
    TILE: tl.constexpr, BITS: tl.constexpr, PIECES: tl.constexpr, OPERAND: tl.constexpr,
):  # fmt: skip
    chunk = tl.program_id(0) % chunks
    row = (tl.program_id(0) // chunks) * TILE + tl.arange(0, TILE)
    run = tl.program_id(1).to(tl.int64)
    channel = tl.program_id(2) * CHANNELS + tl.arange(0, CHANNELS)
    valid_row, valid_channel = row < rows, channel < channels
    bits += run * bits_stride
    total = tl.zeros((TILE, CHANNELS), tl.float32)
    end = min(terms, (chunk + 1) * chunk_terms)
    for start in range(chunk * chunk_terms, end, TILE):
        k = start + tl.arange(0, TILE)
        valid = k < end
        if TRANSPOSED:
            position, bit = k[None, :] * numbers + (row // BITS)[:, None], (row % BITS)[:, None]
        else:
            position, bit = row[:, None] * numbers + (k // BITS)[None, :], (k % BITS)[None, :]
        number = tl.load(bits + position, mask=valid_row[:, None] & valid[None, :], other=0)
        tile = ((number >> bit) & 1).to(OPERAND)
        offset = k[:, None] * channels + channel[None, :]
        product = tl.zeros((TILE, CHANNELS), tl.float32)
        for piece in tl.static_range(PIECES - 1, -1, -1):  # the smallest first
            piece_tile = pieces + (run * PIECES + piece) * terms * channels + offset
            dense_tile = tl.load(piece_tile, mask=valid[:, None] & valid_channel[None, :], other=0.0)
            product = tl.dot(tile, dense_tile.to(OPERAND), product)
        total += product
    total *= scale
    if not TRANSPOSED:
        total *= tl.load(row_values + row, mask=valid_row, other=0.0)[:, None]
    valid_output = valid_row[:, None] & valid_channel[None, :]
    offset = row[:, None] * channels + channel[None, :]
    if HAS_BIAS:
        total += tl.load(bias + run * channels + channel, mask=valid_channel, other=0.0)[None, :]
        total = tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL)
        if HIDDEN_MASK_KIND != 0:
            kept = is_kept(
                hidden_bits, hidden_stride, run, offset, valid_output, HIDDEN_MASK_KIND, hidden_drop_threshold
            )
            total = tl.where(kept, total * hidden_scale, 0.0)
    tl.store(output + (run * chunks + chunk) * rows * channels + offset, total, mask=valid_output)


def _split(x: Tensor, row_values: Tensor | None) -> Tensor:
    """Split every row, times its value, into bfloat16 numbers whose sum it is.

    Shapes
    ------
    x : (runs, rows, columns)
    row_values : (rows,)
    returned : (runs, PIECES, rows, columns)
    """
    x = align(x)
    runs, rows, columns = x.shape
    pieces = x.new_empty(runs, PIECES, rows, columns, dtype=torch.bfloat16)
    _split_rows[triton.cdiv(rows * columns, BLOCK), runs](
        x, x if row_values is None else row_values, pieces, rows * columns, columns,
        HAS_VALUES=row_values is not None, BLOCK=BLOCK, PIECES=PIECES,
    )  # fmt: skip
    return pieces


@triton.jit
def _split_rows(
    x, row_values, pieces, count, columns, HAS_VALUES: tl.constexpr, BLOCK: tl.constexpr, PIECES: tl.constexpr
):
    run = tl.program_id(1).to(tl.int64)
    position = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = position < count
    rest = tl.load(x + run * count + position, mask=valid, other=0.0)
    if HAS_VALUES:
        rest *= tl.load(row_values + position // columns, mask=valid, other=0.0)
    for piece in tl.static_range(PIECES):
        rounded = rest.to(tl.bfloat16)
        tl.store(pieces + (run * PIECES + piece) * count + position, rounded, mask=valid)
        rest -= rounded.to(tl.float32)


def binary_linear(matrix: BinaryMatrix, weight: Tensor, bias: Tensor, mask: PackedMask | None) -> Tensor:
    """Return ReLU(X W + b), with dropout of the result by `mask`; shapes as in `binary_matmul`."""
    return binary_matmul(matrix, weight, bias=bias, hidden_mask=mask)


def binary_linear_backward(
    matrix: BinaryMatrix, hidden: Tensor, mask_scale: float, grad_hidden: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the gradients of W and b, as `sparse_linear_backward`."""
    gradient = relu_backward(hidden, mask_scale, grad_hidden)
    return binary_matmul(matrix, gradient, transposed=True), column_sums(gradient)[:, None]
