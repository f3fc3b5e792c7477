"""Loops compiled by numba for one thread of a processor."""

from apgcn.ops.kernels.cpu.halting import combine, combine_back
from apgcn.ops.kernels.cpu.propagation import listen, listen_back
from apgcn.ops.kernels.cpu.rng import factors, words
from apgcn.ops.kernels.cpu.sparse_linear import hidden_layer, hidden_layer_back
from apgcn.ops.kernels.cpu.spmm import multiply

IN_PARTS = True  # rows may lie in several processes
PACKED = False  # these loops want coins unpacked, once for both directions

__all__ = [
    "IN_PARTS",
    "PACKED",
    "combine",
    "combine_back",
    "factors",
    "hidden_layer",
    "hidden_layer_back",
    "listen",
    "listen_back",
    "multiply",
    "words",
]
