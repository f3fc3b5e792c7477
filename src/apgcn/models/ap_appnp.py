"""AP-APPNP: AP-GCN whose steps are those of APPNP, a little of every node's own prediction coming back at each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from apgcn._utils.validation import check_fraction
from apgcn.data.registry import AMAZON_GRAPHS
from apgcn.models.apgcn import OURS, APGCNConfig
from apgcn.models.presets import Preset
from apgcn.nn.operators import Operator, PageRank
from apgcn.ops.rng import RandomStream


@dataclass(frozen=True)
class APAPPNPConfig(APGCNConfig):
    """AP-GCN's settings, and the teleport of the PageRank steps."""

    name: ClassVar[str] = "ap-appnp"
    title: ClassVar[str] = "AP-APPNP"
    citation: ClassVar[str] = "this library; the paper names it as future work"
    given: ClassVar[tuple[Preset, ...]] = (
        *OURS,
        Preset("tuned", "APPNP's, not searched", {"teleport": 0.1}),
        Preset("tuned", "APPNP's, not searched", {"teleport": 0.2}, ("ms_academic", *AMAZON_GRAPHS)),
    )

    teleport: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction("teleport", self.teleport)

    @property
    def mixing(self) -> tuple[float, float]:
        """How much a step takes of what is heard and of the seeds."""
        return 1 - self.teleport, self.teleport

    def operator(self, classes: int, rng: RandomStream) -> Operator:
        """One step of listening."""
        return PageRank(self.teleport, self.edge_dropout)
