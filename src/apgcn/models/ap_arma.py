"""AP-ARMA: AP-GCN whose steps are those of an ARMA filter, with learned mixtures of what is heard and what is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from apgcn.data.graph import Graph
from apgcn.models.ap_appnp import APAPPNPConfig
from apgcn.nn.operators import ARMA
from apgcn.ops.rng import RandomStream


@dataclass(frozen=True)
class APARMAConfig(APAPPNPConfig):
    """AP-APPNP's settings; at the start the filter is nearly PageRank without loops, and learns from there."""

    name: ClassVar[str] = "ap-arma"
    title: ClassVar[str] = "AP-ARMA"
    has_fused_kernel: ClassVar[bool] = False  # channels are mixed between the steps

    def floats_per_run(self, graph: Graph) -> int:
        """About how many numbers one run of a pack keeps in memory while it trains: AP-GCN's, and the mixtures."""
        return super().floats_per_run(graph) + 20 * graph.num_classes**2

    def operator(self, classes: int, rng: RandomStream) -> ARMA:
        """One step of listening."""
        return ARMA(channels=classes, rng=rng, teleport=self.teleport, edge_dropout=self.edge_dropout)
