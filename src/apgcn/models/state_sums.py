"""What DAGNN and GPR-GNN share: an MLP, T propagation steps, and a weighted sum of all states."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from apgcn._utils.validation import check_fraction, check_int
from apgcn.data.graph import Graph
from apgcn.models.base import BatchedModel, ModelConfig, num_edges_with_self_loops, num_stored_features
from apgcn.nn.layers import MLP, dropout
from apgcn.nn.operators import NormalizedAdjacency
from apgcn.nn.propagation import PropagationOutput, propagation_states
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream


@dataclass(frozen=True)
class StateSumConfig(ModelConfig):
    """Hyperparameters of models that sum over states; `z0_dropout` is dropout of the class scores that propagate."""

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

    def floats_per_run(self, graph: Graph) -> int:
        """Estimated number of floats in memory per run of a batch in training."""
        hidden = graph.num_nodes * self.hidden_channels
        states = (self.max_steps + 1) * graph.num_nodes * graph.num_classes
        weights = graph.num_features * self.hidden_channels
        features = 8 * num_stored_features(graph) + 6 * hidden
        return features + 10 * states + 4 * num_edges_with_self_loops(graph) + 8 * weights


class BatchedStateSum(BatchedModel):
    """A two-layer MLP at every node, T steps of it, and `combine` of z^0, ..., z^T.

    z^0    = ReLU(X W_1 + b_1) W_2 + b_2            dropout before each layer, and of z^0 before the first step
    z^k    = A z^(k-1)
    """

    def __init__(self, config: StateSumConfig, *, in_channels: int, out_channels: int, rng: RandomStream):
        super().__init__()
        self.config = config
        self.predict = MLP(in_channels, config.hidden_channels, out_channels, dropout=config.dropout, rng=rng)
        self.operator = NormalizedAdjacency(edge_dropout=0.0)

    def combine(self, states: Tensor) -> Tensor:
        """The logits (runs, nodes, classes) from the states (T + 1, runs, nodes, classes)."""
        raise NotImplementedError(f"{type(self).__name__} must have `combine`.")

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
        return PropagationOutput.fixed_steps(self.combine(states), steps=steps)

    def l2_parameters(self) -> Iterable[Tensor]:
        """The weights under l2 regularisation: those of the MLP."""
        return self.predict.first.weight, self.predict.second.weight
