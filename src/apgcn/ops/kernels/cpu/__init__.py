"""Kernels that numba compiles for the CPU; each uses one thread or several, with the same bits.

* `jit`: compilation, the on-disk cache, conversion of arguments.
* `parallel`: kernels on several threads.
* `simd_rows`: row operations that stay in SIMD registers, as LLVM IR; all kernels are built on them.
* `rng`: random numbers and unpacking of dropout masks.
* `spmm`: sparse-dense products.
* `mlp`: the two-layer perceptron.
* `adam`: a step of Adam.
* `propagation`: adaptive propagation; `halo_propagation`: the same in distributed training.
* `halting`: the output of adaptive propagation from its states.
* `reductions`: one number, or one row, per run.
* `lazy`: single rows and steps, for lazy inference.
"""

from apgcn.ops.kernels.cpu.adam import adam
from apgcn.ops.kernels.cpu.halting import combine, combine_backward
from apgcn.ops.kernels.cpu.mlp import mlp, mlp_backward
from apgcn.ops.kernels.cpu.propagation import propagate, propagate_backward
from apgcn.ops.kernels.cpu.reductions import column_sums, run_sums
from apgcn.ops.kernels.cpu.rng import random_bits, unpack_mask
from apgcn.ops.kernels.cpu.spmm import spmm

SUPPORTS_HALO = True  # adaptive propagation over rows that are distributed among processes

__all__ = [
    "SUPPORTS_HALO",
    "adam",
    "column_sums",
    "combine",
    "combine_backward",
    "mlp",
    "mlp_backward",
    "propagate",
    "propagate_backward",
    "random_bits",
    "run_sums",
    "spmm",
    "unpack_mask",
]
