"""Loops compiled by numba for one thread of a processor."""

from apgcn.ops.kernels.cpu.halting import combine, combine_backward
from apgcn.ops.kernels.cpu.propagation import propagate, propagate_backward
from apgcn.ops.kernels.cpu.rng import factors, random_bits
from apgcn.ops.kernels.cpu.sparse_linear import sparse_linear, sparse_linear_backward
from apgcn.ops.kernels.cpu.spmm import spmm

IN_PARTS = True  # rows may lie in several processes
PACKED = False  # these loops want coins unpacked, once for both directions

__all__ = [
    "IN_PARTS",
    "PACKED",
    "combine",
    "combine_backward",
    "factors",
    "propagate",
    "propagate_backward",
    "random_bits",
    "sparse_linear",
    "sparse_linear_backward",
    "spmm",
]
