"""In which forms are edges given, and how is a sum over them taken?"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from apgcn._utils.validation import check_fraction
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


class NormalizedPropagation(nn.Module):
    """One step of the paper's listening, equation 3 without weights.

        z' = D^-1/2 (A + I) D^-1/2 z,    D the row sums of A + I

    While training, each edge is dropped with probability `dropout` before the row sums are taken; a node always hears
    itself.

    Shapes
    ------
    x : (..., nodes, channels)
    edge_index : (2, edges), or a `torch.sparse` matrix (nodes, nodes) whose row i lists the nodes that i hears
    edge_weight : (edges,), optional
    """

    def __init__(self, dropout: float = 0.0):
        super().__init__()
        check_fraction("dropout", dropout)
        self.dropout = dropout

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        nodes = x.shape[-2]
        ends, weight = as_edges(edge_index, edge_weight, nodes=nodes)
        weight = functional.dropout(weight * (ends[0] != ends[1]), self.dropout, training=self.training)
        own = torch.full(
            (nodes,), 1 / (1 - self.dropout) if self.training else 1.0, device=x.device, dtype=weight.dtype
        )
        scale = own.index_add(0, ends[1], weight).rsqrt()
        between = scale[ends[0]] * weight * scale[ends[1]]
        return gathered(x, ends, between) + (own * scale.square()).to(x.dtype)[:, None] * x

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(dropout={self.dropout})"
