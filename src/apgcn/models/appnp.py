"""APPNP: Gasteiger et al., Predict then Propagate: Graph Neural Networks meet Personalized PageRank, ICLR 2019."""

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
from apgcn.nn.layers import MLP
from apgcn.nn.operators import PageRank
from apgcn.nn.propagation import FixedPropagation, PropagationOutput
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream


@dataclass(frozen=True)
class APPNPConfig(ModelConfig):
    """What can be chosen about APPNP; `edge_dropout` takes entries of the normalised matrix, anew at every step."""

    name: ClassVar[str] = "appnp"
    title: ClassVar[str] = "APPNP"
    citation: ClassVar[str] = "Gasteiger et al., ICLR 2019"
    row_shardable: ClassVar[bool] = True
    given: ClassVar[tuple[Preset, ...]] = (
        protocol("published"),
        Preset(
            "published",
            PPNP,
            {"hidden_channels": 64, "dropout": 0.5, "edge_dropout": 0.5, "teleport": 0.1, "max_steps": 10, "l2": 0.005},
        ),
        Preset("published", PPNP, {"teleport": 0.2}, ("ms_academic",)),
        protocol("paper", AMAZON_GRAPHS),
        Preset(
            "paper",
            AP_GCN,
            {"hidden_channels": 64, "dropout": 0.5, "edge_dropout": 0.5, "teleport": 0.2, "max_steps": 10, "l2": 0.0},
            AMAZON_GRAPHS,
        ),
    )
    memory_advice: ClassVar[str] = "make max_steps or hidden smaller"

    hidden_channels: int = 64
    dropout: float = 0.5
    edge_dropout: float = 0.5
    teleport: float = 0.1
    max_steps: int = 10

    def __post_init__(self) -> None:
        for name in ("hidden_channels", "max_steps"):
            check_int(name, getattr(self, name))
        for name in ("dropout", "edge_dropout", "teleport"):
            check_fraction(name, getattr(self, name))

    def build(self, graph: DeviceGraph, rng: RandomStream) -> APPNP:
        """A pack of networks for a graph, one per run of the noise."""
        return APPNP(self, features=graph.num_features, classes=graph.classes, rng=rng)

    def floats_per_run(self, graph: Graph) -> int:
        """About how many numbers one run of a pack keeps in memory while it trains."""
        hidden = graph.num_nodes * self.hidden_channels
        states = (self.max_steps + 1) * graph.num_nodes * graph.num_classes
        messages = self.max_steps * heard(graph)
        weights = graph.num_features * self.hidden_channels
        return 8 * stored_features(graph) + 6 * hidden + 4 * states + 4 * messages + 8 * weights


class APPNP(Network):
    """A two-layer network at every node, then ten steps of personalised PageRank.

        z^0    = ReLU(X W_1 + b_1) W_2 + b_2                   dropout before each layer
        z^k    = (1 - teleport) A z^(k-1) + teleport z^0       fresh dropout of A at each step
        output = z^T

    The network is AP-GCN's, biases included, so that the two differ in how they listen and in nothing else. l2 shrinks
    W_1.
    """

    def __init__(self, config: APPNPConfig, *, features: int, classes: int, rng: RandomStream):
        super().__init__()
        self.config = config
        self.predict = MLP(features, config.hidden_channels, classes, rate=config.dropout, rng=rng)
        operator = PageRank(config.teleport, config.edge_dropout, renormalize=False)
        self.propagation = FixedPropagation(operator, steps=config.max_steps)

    def forward(self, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """Logits of all nodes. With noise this is training, without it evaluation."""
        return self.propagation(self.predict(graph.features, rng), graph.adjacency, rng)

    def l2_parameters(self) -> Iterable[Tensor]:
        """The weights that l2 regularisation shrinks: the first layer's."""
        return (self.predict.first.weight,)
