"""MLP: a network on the features of each node alone, without propagation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from apgcn._utils.validation import check_fraction, check_int
from apgcn.data.graph import Graph
from apgcn.models.base import BatchedModel, ModelConfig, num_stored_features
from apgcn.nn.layers import MLP
from apgcn.nn.propagation import PropagationOutput
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream


@dataclass(frozen=True)
class MLPConfig(ModelConfig):
    """Hyperparameters of the MLP; the defaults are those of AP-GCN's two layers."""

    name: ClassVar[str] = "mlp"
    title: ClassVar[str] = "MLP"
    citation: ClassVar[str] = "features alone: the layers of AP-GCN without propagation"
    has_fused_kernel: ClassVar[bool] = True
    max_steps: ClassVar[int] = 0
    min_steps: ClassVar[int] = 0

    hidden_channels: int = 64
    dropout: float = 0.5

    def __post_init__(self) -> None:
        check_int("hidden_channels", self.hidden_channels)
        check_fraction("dropout", self.dropout)

    def build(self, graph: DeviceGraph, rng: RandomStream) -> BatchedMLP:
        """A batched model for a graph, one run per run of `rng`, which draws the initial weights."""
        return BatchedMLP(self, in_channels=graph.num_features, out_channels=graph.num_classes, rng=rng)

    def floats_per_run(self, graph: Graph) -> int:
        """Estimated number of floats in memory per run of a batch in training."""
        hidden = graph.num_nodes * self.hidden_channels
        weights = (graph.num_features + graph.num_classes) * self.hidden_channels
        return 8 * num_stored_features(graph) + 6 * hidden + 4 * graph.num_nodes * graph.num_classes + 8 * weights


class BatchedMLP(BatchedModel):
    """A two-layer MLP at every node, which ignores the edges.

        output = ReLU(X W_1 + b_1) W_2 + b_2        dropout before each layer

    It equals AP-GCN and APPNP after 0 steps, so that a comparison with it shows what propagation adds. l2
    regularisation is on W_1.
    """

    def __init__(self, config: MLPConfig, *, in_channels: int, out_channels: int, rng: RandomStream):
        super().__init__()
        self.config = config
        self.predict = MLP(in_channels, config.hidden_channels, out_channels, dropout=config.dropout, rng=rng)

    def forward(self, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """Logits (runs, nodes, classes) of all nodes; training with `rng`, evaluation without."""
        return PropagationOutput.fixed_steps(self.predict(graph.features, rng), steps=0)

    def l2_parameters(self) -> Iterable[Tensor]:
        """The weights under l2 regularisation: the first layer's."""
        return (self.predict.first.weight,)
