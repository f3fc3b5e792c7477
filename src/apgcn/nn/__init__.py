"""Layers for one's own models and training loops, with the names and arguments of PyTorch Geometric's.

They know nothing of runs, packs or tapes of noise: a module with parameters of its own, called with node features and
`edge_index`. PyTorch Geometric need not be installed.
"""

from apgcn.nn.apgcn import APGCN
from apgcn.nn.apgcn_conv import AdaptivePropagation
from apgcn.nn.gcn_propagation import NormalizedPropagation

__all__ = ["APGCN", "AdaptivePropagation", "NormalizedPropagation"]
