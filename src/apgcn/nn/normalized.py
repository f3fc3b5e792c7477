"""How does a node hear its neighbours and itself? One step z' = D^-1/2 (A + I) D^-1/2 z."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from apgcn.checks import check_share
from apgcn.nn.edges import as_edges, gathered


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
        check_share("dropout", dropout)
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
