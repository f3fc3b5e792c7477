"""Loops compiled by Triton for a GPU."""

from apgcn.ops.kernels.gpu.halting import combine, combine_back
from apgcn.ops.kernels.gpu.propagation import listen, listen_back
from apgcn.ops.kernels.gpu.rng import words
from apgcn.ops.kernels.gpu.sparse_linear import hidden_layer, hidden_layer_back
from apgcn.ops.kernels.gpu.spmm import multiply

IN_PARTS = False
PACKED = True  # these loops read coins as they were drawn

__all__ = [
    "PACKED",
    "combine",
    "combine_back",
    "hidden_layer",
    "hidden_layer_back",
    "listen",
    "listen_back",
    "multiply",
    "words",
]
