"""GRAND: Feng et al., Graph Random Neural Networks for Semi-Supervised Learning on Graphs, NeurIPS 2020."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from apgcn._utils.validation import check_fraction, check_int
from apgcn.data.graph import Graph
from apgcn.models.base import BatchedModel, ModelConfig, num_edges_with_self_loops, num_stored_features
from apgcn.nn.layers import Linear, dropout, matmul
from apgcn.nn.operators import NormalizedAdjacency
from apgcn.nn.propagation import PropagationOutput, propagation_states
from apgcn.ops.dense import add_bias, axis_sums, scale_rows
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream


@dataclass(frozen=True)
class GRANDConfig(ModelConfig):
    """Hyperparameters of GRAND; its other half is consistency training, see `apgcn.training.consistency`.

    `node_dropout` drops all features of a node, `input_dropout` single features, `dropout` hidden units.
    """

    name: ClassVar[str] = "grand"
    title: ClassVar[str] = "GRAND"
    citation: ClassVar[str] = "Feng et al., NeurIPS 2020"
    memory_advice: ClassVar[str] = "make max_steps or hidden_channels smaller"

    hidden_channels: int = 32
    dropout: float = 0.5
    input_dropout: float = 0.5
    node_dropout: float = 0.5
    max_steps: int = 8

    def __post_init__(self) -> None:
        for name in ("hidden_channels", "max_steps"):
            check_int(name, getattr(self, name))
        for name in ("dropout", "input_dropout", "node_dropout"):
            check_fraction(name, getattr(self, name))

    def build(self, graph: DeviceGraph, rng: RandomStream) -> BatchedGRAND:
        """A batched model for a graph, one run per run of `rng`, which draws the initial weights."""
        return BatchedGRAND(self, in_channels=graph.num_features, out_channels=graph.num_classes, rng=rng)

    def floats_per_run(self, graph: Graph) -> int:
        """Estimated number of floats in memory per run of a batch in training."""
        hidden = graph.num_nodes * self.hidden_channels
        scores = graph.num_nodes * graph.num_classes
        weights = self.hidden_channels * (graph.num_features + graph.num_classes)
        features = 8 * num_stored_features(graph) + 6 * hidden
        states = 4 * (self.max_steps + 1) * hidden
        return features + states + 10 * scores + 4 * num_edges_with_self_loops(graph) + 8 * weights


class BatchedGRAND(BatchedModel):
    """The mean of propagated features whose nodes were dropped at random, then a two-layer MLP.

        X~     = M X,  M diagonal: 0 with probability node_dropout, else 1 / (1 - node_dropout); I in evaluation
        X^     = (X~ + A X~ + ... + A^T X~) / (T + 1)
        output = ReLU(X^ W_1 + b_1) W_2 + b_2                     dropout before each layer

    X W_1 is computed before the propagation, which is equal and cheaper, but for the dropout before the first layer:
    here it is of the features before the propagation, in the paper after it. Batch normalisation, which the authors
    have on PubMed, is left out. l2 regularisation is on all weights.
    """

    def __init__(self, config: GRANDConfig, *, in_channels: int, out_channels: int, rng: RandomStream):
        super().__init__()
        self.config = config
        self.first = Linear(in_channels, config.hidden_channels, rng=rng)
        self.second = Linear(config.hidden_channels, out_channels, rng=rng)
        self.operator = NormalizedAdjacency(edge_dropout=0.0)

    def forward(self, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """Logits (runs, nodes, classes) of all nodes; training with `rng`, evaluation without."""
        config = self.config
        hidden = matmul(dropout(graph.features, config.input_dropout, rng), self.first.weight)
        if rng is not None and config.node_dropout:
            hidden = scale_rows(hidden, rng.dropout_mask(hidden.shape[1], rate=config.node_dropout).to(hidden))
        states = propagation_states(self.operator, hidden, graph.adjacency, steps=config.max_steps)
        mean = axis_sums(states, 0) / (config.max_steps + 1)
        hidden = dropout(add_bias(mean, self.first.bias).relu(), config.dropout, rng)
        return PropagationOutput.fixed_steps(self.second(hidden), steps=config.max_steps)

    def l2_parameters(self) -> Iterable[Tensor]:
        """The weights under l2 regularisation: all."""
        return self.first.weight, self.second.weight
