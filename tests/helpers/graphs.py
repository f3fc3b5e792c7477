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


def block_graph(
    nodes: int, *, classes: int = 2, homophily: float, degree: int = 10, signal: float, labelled: float, seed: int = 0
) -> tuple[Graph, np.ndarray]:
    """A stochastic block model with classes of equal size, and the class of every node; some nodes are labelled.

    `homophily` is the expected fraction of edges within a class; `signal` is the distance of the class means of 16
    features from zero, in standard deviations of their noise.
    """
    random = np.random.default_rng(seed)
    true_classes = random.permutation(np.arange(nodes) % classes)
    members = [np.flatnonzero(true_classes == label) for label in range(classes)]
    source = random.integers(nodes, size=nodes * degree // 2)
    within = random.random(len(source)) < homophily
    other = (true_classes[source] + random.integers(1, classes, size=len(source))) % classes
    target = np.array([random.choice(members[label]) for label in np.where(within, true_classes[source], other)])
    keep = source != target
    matrix = sparse.csr_matrix((np.ones(keep.sum()), (source[keep], target[keep])), shape=(nodes, nodes))
    means = signal * random.choice([-1.0, 1.0], size=(classes, 16))
    graph = Graph(
        adjacency=((matrix + matrix.T) > 0).astype(np.float32),
        features=(random.normal(size=(nodes, 16)) + means[true_classes]).astype(np.float32),
        labels=np.where(random.random(nodes) < labelled, true_classes, -1),
        name="blocks",
        class_names=tuple(f"class {label}" for label in range(classes)),
    )
    return graph, true_classes
