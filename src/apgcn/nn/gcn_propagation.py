"""One GCN propagation step on (x, edge_index), and the forms of edges that it accepts."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from apgcn._utils.validation import check_fraction
from apgcn.errors import InvalidInput


class GCNPropagation(nn.Module):
    """The propagation step of a GCN (Kipf and Welling, 2017), the paper's equation 3 without weights.

        z' = D^-1/2 (A + I) D^-1/2 z,    D the row sums of A + I

    Parameters
    ----------
    dropout : float
        In training, each edge is dropped with this probability before the row sums are taken; a self-loop is never
        dropped.

    Shapes
    ------
    x : (..., nodes, channels)
    edge_index : (2, edges), or a `torch.sparse` matrix (nodes, nodes) whose row i lists the in-neighbours of i
    edge_weight : (edges,), optional

    Examples
    --------
    >>> edge_index = torch.tensor([[0, 1], [1, 0]])
    >>> [round(value, 3) for value in GCNPropagation()(torch.tensor([[1.0], [3.0]]), edge_index).flatten().tolist()]
    [2.0, 2.0]
    """

    def __init__(self, dropout: float = 0.0):
        super().__init__()
        check_fraction("dropout", dropout)
        self.dropout = dropout

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        num_nodes = x.shape[-2]
        edge_index, weight = to_edge_index(edge_index, edge_weight, num_nodes=num_nodes)
        source, target = edge_index[0], edge_index[1]
        weight = functional.dropout(weight * (source != target), self.dropout, training=self.training)
        self_loop_weight = torch.full(
            (num_nodes,), 1 / (1 - self.dropout) if self.training else 1.0, device=x.device, dtype=weight.dtype
        )
        scale = self_loop_weight.index_add(0, target, weight).rsqrt()
        normalized = scale[source] * weight * scale[target]
        return aggregate(x, edge_index, normalized) + (self_loop_weight * scale.square()).to(x.dtype)[:, None] * x

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(dropout={self.dropout})"


def to_edge_index(edge_index: Tensor, edge_weight: Tensor | None, *, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Sources and targets (2, edges) and weights (edges,), 1 by default.

    A `torch.sparse` matrix is read as in PyTorch Geometric: row i lists the in-neighbours of i.
    """
    if edge_index.layout != torch.strided:
        if edge_weight is not None:
            raise InvalidInput("edge_weight must be None beside a sparse matrix, whose values are the weights.")
        if edge_index.shape != (num_nodes, num_nodes):
            raise InvalidInput(f"the sparse matrix must be {num_nodes} x {num_nodes}, got {tuple(edge_index.shape)}.")
        coo = edge_index.to_sparse_coo().coalesce()
        return coo.indices().flip(0), coo.values()
    if edge_index.ndim != 2 or len(edge_index) != 2 or edge_index.dtype != torch.int64:
        raise InvalidInput(
            f"edge_index must hold integers (int64) of shape (2, edges), got {edge_index.dtype} of shape "
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


def aggregate(x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
    """Weighted sum over the in-neighbours of every node; x is (..., nodes, channels)."""
    source, target = edge_index[0], edge_index[1]
    messages = edge_weight.to(x.dtype)[:, None] * x.index_select(-2, source)
    return torch.zeros_like(x).index_add(-2, target, messages)
