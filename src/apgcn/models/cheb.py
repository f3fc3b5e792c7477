"""Cheb: Defferrard et al., CNNs on Graphs with Fast Localized Spectral Filtering, NIPS 2016; the paper's equation 2."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from apgcn._utils.validation import check_share, check_whole
from apgcn.data.graph import Graph
from apgcn.models.base import ModelSettings, Network, heard, stored_features
from apgcn.models.presets import Given, as_on_amazon, protocol
from apgcn.nn.layers import dropout, glorot, side_by_side, zeros
from apgcn.nn.operators import Chebyshev
from apgcn.nn.propagation import Propagated, listen
from apgcn.ops.device_graph import Adjacency, GraphTensors
from apgcn.ops.rng import Noise
from apgcn.ops.sparse import SparseMatrix

KIPF = "Kipf and Welling, ICLR 2017, who compared it with their GCN (order 3)"


SIZE = {"hidden": 16, "order": 3, "dropout": 0.5}


@dataclass(frozen=True)
class ChebSettings(ModelSettings):
    """What can be chosen about a Chebyshev network of two layers; `order` is the highest polynomial's."""

    name: ClassVar[str] = "cheb"
    title: ClassVar[str] = "Cheb"
    citation: ClassVar[str] = "Defferrard et al., NIPS 2016: the paper's equation 2"
    given: ClassVar[tuple[Given, ...]] = (
        protocol("published"),
        Given("published", KIPF, {**SIZE, "l2": 5e-4}),
        *as_on_amazon(SIZE),
    )
    to_need_less: ClassVar[str] = "make order or hidden smaller"

    hidden: int = 16
    order: int = 3
    dropout: float = 0.5

    def __post_init__(self) -> None:
        check_whole("hidden", self.hidden)
        check_whole("order", self.order)
        check_share("dropout", self.dropout)

    @property
    def max_steps(self) -> int:
        return 2 * self.order

    def build(self, graph: GraphTensors, noise: Noise) -> Cheb:
        """A pack of networks for a graph, one per run of the noise."""
        return Cheb(self, features=graph.num_features, classes=graph.classes, noise=noise)

    def floats_per_run(self, graph: Graph) -> int:
        """About how many numbers one run of a pack keeps in memory while it trains."""
        width = (self.order + 1) * max(self.hidden, graph.num_classes)
        states = 6 * self.order * graph.num_nodes * width
        return 8 * stored_features(graph) + states + heard(graph) + 8 * graph.num_features * width


class Cheb(Network):
    """Two layers of Chebyshev filters, the paper's equation 2; dropout before each.

        H      = ReLU(filter(X))
        output = filter(H)

    l2 shrinks the first layer's weights.
    """

    def __init__(self, settings: ChebSettings, *, features: int, classes: int, noise: Noise):
        super().__init__()
        self.settings = settings
        self.first = Filter(features, settings.hidden, order=settings.order, noise=noise)
        self.second = Filter(settings.hidden, classes, order=settings.order, noise=noise)

    def forward(self, graph: GraphTensors, noise: Noise | None = None) -> Propagated:
        """Logits of all nodes. With noise this is training, without it evaluation."""
        rate = self.settings.dropout
        h = self.first(dropout(graph.features, rate, noise), graph.adjacency).relu()
        output = self.second(dropout(h, rate, noise), graph.adjacency)
        return Propagated.everywhere(output, steps=self.settings.max_steps)

    def decayed(self) -> Iterable[Tensor]:
        """The weights that l2 regularisation shrinks: the first layer's."""
        return (self.first.w,)


class Filter(nn.Module):
    """One layer: sum over k = 0..order of T_k(L) X W_k, plus b.

    X is mapped first: T_k(L) is linear, and X may have thousands of features. So the X W_k listen side by side, and
    each is taken when it has listened k steps.
    """

    def __init__(self, inputs: int, outputs: int, *, order: int, noise: Noise):
        super().__init__()
        self.w, self.b = glorot(noise, order + 1, inputs, outputs), zeros(noise, 1, outputs)

    def forward(self, x: Tensor | SparseMatrix, adjacency: Adjacency) -> Tensor:
        mapped = side_by_side(x, self.w)  # (runs, terms, nodes, outputs)
        states = listen(Chebyshev(), mapped.flatten(0, 1), adjacency, steps=mapped.shape[1] - 1, noise=None)
        return sum((z.view_as(mapped)[:, k] for k, z in enumerate(states)), start=self.b)
