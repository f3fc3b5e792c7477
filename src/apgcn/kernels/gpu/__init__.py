"""Loops compiled by Triton for a GPU."""

from apgcn.kernels.gpu.combining import combine, combine_back
from apgcn.kernels.gpu.hidden import hidden_layer, hidden_layer_back
from apgcn.kernels.gpu.listening import listen, listen_back
from apgcn.kernels.gpu.noise import words
from apgcn.kernels.gpu.products import multiply

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
