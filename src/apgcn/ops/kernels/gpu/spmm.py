"""GPU kernel of sparse-dense products, all runs in one launch.

* `spmm`: reference `apgcn.ops.sparse.spmm`, compared in `test_spmm_matches_reference`.
* `sddmm`: reference the PyTorch path of the gradient in `apgcn.ops.sparse`, compared in `tests/ops/test_dense.py`.
* `sparse_linear`, `sparse_linear_backward`: reference the PyTorch path of `nn.layers.MLP`, compared in
  `test_mlp_over_sparse_features_matches_reference`.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from apgcn.ops.dense import column_sums
from apgcn.ops.kernels.gpu.csr_blocks import MaskArguments, RowBlocks, is_kept, load_rows
from apgcn.ops.kernels.gpu.dense import TILE, align
from apgcn.ops.rng import PackedMask
from apgcn.ops.sparse import CSRStructure


def spmm(
    structure: CSRStructure,
    values: Tensor,
    mask: PackedMask | None,
    dense: Tensor,
    *,
    transposed: bool,
    bias: Tensor | None = None,
    hidden_mask: PackedMask | None = None,
) -> Tensor:
    """Return the product with the matrix or its transpose; with a bias, ReLU(product + bias) after dropout.

    Shapes
    ------
    values : (1 or runs, nnz)
    mask : PackedMask of shape (runs, nnz), dropout of the values
    dense : (runs, columns, channels), or (runs, rows, channels) where `transposed`
    bias : (runs, 1, channels)
    hidden_mask : PackedMask of shape (runs, rows, channels), dropout of the result
    """
    dense = align(dense)
    runs, _, channels = dense.shape
    rows = structure.shape[1 if transposed else 0]
    output = dense.new_empty(runs, rows, channels)
    if transposed:
        values = values.index_select(1, structure.transpose_permutation)
    value_mask = MaskArguments.from_mask(mask, values)
    output_mask = MaskArguments.from_mask(hidden_mask, values)
    csr = structure.csr_transposed if transposed else structure.csr
    blocks = RowBlocks.from_csr(csr, channels)
    _spmm[blocks.blocks, runs, triton.cdiv(channels, blocks.sizes["CHANNELS"])](
        csr.indptr, csr.indices, csr.row_order, structure.transpose_permutation, blocks.long_rows,
        align(values), 0 if len(values) == 1 else structure.nnz,
        dense, dense.shape[1], dense if bias is None else align(bias), output, rows, channels,
        value_mask.bits, value_mask.stride, value_mask.drop_threshold, value_mask.scale,
        output_mask.bits, output_mask.stride, output_mask.drop_threshold, output_mask.scale,
        TRANSPOSED=transposed, MASK_KIND=value_mask.kind, HAS_BIAS=bias is not None, HIDDEN_MASK_KIND=output_mask.kind,
        num_warps=1, **blocks.sizes,
    )  # fmt: skip
    return output


def sparse_linear(
    structure: CSRStructure,
    values: Tensor,
    feature_mask: PackedMask | None,
    weight: Tensor,
    bias: Tensor,
    mask: PackedMask | None,
) -> Tensor:
    """Return ReLU(X W + b), with dropout of X by `feature_mask` and of the result by `mask`; shapes as in `spmm`."""
    return spmm(structure, values, feature_mask, weight, transposed=False, bias=bias, hidden_mask=mask)


def sparse_linear_backward(
    structure: CSRStructure,
    values: Tensor,
    feature_mask: PackedMask | None,
    hidden: Tensor,
    mask_scale: float,
    grad_hidden: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return the gradients of W and b; `mask_scale` is the factor of the activations that dropout kept."""
    gradient = relu_backward(hidden, mask_scale, grad_hidden)
    return spmm(structure, values, feature_mask, gradient, transposed=True), column_sums(gradient)[:, None]


def relu_backward(hidden: Tensor, mask_scale: float, grad_hidden: Tensor) -> Tensor:
    """Return the gradient before ReLU and dropout, from the activations after them."""
    gradient = torch.empty_like(hidden)
    _relu_backward[(triton.cdiv(hidden.numel(), TILE),)](
        hidden, align(grad_hidden), gradient, hidden.numel(), mask_scale, TILE=TILE
    )
    return gradient


@triton.jit(do_not_specialize=["count"])
def _relu_backward(hidden, grad_hidden, gradient, count, mask_scale, TILE: tl.constexpr):
    position = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    valid = position < count
    is_positive = tl.load(hidden + position, mask=valid, other=0.0) > 0
    value = tl.load(grad_hidden + position, mask=valid, other=0.0)
    tl.store(gradient + position, tl.where(is_positive, value * mask_scale, 0.0), mask=valid)


def sddmm(structure: CSRStructure, a: Tensor, b: Tensor) -> Tensor:
    """Return a_i . b_j at every entry (i, j), the product a b' sampled at the entries of a matrix.

    Shapes
    ------
    a : (runs, rows, channels)
    b : (runs, columns, channels)
    returned : (runs, nnz)
    """
    a, b = align(a), align(b)
    runs, _, channels = a.shape
    output = a.new_empty(runs, structure.nnz)
    tile_channels = min(64, triton.next_power_of_2(channels))
    entries = TILE // tile_channels
    if structure.nnz:
        _sddmm[triton.cdiv(structure.nnz, entries), runs](
            structure.row, structure.col, a, b, output, structure.nnz, *structure.shape, channels,
            ENTRIES=entries, CHANNELS=tile_channels, num_warps=4,
        )  # fmt: skip
    return output


@triton.jit
def _sddmm(row, col, a, b, output, nnz, rows, columns, channels, ENTRIES: tl.constexpr, CHANNELS: tl.constexpr):
    run = tl.program_id(1).to(tl.int64)
    entry = tl.program_id(0) * ENTRIES + tl.arange(0, ENTRIES)
    valid_entry = entry < nnz
    i = tl.load(row + entry, mask=valid_entry, other=0)
    j = tl.load(col + entry, mask=valid_entry, other=0)
    a += run * rows * channels
    b += run * columns * channels
    total = tl.zeros((ENTRIES, CHANNELS), tl.float32)
    for start in range(0, channels, CHANNELS):
        channel = start + tl.arange(0, CHANNELS)
        valid = valid_entry[:, None] & (channel < channels)[None, :]
        a_rows = tl.load(a + i[:, None] * channels + channel[None, :], mask=valid, other=0.0)
        total += a_rows * tl.load(b + j[:, None] * channels + channel[None, :], mask=valid, other=0.0)
    tl.store(output + run * nnz + entry, tl.sum(total, axis=1), mask=valid_entry)


@triton.jit
def _load_entries(
    entry, last, indices, values, permutation, mask_bits, mask_stride, run, drop_threshold,
    TRANSPOSED: tl.constexpr, MASK_KIND: tl.constexpr,
):  # fmt: skip
    """The columns of some entries, their values, and whether they exist and are kept.

    The values are in the order of the entries. The mask is in the order of the matrix, also where TRANSPOSED.
    """
    kept = entry < last
    column = tl.load(indices + entry, mask=kept, other=0)
    value = tl.load(values + entry, mask=kept, other=0.0)
    if MASK_KIND != 0:
        position = tl.load(permutation + entry, mask=kept, other=0) if TRANSPOSED else entry
        kept = kept & is_kept(mask_bits, mask_stride, run, position, kept, MASK_KIND, drop_threshold)
    return column, value, kept


# The stride is 0 for one run, and must not give it a variant of its own.
@triton.jit(do_not_specialize=["long_rows", "values_stride"])
def _spmm(
    indptr, indices, row_order, permutation, long_rows,
    values, values_stride, dense, dense_rows, bias, output, rows, channels,
    mask_bits, mask_stride, drop_threshold, mask_scale,
    hidden_bits, hidden_stride, hidden_drop_threshold, hidden_scale,
    TRANSPOSED: tl.constexpr, MASK_KIND: tl.constexpr, HAS_BIAS: tl.constexpr, HIDDEN_MASK_KIND: tl.constexpr,
    ROWS: tl.constexpr, ENTRIES: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    block, run = tl.program_id(0), tl.program_id(1)
    values += run.to(tl.int64) * values_stride
    dense += run.to(tl.int64) * dense_rows * channels
    bias += run * channels
    output += run.to(tl.int64) * rows * channels
    if block < long_rows:
        _spmm_rows(
            block + tl.arange(0, 1), long_rows, run, indptr, indices, row_order, permutation, values, dense, bias,
            output, channels, mask_bits, mask_stride, drop_threshold, mask_scale,
            hidden_bits, hidden_stride, hidden_drop_threshold, hidden_scale,
            TRANSPOSED, MASK_KIND, HAS_BIAS, HIDDEN_MASK_KIND, 1, ENTRIES if ROWS == 1 else 32, CHANNELS,
        )  # fmt: skip
    elif ROWS > 1:
        _spmm_rows(
            long_rows + (block - long_rows) * ROWS + tl.arange(0, ROWS), rows, run, indptr, indices, row_order,
            permutation, values, dense, bias, output, channels, mask_bits, mask_stride, drop_threshold, mask_scale,
            hidden_bits, hidden_stride, hidden_drop_threshold, hidden_scale,
            TRANSPOSED, MASK_KIND, HAS_BIAS, HIDDEN_MASK_KIND, ROWS, ENTRIES, CHANNELS,
        )  # fmt: skip


@triton.jit
def _spmm_rows(
    position, end, run, indptr, indices, row_order, permutation, values, dense, bias, output, channels,
    mask_bits, mask_stride, drop_threshold, mask_scale,
    hidden_bits, hidden_stride, hidden_drop_threshold, hidden_scale,
    TRANSPOSED: tl.constexpr, MASK_KIND: tl.constexpr, HAS_BIAS: tl.constexpr, HIDDEN_MASK_KIND: tl.constexpr,
    ROWS: tl.constexpr, ENTRIES: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Compute the rows at some positions of `row_order`."""
    row, first, last = load_rows(position, end, indptr, row_order)
    channel = tl.program_id(2) * CHANNELS + tl.arange(0, CHANNELS)
    valid_channel = channel < channels
    total = tl.zeros((ROWS, CHANNELS), tl.float32)
    entry = first[:, None] + tl.arange(0, ENTRIES)[None, :]
    next_column, next_value, next_kept = _load_entries(
        entry, last[:, None], indices, values, permutation, mask_bits, mask_stride, run, drop_threshold, TRANSPOSED,
        MASK_KIND,
    )  # fmt: skip
    for _ in range(0, tl.max(last - first), ENTRIES):
        entry += ENTRIES
        dense_offset = next_column[:, :, None] * channels + channel[None, None, :]
        value, kept = next_value, next_kept
        next_column, next_value, next_kept = _load_entries(
            entry, last[:, None], indices, values, permutation, mask_bits, mask_stride, run, drop_threshold, TRANSPOSED,
            MASK_KIND,
        )  # fmt: skip
        dense_rows = tl.load(dense + dense_offset, mask=kept[:, :, None] & valid_channel[None, None, :], other=0.0)
        total += tl.sum(value[:, :, None] * dense_rows, axis=1)
    total *= mask_scale
    valid = (position < end)[:, None] & valid_channel[None, :]
    offset = row[:, None] * channels + channel[None, :]
    if HAS_BIAS:
        total += tl.load(bias + channel, mask=valid_channel, other=0.0)[None, :]
        total = tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL)
        if HIDDEN_MASK_KIND != 0:
            kept_hidden = is_kept(
                hidden_bits, hidden_stride, run, offset, valid, HIDDEN_MASK_KIND, hidden_drop_threshold
            )  # fmt: skip
            total = tl.where(kept_hidden, total * hidden_scale, 0.0)
    tl.store(output + offset, total, mask=valid)
