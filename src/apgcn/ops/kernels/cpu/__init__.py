"""Kernels that numba compiles for one CPU thread.

* `jit`: compilation, the on-disk cache, conversion of arguments.
* `simd_rows`: row operations that stay in SIMD registers, as LLVM IR; all kernels are built on them.
* `rng`: random numbers and unpacking of dropout masks.
* `spmm`: sparse-dense products and the sparse linear layer.
* `propagation`: adaptive propagation; `halo_propagation`: the same in distributed training.
* `halting`: the output of adaptive propagation from its states.
* `lazy`: single rows and steps, for lazy inference.
"""

from apgcn.ops.kernels.cpu.halting import combine, combine_backward
from apgcn.ops.kernels.cpu.propagation import propagate, propagate_backward
from apgcn.ops.kernels.cpu.rng import random_bits, unpack_mask
from apgcn.ops.kernels.cpu.spmm import sparse_linear, sparse_linear_backward, spmm

SUPPORTS_HALO = True  # adaptive propagation over rows that are distributed among processes
SUPPORTS_PACKED_MASK = False  # feature masks are unpacked once for both directions, by `unpack_mask`

__all__ = [
    "SUPPORTS_HALO",
    "SUPPORTS_PACKED_MASK",
    "combine",
    "combine_backward",
    "propagate",
    "propagate_backward",
    "random_bits",
    "sparse_linear",
    "sparse_linear_backward",
    "spmm",
    "unpack_mask",
]
