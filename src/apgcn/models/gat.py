"""GAT: Velickovic et al., Graph Attention Networks, ICLR 2018."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional

from apgcn._utils.validation import check_fraction, check_int
from apgcn.data.graph import Graph
from apgcn.data.registry import AMAZON_GRAPHS
from apgcn.models.base import ModelConfig, Network, heard, stored_features
from apgcn.models.presets import AP_GCN, PPNP, Preset, protocol
from apgcn.nn.layers import dropout, glorot, zeros
from apgcn.nn.propagation import PropagationOutput
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream
from apgcn.ops.sparse import CSRStructure, SparseMatrix, edge_add, edge_softmax

SLOPE = 0.2  # of the leaky ReLU below zero


@dataclass(frozen=True)
class GATConfig(ModelConfig):
    """What can be chosen about GAT: `heads` of `hidden` channels each in the first layer, one head in the second.

    `dropout` is that of the layers' inputs and of the attention.
    """

    name: ClassVar[str] = "gat"
    title: ClassVar[str] = "GAT"
    citation: ClassVar[str] = "Velickovic et al., ICLR 2018; settings of the PPNP paper"
    given: ClassVar[tuple[Preset, ...]] = (
        protocol("published"),
        Preset("published", PPNP, {"heads": 8, "hidden_channels": 8, "dropout": 0.6, "l2": 0.01}),
        protocol("paper", AMAZON_GRAPHS),
        Preset("paper", AP_GCN, {"dropout": 0.5, "l2": 0.0}, AMAZON_GRAPHS),
        Preset(
            "paper", "as published; the AP-GCN paper says 64 units", {"heads": 8, "hidden_channels": 8}, AMAZON_GRAPHS
        ),
    )
    memory_advice: ClassVar[str] = "make heads or hidden smaller"
    max_steps: ClassVar[int] = 2

    heads: int = 8
    hidden_channels: int = 8
    dropout: float = 0.6

    def __post_init__(self) -> None:
        check_int("heads", self.heads)
        check_int("hidden_channels", self.hidden_channels)
        check_fraction("dropout", self.dropout)

    def build(self, graph: DeviceGraph, rng: RandomStream) -> GAT:
        """A pack of networks for a graph, one per run of the noise."""
        return GAT(self, features=graph.num_features, classes=graph.classes, rng=rng)

    def floats_per_run(self, graph: Graph) -> int:
        """About how many numbers one run of a pack keeps in memory while it trains."""
        width = self.heads * self.hidden_channels
        messages = heard(graph) * (12 * self.heads + 3 * max(width, graph.num_classes) + 12)
        states = 12 * graph.num_nodes * (width + graph.num_classes)
        return 8 * stored_features(graph) + states + messages + 8 * graph.num_features * width


class GAT(Network):
    """Two layers, in each of which a node decides whom of its neighbours to hear how well.

        H      = ELU(attend(X))          8 heads side by side, dropout of inputs and attention
        output = attend(H)               one head

    l2 shrinks the first layer's map.
    """

    def __init__(self, config: GATConfig, *, features: int, classes: int, rng: RandomStream):
        super().__init__()
        self.config = config
        self.first = Attention(features, config.hidden_channels, heads=config.heads, rng=rng)
        self.second = Attention(config.heads * config.hidden_channels, classes, heads=1, rng=rng)

    def forward(self, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """Logits of all nodes. With noise this is training, without it evaluation."""
        structure, rate = graph.adjacency.structure, self.config.dropout
        h = functional.elu(self.first(dropout(graph.features, rate, rng), structure, rate, rng))
        output = self.second(dropout(h, rate, rng), structure, rate, rng)
        return PropagationOutput.everywhere(output, steps=2)

    def l2_parameters(self) -> Iterable[Tensor]:
        """The weights that l2 regularisation shrinks: the first layer's."""
        return (self.first.w,)


class Attention(nn.Module):
    """One layer, for every head:

        g_i      = x_i W
        e_ij     = LeakyReLU(own . g_i + other . g_j)         for every j that i hears, itself included
        output_i = sum over j of softmax_j(e_ij) g_j + b

    Edge weights have no say in it. The heads stand side by side in the output, (runs, nodes, heads * outputs).
    """

    def __init__(self, inputs: int, outputs: int, *, heads: int, rng: RandomStream):
        super().__init__()
        self.heads = heads
        self.w, self.b = glorot(rng, inputs, heads * outputs), zeros(rng, 1, heads * outputs)
        self.own, self.other = glorot(rng, heads, outputs), glorot(rng, heads, outputs)

    def forward(
        self, x: Tensor | SparseMatrix, structure: CSRStructure, rate: float, rng: RandomStream | None
    ) -> Tensor:
        g = x @ self.w
        runs, nodes, _ = g.shape
        g = g.view(runs, nodes, self.heads, -1).transpose(1, 2)  # (runs, heads, nodes, outputs)
        own, other = ((g * part[:, :, None]).sum(-1).flatten(0, 1) for part in (self.own, self.other))
        e = functional.leaky_relu(edge_add(structure, own, other), SLOPE)
        attention = edge_softmax(structure, e)  # (runs * heads, entries)
        if rng is not None and rate > 0:
            attention = attention * rng.dropout_mask(self.heads, structure.nnz, rate=rate).flatten(0, 1).to(attention)
        said = SparseMatrix(structure, attention) @ g.flatten(0, 1)
        return said.view(runs, self.heads, nodes, -1).transpose(1, 2).flatten(2) + self.b
