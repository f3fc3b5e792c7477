"""Cheb: Defferrard et al., CNNs on Graphs with Fast Localized Spectral Filtering, NIPS 2016; the paper's equation 2."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from apgcn._utils.validation import check_fraction, check_int
from apgcn.data.graph import Graph
from apgcn.models.base import BatchedModel, ModelConfig, num_edges_with_self_loops, num_stored_features
from apgcn.nn.layers import dropout, glorot, stacked_matmul, zeros
from apgcn.nn.operators import Chebyshev
from apgcn.nn.propagation import PropagationOutput, propagate
from apgcn.ops.dense import add_bias
from apgcn.ops.device_graph import Adjacency, DeviceGraph
from apgcn.ops.rng import RandomStream
from apgcn.ops.sparse import SparseMatrix


@dataclass(frozen=True)
class ChebConfig(ModelConfig):
    """Hyperparameters of a Chebyshev network of two layers; `order` is the degree of the highest polynomial.

    `z0_dropout` is applied to the class scores before the last propagation, as in the script of AP-GCN's authors.
    """

    name: ClassVar[str] = "cheb"
    title: ClassVar[str] = "Cheb"
    citation: ClassVar[str] = "Defferrard et al., NIPS 2016: the paper's equation 2"
    memory_advice: ClassVar[str] = "make order or hidden_channels smaller"

    hidden_channels: int = 16
    order: int = 3
    dropout: float = 0.5
    z0_dropout: float = 0.0

    def __post_init__(self) -> None:
        check_int("hidden_channels", self.hidden_channels)
        check_int("order", self.order)
        check_fraction("dropout", self.dropout)
        check_fraction("z0_dropout", self.z0_dropout)

    @property
    def max_steps(self) -> int:
        return 2 * self.order

    def build(self, graph: DeviceGraph, rng: RandomStream) -> BatchedCheb:
        """A batched model for a graph, one run per run of `rng`, which draws the initial weights."""
        return BatchedCheb(self, in_channels=graph.num_features, out_channels=graph.num_classes, rng=rng)

    def floats_per_run(self, graph: Graph) -> int:
        """Estimated number of floats in memory per run of a batch in training."""
        width = (self.order + 1) * max(self.hidden_channels, graph.num_classes)
        states = 6 * self.order * graph.num_nodes * width
        edges, weights = num_edges_with_self_loops(graph), 8 * graph.num_features * width
        return 8 * num_stored_features(graph) + states + edges + weights


class BatchedCheb(BatchedModel):
    """Two layers of Chebyshev filters, the paper's equation 2; dropout before each.

        H      = ReLU(filter(X))
        output = filter(H)

    l2 regularisation is on the first layer's weights.
    """

    def __init__(self, config: ChebConfig, *, in_channels: int, out_channels: int, rng: RandomStream):
        super().__init__()
        self.config = config
        self.first = ChebFilter(in_channels, config.hidden_channels, order=config.order, rng=rng)
        self.second = ChebFilter(config.hidden_channels, out_channels, order=config.order, rng=rng)

    def forward(self, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """Logits (runs, nodes, classes) of all nodes; training with `rng`, evaluation without."""
        rate = self.config.dropout
        h = self.first(dropout(graph.features, rate, rng), graph.adjacency, 0.0, rng).relu()
        output = self.second(dropout(h, rate, rng), graph.adjacency, self.config.z0_dropout, rng)
        return PropagationOutput.fixed_steps(output, steps=self.config.max_steps)

    def l2_parameters(self) -> Iterable[Tensor]:
        """The weights under l2 regularisation: the first layer's."""
        return (self.first.w,)


class ChebFilter(nn.Module):
    """One Chebyshev layer: sum over k = 0..order of T_k(L) X W_k, plus b.

    X W_k is computed first: T_k(L) is linear, and X may have thousands of columns. All X W_k are propagated in one
    product, and term k is taken from the state after k steps.
    """

    def __init__(self, in_channels: int, out_channels: int, *, order: int, rng: RandomStream):
        super().__init__()
        self.w, self.b = glorot(rng, order + 1, in_channels, out_channels), zeros(rng, 1, out_channels)

    def forward(
        self, x: Tensor | SparseMatrix, adjacency: Adjacency, z0_rate: float, rng: RandomStream | None
    ) -> Tensor:
        terms = dropout(stacked_matmul(x, self.w), z0_rate, rng)  # (runs, terms, nodes, out_channels)
        states = propagate(Chebyshev(), terms.flatten(0, 1), adjacency, steps=terms.shape[1] - 1, rng=None)
        first, *others = (z.view_as(terms)[:, k] for k, z in enumerate(states))
        return sum(others, start=add_bias(first, self.b))
