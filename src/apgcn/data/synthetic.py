"""Synthetic graphs: with hubs, communities and weakly informative features, and with neighbours that mislead.

`synthetic_graph` is a degree-corrected stochastic block model (Karrer and Newman, 2011): every node has a community,
which is its class, and a weight, drawn from a power law. Endpoints of edges are drawn by weight, the second one mostly
from the community of the first. `two_block_graph` has two classes and any edge homophily.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from apgcn._utils.validation import check_int, check_number
from apgcn.data.graph import Graph
from apgcn.errors import InvalidInput

DEGREE_EXPONENT = 2.5  # of the weights' power law, as in many social and web graphs
WITHIN_COMMUNITY = 0.8  # probability that the second endpoint is drawn from the community of the first
FEATURE_SIGNAL = 0.15  # scale of the class means of the features; their noise has standard deviation 1


def synthetic_graph(nodes: int, *, edges: int, features: int = 64, classes: int = 40, seed: int = 0) -> Graph:
    """A degree-corrected block model with `edges` undirected edges; the same seed gives the same graph.

    Raises
    ------
    InvalidInput
        If there are fewer nodes than classes, or more edges than a tenth of all pairs of nodes.

    Examples
    --------
    >>> synthetic_graph(1000, edges=5000)
    Graph('synthetic', nodes=1000, directed_edges=10000, features=64, classes=40)
    """
    for name, value in (("nodes", nodes), ("edges", edges), ("features", features), ("classes", classes)):
        check_int(name, value)
    if nodes < classes or edges > nodes * (nodes - 1) // 20:
        raise InvalidInput(
            f"a synthetic graph needs a node for each of {classes} classes and few edges for its nodes, got {nodes} "
            f"nodes and {edges} edges."
        )
    random = np.random.default_rng(seed)
    labels = np.sort(np.concatenate([np.arange(classes), random.integers(classes, size=nodes - classes)]))
    order = random.permutation(nodes)  # so that a node's index carries no information on its class
    source, target = (order[ends] for ends in _distinct_pairs(random, labels, count=edges))
    edge_index = np.concatenate([source, target]), np.concatenate([target, source])
    adjacency = sparse.coo_matrix((np.ones(2 * edges, np.float32), edge_index), shape=(nodes, nodes)).tocsr()
    labels = labels[np.argsort(order)]
    x = random.standard_normal((nodes, features), dtype=np.float32)
    x += FEATURE_SIGNAL * random.standard_normal((classes, features), dtype=np.float32)[labels]
    return Graph(adjacency=adjacency, features=x, labels=labels, name="synthetic")


def two_block_graph(
    nodes: int = 2000,
    *,
    degree: int = 10,
    homophily: float = 0.15,
    features: int = 16,
    signal: float = 0.35,
    seed: int = 0,
) -> Graph:
    """Two classes of equal size, in which a fraction `homophily` of the edges joins nodes of the same class.

    With less than a half, neighbours mislead: propagation with the normalised adjacency moves a node towards the other
    class. The features of the two classes have the means `signal` and `-signal`, and noise of standard deviation 1.

    Parameters
    ----------
    nodes : int
    degree : int
        Average degree, up to the few edges that are drawn twice.
    homophily : float
        From 0 to 1.
    features : int
    signal : float
    seed : int

    Examples
    --------
    >>> from apgcn.data.homophily import edge_homophily
    >>> round(edge_homophily(two_block_graph()), 2)
    0.15
    """
    for name, value in (("degree", degree), ("features", features)):
        check_int(name, value)
    check_int("nodes", nodes, minimum=4 * degree)
    check_number("signal", signal)
    if not 0 <= homophily <= 1:
        raise InvalidInput(f"homophily must be from 0 to 1, got {homophily}.")
    random = np.random.default_rng(seed)
    labels = random.permutation(np.arange(nodes) % 2)
    members = [np.flatnonzero(labels == label) for label in (0, 1)]
    source = random.integers(nodes, size=nodes * degree // 2)
    within = random.random(len(source)) < homophily
    drawn = [random.choice(block, len(source)) for block in members]
    target = np.where(labels[source] == within, drawn[1], drawn[0])
    source, target = source[source != target], target[source != target]
    adjacency = sparse.coo_matrix((np.ones(len(source)), (source, target)), shape=(nodes, nodes)).tocsr()
    adjacency = (adjacency + adjacency.T).sign().astype(np.float32)
    x = random.standard_normal((nodes, features)) + signal * (2 * labels[:, None] - 1)
    return Graph(adjacency=adjacency, features=x.astype(np.float32), labels=labels, name="two_block")


def _distinct_pairs(random: np.random.Generator, labels: np.ndarray, *, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Lower and higher endpoints of `count` distinct edges without self-loops."""
    weights = 1 + random.pareto(DEGREE_EXPONENT - 1, size=len(labels))
    cumulative = np.concatenate([[0], np.cumsum(np.minimum(weights, np.sqrt(len(labels))))])  # caps the degree of hubs
    bounds = cumulative[np.searchsorted(labels, np.arange(labels[-1] + 2))]  # of the communities, in cumulative weight
    pairs = np.empty(0, dtype=np.int64)
    while len(pairs) < count:
        tries = 100 + int(1.1 * (count - len(pairs)))  # some are duplicates
        first = _draw_by_weight(random, cumulative, np.zeros(tries), np.full(tries, cumulative[-1]))
        within = random.random(tries) < WITHIN_COMMUNITY
        start, end = bounds[labels[first]], bounds[labels[first] + 1]
        second = _draw_by_weight(random, cumulative, np.where(within, start, 0), np.where(within, end, cumulative[-1]))
        drawn = np.minimum(first, second) * len(labels) + np.maximum(first, second)
        pairs = np.sort(np.concatenate([pairs, drawn[first != second]]))
        pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])]
    pairs = random.permutation(pairs)[:count]
    return pairs // len(labels), pairs % len(labels)


def _draw_by_weight(
    random: np.random.Generator, cumulative: np.ndarray, start: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """Draw nodes with probability proportional to weight, each within an interval of the cumulative weights."""
    drawn = np.searchsorted(cumulative, start + (end - start) * random.random(len(start)), side="right") - 1
    return np.minimum(drawn, len(cumulative) - 2)
