"""N-GCN: Abu-El-Haija et al., N-GCN: Multi-scale Graph Convolution for Semi-supervised Node Classification, 2018."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from apgcn._utils.validation import check_share, check_whole
from apgcn.data.graph import Graph
from apgcn.models.base import ModelSettings, Network, heard, stored_features
from apgcn.models.presets import PPNP, Given, as_on_amazon, protocol
from apgcn.nn.layers import dropout, glorot, side_by_side, zeros
from apgcn.nn.propagation import Propagated
from apgcn.ops.device_graph import GraphTensors
from apgcn.ops.rng import Noise
from apgcn.ops.sparse import SparseMatrix

SIZE = {"hidden": 16, "heads": 4, "least_power": 0, "most_power": 4, "dropout": 0.5}


@dataclass(frozen=True)
class NGCNSettings(ModelSettings):
    """What can be chosen about a network of GCNs: `heads` of them for every power of A from `least_power` on."""

    name: ClassVar[str] = "ngcn"
    title: ClassVar[str] = "N-GCN"
    citation: ClassVar[str] = "Abu-El-Haija et al., 2018"
    given: ClassVar[tuple[Given, ...]] = (
        protocol("published"),
        Given("published", PPNP, {**SIZE, "l2": 1e-5}),
        *as_on_amazon(SIZE),
    )
    to_need_less: ClassVar[str] = "make powers, heads or hidden smaller"

    hidden: int = 16
    heads: int = 4
    least_power: int = 0
    most_power: int = 4
    dropout: float = 0.5

    def __post_init__(self) -> None:
        for name in ("hidden", "heads"):
            check_whole(name, getattr(self, name))
        check_whole("least_power", self.least_power, least=0)
        check_whole("most_power", self.most_power, least=max(1, self.least_power))
        check_share("dropout", self.dropout)

    @property
    def powers(self) -> range:
        return range(self.least_power, self.most_power + 1)

    @property
    def max_steps(self) -> int:
        """Two layers, each listening as far as the highest power."""
        return 2 * self.most_power

    def build(self, graph: GraphTensors, noise: Noise) -> NGCN:
        """A pack of networks for a graph, one per run of the noise."""
        return NGCN(self, features=graph.num_features, classes=graph.classes, noise=noise)

    def floats_per_run(self, graph: Graph) -> int:
        """About how many numbers one run of a pack keeps in memory while it trains."""
        gcns = len(self.powers) * self.heads
        width = gcns * self.hidden
        states = (8 + self.most_power) * graph.num_nodes * (width + gcns * graph.num_classes)
        return 8 * stored_features(graph) + states + heard(graph) + 8 * graph.num_features * width


class NGCN(Network):
    """GCNs over powers of A, several for each power, merged by attention.

        H_kr   = ReLU(A^k X W_kr + b_kr)                          powers k, heads r
        Z_kr   = A^k H_kr V_kr + c_kr
        output = log(sum over k and r of m_kr softmax(Z_kr))      m = softmax of one learned number per GCN

    What is merged are the GCNs' probabilities, and the logits are the logarithm of what comes out. l2 shrinks W and V.
    """

    def __init__(self, settings: NGCNSettings, *, features: int, classes: int, noise: Noise):
        super().__init__()
        self.settings = settings
        gcns = len(settings.powers) * settings.heads
        self.w, self.b = glorot(noise, gcns, features, settings.hidden), zeros(noise, gcns, 1, settings.hidden)
        self.v, self.c = glorot(noise, gcns, settings.hidden, classes), zeros(noise, gcns, 1, classes)
        self.attention = zeros(noise, gcns)

    def forward(self, graph: GraphTensors, noise: Noise | None = None) -> Propagated:
        """Logits of all nodes. With noise this is training, without it evaluation."""
        a, rate = graph.adjacency.normalized, self.settings.dropout
        x = dropout(graph.features, rate, noise)
        h = (self._powers(a, side_by_side(x, self.w)) + self.b).relu()  # (runs, GCNs, nodes, hidden)
        h = dropout(h, rate, noise)
        z = self._powers(a, h @ self.v) + self.c
        log_m = torch.log_softmax(self.attention, dim=1)[..., None, None]
        output = torch.logsumexp(log_m + torch.log_softmax(z, dim=-1), dim=1)
        return Propagated.everywhere(output, steps=self.settings.max_steps)

    def _powers(self, a: SparseMatrix, z: Tensor) -> Tensor:
        """A^k times what the GCNs of power k have, of shape (runs, GCNs, nodes, channels)."""
        heads, done = self.settings.heads, []
        for power in range(self.settings.most_power + 1):
            if power > 0:
                z = (a @ z.reshape(-1, *z.shape[2:])).view_as(z)
            if power in self.settings.powers:  # the first of those left have heard enough
                done.append(z[:, :heads])
                z = z[:, heads:]
        return torch.cat(done, dim=1)

    def decayed(self) -> Iterable[Tensor]:
        """The weights that l2 regularisation shrinks: those of all layers."""
        return (self.w, self.v)
