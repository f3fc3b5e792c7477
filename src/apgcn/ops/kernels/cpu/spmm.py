"""CPU kernels of sparse-dense products, run after run.

* `spmm`: reference `apgcn.ops.sparse.spmm`, compared in `test_spmm_matches_reference`.
* `sparse_linear`, `sparse_linear_backward`: reference the PyTorch path of `nn.layers.MLP`, compared in
  `test_mlp_over_sparse_features_matches_reference`.

The number of channels is a compile-time constant of each kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from torch import Tensor

from apgcn.ops.kernels.cpu.jit import ZERO, csr_arrays, kernel, to_numpy
from apgcn.ops.kernels.cpu.rng import unpack_mask
from apgcn.ops.kernels.cpu.simd_rows import NO_PREFETCH, gather, scatter
from apgcn.ops.rng import PackedMask
from apgcn.ops.sparse import CSRStructure

MIN_CHANNELS = 16  # with fewer, PyTorch's product is as fast


def spmm(
    structure: CSRStructure, values: Tensor, mask: PackedMask | None, dense: Tensor, *, transposed: bool
) -> Tensor | None:
    """Return the product with the matrix or its transpose, or None where PyTorch's product is as fast.

    Shapes
    ------
    values : (1 or runs, nnz)
    dense : (runs, columns, channels), or (runs, rows, channels) where `transposed`
    """
    runs, _, channels = dense.shape
    if channels < MIN_CHANNELS:
        return None
    if mask is not None:
        values = values * unpack_mask(mask)
    output = dense.new_empty(runs, structure.shape[1 if transposed else 0], channels)
    spmm_kernel = _spmm_kernels(channels)[1 if transposed else 0]
    spmm_kernel(*csr_arrays(structure), *to_numpy(values, dense, output), structure.max_row_nnz)
    return output


@cache
def _spmm_kernels(channels: int) -> tuple[Callable, Callable]:
    """Return the kernels of the product and of the product with the transposed matrix.

    The second loads and stores a row for every entry, so there it pays to skip the entries that were dropped.
    """

    @kernel
    def product(indptr, indices, values, dense, output, max_row_nnz):
        for run in range(output.shape[0]):
            run_values, run_dense = values[run % values.shape[0]], dense[run]
            for row in range(output.shape[1]):
                first, last = indptr[row], indptr[row + 1]
                gather(channels, NO_PREFETCH, run_values, indices, first, last, run_dense, output[run, row])

    @kernel
    def product_transposed(indptr, indices, values, dense, output, max_row_nnz):
        nonzero_indices, nonzero_values = np.empty(max_row_nnz, np.uint32), np.empty(max_row_nnz, np.float32)
        for run in range(output.shape[0]):
            run_values, run_output = values[run % values.shape[0]], output[run]
            run_output[:] = ZERO
            for row in range(dense.shape[1]):
                count = np.uint32(0)
                for entry in range(indptr[row], indptr[row + 1]):
                    nonzero_indices[count], nonzero_values[count] = indices[entry], run_values[entry]
                    count += np.uint32(run_values[entry] != ZERO)
                scatter(
                    channels, NO_PREFETCH, nonzero_values, nonzero_indices, np.uint32(0), count, run_output,
                    dense[run, row],
                )  # fmt: skip

    return product, product_transposed


def sparse_linear(
    structure: CSRStructure, values: Tensor, feature_mask: None, weight: Tensor, bias: Tensor, mask: PackedMask | None
) -> Tensor:
    """Return ReLU(X W + b) after dropout by `mask`.

    Shapes
    ------
    values : (1 or runs, nnz), the values of X after dropout
    weight : (runs, features, channels), W
    bias : (runs, 1, channels), b
    mask : PackedMask of shape (runs, nodes, channels) or None
    """
    hidden = weight.new_empty(len(weight), structure.shape[0], weight.shape[-1])
    forward, _ = _sparse_linear_kernels(weight.shape[-1])
    unpacked = hidden[:0] if mask is None else unpack_mask(mask)
    forward(*csr_arrays(structure), *to_numpy(values, weight, bias, unpacked, hidden))
    return hidden


def sparse_linear_backward(
    structure: CSRStructure, values: Tensor, feature_mask: None, hidden: Tensor, mask_scale: float, grad_hidden: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the gradients of W and b; `mask_scale` is the factor of the activations that dropout kept."""
    runs, _, channels = hidden.shape
    grad_weight, grad_bias = hidden.new_zeros(runs, structure.shape[1], channels), hidden.new_zeros(runs, 1, channels)
    _, backward = _sparse_linear_kernels(channels)
    arrays = to_numpy(values, hidden, grad_hidden, grad_weight, grad_bias)
    backward(*csr_arrays(structure), *arrays, np.float32(mask_scale), structure.max_row_nnz)
    return grad_weight, grad_bias


@cache
def _sparse_linear_kernels(channels: int) -> tuple[Callable, Callable]:
    """Return the forward and the backward kernel of the sparse linear layer.

    The backward kernel skips the entries that were dropped, as `product_transposed` does.
    """

    @kernel
    def forward(indptr, indices, values, weight, bias, mask, hidden):
        total = np.empty(channels, np.float32)
        for run in range(hidden.shape[0]):
            run_values, run_weight, run_bias = values[run % values.shape[0]], weight[run], bias[run, 0]
            for row in range(hidden.shape[1]):
                gather(channels, NO_PREFETCH, run_values, indices, indptr[row], indptr[row + 1], run_weight, total)
                output = hidden[run, row]
                for c in range(channels):
                    output[c] = max(total[c] + run_bias[c], ZERO)
                if len(mask):
                    row_mask = mask[run, row]
                    for c in range(channels):
                        output[c] *= row_mask[c]

    @kernel
    def backward(indptr, indices, values, hidden, grad_hidden, grad_weight, grad_bias, mask_scale, max_row_nnz):
        nonzero_indices, nonzero_values = np.empty(max_row_nnz, np.uint32), np.empty(max_row_nnz, np.float32)
        grad_row = np.empty(channels, np.float32)
        for run in range(hidden.shape[0]):
            run_values, run_grad_weight, run_grad_bias = (
                values[run % values.shape[0]],
                grad_weight[run],
                grad_bias[run, 0],
            )
            for row in range(hidden.shape[1]):
                activation, gradient = hidden[run, row], grad_hidden[run, row]
                for c in range(channels):
                    grad_row[c] = gradient[c] * mask_scale if activation[c] > ZERO else ZERO
                    run_grad_bias[c] += grad_row[c]
                count = np.uint32(0)
                for entry in range(indptr[row], indptr[row + 1]):
                    nonzero_indices[count], nonzero_values[count] = indices[entry], run_values[entry]
                    count += np.uint32(run_values[entry] != ZERO)
                scatter(
                    channels, NO_PREFETCH, nonzero_values, nonzero_indices, np.uint32(0), count, run_grad_weight,
                    grad_row,
                )  # fmt: skip

    return forward, backward
