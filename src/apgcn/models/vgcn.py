"""V.GCN: a GCN as it was first proposed (Kipf and Welling, ICLR 2017): small, no edge dropout, an early stop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from apgcn.models.gcn import GCNSettings
from apgcn.models.presets import PPNP, Given, protocol


@dataclass(frozen=True)
class VGCNSettings(GCNSettings):
    """A GCN's settings, with the first ones that were published; the network is the same."""

    name: ClassVar[str] = "vgcn"
    title: ClassVar[str] = "V.GCN"
    citation: ClassVar[str] = "Kipf and Welling, ICLR 2017"
    given: ClassVar[tuple[Given, ...]] = (
        protocol("published"),
        Given(
            "published",
            PPNP,
            {
                "hidden": 16,
                "dropout": 0.5,
                "edge_dropout": 0.0,
                "l2": 5e-4,
                "stop_on": "loss",
                "patience": 10,
                "max_epochs": 200,
            },
        ),
    )

    hidden: int = 16
    edge_dropout: float = 0.0
