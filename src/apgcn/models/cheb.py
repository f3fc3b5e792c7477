"""Cheb: Defferrard et al., CNNs on Graphs with Fast Localized Spectral Filtering, NIPS 2016; the paper's equation 2."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from apgcn._utils.validation import check_fraction, check_int
from apgcn.data.graph import Graph
from apgcn.models.base import ModelConfig, Network, heard, stored_features
from apgcn.models.presets import Preset, as_on_amazon, protocol
from apgcn.nn.layers import dropout, glorot, stacked_matmul, zeros
from apgcn.nn.operators import Chebyshev
from apgcn.nn.propagation import PropagationOutput, propagate
from apgcn.ops.device_graph import Adjacency, DeviceGraph
from apgcn.ops.rng import RandomStream
from apgcn.ops.sparse import SparseMatrix

KIPF = "Kipf and Welling, ICLR 2017, who compared it with their GCN (order 3)"


SIZE = {"hidden_channels": 16, "order": 3, "dropout": 0.5}


@dataclass(frozen=True)
class ChebConfig(ModelConfig):
    """What can be chosen about a Chebyshev network of two layers; `order` is the highest polynomial's."""

    name: ClassVar[str] = "cheb"
    title: ClassVar[str] = "Cheb"
    citation: ClassVar[str] = "Defferrard et al., NIPS 2016: the paper's equation 2"
    given: ClassVar[tuple[Preset, ...]] = (
        protocol("published"),
        Preset("published", KIPF, {**SIZE, "l2": 5e-4}),
        *as_on_amazon(SIZE),
    )
    memory_advice: ClassVar[str] = "make order or hidden smaller"

    hidden_channels: int = 16
    order: int = 3
    dropout: float = 0.5

    def __post_init__(self) -> None:
        check_int("hidden_channels", self.hidden_channels)
        check_int("order", self.order)
        check_fraction("dropout", self.dropout)

    @property
    def max_steps(self) -> int:
        return 2 * self.order

    def build(self, graph: DeviceGraph, rng: RandomStream) -> Cheb:
        """A pack of networks for a graph, one per run of the noise."""
        return Cheb(self, features=graph.num_features, classes=graph.classes, rng=rng)

    def floats_per_run(self, graph: Graph) -> int:
        """About how many numbers one run of a pack keeps in memory while it trains."""
        width = (self.order + 1) * max(self.hidden_channels, graph.num_classes)
        states = 6 * self.order * graph.num_nodes * width
        return 8 * stored_features(graph) + states + heard(graph) + 8 * graph.num_features * width


class Cheb(Network):
    """Two layers of Chebyshev filters, the paper's equation 2; dropout before each.

        H      = ReLU(filter(X))
        output = filter(H)

    l2 shrinks the first layer's weights.
    """

    def __init__(self, config: ChebConfig, *, features: int, classes: int, rng: RandomStream):
        super().__init__()
        self.config = config
        self.first = Filter(features, config.hidden_channels, order=config.order, rng=rng)
        self.second = Filter(config.hidden_channels, classes, order=config.order, rng=rng)

    def forward(self, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """Logits of all nodes. With noise this is training, without it evaluation."""
        rate = self.config.dropout
        h = self.first(dropout(graph.features, rate, rng), graph.adjacency).relu()
        output = self.second(dropout(h, rate, rng), graph.adjacency)
        return PropagationOutput.everywhere(output, steps=self.config.max_steps)

    def l2_parameters(self) -> Iterable[Tensor]:
        """The weights that l2 regularisation shrinks: the first layer's."""
        return (self.first.w,)


class Filter(nn.Module):
    """One layer: sum over k = 0..order of T_k(L) X W_k, plus b.

    X is mapped first: T_k(L) is linear, and X may have thousands of features. So the X W_k listen side by side, and
    each is taken when it has listened k steps.
    """

    def __init__(self, inputs: int, outputs: int, *, order: int, rng: RandomStream):
        super().__init__()
        self.w, self.b = glorot(rng, order + 1, inputs, outputs), zeros(rng, 1, outputs)

    def forward(self, x: Tensor | SparseMatrix, adjacency: Adjacency) -> Tensor:
        mapped = stacked_matmul(x, self.w)  # (runs, terms, nodes, outputs)
        states = propagate(Chebyshev(), mapped.flatten(0, 1), adjacency, steps=mapped.shape[1] - 1, rng=None)
        return sum((z.view_as(mapped)[:, k] for k, z in enumerate(states)), start=self.b)
