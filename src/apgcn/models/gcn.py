"""GCN: Kipf and Welling, Semi-Supervised Classification with Graph Convolutional Networks, ICLR 2017."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from apgcn._utils.validation import check_fraction, check_int
from apgcn.data.graph import Graph
from apgcn.data.registry import AMAZON_GRAPHS
from apgcn.models.base import ModelConfig, Network, heard, stored_features
from apgcn.models.presets import AP_GCN, PPNP, Preset, protocol
from apgcn.nn.layers import dropout, glorot, zeros
from apgcn.nn.operators import dropped_matrices
from apgcn.nn.propagation import PropagationOutput
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream


@dataclass(frozen=True)
class GCNConfig(ModelConfig):
    """What can be chosen about a GCN of two layers; `edge_dropout` takes entries of the normalised matrix."""

    name: ClassVar[str] = "gcn"
    title: ClassVar[str] = "GCN"
    citation: ClassVar[str] = "Kipf and Welling, ICLR 2017; settings of the PPNP paper"
    given: ClassVar[tuple[Preset, ...]] = (
        protocol("published"),
        Preset("published", PPNP, {"hidden_channels": 64, "dropout": 0.5, "edge_dropout": 0.5, "l2": 0.02}),
        protocol("paper", AMAZON_GRAPHS),
        Preset("paper", AP_GCN, {"hidden_channels": 64, "dropout": 0.5, "edge_dropout": 0.5, "l2": 0.0}, AMAZON_GRAPHS),
    )
    max_steps: ClassVar[int] = 2
    row_shardable: ClassVar[bool] = True

    hidden_channels: int = 64
    dropout: float = 0.5
    edge_dropout: float = 0.5

    def __post_init__(self) -> None:
        check_int("hidden_channels", self.hidden_channels)
        check_fraction("dropout", self.dropout)
        check_fraction("edge_dropout", self.edge_dropout)

    def build(self, graph: DeviceGraph, rng: RandomStream) -> GCN:
        """A pack of networks for a graph, one per run of the noise."""
        return GCN(self, features=graph.num_features, classes=graph.classes, rng=rng)

    def floats_per_run(self, graph: Graph) -> int:
        """About how many numbers one run of a pack keeps in memory while it trains."""
        hidden = graph.num_nodes * self.hidden_channels
        weights = graph.num_features * self.hidden_channels
        answers = 12 * graph.num_nodes * graph.num_classes
        return 16 * stored_features(graph) + 10 * hidden + answers + 10 * heard(graph) + 8 * weights


class GCN(Network):
    """Two layers, each mapping every node and then averaging over its neighbours.

        H      = ReLU(A X W_1 + b_1)        dropout of the inputs and of entries of A, anew in each layer
        output = A H W_2 + b_2

    A = D^-1/2 (A + I) D^-1/2; l2 shrinks W_1.

    Parameters
    ----------
    settings : GCNSettings
    features, classes : int
        Width of X and of the output.
    noise : Noise
        Draws the initial weights.
    """

    def __init__(self, config: GCNConfig, *, features: int, classes: int, rng: RandomStream):
        super().__init__()
        self.config = config
        self.w_1, self.b_1 = glorot(rng, features, config.hidden_channels), zeros(rng, 1, config.hidden_channels)
        self.w_2, self.b_2 = glorot(rng, config.hidden_channels, classes), zeros(rng, 1, classes)

    def forward(self, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """Logits of all nodes. With noise this is training, without it evaluation."""
        rate = self.config.dropout
        a_1, a_2 = dropped_matrices(graph.adjacency.normalized, self.config.edge_dropout, steps=2, rng=rng)
        x = dropout(graph.features, rate, rng)
        h = (a_1 @ (x @ self.w_1) + self.b_1).relu()
        output = a_2 @ (dropout(h, rate, rng) @ self.w_2) + self.b_2
        return PropagationOutput.everywhere(output, steps=2)

    def l2_parameters(self) -> Iterable[Tensor]:
        """The weights that l2 regularisation shrinks: the first layer's."""
        return (self.w_1,)
