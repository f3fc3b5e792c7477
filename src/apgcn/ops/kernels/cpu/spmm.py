"""CPU kernels of sparse-dense products, run after run.

* `spmm`: reference `apgcn.ops.sparse.spmm`, compared in `test_spmm_matches_reference`.

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
    spmm_kernel(*csr_arrays(structure.csr), *to_numpy(values, dense, output), structure.max_row_nnz)
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
