"""V.GCN: a GCN as it was first proposed (Kipf and Welling, ICLR 2017): small, no edge dropout, an early stop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from apgcn.models.gcn import GCNConfig
from apgcn.models.presets import PPNP, Preset, protocol


@dataclass(frozen=True)
class VGCNConfig(GCNConfig):
    """A GCN's settings, with the first ones that were published; the network is the same."""

    name: ClassVar[str] = "vgcn"
    title: ClassVar[str] = "V.GCN"
    citation: ClassVar[str] = "Kipf and Welling, ICLR 2017"
    given: ClassVar[tuple[Preset, ...]] = (
        protocol("published"),
        Preset(
            "published",
            PPNP,
            {
                "hidden_channels": 16,
                "dropout": 0.5,
                "edge_dropout": 0.0,
                "l2": 5e-4,
                "early_stop_mode": "loss",
                "patience": 10,
                "max_epochs": 200,
            },
        ),
    )

    hidden_channels: int = 16
    edge_dropout: float = 0.0
