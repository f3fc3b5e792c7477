"""N-GCN: Abu-El-Haija et al., N-GCN: Multi-scale Graph Convolution for Semi-supervised Node Classification, 2018."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from apgcn._utils.validation import check_fraction, check_int
from apgcn.data.graph import Graph
from apgcn.models.base import ModelConfig, Network, heard, stored_features
from apgcn.models.presets import PPNP, Preset, as_on_amazon, protocol
from apgcn.nn.layers import dropout, glorot, stacked_matmul, zeros
from apgcn.nn.propagation import PropagationOutput
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream
from apgcn.ops.sparse import SparseMatrix

SIZE = {"hidden_channels": 16, "heads": 4, "least_power": 0, "most_power": 4, "dropout": 0.5}


@dataclass(frozen=True)
class NGCNConfig(ModelConfig):
    """What can be chosen about a network of GCNs: `heads` of them for every power of A from `least_power` on."""

    name: ClassVar[str] = "ngcn"
    title: ClassVar[str] = "N-GCN"
    citation: ClassVar[str] = "Abu-El-Haija et al., 2018"
    given: ClassVar[tuple[Preset, ...]] = (
        protocol("published"),
        Preset("published", PPNP, {**SIZE, "l2": 1e-5}),
        *as_on_amazon(SIZE),
    )
    memory_advice: ClassVar[str] = "make powers, heads or hidden smaller"

    hidden_channels: int = 16
    heads: int = 4
    least_power: int = 0
    most_power: int = 4
    dropout: float = 0.5

    def __post_init__(self) -> None:
        for name in ("hidden_channels", "heads"):
            check_int(name, getattr(self, name))
        check_int("least_power", self.least_power, least=0)
        check_int("most_power", self.most_power, least=max(1, self.least_power))
        check_fraction("dropout", self.dropout)

    @property
    def powers(self) -> range:
        return range(self.least_power, self.most_power + 1)

    @property
    def max_steps(self) -> int:
        """Two layers, each listening as far as the highest power."""
        return 2 * self.most_power

    def build(self, graph: DeviceGraph, rng: RandomStream) -> NGCN:
        """A pack of networks for a graph, one per run of the noise."""
        return NGCN(self, features=graph.num_features, classes=graph.classes, rng=rng)

    def floats_per_run(self, graph: Graph) -> int:
        """About how many numbers one run of a pack keeps in memory while it trains."""
        gcns = len(self.powers) * self.heads
        width = gcns * self.hidden_channels
        states = (8 + self.most_power) * graph.num_nodes * (width + gcns * graph.num_classes)
        return 8 * stored_features(graph) + states + heard(graph) + 8 * graph.num_features * width


class NGCN(Network):
    """GCNs over powers of A, several for each power, merged by attention.

        H_kr   = ReLU(A^k X W_kr + b_kr)                          powers k, heads r
        Z_kr   = A^k H_kr V_kr + c_kr
        output = log(sum over k and r of m_kr softmax(Z_kr))      m = softmax of one learned number per GCN

    What is merged are the GCNs' probabilities, and the logits are the logarithm of what comes out. l2 shrinks W and V.
    """

    def __init__(self, config: NGCNConfig, *, features: int, classes: int, rng: RandomStream):
        super().__init__()
        self.config = config
        gcns = len(config.powers) * config.heads
        self.w, self.b = (
            glorot(rng, gcns, features, config.hidden_channels),
            zeros(rng, gcns, 1, config.hidden_channels),
        )
        self.v, self.c = glorot(rng, gcns, config.hidden_channels, classes), zeros(rng, gcns, 1, classes)
        self.attention = zeros(rng, gcns)

    def forward(self, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """Logits of all nodes. With noise this is training, without it evaluation."""
        a, rate = graph.adjacency.normalized, self.config.dropout
        x = dropout(graph.features, rate, rng)
        h = (self._powers(a, stacked_matmul(x, self.w)) + self.b).relu()  # (runs, GCNs, nodes, hidden)
        h = dropout(h, rate, rng)
        z = self._powers(a, h @ self.v) + self.c
        log_m = torch.log_softmax(self.attention, dim=1)[..., None, None]
        output = torch.logsumexp(log_m + torch.log_softmax(z, dim=-1), dim=1)
        return PropagationOutput.everywhere(output, steps=self.config.max_steps)

    def _powers(self, a: SparseMatrix, z: Tensor) -> Tensor:
        """A^k times what the GCNs of power k have, of shape (runs, GCNs, nodes, channels)."""
        heads, done = self.config.heads, []
        for power in range(self.config.most_power + 1):
            if power > 0:
                z = (a @ z.reshape(-1, *z.shape[2:])).view_as(z)
            if power in self.config.powers:  # the first of those left have heard enough
                done.append(z[:, :heads])
                z = z[:, heads:]
        return torch.cat(done, dim=1)

    def l2_parameters(self) -> Iterable[Tensor]:
        """The weights that l2 regularisation shrinks: those of all layers."""
        return (self.w, self.v)
