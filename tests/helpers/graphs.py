"""Graphs for tests."""

import numpy as np
from scipy import sparse

from apgcn import Graph


def random_graph(nodes: int, *, edges: int, features: int = 5, classes: int = 3, seed: int = 0) -> Graph:
    """An undirected graph without self-loops, some of whose nodes may be isolated; dense features."""
    random = np.random.default_rng(seed)
    ends = random.integers(nodes, size=(2, edges))
    ends = ends[:, ends[0] != ends[1]]
    matrix = sparse.csr_matrix((np.ones(ends.shape[1]), ends), shape=(nodes, nodes))
    return Graph(
        adjacency=((matrix + matrix.T) > 0).astype(np.float32),
        features=random.random((nodes, features)) * (random.random((nodes, features)) < 0.6),
        labels=random.permutation(np.arange(nodes) % classes),
        name="random",
    )


def two_communities() -> Graph:
    """60 nodes of two classes, x and y, whose edges mostly stay within the class; half of the nodes are labelled."""
    random = np.random.default_rng(0)
    classes = np.arange(60) % 2
    edges = random.random((60, 60)) < np.where(classes[:, None] == classes, 0.2, 0.02)
    features = np.column_stack([classes + random.normal(size=60), random.normal(size=60)])
    labels = np.where(random.random(60) < 0.5, classes, -1)
    adjacency = np.triu(edges, 1) | np.triu(edges, 1).T
    return Graph(adjacency, features=features, labels=labels, class_names=("x", "y"))
