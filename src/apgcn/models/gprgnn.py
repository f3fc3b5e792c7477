"""GPR-GNN: Chien et al., Adaptive Universal Generalized PageRank Graph Neural Network, ICLR 2021."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from apgcn._utils.validation import check_fraction, check_int
from apgcn.data.graph import Graph
from apgcn.models.base import BatchedModel, ModelConfig, num_edges_with_self_loops, num_stored_features
from apgcn.nn.layers import MLP, dropout
from apgcn.nn.operators import NormalizedAdjacency
from apgcn.nn.propagation import PropagationOutput, propagation_states
from apgcn.ops.dense import matmul
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream


@dataclass(frozen=True)
class GPRGNNConfig(ModelConfig):
    """Hyperparameters of GPR-GNN; `teleport` is that of the PageRank with whose weights the training begins.

    `z0_dropout` is dropout of the class scores before the propagation, which the paper's program has.
    """

    name: ClassVar[str] = "gprgnn"
    title: ClassVar[str] = "GPR-GNN"
    citation: ClassVar[str] = "Chien et al., ICLR 2021"
    memory_advice: ClassVar[str] = "make max_steps or hidden_channels smaller"

    hidden_channels: int = 64
    dropout: float = 0.5
    teleport: float = 0.1
    max_steps: int = 10
    z0_dropout: float = 0.5

    def __post_init__(self) -> None:
        for name in ("hidden_channels", "max_steps"):
            check_int(name, getattr(self, name))
        for name in ("dropout", "teleport", "z0_dropout"):
            check_fraction(name, getattr(self, name))

    def build(self, graph: DeviceGraph, rng: RandomStream) -> BatchedGPRGNN:
        """A batched model for a graph, one run per run of `rng`, which draws the initial weights."""
        return BatchedGPRGNN(self, in_channels=graph.num_features, out_channels=graph.num_classes, rng=rng)

    def floats_per_run(self, graph: Graph) -> int:
        """Estimated number of floats in memory per run of a batch in training."""
        hidden = graph.num_nodes * self.hidden_channels
        states = (self.max_steps + 1) * graph.num_nodes * graph.num_classes
        weights = graph.num_features * self.hidden_channels
        features = 8 * num_stored_features(graph) + 6 * hidden
        return features + 8 * states + 4 * num_edges_with_self_loops(graph) + 8 * weights


class BatchedGPRGNN(BatchedModel):
    """A two-layer MLP at every node, then a sum over steps with one learned weight for each step.

        z^0    = ReLU(X W_1 + b_1) W_2 + b_2                                 dropout before each layer
        z^k    = A z^(k-1)                                                   dropout of z^0 before the first step
        output = gamma_0 z^0 + ... + gamma_T z^T

    gamma begins as the weights of personalised PageRank, teleport (1 - teleport)^k, and (1 - teleport)^T for z^T; it
    may become negative. l2 regularisation is on W_1 and W_2.
    """

    def __init__(self, config: GPRGNNConfig, *, in_channels: int, out_channels: int, rng: RandomStream):
        super().__init__()
        self.config = config
        self.predict = MLP(in_channels, config.hidden_channels, out_channels, dropout=config.dropout, rng=rng)
        weights = config.teleport * (1 - config.teleport) ** torch.arange(config.max_steps + 1.0)
        weights[-1] = (1 - config.teleport) ** config.max_steps
        self.gamma = nn.Parameter(weights.to(rng.device).repeat(rng.runs, 1)[..., None])  # (runs, T + 1, 1)
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
        columns = states.permute(1, 2, 3, 0)  # (runs, nodes, classes, T + 1)
        output = matmul(columns.flatten(1, 2), self.gamma).view(columns.shape[:-1])
        return PropagationOutput.fixed_steps(output, steps=steps)

    def l2_parameters(self) -> Iterable[Tensor]:
        """The weights under l2 regularisation: those of the MLP."""
        return self.predict.first.weight, self.predict.second.weight
