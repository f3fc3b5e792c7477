"""Transforms of a graph; `clean` is the preprocessing of the benchmark.

Each transform takes a graph and returns a new one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from apgcn.data.graph import Graph


def clean(graph: Graph) -> Graph:
    """The preprocessing of the benchmark, which gives the graphs of the paper (Section V-A and Table I).

    Edges lose their direction, weight and self-loops; only the largest connected component is kept, its nodes in the
    order of the file (the published splits are drawn by position); every row of features is divided by its l1 norm.

    Examples
    --------
    >>> from apgcn.data import load
    >>> clean(load("cora"))
    Graph('cora', nodes=2485, directed_edges=10138, features=1433, classes=7)
    """
    return normalize_features(largest_connected_component(remove_self_loops(remove_edge_weights(to_undirected(graph)))))


def to_undirected(graph: Graph) -> Graph:
    """Add the reverse of every edge; both directions get the larger of the two weights."""
    return replace(graph, adjacency=graph.adjacency.maximum(graph.adjacency.T))


def remove_edge_weights(graph: Graph) -> Graph:
    """Set the weight of every edge to one."""
    adjacency = graph.adjacency.copy()
    adjacency.data = np.ones_like(adjacency.data)
    return replace(graph, adjacency=adjacency)


def remove_self_loops(graph: Graph) -> Graph:
    """Remove every edge from a node to itself."""
    coo = graph.adjacency.tocoo()
    keep = coo.row != coo.col
    edges = (coo.data[keep], (coo.row[keep], coo.col[keep]))
    return replace(graph, adjacency=sparse.csr_matrix(edges, shape=coo.shape))


def largest_connected_component(graph: Graph) -> Graph:
    """Keep the largest connected component, its nodes in their original order; of equally large ones the first."""
    _, component = connected_components(graph.adjacency, directed=False)
    return subgraph(graph, np.flatnonzero(component == np.bincount(component).argmax()))


def subgraph(graph: Graph, nodes: np.ndarray) -> Graph:
    """The subgraph induced by some nodes, in the given order."""
    return replace(
        graph,
        adjacency=graph.adjacency[nodes][:, nodes],
        features=graph.features[nodes],
        labels=graph.labels[nodes],
        node_names=None if graph.node_names is None else tuple(graph.node_names[node] for node in nodes),
    )


def normalize_features(graph: Graph) -> Graph:
    """Divide every row of features by its l1 norm; a row of zeros stays zero."""
    norms = np.asarray(abs(graph.features).sum(axis=1), dtype=np.float64).reshape(-1)
    inverse = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    if sparse.issparse(graph.features):
        return replace(graph, features=sparse.diags(inverse) @ graph.features)
    return replace(graph, features=graph.features * inverse[:, None])
