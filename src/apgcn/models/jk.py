"""JK: Xu et al., Representation Learning on Graphs with Jumping Knowledge Networks, ICML 2018; by concatenation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from apgcn._utils.validation import check_fraction, check_int
from apgcn.data.graph import Graph
from apgcn.errors import InvalidInput
from apgcn.models.base import BatchedModel, ModelConfig, num_edges_with_self_loops, num_stored_features
from apgcn.nn.layers import Linear, dropout, glorot, matmul, zeros
from apgcn.nn.operators import matrices_with_dropout
from apgcn.nn.propagation import PropagationOutput
from apgcn.ops.dense import add_bias
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream

FEATURE_NORMS = ("l1", "l2")


@dataclass(frozen=True)
class JKConfig(ModelConfig):
    """Hyperparameters of a jumping knowledge network; `edge_dropout` is applied to the normalised matrix.

    `feature_norm` "l1" takes the features as they are, which `clean` has divided by their l1 norm; "l2" scales the
    features of every node to length 1.
    """

    name: ClassVar[str] = "jk"
    title: ClassVar[str] = "JK"
    citation: ClassVar[str] = "Xu et al., ICML 2018"
    memory_advice: ClassVar[str] = "make layers or hidden_channels smaller"

    layers: int = 3
    hidden_channels: int = 64
    dropout: float = 0.5
    edge_dropout: float = 0.0
    feature_norm: str = "l1"

    def __post_init__(self) -> None:
        check_int("layers", self.layers)
        check_int("hidden_channels", self.hidden_channels)
        check_fraction("dropout", self.dropout)
        check_fraction("edge_dropout", self.edge_dropout)
        if self.feature_norm not in FEATURE_NORMS:
            raise InvalidInput(f"feature_norm must be one of {', '.join(FEATURE_NORMS)}, got {self.feature_norm!r}.")

    @property
    def max_steps(self) -> int:
        return self.layers

    def build(self, graph: DeviceGraph, rng: RandomStream) -> BatchedJK:
        """A batched model for a graph, one run per run of `rng`, which draws the initial weights."""
        return BatchedJK(self, in_channels=graph.num_features, out_channels=graph.num_classes, rng=rng)

    def floats_per_run(self, graph: Graph) -> int:
        """Estimated number of floats in memory per run of a batch in training."""
        hidden = self.layers * graph.num_nodes * self.hidden_channels
        weights = (graph.num_features + self.layers * self.hidden_channels) * self.hidden_channels
        messages = 5 * self.layers * num_edges_with_self_loops(graph)
        logits = (12 * graph.num_nodes + 8 * self.layers * self.hidden_channels) * graph.num_classes
        return 8 * num_stored_features(graph) + 10 * hidden + logits + messages + 8 * weights


class BatchedJK(BatchedModel):
    """GCN layers, and a linear layer on the concatenation of all their outputs.

        H_l    = ReLU(A H_(l-1) W_l + b_l)         H_0 = X, dropout of every layer's input and of A
        output = [H_1, ..., H_L] W + b

    l2 regularisation is on all weight matrices.
    """

    def __init__(self, config: JKConfig, *, in_channels: int, out_channels: int, rng: RandomStream):
        super().__init__()
        self.config = config
        widths = [in_channels] + [config.hidden_channels] * config.layers
        self.w = nn.ParameterList(glorot(rng, *widths[layer : layer + 2]) for layer in range(config.layers))
        self.b = nn.ParameterList(zeros(rng, 1, config.hidden_channels) for _ in range(config.layers))
        self.last = Linear(config.layers * config.hidden_channels, out_channels, rng=rng)

    def forward(self, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """Logits (runs, nodes, classes) of all nodes; training with `rng`, evaluation without."""
        rate, layers = self.config.dropout, self.config.layers
        matrices = matrices_with_dropout(graph.adjacency.normalized, self.config.edge_dropout, steps=layers, rng=rng)
        h, layer_outputs = graph.features if self.config.feature_norm == "l1" else graph.unit_length_features, []
        for a, w, b in zip(matrices, self.w, self.b, strict=True):
            h = add_bias(a @ matmul(dropout(h, rate, rng), w), b).relu()
            layer_outputs.append(h)
        output = self.last(dropout(torch.cat(layer_outputs, dim=-1), rate, rng))
        return PropagationOutput.fixed_steps(output, steps=layers)

    def l2_parameters(self) -> Iterable[Tensor]:
        """The weights under l2 regularisation: those of all layers."""
        return (*self.w, self.last.weight)
