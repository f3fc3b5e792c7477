"""Kernels that Triton compiles for a GPU.

* `csr_blocks`: how programs divide the rows of a sparse matrix, and reading of packed masks; used by all others.
* `dense`: dense products and sums, whose bits do not depend on the number of runs.
* `rng`: random numbers.
* `spmm`: sparse-dense products and the sparse linear layer; `binary`: the same for a matrix of bits.
* `edge_dropout`: edge masks and degrees of all steps.
* `propagation`: adaptive propagation; `halting`: its output from its states.
"""

from apgcn.ops.kernels.gpu.binary import binary_linear, binary_linear_backward, binary_matmul, binary_matrix
from apgcn.ops.kernels.gpu.dense import axis_sums, column_sums, matmul, row_dots, run_sums
from apgcn.ops.kernels.gpu.halting import combine, combine_backward
from apgcn.ops.kernels.gpu.propagation import propagate, propagate_backward
from apgcn.ops.kernels.gpu.rng import random_bits
from apgcn.ops.kernels.gpu.spmm import sddmm, sparse_linear, sparse_linear_backward, spmm

SUPPORTS_HALO = False  # adaptive propagation over rows that are distributed among processes

__all__ = [
    "SUPPORTS_HALO",
    "axis_sums",
    "binary_linear",
    "binary_linear_backward",
    "binary_matmul",
    "binary_matrix",
    "column_sums",
    "combine",
    "combine_backward",
    "matmul",
    "propagate",
    "propagate_backward",
    "random_bits",
    "row_dots",
    "run_sums",
    "sddmm",
    "sparse_linear",
    "sparse_linear_backward",
    "spmm",
]
