"""SGC: Wu et al., Simplifying Graph Convolutional Networks, ICML 2019."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from apgcn._utils.validation import check_fraction, check_int
from apgcn.data.graph import Graph
from apgcn.models.base import BatchedModel, ModelConfig, num_edges_with_self_loops, num_stored_features
from apgcn.nn.layers import dropout, glorot, matmul, zeros
from apgcn.nn.operators import NormalizedAdjacency
from apgcn.nn.propagation import FixedPropagation, PropagationOutput
from apgcn.ops.dense import add_bias
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream


@dataclass(frozen=True)
class SGCConfig(ModelConfig):
    """Hyperparameters of SGC; `z0_dropout` is that of the script of AP-GCN's authors, see docs/paper_vs_code.md."""

    name: ClassVar[str] = "sgc"
    title: ClassVar[str] = "SGC"
    citation: ClassVar[str] = "Wu et al., ICML 2019"
    memory_advice: ClassVar[str] = "make max_steps smaller"

    max_steps: int = 2
    dropout: float = 0.0
    z0_dropout: float = 0.0

    def __post_init__(self) -> None:
        check_int("max_steps", self.max_steps)
        for name in ("dropout", "z0_dropout"):
            check_fraction(name, getattr(self, name))

    def build(self, graph: DeviceGraph, rng: RandomStream) -> BatchedSGC:
        """A batched model for a graph, one run per run of `rng`, which draws the initial weights."""
        return BatchedSGC(self, in_channels=graph.num_features, out_channels=graph.num_classes, rng=rng)

    def floats_per_run(self, graph: Graph) -> int:
        """Estimated number of floats in memory per run of a batch in training."""
        states = (self.max_steps + 1) * graph.num_nodes * graph.num_classes
        weights = graph.num_features * graph.num_classes
        return 8 * num_stored_features(graph) + 4 * states + num_edges_with_self_loops(graph) + 8 * weights


class BatchedSGC(BatchedModel):
    """Propagation without a nonlinearity: output = A^K X W + b. X W is computed first, which is equal and cheaper."""

    def __init__(self, config: SGCConfig, *, in_channels: int, out_channels: int, rng: RandomStream):
        super().__init__()
        self.config = config
        self.w, self.b = glorot(rng, in_channels, out_channels), zeros(rng, 1, out_channels)
        operator = NormalizedAdjacency(edge_dropout=0.0)
        self.propagation = FixedPropagation(operator, steps=config.max_steps, z0_dropout=config.z0_dropout)

    def forward(self, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """Logits (runs, nodes, classes) of all nodes; training with `rng`, evaluation without."""
        return self._output(None, graph, rng)

    def forward_nodes(self, nodes: Tensor, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """`forward` of some nodes (runs, m)."""
        return self._output(nodes, graph, rng)

    def _output(self, nodes: Tensor | None, graph: DeviceGraph, rng: RandomStream | None) -> PropagationOutput:
        scores = matmul(dropout(graph.features, self.config.dropout, rng), self.w)
        propagated = self.propagation(scores, graph.adjacency, rng, nodes)
        return propagated._replace(output=add_bias(propagated.output, self.b))

    def l2_parameters(self) -> Iterable[Tensor]:
        """The weights under l2 regularisation."""
        return (self.w,)
