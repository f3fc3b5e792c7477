"""The numbers of the paper's tables, and their sources.

Spinelli, Scardapane and Uncini, Adaptive Propagation Graph Convolutional Network, IEEE TNNLS 2020.
"""

from __future__ import annotations

from dataclasses import dataclass

from apgcn.data import AMAZON_GRAPHS, CITATION_GRAPHS

GRAPHS = CITATION_GRAPHS + AMAZON_GRAPHS

MODEL_TITLES = {
    "vgcn": "V.GCN",
    "gcn": "GCN",
    "ngcn": "N-GCN",
    "gat": "GAT",
    "jk": "JK",
    "btfp": "Bt.FP",
    "ppnp": "PPNP",
    "appnp": "APPNP",
    "arma": "ARMA",
    "apgcn": "AP-GCN",
}

PPNP_PAPER = "copied from Gasteiger et al., Predict then Propagate, ICLR 2019"
RUN_BY_AUTHORS = "run by the authors"


@dataclass(frozen=True)
class Table1Row:
    """Row of Table I."""

    classes: int
    features: int
    nodes: int
    edges: int
    degree: float


@dataclass(frozen=True)
class Accuracy:
    """Cell of Table II or III: percent, half-width of the 95 % interval, stars of the rank test, and source."""

    accuracy: float
    interval: float
    stars: str = ""
    source: str = RUN_BY_AUTHORS


@dataclass(frozen=True)
class Table4Row:
    """Row of Table IV: the best penalty, the mean K with it, and how much accuracy drops over the range."""

    penalty: float
    steps: float
    steps_spread: float
    drop: float


TABLE1 = {
    "citeseer": Table1Row(6, 3703, 2110, 3668, 6.95),
    "cora_ml": Table1Row(7, 2879, 2810, 7981, 11.36),
    "pubmed": Table1Row(3, 500, 19717, 44324, 8.99),
    "ms_academic": Table1Row(15, 6805, 18333, 81894, 17.86),
    "amazon_computers": Table1Row(10, 767, 13381, 245778, 73.47),
    "amazon_photo": Table1Row(8, 745, 7487, 119043, 63.59),
}

# Tables II and III, model by model; None where the paper has a dash
_ACCURACIES: dict[str, tuple[tuple[float, float] | None, ...]] = {
    # citeseer, cora_ml, pubmed, ms_academic
    "vgcn": ((73.51, 0.48), (82.30, 0.34), (77.65, 0.40), (91.65, 0.09)),
    "gcn": ((75.40, 0.30), (83.41, 0.34), (78.68, 0.38), (92.10, 0.08), (78.62, 0.30), (84.20, 0.41)),
    "ngcn": ((74.25, 0.40), (82.25, 0.30), (77.43, 0.42), (92.86, 0.11)),
    "gat": ((75.39, 0.47), (84.37, 0.24), (77.46, 0.44), (91.22, 0.11), (76.08, 0.47), (88.21, 0.65)),
    "jk": ((73.03, 0.47), (82.69, 0.35), (77.88, 0.38), (91.71, 0.07)),
    "btfp": ((73.55, 0.57), (80.84, 0.97), (72.94, 1.00), (91.61, 0.24)),
    "ppnp": ((75.83, 0.27), (85.29, 0.25), None, None),
    "appnp": ((75.73, 0.30), (85.09, 0.25), (79.73, 0.31), (93.27, 0.08), (80.17, 0.31), (89.30, 0.24)),
    "arma": ((73.56, 0.36), (82.58, 0.28), (76.31, 0.41), (92.41, 0.07), (80.75, 0.37), (89.48, 0.33)),
    "apgcn": ((76.12, 0.24), (85.71, 0.22), (79.80, 0.34), (92.62, 0.07), (85.18, 0.23), (92.05, 0.22)),
}
_STARS = {
    ("citeseer", "apgcn"): "**",
    ("cora_ml", "apgcn"): "**",
    ("pubmed", "apgcn"): "*",
    ("ms_academic", "appnp"): "**",
    ("amazon_computers", "apgcn"): "**",
    ("amazon_photo", "apgcn"): "**",
}


def _source(dataset: str, model: str) -> str:
    """Source of a cell: on citation graphs all but two models were copied from the PPNP paper."""
    return PPNP_PAPER if dataset in CITATION_GRAPHS and model not in ("arma", "apgcn") else RUN_BY_AUTHORS


ACCURACIES = {
    (dataset, model): Accuracy(*cell, stars=_STARS.get((dataset, model), ""), source=_source(dataset, model))
    for model, cells in _ACCURACIES.items()
    for dataset, cell in zip(GRAPHS, cells, strict=False)
    if cell is not None
}

TABLE4 = {
    "citeseer": Table4Row(0.001, 8.85, 0.31, 1.51),
    "cora_ml": Table4Row(0.005, 9.31, 0.35, 4.65),
    "pubmed": Table4Row(0.001, 9.62, 0.17, 2.44),
    "ms_academic": Table4Row(0.05, 2.51, 0.08, 0.51),
    "amazon_computers": Table4Row(0.05, 1.71, 0.06, 0.19),
    "amazon_photo": Table4Row(0.05, 2.13, 0.05, 0.13),
}

_MILLISECONDS = {
    # apgcn, arma, appnp, gcn, gat
    "citeseer": (32.4, 25.2, 19.6, 8.6, 11.1),
    "cora_ml": (36.2, 27.6, 22.1, 7.9, 13.4),
    "pubmed": (42.0, 51.1, 23.3, 16.1, 45.4),
    "ms_academic": (100.3, 121.2, 86.1, 56.0, 110.5),
    "amazon_computers": (76.7, 80.0, 76.7, 50.2, 222.6),
    "amazon_photo": (50.0, 34.7, 38.3, 25.9, 111.8),
}
TIMED_MODELS = ("apgcn", "arma", "appnp", "gcn", "gat")
TABLE5 = {
    (dataset, model): milliseconds
    for dataset, row in _MILLISECONDS.items()
    for model, milliseconds in zip(TIMED_MODELS, row, strict=True)
}
