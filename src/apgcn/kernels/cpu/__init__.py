"""Loops compiled by numba for one thread of a processor."""

from apgcn.kernels.cpu.coins import factors
from apgcn.kernels.cpu.combining import combine, combine_back
from apgcn.kernels.cpu.hidden import hidden_layer, hidden_layer_back
from apgcn.kernels.cpu.listening import listen, listen_back
from apgcn.kernels.cpu.noise import words
from apgcn.kernels.cpu.products import multiply

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
