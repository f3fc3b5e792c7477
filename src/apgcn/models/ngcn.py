"""N-GCN: Abu-El-Haija et al., N-GCN: Multi-scale Graph Convolution for Semi-supervised Node Classification, 2018."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from apgcn._utils.validation import check_fraction, check_int
from apgcn.data.graph import Graph
from apgcn.models.base import BatchedModel, ModelConfig, num_edges_with_self_loops, num_stored_features
from apgcn.nn.layers import dropout, glorot, stacked_matmul, zeros
from apgcn.nn.propagation import PropagationOutput
from apgcn.ops.dense import add_bias, logsumexp, matmul
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream
from apgcn.ops.sparse import SparseMatrix


@dataclass(frozen=True)
class NGCNConfig(ModelConfig):
    """Hyperparameters of N-GCN: `heads` GCNs for every power of A from `min_power` to `max_power`.

    `z0_dropout` is applied to the class scores before the last propagation, as in the script of AP-GCN's authors.
    """

    name: ClassVar[str] = "ngcn"
    title: ClassVar[str] = "N-GCN"
    citation: ClassVar[str] = "Abu-El-Haija et al., 2018"
    memory_advice: ClassVar[str] = "make powers, heads or hidden_channels smaller"

    hidden_channels: int = 16
    heads: int = 4
    min_power: int = 0
    max_power: int = 4
    dropout: float = 0.5
    z0_dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("hidden_channels", "heads"):
            check_int(name, getattr(self, name))
        check_int("min_power", self.min_power, minimum=0)
        check_int("max_power", self.max_power, minimum=max(1, self.min_power))
        check_fraction("dropout", self.dropout)
        check_fraction("z0_dropout", self.z0_dropout)

    @property
    def powers(self) -> range:
        """The powers of A."""
        return range(self.min_power, self.max_power + 1)

    @property
    def max_steps(self) -> int:
        """Two layers, each of which propagates as far as the highest power."""
        return 2 * self.max_power

    def build(self, graph: DeviceGraph, rng: RandomStream) -> BatchedNGCN:
        """A batched model for a graph, one run per run of `rng`, which draws the initial weights."""
        return BatchedNGCN(self, in_channels=graph.num_features, out_channels=graph.num_classes, rng=rng)

    def floats_per_run(self, graph: Graph) -> int:
        """Estimated number of floats in memory per run of a batch in training."""
        gcns = len(self.powers) * self.heads
        width = gcns * self.hidden_channels
        states = (8 + self.max_power) * graph.num_nodes * (width + gcns * graph.num_classes)
        return (
            8 * num_stored_features(graph) + states + num_edges_with_self_loops(graph) + 8 * graph.num_features * width
        )


class BatchedNGCN(BatchedModel):
    """GCNs over powers of A, several for each power, combined by attention.

        H_kr   = ReLU(A^k X W_kr + b_kr)                          powers k, heads r
        Z_kr   = A^k H_kr V_kr + c_kr
        output = log(sum over k and r of m_kr softmax(Z_kr))      m = softmax of one learned number per GCN

    The GCNs' probabilities are averaged, and the logits are the logarithm of the average. l2 regularisation is on W and
    V.
    """

    def __init__(self, config: NGCNConfig, *, in_channels: int, out_channels: int, rng: RandomStream):
        super().__init__()
        self.config = config
        gcns = len(config.powers) * config.heads
        self.w, self.b = (
            glorot(rng, gcns, in_channels, config.hidden_channels),
            zeros(rng, gcns, 1, config.hidden_channels),
        )
        self.v, self.c = glorot(rng, gcns, config.hidden_channels, out_channels), zeros(rng, gcns, 1, out_channels)
        self.attention = zeros(rng, gcns)

    def forward(self, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """Logits (runs, nodes, classes) of all nodes; training with `rng`, evaluation without."""
        a, rate = graph.adjacency.normalized, self.config.dropout
        x = dropout(graph.features, rate, rng)
        h = add_bias(self._propagate(a, stacked_matmul(x, self.w)), self.b).relu()  # (runs, GCNs, nodes, hidden)
        h = dropout(h, rate, rng)
        z0 = dropout(matmul(h, self.v), self.config.z0_dropout, rng)
        z = add_bias(self._propagate(a, z0), self.c)
        log_m = torch.log_softmax(self.attention, dim=1)[..., None, None]
        log_p = torch.log_softmax(z, dim=-1)
        output = logsumexp(add_bias(log_p.flatten(2)[..., None], log_m).view_as(log_p), 1)
        return PropagationOutput.fixed_steps(output, steps=self.config.max_steps)

    def _propagate(self, a: SparseMatrix, z: Tensor) -> Tensor:
        """A^k z for the GCNs of power k; z and the result are (runs, GCNs, nodes, channels)."""
        heads, propagated = self.config.heads, []
        for power in range(self.config.max_power + 1):
            if power > 0:
                z = (a @ z.reshape(-1, *z.shape[2:])).view_as(z)
            if power in self.config.powers:  # the first GCNs of the remaining ones are of this power
                propagated.append(z[:, :heads])
                z = z[:, heads:]
        return torch.cat(propagated, dim=1)

    def l2_parameters(self) -> Iterable[Tensor]:
        """The weights under l2 regularisation: those of all layers."""
        return (self.w, self.v)
