"""What does the benchmark do to a graph before anyone trains on it? Undirected, unweighted, connected, normalised."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from apgcn.data.graph import Graph


def clean(graph: Graph) -> Graph:
    """The graph that the paper trains on: Section V-A and Table I.

    Edges lose their direction, weight and self-loops; only the largest connected component stays, in the order of the
    file (the published splits are drawn by position); every row of features is divided by its l1 norm.

    Examples
    --------
    >>> from apgcn.data import load
    >>> clean(load("cora"))
    Graph('cora', nodes=2485, directed_edges=10138, features=1433, classes=7)
    """
    return normalize_features(largest_component(without_self_loops(unweighted(undirected(graph)))))


def undirected(graph: Graph) -> Graph:
    """Every edge in both directions, with the larger of the two weights."""
    return replace(graph, adjacency=graph.adjacency.maximum(graph.adjacency.T))


def unweighted(graph: Graph) -> Graph:
    """Every edge with weight one."""
    adjacency = graph.adjacency.copy()
    adjacency.data = np.ones_like(adjacency.data)
    return replace(graph, adjacency=adjacency)


def without_self_loops(graph: Graph) -> Graph:
    """No node is its own neighbour."""
    coo = graph.adjacency.tocoo()
    between = coo.row != coo.col
    edges = (coo.data[between], (coo.row[between], coo.col[between]))
    return replace(graph, adjacency=sparse.csr_matrix(edges, shape=coo.shape))


def largest_component(graph: Graph) -> Graph:
    """The largest connected component, its nodes in the order they had; the first one found among equals."""
    _, component = connected_components(graph.adjacency, directed=False)
    return subgraph(graph, np.flatnonzero(component == np.bincount(component).argmax()))


def subgraph(graph: Graph, nodes: np.ndarray) -> Graph:
    """Some nodes, in the order given, with the edges among them."""
    return replace(
        graph,
        adjacency=graph.adjacency[nodes][:, nodes],
        features=graph.features[nodes],
        labels=graph.labels[nodes],
        node_names=None if graph.node_names is None else tuple(graph.node_names[node] for node in nodes),
    )


def normalize_features(graph: Graph) -> Graph:
    """Divide every row of features by the sum of its absolute values; a row of zeros stays as it is."""
    norms = np.asarray(abs(graph.features).sum(axis=1), dtype=np.float64).reshape(-1)
    inverse = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    if sparse.issparse(graph.features):
        return replace(graph, features=sparse.diags(inverse) @ graph.features)
    return replace(graph, features=graph.features * inverse[:, None])
