"""Edge homophily: how often neighbours have the same class, and how often random ones would."""

from __future__ import annotations

import numpy as np

from apgcn.data.graph import Graph


def edge_homophily(graph: Graph) -> float | None:
    """The fraction of edges between labelled nodes whose ends have the same class; None if there is no such edge."""
    source, target = _labels_of_ends(graph)
    return float(np.mean(source == target)) if len(source) else None


def random_homophily(graph: Graph) -> float | None:
    """The edge homophily of random edges with the same degrees, as in a configuration model; None without edges.

    Of edges between labelled nodes: the sum over classes of the squared fraction of edge ends at nodes of the class.
    """
    source, target = _labels_of_ends(graph)
    if not len(source):
        return None
    fractions = [np.bincount(labels, minlength=graph.num_classes) / len(labels) for labels in (source, target)]
    return float(fractions[0] @ fractions[1])


def _labels_of_ends(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """The labels of source and target of each edge between two labelled nodes."""
    edges = graph.adjacency.tocoo()
    source, target = graph.labels[edges.row], graph.labels[edges.col]
    between = (source >= 0) & (target >= 0) & (edges.row != edges.col)
    return source[between], target[between]
