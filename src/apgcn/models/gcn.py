"""GCN: Kipf and Welling, Semi-Supervised Classification with Graph Convolutional Networks, ICLR 2017."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from apgcn._utils.validation import check_share, check_whole
from apgcn.data.graph import Graph
from apgcn.data.registry import AMAZON_GRAPHS
from apgcn.models.base import ModelSettings, Network, heard, stored_features
from apgcn.models.presets import AP_GCN, PPNP, Given, protocol
from apgcn.nn.layers import dropout, glorot, zeros
from apgcn.nn.operators import dropped_matrices
from apgcn.nn.propagation import Propagated
from apgcn.ops.device_graph import GraphTensors
from apgcn.ops.rng import Noise


@dataclass(frozen=True)
class GCNSettings(ModelSettings):
    """What can be chosen about a GCN of two layers; `edge_dropout` takes entries of the normalised matrix."""

    name: ClassVar[str] = "gcn"
    title: ClassVar[str] = "GCN"
    citation: ClassVar[str] = "Kipf and Welling, ICLR 2017; settings of the PPNP paper"
    given: ClassVar[tuple[Given, ...]] = (
        protocol("published"),
        Given("published", PPNP, {"hidden": 64, "dropout": 0.5, "edge_dropout": 0.5, "l2": 0.02}),
        protocol("paper", AMAZON_GRAPHS),
        Given("paper", AP_GCN, {"hidden": 64, "dropout": 0.5, "edge_dropout": 0.5, "l2": 0.0}, AMAZON_GRAPHS),
    )
    max_steps: ClassVar[int] = 2
    by_rows: ClassVar[bool] = True

    hidden: int = 64
    dropout: float = 0.5
    edge_dropout: float = 0.5

    def __post_init__(self) -> None:
        check_whole("hidden", self.hidden)
        check_share("dropout", self.dropout)
        check_share("edge_dropout", self.edge_dropout)

    def build(self, graph: GraphTensors, noise: Noise) -> GCN:
        """A pack of networks for a graph, one per run of the noise."""
        return GCN(self, features=graph.num_features, classes=graph.classes, noise=noise)

    def floats_per_run(self, graph: Graph) -> int:
        """About how many numbers one run of a pack keeps in memory while it trains."""
        hidden = graph.num_nodes * self.hidden
        weights = graph.num_features * self.hidden
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

    def __init__(self, settings: GCNSettings, *, features: int, classes: int, noise: Noise):
        super().__init__()
        self.settings = settings
        self.w_1, self.b_1 = glorot(noise, features, settings.hidden), zeros(noise, 1, settings.hidden)
        self.w_2, self.b_2 = glorot(noise, settings.hidden, classes), zeros(noise, 1, classes)

    def forward(self, graph: GraphTensors, noise: Noise | None = None) -> Propagated:
        """Logits of all nodes. With noise this is training, without it evaluation."""
        rate = self.settings.dropout
        a_1, a_2 = dropped_matrices(graph.adjacency.normalized, self.settings.edge_dropout, steps=2, noise=noise)
        x = dropout(graph.features, rate, noise)
        h = (a_1 @ (x @ self.w_1) + self.b_1).relu()
        output = a_2 @ (dropout(h, rate, noise) @ self.w_2) + self.b_2
        return Propagated.everywhere(output, steps=2)

    def decayed(self) -> Iterable[Tensor]:
        """The weights that l2 regularisation shrinks: the first layer's."""
        return (self.w_1,)
