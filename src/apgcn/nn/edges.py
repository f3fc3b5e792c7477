"""In which forms are edges given, and how is a sum over them taken?"""

from __future__ import annotations

import torch
from torch import Tensor

from apgcn.errors import InvalidInput


def as_edges(edge_index: Tensor, edge_weight: Tensor | None, *, nodes: int) -> tuple[Tensor, Tensor]:
    """Sources and targets (2, edges) and weights (edges,), 1 where none are given.

    A `torch.sparse` matrix is taken as PyTorch Geometric takes it: row i lists the nodes that i hears.
    """
    if edge_index.layout != torch.strided:
        if edge_weight is not None:
            raise InvalidInput("edge_weight must not be given beside a sparse matrix, which has weights of its own.")
        if edge_index.shape != (nodes, nodes):
            raise InvalidInput(f"the sparse matrix must be {nodes} x {nodes}, got {tuple(edge_index.shape)}.")
        coo = edge_index.to_sparse_coo().coalesce()
        return coo.indices().flip(0), coo.values()
    if edge_index.ndim != 2 or len(edge_index) != 2 or edge_index.dtype != torch.int64:
        raise InvalidInput(
            f"edge_index must hold whole numbers (int64) of shape (2, edges), got {edge_index.dtype} of shape "
            f"{tuple(edge_index.shape)}."
        )
    if edge_weight is None:
        return edge_index, torch.ones(edge_index.shape[1], device=edge_index.device)
    if not edge_weight.is_floating_point():
        edge_weight = edge_weight.to(torch.get_default_dtype())
    if edge_weight.shape != edge_index.shape[1:]:
        raise InvalidInput(
            f"edge_weight must have one weight for each of {edge_index.shape[1]} edges, got {tuple(edge_weight.shape)}."
        )
    return edge_index, edge_weight


def gathered(x: Tensor, edge_index: Tensor, weight: Tensor) -> Tensor:
    """The weighted sum of what every node hears; x is (..., nodes, channels)."""
    source, target = edge_index[0], edge_index[1]
    messages = weight.to(x.dtype)[:, None] * x.index_select(-2, source)
    return torch.zeros_like(x).index_add(-2, target, messages)
