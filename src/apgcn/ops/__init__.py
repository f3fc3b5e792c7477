"""Tensor operations over the run axis.

* `sparse`: `CSRStructure`, `SparseMatrix` and `spmm`, sparse-dense products of all runs at once. Start here.
* `rng`: `RandomStream`, counter-based random numbers, and dropout masks.
* `device_graph`: `DeviceGraph` and `Adjacency`, a graph as tensors on a device.
* `dispatch`: the choice between fused kernels and the PyTorch reference.
* `kernels`: the fused kernels, compiled by numba for CPUs and by Triton for GPUs.
* `devices`: device names, hardware and memory.
* `threads`: the number of threads of the CPU kernels.
"""

from apgcn.ops.device_graph import Adjacency, DeviceGraph
from apgcn.ops.devices import parse_device, resolve_device
from apgcn.ops.dispatch import reference_kernels, select_kernels
from apgcn.ops.rng import PackedMask, RandomStream, derive_seed
from apgcn.ops.sparse import CSRStructure, SparseMatrix, edge_add, edge_softmax, spmm

__all__ = [
    "Adjacency",
    "CSRStructure",
    "DeviceGraph",
    "PackedMask",
    "RandomStream",
    "SparseMatrix",
    "derive_seed",
    "edge_add",
    "edge_softmax",
    "parse_device",
    "reference_kernels",
    "resolve_device",
    "select_kernels",
    "spmm",
]
