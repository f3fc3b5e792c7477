"""APPNP: Gasteiger et al., Predict then Propagate: Graph Neural Networks meet Personalized PageRank, ICLR 2019."""

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
from apgcn.nn.layers import TwoLayers
from apgcn.nn.operators import PageRank
from apgcn.nn.propagation import FixedPropagation, Propagated
from apgcn.ops.device_graph import GraphTensors
from apgcn.ops.rng import Noise


@dataclass(frozen=True)
class APPNPSettings(ModelSettings):
    """What can be chosen about APPNP; `edge_dropout` takes entries of the normalised matrix, anew at every step."""

    name: ClassVar[str] = "appnp"
    title: ClassVar[str] = "APPNP"
    citation: ClassVar[str] = "Gasteiger et al., ICLR 2019"
    by_rows: ClassVar[bool] = True
    given: ClassVar[tuple[Given, ...]] = (
        protocol("published"),
        Given(
            "published",
            PPNP,
            {"hidden": 64, "dropout": 0.5, "edge_dropout": 0.5, "teleport": 0.1, "max_steps": 10, "l2": 0.005},
        ),
        Given("published", PPNP, {"teleport": 0.2}, ("ms_academic",)),
        protocol("paper", AMAZON_GRAPHS),
        Given(
            "paper",
            AP_GCN,
            {"hidden": 64, "dropout": 0.5, "edge_dropout": 0.5, "teleport": 0.2, "max_steps": 10, "l2": 0.0},
            AMAZON_GRAPHS,
        ),
    )
    to_need_less: ClassVar[str] = "make max_steps or hidden smaller"

    hidden: int = 64
    dropout: float = 0.5
    edge_dropout: float = 0.5
    teleport: float = 0.1
    max_steps: int = 10

    def __post_init__(self) -> None:
        for name in ("hidden", "max_steps"):
            check_whole(name, getattr(self, name))
        for name in ("dropout", "edge_dropout", "teleport"):
            check_share(name, getattr(self, name))

    def build(self, graph: GraphTensors, noise: Noise) -> APPNP:
        """A pack of networks for a graph, one per run of the noise."""
        return APPNP(self, features=graph.num_features, classes=graph.classes, noise=noise)

    def floats_per_run(self, graph: Graph) -> int:
        """About how many numbers one run of a pack keeps in memory while it trains."""
        hidden = graph.num_nodes * self.hidden
        states = (self.max_steps + 1) * graph.num_nodes * graph.num_classes
        messages = self.max_steps * heard(graph)
        weights = graph.num_features * self.hidden
        return 8 * stored_features(graph) + 6 * hidden + 4 * states + 4 * messages + 8 * weights


class APPNP(Network):
    """A two-layer network at every node, then ten steps of personalised PageRank.

        z^0    = ReLU(X W_1 + b_1) W_2 + b_2                   dropout before each layer
        z^k    = (1 - teleport) A z^(k-1) + teleport z^0       fresh dropout of A at each step
        output = z^T

    The network is AP-GCN's, biases included, so that the two differ in how they listen and in nothing else. l2 shrinks
    W_1.
    """

    def __init__(self, settings: APPNPSettings, *, features: int, classes: int, noise: Noise):
        super().__init__()
        self.settings = settings
        self.predict = TwoLayers(features, settings.hidden, classes, rate=settings.dropout, noise=noise)
        operator = PageRank(settings.teleport, settings.edge_dropout, renormalize=False)
        self.propagation = FixedPropagation(operator, steps=settings.max_steps)

    def forward(self, graph: GraphTensors, noise: Noise | None = None) -> Propagated:
        """Logits of all nodes. With noise this is training, without it evaluation."""
        return self.propagation(self.predict(graph.features, noise), graph.adjacency, noise)

    def decayed(self) -> Iterable[Tensor]:
        """The weights that l2 regularisation shrinks: the first layer's."""
        return (self.predict.first.weight,)
