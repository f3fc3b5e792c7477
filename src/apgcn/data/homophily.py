"""Edge homophily: how often neighbours have the same class."""

from __future__ import annotations

import numpy as np

from apgcn.data.graph import Graph


def edge_homophily(graph: Graph) -> float | None:
    """The fraction of edges between labelled nodes whose ends have the same class; None if there is no such edge."""
    edges = graph.adjacency.tocoo()
    source, target = graph.labels[edges.row], graph.labels[edges.col]
    between = (source >= 0) & (target >= 0) & (edges.row != edges.col)
    return float(np.mean(source[between] == target[between])) if between.any() else None
