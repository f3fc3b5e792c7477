"""ARMA: Bianchi et al., Graph Neural Networks with Convolutional ARMA Filters, 2019."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from apgcn._utils.validation import check_fraction, check_int
from apgcn.data.graph import Graph
from apgcn.models.base import BatchedModel, ModelConfig, num_edges_with_self_loops, num_stored_features
from apgcn.nn.layers import dropout, glorot, stacked_matmul, zeros
from apgcn.nn.propagation import PropagationOutput
from apgcn.ops.dense import add_bias, axis_sums, matmul
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream
from apgcn.ops.sparse import SparseMatrix


@dataclass(frozen=True)
class ARMAConfig(ModelConfig):
    """Hyperparameters of ARMA: two layers, in each `stacks` filters of `depth` recursions that share weights.

    `skip_dropout` is applied to a layer's input where each recursion adds it again, `z0_dropout` to the class scores
    from which the recursion of the second layer starts, as in the script of AP-GCN's authors.
    """

    name: ClassVar[str] = "arma"
    title: ClassVar[str] = "ARMA"
    citation: ClassVar[str] = "Bianchi et al., 2019"
    memory_advice: ClassVar[str] = "make stacks, depth or hidden_channels smaller"

    hidden_channels: int = 64
    stacks: int = 2
    depth: int = 1
    dropout: float = 0.5
    skip_dropout: float = 0.5
    z0_dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("hidden_channels", "stacks", "depth"):
            check_int(name, getattr(self, name))
        for name in ("dropout", "skip_dropout", "z0_dropout"):
            check_fraction(name, getattr(self, name))

    @property
    def max_steps(self) -> int:
        return 2 * self.depth

    def build(self, graph: DeviceGraph, rng: RandomStream) -> BatchedARMA:
        """A batched model for a graph, one run per run of `rng`, which draws the initial weights."""
        return BatchedARMA(self, in_channels=graph.num_features, out_channels=graph.num_classes, rng=rng)

    def floats_per_run(self, graph: Graph) -> int:
        """Estimated number of floats in memory per run of a batch in training."""
        width = self.stacks * self.hidden_channels
        states = (6 + 4 * self.depth) * graph.num_nodes * (width + self.stacks * graph.num_classes)
        edges, weights = num_edges_with_self_loops(graph), 16 * graph.num_features * width
        return 12 * num_stored_features(graph) + states + edges + weights


class BatchedARMA(BatchedModel):
    """Two layers of ARMA filters, dropout before each; ReLU in the recursions of the first, none in the second.

    l2 regularisation is on the first layer's weights.
    """

    def __init__(self, config: ARMAConfig, *, in_channels: int, out_channels: int, rng: RandomStream):
        super().__init__()
        self.config = config
        size = {"stacks": config.stacks, "depth": config.depth}
        self.first = ARMAFilters(in_channels, config.hidden_channels, **size, rng=rng, relu=True)
        self.second = ARMAFilters(config.hidden_channels, out_channels, **size, rng=rng, relu=False)

    def forward(self, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """Logits (runs, nodes, classes) of all nodes; training with `rng`, evaluation without."""
        m, skip_rate = graph.adjacency.normalized_without_self_loops, self.config.skip_dropout
        h = self.first(dropout(graph.features, self.config.dropout, rng), m, skip_rate, rng)
        output = self.second(dropout(h, self.config.dropout, rng), m, skip_rate, rng, self.config.z0_dropout)
        return PropagationOutput.fixed_steps(output, steps=self.config.max_steps)

    def l2_parameters(self) -> Iterable[Tensor]:
        """The weights under l2 regularisation: the first layer's."""
        return self.first.weights()


class ARMAFilters(nn.Module):
    """One ARMA layer: the mean of several stacks, each a recursion with its own weights.

        Z^0     = X W_0
        Z^t     = ReLU(M Z^(t-1) W + X V + b)       t = 1..depth, W from t = 2 on
        output  = mean over stacks of Z^depth

    M = D^-1/2 A D^-1/2, without self-loops: a node's own features enter through X V.
    """

    def __init__(self, in_channels: int, out_channels: int, *, stacks: int, depth: int, rng: RandomStream, relu: bool):
        super().__init__()
        self.depth, self.relu = depth, relu
        self.w_0, self.v = (
            glorot(rng, stacks, in_channels, out_channels),
            glorot(rng, stacks, in_channels, out_channels),
        )
        self.w = glorot(rng, stacks, out_channels, out_channels) if depth > 1 else None
        self.b = zeros(rng, stacks, 1, out_channels)

    def forward(
        self,
        x: Tensor | SparseMatrix,
        m: SparseMatrix,
        skip_rate: float,
        rng: RandomStream | None,
        z0_rate: float = 0.0,
    ) -> Tensor:
        z = dropout(stacked_matmul(x, self.w_0), z0_rate, rng)  # (runs, stacks, nodes, out_channels)
        for t in range(1, self.depth + 1):
            skip = add_bias(stacked_matmul(dropout(x, skip_rate, rng), self.v), self.b)
            if self.w is not None and t > 1:
                z = matmul(z, self.w)
            z = (m @ z.flatten(0, 1)).view_as(z) + skip
            z = z.relu() if self.relu else z
        return axis_sums(z, 1) / z.shape[1]

    def weights(self) -> list[Tensor]:
        """The weight matrices, without the bias."""
        return [weight for weight in (self.w_0, self.v, self.w) if weight is not None]
