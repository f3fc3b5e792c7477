"""DAGNN: Liu, Gao and Ji, Towards Deeper Graph Neural Networks, KDD 2020."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from apgcn._utils.validation import check_fraction, check_int
from apgcn.data.graph import Graph
from apgcn.models.base import BatchedModel, ModelConfig, num_edges_with_self_loops, num_stored_features
from apgcn.nn.layers import MLP, Linear, dropout
from apgcn.nn.operators import NormalizedAdjacency
from apgcn.nn.propagation import PropagationOutput, propagation_states, sigmoid_scores
from apgcn.ops.dense import axis_sums, scale_rows
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream


@dataclass(frozen=True)
class DAGNNConfig(ModelConfig):
    """Hyperparameters of DAGNN; `z0_dropout` is that of the script of AP-GCN's authors, see docs/paper_vs_code.md."""

    name: ClassVar[str] = "dagnn"
    title: ClassVar[str] = "DAGNN"
    citation: ClassVar[str] = "Liu et al., KDD 2020"
    memory_advice: ClassVar[str] = "make max_steps or hidden_channels smaller"

    hidden_channels: int = 64
    dropout: float = 0.5
    max_steps: int = 10
    z0_dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("hidden_channels", "max_steps"):
            check_int(name, getattr(self, name))
        for name in ("dropout", "z0_dropout"):
            check_fraction(name, getattr(self, name))

    def build(self, graph: DeviceGraph, rng: RandomStream) -> BatchedDAGNN:
        """A batched model for a graph, one run per run of `rng`, which draws the initial weights."""
        return BatchedDAGNN(self, in_channels=graph.num_features, out_channels=graph.num_classes, rng=rng)

    def floats_per_run(self, graph: Graph) -> int:
        """Estimated number of floats in memory per run of a batch in training."""
        hidden = graph.num_nodes * self.hidden_channels
        states = (self.max_steps + 1) * graph.num_nodes * graph.num_classes
        weights = graph.num_features * self.hidden_channels
        features = 8 * num_stored_features(graph) + 6 * hidden
        return features + 10 * states + 4 * num_edges_with_self_loops(graph) + 8 * weights


class BatchedDAGNN(BatchedModel):
    """A two-layer MLP at every node, then a sum over steps with a weight for each node and step.

        z^0    = ReLU(X W_1 + b_1) W_2 + b_2            dropout before each layer
        z^k    = A z^(k-1)
        s^k    = sigmoid(z^k s + b)                     one score for every node, k = 0, ..., T
        output = sum over k = 0, ..., T of s^k z^k

    Every node takes T steps; the scores are weights, nothing stops. l2 regularisation is on all weights, not on biases,
    which the authors' program includes.
    """

    def __init__(self, config: DAGNNConfig, *, in_channels: int, out_channels: int, rng: RandomStream):
        super().__init__()
        self.config = config
        self.predict = MLP(in_channels, config.hidden_channels, out_channels, dropout=config.dropout, rng=rng)
        self.score = Linear(out_channels, 1, rng=rng)
        self.operator = NormalizedAdjacency(edge_dropout=0.0)

    def forward(self, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """Logits (runs, nodes, classes) of all nodes; training with `rng`, evaluation without."""
        return self._output(None, graph, rng)

    def forward_nodes(self, nodes: Tensor, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """`forward` of some nodes (runs, m)."""
        return self._output(nodes, graph, rng)

    def _output(self, nodes: Tensor | None, graph: DeviceGraph, rng: RandomStream | None) -> PropagationOutput:
        z0 = dropout(self.predict(graph.features, rng), self.config.z0_dropout, rng)
        steps = self.config.max_steps
        states = propagation_states(self.operator, z0, graph.adjacency, steps=steps, nodes=nodes)
        output = axis_sums(scale_rows(states, sigmoid_scores(states, self.score)), 0)
        return PropagationOutput.fixed_steps(output, steps=steps)

    def l2_parameters(self) -> Iterable[Tensor]:
        """The weights under l2 regularisation: all."""
        return self.predict.first.weight, self.predict.second.weight, self.score.weight
