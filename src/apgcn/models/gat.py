"""GAT: Velickovic et al., Graph Attention Networks, ICLR 2018."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional

from apgcn._utils.validation import check_share, check_whole
from apgcn.data.graph import Graph
from apgcn.data.registry import AMAZON_GRAPHS
from apgcn.models.base import ModelSettings, Network, heard, stored_features
from apgcn.models.presets import AP_GCN, PPNP, Given, protocol
from apgcn.nn.layers import dropout, glorot, zeros
from apgcn.nn.propagation import Propagated
from apgcn.ops.device_graph import GraphTensors
from apgcn.ops.rng import Noise
from apgcn.ops.sparse import Pattern, SparseMatrix, pair_sums, row_softmax

SLOPE = 0.2  # of the leaky ReLU below zero


@dataclass(frozen=True)
class GATSettings(ModelSettings):
    """What can be chosen about GAT: `heads` of `hidden` channels each in the first layer, one head in the second.

    `dropout` is that of the layers' inputs and of the attention.
    """

    name: ClassVar[str] = "gat"
    title: ClassVar[str] = "GAT"
    citation: ClassVar[str] = "Velickovic et al., ICLR 2018; settings of the PPNP paper"
    given: ClassVar[tuple[Given, ...]] = (
        protocol("published"),
        Given("published", PPNP, {"heads": 8, "hidden": 8, "dropout": 0.6, "l2": 0.01}),
        protocol("paper", AMAZON_GRAPHS),
        Given("paper", AP_GCN, {"dropout": 0.5, "l2": 0.0}, AMAZON_GRAPHS),
        Given("paper", "as published; the AP-GCN paper says 64 units", {"heads": 8, "hidden": 8}, AMAZON_GRAPHS),
    )
    to_need_less: ClassVar[str] = "make heads or hidden smaller"
    max_steps: ClassVar[int] = 2

    heads: int = 8
    hidden: int = 8
    dropout: float = 0.6

    def __post_init__(self) -> None:
        check_whole("heads", self.heads)
        check_whole("hidden", self.hidden)
        check_share("dropout", self.dropout)

    def build(self, graph: GraphTensors, noise: Noise) -> GAT:
        """A pack of networks for a graph, one per run of the noise."""
        return GAT(self, features=graph.num_features, classes=graph.classes, noise=noise)

    def floats_per_run(self, graph: Graph) -> int:
        """About how many numbers one run of a pack keeps in memory while it trains."""
        width = self.heads * self.hidden
        messages = heard(graph) * (12 * self.heads + 3 * max(width, graph.num_classes) + 12)
        states = 12 * graph.num_nodes * (width + graph.num_classes)
        return 8 * stored_features(graph) + states + messages + 8 * graph.num_features * width


class GAT(Network):
    """Two layers, in each of which a node decides whom of its neighbours to hear how well.

        H      = ELU(attend(X))          8 heads side by side, dropout of inputs and attention
        output = attend(H)               one head

    l2 shrinks the first layer's map.
    """

    def __init__(self, settings: GATSettings, *, features: int, classes: int, noise: Noise):
        super().__init__()
        self.settings = settings
        self.first = Attention(features, settings.hidden, heads=settings.heads, noise=noise)
        self.second = Attention(settings.heads * settings.hidden, classes, heads=1, noise=noise)

    def forward(self, graph: GraphTensors, noise: Noise | None = None) -> Propagated:
        """Logits of all nodes. With noise this is training, without it evaluation."""
        pattern, rate = graph.adjacency.pattern, self.settings.dropout
        h = functional.elu(self.first(dropout(graph.features, rate, noise), pattern, rate, noise))
        output = self.second(dropout(h, rate, noise), pattern, rate, noise)
        return Propagated.everywhere(output, steps=2)

    def decayed(self) -> Iterable[Tensor]:
        """The weights that l2 regularisation shrinks: the first layer's."""
        return (self.first.w,)


class Attention(nn.Module):
    """One layer, for every head:

        g_i      = x_i W
        e_ij     = LeakyReLU(own . g_i + other . g_j)         for every j that i hears, itself included
        output_i = sum over j of softmax_j(e_ij) g_j + b

    Edge weights have no say in it. The heads stand side by side in the output, (runs, nodes, heads * outputs).
    """

    def __init__(self, inputs: int, outputs: int, *, heads: int, noise: Noise):
        super().__init__()
        self.heads = heads
        self.w, self.b = glorot(noise, inputs, heads * outputs), zeros(noise, 1, heads * outputs)
        self.own, self.other = glorot(noise, heads, outputs), glorot(noise, heads, outputs)

    def forward(self, x: Tensor | SparseMatrix, pattern: Pattern, rate: float, noise: Noise | None) -> Tensor:
        g = x @ self.w
        runs, nodes, _ = g.shape
        g = g.view(runs, nodes, self.heads, -1).transpose(1, 2)  # (runs, heads, nodes, outputs)
        own, other = ((g * part[:, :, None]).sum(-1).flatten(0, 1) for part in (self.own, self.other))
        e = functional.leaky_relu(pair_sums(pattern, own, other), SLOPE)
        attention = row_softmax(pattern, e)  # (runs * heads, entries)
        if noise is not None and rate > 0:
            attention = attention * noise.keep(self.heads, pattern.entries, rate=rate).flatten(0, 1).to(attention)
        said = SparseMatrix(pattern, attention) @ g.flatten(0, 1)
        return said.view(runs, self.heads, nodes, -1).transpose(1, 2).flatten(2) + self.b
