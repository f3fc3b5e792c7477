"""Loops compiled by Triton for a GPU."""

from apgcn.ops.kernels.gpu.halting import combine, combine_backward
from apgcn.ops.kernels.gpu.propagation import propagate, propagate_backward
from apgcn.ops.kernels.gpu.rng import random_bits
from apgcn.ops.kernels.gpu.sparse_linear import sparse_linear, sparse_linear_backward
from apgcn.ops.kernels.gpu.spmm import spmm

IN_PARTS = False
PACKED = True  # these loops read coins as they were drawn

__all__ = [
    "PACKED",
    "combine",
    "combine_backward",
    "propagate",
    "propagate_backward",
    "random_bits",
    "sparse_linear",
    "sparse_linear_backward",
    "spmm",
]
