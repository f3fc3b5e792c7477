"""AP-APPNP and AP-ARMA: AP-GCN with the propagation step of APPNP or of an ARMA filter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from apgcn.data.graph import Graph
from apgcn.models.apgcn import APGCNConfig
from apgcn.nn.operators import ARMA
from apgcn.ops.rng import RandomStream


@dataclass(frozen=True)
class APAPPNPConfig(APGCNConfig):
    """Hyperparameters of AP-APPNP: AP-GCN's, with the `teleport` of APPNP."""

    name: ClassVar[str] = "ap-appnp"
    title: ClassVar[str] = "AP-APPNP"
    citation: ClassVar[str] = "this library; the paper names it as future work"

    teleport: float = 0.1


@dataclass(frozen=True)
class APARMAConfig(APAPPNPConfig):
    """Hyperparameters of AP-ARMA: AP-APPNP's; the initial filter is nearly PageRank without self-loops."""

    name: ClassVar[str] = "ap-arma"
    title: ClassVar[str] = "AP-ARMA"
    has_fused_kernel: ClassVar[bool] = False  # channels are mixed between the steps

    def floats_per_run(self, graph: Graph) -> int:
        """Estimated number of floats in memory per run of a batch in training: AP-GCN's, and the filter's weights."""
        return super().floats_per_run(graph) + 20 * graph.num_classes**2

    def operator(self, classes: int, rng: RandomStream) -> ARMA:
        """The operator of a propagation step."""
        return ARMA(channels=classes, rng=rng, teleport=self.teleport, edge_dropout=self.edge_dropout)
