"""APPNP: Gasteiger et al., Predict then Propagate: Graph Neural Networks meet Personalized PageRank, ICLR 2019."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from apgcn._utils.validation import check_fraction, check_int
from apgcn.data.graph import Graph
from apgcn.models.base import BatchedModel, ModelConfig, num_edges_with_self_loops, num_stored_features
from apgcn.nn.layers import MLP
from apgcn.nn.operators import PageRank
from apgcn.nn.propagation import FixedPropagation, PropagationOutput
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream


@dataclass(frozen=True)
class APPNPConfig(ModelConfig):
    """Hyperparameters of APPNP; `edge_dropout` is applied to the normalised matrix, with a new mask at every step.

    `z0_dropout` and `update_dropout` are the two dropouts of the script of AP-GCN's authors, see docs/paper_vs_code.md.
    """

    name: ClassVar[str] = "appnp"
    title: ClassVar[str] = "APPNP"
    citation: ClassVar[str] = "Gasteiger et al., ICLR 2019"
    has_fused_kernel: ClassVar[bool] = True
    row_shardable: ClassVar[bool] = True
    memory_advice: ClassVar[str] = "make max_steps or hidden_channels smaller"

    hidden_channels: int = 64
    dropout: float = 0.5
    edge_dropout: float = 0.5
    teleport: float = 0.1
    max_steps: int = 10
    z0_dropout: float = 0.0
    update_dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("hidden_channels", "max_steps"):
            check_int(name, getattr(self, name))
        for name in ("dropout", "edge_dropout", "teleport", "z0_dropout", "update_dropout"):
            check_fraction(name, getattr(self, name))

    def build(self, graph: DeviceGraph, rng: RandomStream) -> BatchedAPPNP:
        """A batched model for a graph, one run per run of `rng`, which draws the initial weights."""
        return BatchedAPPNP(self, in_channels=graph.num_features, out_channels=graph.num_classes, rng=rng)

    def floats_per_run(self, graph: Graph) -> int:
        """Estimated number of floats in memory per run of a batch in training."""
        hidden = graph.num_nodes * self.hidden_channels
        states = (self.max_steps + 1) * graph.num_nodes * graph.num_classes
        messages = self.max_steps * num_edges_with_self_loops(graph)
        weights = graph.num_features * self.hidden_channels
        return 8 * num_stored_features(graph) + 6 * hidden + 4 * states + 4 * messages + 8 * weights


class BatchedAPPNP(BatchedModel):
    """A two-layer MLP at every node, then ten steps of personalised PageRank.

        z^0    = ReLU(X W_1 + b_1) W_2 + b_2                   dropout before each layer
        z^k    = (1 - teleport) A z^(k-1) + teleport z^0       fresh dropout of A at each step
        output = z^T

    The MLP is AP-GCN's, biases included, so that the two models differ in their propagation only. l2 regularisation is
    on W_1.
    """

    def __init__(self, config: APPNPConfig, *, in_channels: int, out_channels: int, rng: RandomStream):
        super().__init__()
        self.config = config
        self.predict = MLP(in_channels, config.hidden_channels, out_channels, dropout=config.dropout, rng=rng)
        operator = PageRank(config.teleport, config.edge_dropout, renormalize=False)
        self.propagation = FixedPropagation(
            operator, steps=config.max_steps, z0_dropout=config.z0_dropout, update_dropout=config.update_dropout
        )

    def forward(self, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """Logits (runs, nodes, classes) of all nodes; training with `rng`, evaluation without."""
        return self.propagation(self.predict(graph.features, rng), graph.adjacency, rng)

    def forward_nodes(self, nodes: Tensor, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """`forward` of some nodes (runs, m)."""
        return self.propagation(self.predict(graph.features, rng), graph.adjacency, rng, nodes)

    def l2_parameters(self) -> Iterable[Tensor]:
        """The weights under l2 regularisation: the first layer's."""
        return (self.predict.first.weight,)
