"""ARMA: Bianchi et al., Graph Neural Networks with Convolutional ARMA Filters, 2019."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from apgcn._utils.validation import check_fraction, check_int
from apgcn.data.graph import Graph
from apgcn.data.registry import AMAZON_GRAPHS
from apgcn.models.base import ModelConfig, Network, heard, stored_features
from apgcn.models.presets import AP_GCN, Preset, protocol
from apgcn.nn.layers import dropout, glorot, stacked_matmul, zeros
from apgcn.nn.propagation import PropagationOutput
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream
from apgcn.ops.sparse import SparseMatrix

SPEKTRAL = "the authors' example in their library spektral (citation graphs), where l2 adds l2 |W|^2, here half of it"
VALIDATION = "not in the AP-GCN paper; ours, on validation seeds: results/tuning"


@dataclass(frozen=True)
class ARMAConfig(ModelConfig):
    """What can be chosen about ARMA: two layers, in each `stacks` filters of `depth` recursions that share weights.

    `skip_dropout` takes values of a layer's input where the recursions add it again.
    """

    name: ClassVar[str] = "arma"
    title: ClassVar[str] = "ARMA"
    citation: ClassVar[str] = "Bianchi et al., 2019"
    given: ClassVar[tuple[Preset, ...]] = (
        protocol("published"),
        Preset(
            "published",
            SPEKTRAL,
            {"hidden_channels": 16, "stacks": 2, "depth": 1, "dropout": 0.5, "skip_dropout": 0.75, "l2": 1e-4},
        ),
        protocol("paper"),
        Preset("paper", AP_GCN, {"hidden_channels": 64, "dropout": 0.5}),
        Preset("paper", f"{AP_GCN}, which says it of AP-GCN", {"l2": 0.008}),
        Preset("paper", AP_GCN, {"l2": 0.0}, AMAZON_GRAPHS),
        Preset("paper", VALIDATION, {"stacks": 1, "depth": 1}),
        Preset("paper", "not in the AP-GCN paper; ours, not searched", {"skip_dropout": 0.5}),
    )
    memory_advice: ClassVar[str] = "make stacks, depth or hidden smaller"

    hidden_channels: int = 64
    stacks: int = 2
    depth: int = 1
    dropout: float = 0.5
    skip_dropout: float = 0.5

    def __post_init__(self) -> None:
        for name in ("hidden_channels", "stacks", "depth"):
            check_int(name, getattr(self, name))
        for name in ("dropout", "skip_dropout"):
            check_fraction(name, getattr(self, name))

    @property
    def max_steps(self) -> int:
        return 2 * self.depth

    def build(self, graph: DeviceGraph, rng: RandomStream) -> ARMA:
        """A pack of networks for a graph, one per run of the noise."""
        return ARMA(self, features=graph.num_features, classes=graph.classes, rng=rng)

    def floats_per_run(self, graph: Graph) -> int:
        """About how many numbers one run of a pack keeps in memory while it trains."""
        width = self.stacks * self.hidden_channels
        states = (6 + 4 * self.depth) * graph.num_nodes * (width + self.stacks * graph.num_classes)
        return 12 * stored_features(graph) + states + heard(graph) + 16 * graph.num_features * width


class ARMA(Network):
    """Two layers of ARMA filters, dropout before each; ReLU in the recursions of the first, none in the second.

    l2 shrinks the first layer's weights.
    """

    def __init__(self, config: ARMAConfig, *, features: int, classes: int, rng: RandomStream):
        super().__init__()
        self.config = config
        size = {"stacks": config.stacks, "depth": config.depth}
        self.first = Filters(features, config.hidden_channels, **size, rng=rng, relu=True)
        self.second = Filters(config.hidden_channels, classes, **size, rng=rng, relu=False)

    def forward(self, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """Logits of all nodes. With noise this is training, without it evaluation."""
        m, skip = graph.adjacency.normalized_without_self_loops, self.config.skip_dropout
        h = self.first(dropout(graph.features, self.config.dropout, rng), m, skip, rng)
        output = self.second(dropout(h, self.config.dropout, rng), m, skip, rng)
        return PropagationOutput.everywhere(output, steps=self.config.max_steps)

    def l2_parameters(self) -> Iterable[Tensor]:
        """The weights that l2 regularisation shrinks: the first layer's."""
        return self.first.weights()


class Filters(nn.Module):
    """One layer: the mean of several stacks, each a recursion with weights of its own.

        Z^0     = X W_0
        Z^t     = ReLU(M Z^(t-1) W + X V + b)       t = 1..depth, W from t = 2 on
        output  = mean over stacks of Z^depth

    M = D^-1/2 A D^-1/2, no node hearing itself but through X V.
    """

    def __init__(self, inputs: int, outputs: int, *, stacks: int, depth: int, rng: RandomStream, relu: bool):
        super().__init__()
        self.depth, self.relu = depth, relu
        self.w_0, self.v = glorot(rng, stacks, inputs, outputs), glorot(rng, stacks, inputs, outputs)
        self.w = glorot(rng, stacks, outputs, outputs) if depth > 1 else None
        self.b = zeros(rng, stacks, 1, outputs)

    def forward(self, x: Tensor | SparseMatrix, m: SparseMatrix, skip: float, rng: RandomStream | None) -> Tensor:
        z = stacked_matmul(x, self.w_0)  # (runs, stacks, nodes, outputs)
        for t in range(1, self.depth + 1):
            own = stacked_matmul(dropout(x, skip, rng), self.v) + self.b
            if self.w is not None and t > 1:
                z = z @ self.w
            z = (m @ z.flatten(0, 1)).view_as(z) + own
            z = z.relu() if self.relu else z
        return z.mean(1)

    def weights(self) -> list[Tensor]:
        return [weight for weight in (self.w_0, self.v, self.w) if weight is not None]
