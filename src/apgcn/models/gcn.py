"""GCN: Kipf and Welling, Semi-Supervised Classification with Graph Convolutional Networks, ICLR 2017.

V.GCN is the same model as first proposed: smaller, without edge dropout, stopped early.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from apgcn._utils.validation import check_fraction, check_int
from apgcn.data.graph import Graph
from apgcn.models.base import BatchedModel, ModelConfig, num_edges_with_self_loops, num_stored_features
from apgcn.nn.layers import dropout, glorot, matmul, zeros
from apgcn.nn.operators import matrices_with_dropout
from apgcn.nn.propagation import PropagationOutput
from apgcn.ops.dense import add_bias
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream


@dataclass(frozen=True)
class GCNConfig(ModelConfig):
    """Hyperparameters of a GCN of two layers; `edge_dropout` is applied to entries of the normalised matrix.

    `z0_dropout` is applied to the class scores before the last propagation, as in the script of AP-GCN's authors.
    """

    name: ClassVar[str] = "gcn"
    title: ClassVar[str] = "GCN"
    citation: ClassVar[str] = "Kipf and Welling, ICLR 2017; settings of the PPNP paper"
    max_steps: ClassVar[int] = 2
    row_shardable: ClassVar[bool] = True

    hidden_channels: int = 64
    dropout: float = 0.5
    edge_dropout: float = 0.5
    z0_dropout: float = 0.0

    def __post_init__(self) -> None:
        check_int("hidden_channels", self.hidden_channels)
        for name in ("dropout", "edge_dropout", "z0_dropout"):
            check_fraction(name, getattr(self, name))

    def build(self, graph: DeviceGraph, rng: RandomStream) -> BatchedGCN:
        """A batched model for a graph, one run per run of `rng`, which draws the initial weights."""
        return BatchedGCN(self, in_channels=graph.num_features, out_channels=graph.num_classes, rng=rng)

    def floats_per_run(self, graph: Graph) -> int:
        """Estimated number of floats in memory per run of a batch in training."""
        hidden = graph.num_nodes * self.hidden_channels
        weights = graph.num_features * self.hidden_channels
        logits = 12 * graph.num_nodes * graph.num_classes
        edges = 10 * num_edges_with_self_loops(graph)
        return 16 * num_stored_features(graph) + 10 * hidden + logits + edges + 8 * weights


@dataclass(frozen=True)
class VGCNConfig(GCNConfig):
    """Hyperparameters of a GCN as first published; the model is the same."""

    name: ClassVar[str] = "vgcn"
    title: ClassVar[str] = "V.GCN"
    citation: ClassVar[str] = "Kipf and Welling, ICLR 2017"

    hidden_channels: int = 16
    edge_dropout: float = 0.0


class BatchedGCN(BatchedModel):
    """Two graph convolutions.

        H      = ReLU(A X W_1 + b_1)        dropout of the inputs and of entries of A, a new mask in each layer
        output = A H W_2 + b_2

    A is the normalised adjacency matrix with self-loops, `Adjacency.normalized`; l2 regularisation is on W_1.

    Parameters
    ----------
    config : GCNConfig
    in_channels, out_channels : int
        Columns of X and of the output.
    rng : RandomStream
        Draws the initial weights.
    """

    def __init__(self, config: GCNConfig, *, in_channels: int, out_channels: int, rng: RandomStream):
        super().__init__()
        self.config = config
        self.w_1, self.b_1 = glorot(rng, in_channels, config.hidden_channels), zeros(rng, 1, config.hidden_channels)
        self.w_2, self.b_2 = glorot(rng, config.hidden_channels, out_channels), zeros(rng, 1, out_channels)

    def forward(self, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """Logits (runs, nodes, classes) of all nodes; training with `rng`, evaluation without."""
        rate = self.config.dropout
        a_1, a_2 = matrices_with_dropout(graph.adjacency.normalized, self.config.edge_dropout, steps=2, rng=rng)
        x = dropout(graph.features, rate, rng)
        h = add_bias(a_1 @ matmul(x, self.w_1), self.b_1).relu()
        z0 = dropout(matmul(dropout(h, rate, rng), self.w_2), self.config.z0_dropout, rng)
        output = add_bias(a_2 @ z0, self.b_2)
        return PropagationOutput.fixed_steps(output, steps=2)

    def l2_parameters(self) -> Iterable[Tensor]:
        """The weights under l2 regularisation: the first layer's."""
        return (self.w_1,)
