"""AP-ARMA: AP-GCN whose steps are those of an ARMA filter, with learned weights for what is heard and what is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from apgcn.checks import check_share
from apgcn.datasets.catalogue import AMAZON_GRAPHS
from apgcn.models.apgcn import OURS, APGCNSettings
from apgcn.models.given import Given
from apgcn.noise import Noise
from apgcn.operators import ARMA


@dataclass(frozen=True)
class APARMASettings(APGCNSettings):
    """AP-GCN's settings, and the teleport at which the filter's weights start."""

    name: ClassVar[str] = "ap-arma"
    title: ClassVar[str] = "AP-ARMA"
    citation: ClassVar[str] = "this library; the paper names it as future work"
    given: ClassVar[tuple[Given, ...]] = (
        *OURS,
        Given("tuned", "APPNP's, not searched", {"teleport": 0.1}),
        Given("tuned", "APPNP's, not searched", {"teleport": 0.2}, ("ms_academic", *AMAZON_GRAPHS)),
    )

    teleport: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("teleport", self.teleport)

    def operator(self, classes: int, noise: Noise) -> ARMA:
        """One step of listening."""
        return ARMA(channels=classes, noise=noise, teleport=self.teleport, edge_dropout=self.edge_dropout)
