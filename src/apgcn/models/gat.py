"""GAT: Velickovic et al., Graph Attention Networks, ICLR 2018."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from apgcn._utils.validation import check_fraction, check_int
from apgcn.data.graph import Graph
from apgcn.models.base import BatchedModel, ModelConfig, num_edges_with_self_loops, num_stored_features
from apgcn.nn.layers import dropout, glorot, matmul, zeros
from apgcn.nn.propagation import PropagationOutput
from apgcn.ops import dense
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream
from apgcn.ops.sparse import CSRStructure, SparseMatrix, edge_add, edge_softmax

NEGATIVE_SLOPE = 0.2  # of the leaky ReLU


@dataclass(frozen=True)
class GATConfig(ModelConfig):
    """Hyperparameters of GAT: `heads` of `hidden_channels` each in the first layer, one head in the second.

    `dropout` is applied to the layers' inputs and to the attention coefficients, `z0_dropout` to the class scores that
    the last layer aggregates, as in the script of AP-GCN's authors.
    """

    name: ClassVar[str] = "gat"
    title: ClassVar[str] = "GAT"
    citation: ClassVar[str] = "Velickovic et al., ICLR 2018; settings of the PPNP paper"
    memory_advice: ClassVar[str] = "make heads or hidden_channels smaller"
    max_steps: ClassVar[int] = 2

    heads: int = 8
    hidden_channels: int = 8
    dropout: float = 0.6
    z0_dropout: float = 0.0

    def __post_init__(self) -> None:
        check_int("heads", self.heads)
        check_int("hidden_channels", self.hidden_channels)
        check_fraction("dropout", self.dropout)
        check_fraction("z0_dropout", self.z0_dropout)

    def build(self, graph: DeviceGraph, rng: RandomStream) -> BatchedGAT:
        """A batched model for a graph, one run per run of `rng`, which draws the initial weights."""
        return BatchedGAT(self, in_channels=graph.num_features, out_channels=graph.num_classes, rng=rng)

    def floats_per_run(self, graph: Graph) -> int:
        """Estimated number of floats in memory per run of a batch in training."""
        width = self.heads * self.hidden_channels
        messages = num_edges_with_self_loops(graph) * (12 * self.heads + 3 * max(width, graph.num_classes) + 12)
        states = 12 * graph.num_nodes * (width + graph.num_classes)
        return 8 * num_stored_features(graph) + states + messages + 8 * graph.num_features * width


class BatchedGAT(BatchedModel):
    """Two graph attention layers, which weight the in-neighbours of a node by learned coefficients.

        H      = ELU(attention(X))       8 heads, concatenated; dropout of inputs and attention
        output = attention(H)            one head

    l2 regularisation is on the first layer's W.
    """

    def __init__(self, config: GATConfig, *, in_channels: int, out_channels: int, rng: RandomStream):
        super().__init__()
        self.config = config
        self.first = Attention(in_channels, config.hidden_channels, heads=config.heads, rng=rng)
        self.second = Attention(config.heads * config.hidden_channels, out_channels, heads=1, rng=rng)

    def forward(self, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """Logits (runs, nodes, classes) of all nodes; training with `rng`, evaluation without."""
        structure, rate = graph.adjacency.structure, self.config.dropout
        h = functional.elu(self.first(dropout(graph.features, rate, rng), structure, rate, rng))
        output = self.second(dropout(h, rate, rng), structure, rate, rng, self.config.z0_dropout)
        return PropagationOutput.fixed_steps(output, steps=2)

    def l2_parameters(self) -> Iterable[Tensor]:
        """The weights under l2 regularisation: the first layer's."""
        return (self.first.w,)


class Attention(nn.Module):
    """One graph attention layer.

        g_i      = x_i W
        e_ij     = LeakyReLU(att_dst . g_i + att_src . g_j)   for every in-neighbour j of i, and j = i
        output_i = sum over j of softmax_j(e_ij) g_j + b

    for every head. Edge weights are not used. The heads are concatenated in the output, (runs, nodes, heads *
    out_channels).
    """

    def __init__(self, in_channels: int, out_channels: int, *, heads: int, rng: RandomStream):
        super().__init__()
        self.heads = heads
        self.w, self.b = glorot(rng, in_channels, heads * out_channels), zeros(rng, 1, heads * out_channels)
        self.att_dst, self.att_src = glorot(rng, heads, out_channels), glorot(rng, heads, out_channels)

    def forward(
        self,
        x: Tensor | SparseMatrix,
        structure: CSRStructure,
        rate: float,
        rng: RandomStream | None,
        message_rate: float = 0.0,
    ) -> Tensor:
        g = matmul(x, self.w)
        runs, nodes, _ = g.shape
        g = g.view(runs, nodes, self.heads, -1).transpose(1, 2).flatten(0, 1)  # (runs * heads, nodes, out_channels)
        att = torch.stack([self.att_dst, self.att_src], dim=-1).flatten(0, 1)  # (runs * heads, out_channels, 2)
        dst, src = dense.matmul(g, att).unbind(-1)
        e = functional.leaky_relu(edge_add(structure, dst, src), NEGATIVE_SLOPE)
        attention = edge_softmax(structure, e)  # (runs * heads, nnz)
        if rng is not None and rate > 0:
            attention = attention * rng.dropout_mask(self.heads, structure.nnz, rate=rate).flatten(0, 1).to(attention)
        messages = dropout(g.unflatten(0, (runs, self.heads)), message_rate, rng).flatten(0, 1)
        aggregated = SparseMatrix(structure, attention) @ messages
        return dense.add_bias(aggregated.view(runs, self.heads, nodes, -1).transpose(1, 2).flatten(2), self.b)
